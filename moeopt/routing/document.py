"""The routing instance as a strict JSON document; pydantic checks types, `RoutingInstance` the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError
from moeopt.forms import instance_form
from moeopt.routing.instance import SCHEMA, RoutingInstance

Numbers = list[float]


class InstanceDocument(BaseModel):
    """One routing instance. L layers, E experts, S slots, G GPUs."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA)

    schema_: Literal["moeopt/routing-instance/1"] = Field(alias="schema")
    name: str = ""
    loads: list[list[float | None]] = Field(description="(L, E) tokens routed to each expert")
    slot_expert: list[list[int]] = Field(description="(L, S) expert in each slot, -1 where it is empty")
    gpus: int | None = Field(None, description="G, where gpu_of_slot is left out: equally many slots a GPU")
    gpu_of_slot: list[int] | None = Field(None, description="S GPU ids")
    speed: Numbers | None = Field(None, description="G relative speeds")
    base: Numbers | list[Numbers] | None = Field(None, description="G, or (L, G), tokens a GPU has anyway")
    nodes: int | list[int] = Field(1, description="number of equal nodes, or G node ids")
    sources: list[list[Numbers]] | None = Field(None, description="(L, E, G) tokens by the GPU they come from")
    layers: list[int] | None = Field(None, description="L layer ids")
    steps: int = 1
    floor_tokens: float = 0.0
    floor_rule: Literal["per_replica", "per_expert"] = "per_replica"
    whole: bool = Field(False, description="tokens cannot be cut")


def read_instance(document: Any, source: str = "") -> RoutingInstance:
    """Build an instance from a parsed document; every violation at once, unknown fields and versions by name."""
    parsed = instance_form(InstanceDocument, document, SCHEMA, "a routing instance", source)
    fields = {name: getattr(parsed, name) for name in InstanceDocument.model_fields if name != "schema_"}
    fields |= {name: document[name] for name in ("loads", "sources") if document.get(name) is not None}
    try:
        return RoutingInstance(**fields)
    except InstanceError as error:
        raise InstanceError(error.violations, source) from error


def load_instance(path: str | Path) -> RoutingInstance:
    """Read an instance document from a file (``-``: standard input)."""
    return read_instance(read_json(read_bytes(path), str(path), allow_nan=True), str(path))
