"""The mesh instance as a strict JSON document; pydantic checks types, `MeshInstance` and its parts the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violations
from moeopt.forms import instance_form
from moeopt.mesh.config import Config
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.records import from_record, model_of
from moeopt.mesh.written import SCHEMA

DemandDocument = model_of(Demand)
GpuDocument = model_of(GpuType)
ConfigDocument = model_of(Config)
_STRICT = ConfigDict(extra="forbid", strict=True)


class ShippedImbalance(BaseModel):
    """A table that is shipped, by name."""

    model_config = _STRICT
    shipped: Literal["mixed", "one-domain"]
    digest: str = Field(description="of its figures: another version may ship others")


class ImbalanceDocument(BaseModel):
    """A table of one's own."""

    model_config = _STRICT
    source: str
    rows: list[Annotated[list[int | float], Field(min_length=3, max_length=3)]] = Field(
        description="[EP, redundant experts, busiest rank's load over the mean]"
    )
    experts: int | None = None
    others: list[ImbalanceDocument] = Field(default_factory=list)


class InstanceDocument(BaseModel):
    """One mesh instance; seconds, bytes and requests a second throughout."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA)

    schema_: Literal["moeopt/mesh-instance/1"] = Field(alias="schema")
    name: str = ""
    demands: list[DemandDocument] = Field(description="LLMs, each with its workload and service levels")  # type: ignore[valid-type]
    gpus: list[GpuDocument] = Field(description="types of GPU with stock and price")  # type: ignore[valid-type]
    objective: str = Field("gpus", description="gpus, price, goodput or time")
    families: list[str] = Field(default_factory=list, description="empty: those that sides name, else all but long")
    kv_formats: list[str] = Field(default_factory=list)
    reserve_bytes: float = 0.0
    most_pp: int = 8
    most_batch: int = 4096
    redundant: list[int] | None = None
    imbalance: ShippedImbalance | ImbalanceDocument | None = Field(None, description="null: what is shipped")
    overhead_s: float | None = None
    sides: dict[str, str] = Field(default_factory=dict, description="roles: part to type of GPU")
    engine: str | None = None
    transport: str = "auto"
    drafts: list[float] = Field(default_factory=list)
    configs: list[ConfigDocument] | None = Field(None, description="measured ones; null: the families'")  # type: ignore[valid-type]


def _table(check: Violations, parsed: ShippedImbalance | ImbalanceDocument) -> Imbalance | None:
    if isinstance(parsed, ImbalanceDocument):
        with check.within():
            return Imbalance.from_dict(parsed.model_dump())
        return None
    table = Imbalance.shipped(parsed.shipped)
    if table.digest != parsed.digest:
        rule = f"is not the table this version ships as {parsed.shipped}, {table.digest}"
        check.add("imbalance.digest", parsed.digest, rule=rule, fix="Give the whole table, or plan again with this one")
    return table


def read_instance(document: Any, source: str = "") -> MeshInstance:
    """Build an instance from a parsed document; every violation at once, unknown fields and versions by name."""
    parsed = instance_form(InstanceDocument, document, SCHEMA, "a mesh instance", source)
    check = Violations(source)
    values = {name: getattr(parsed, name) for name in InstanceDocument.model_fields if name != "schema_"}
    parts: dict[str, type] = {"demands": Demand, "gpus": GpuType, "configs": Config}
    for key, kind in parts.items():
        if values[key] is not None:
            values[key] = [_part(check, kind, one) for one in values[key]]
    if values["imbalance"] is not None:
        values["imbalance"] = _table(check, values["imbalance"])
    check.raise_if_any()
    missing = [name for name in ("imbalance", "overhead_s") if values[name] is None]
    for name in missing:
        del values[name]
    if values["redundant"] is not None:
        values["redundant"] = tuple(values["redundant"])
    try:
        return MeshInstance(**values)
    except InstanceError as error:
        raise InstanceError(error.violations, source) from error


def _part(check: Violations, kind: type, parsed: BaseModel) -> Any:
    with check.within():
        return from_record(kind, parsed)
    return None


def load_instance(path: str | Path) -> MeshInstance:
    """Read an instance document from a file (``-``: standard input)."""
    return read_instance(read_json(read_bytes(path), str(path), allow_nan=True), str(path))
