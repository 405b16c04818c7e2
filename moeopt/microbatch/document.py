"""The micro-batch instance as a strict JSON document; pydantic checks types, `MicrobatchInstance` the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError
from moeopt.forms import instance_form
from moeopt.microbatch.instance import SCHEMA, MicrobatchInstance
from moeopt.microbatch.times import KINDS, TimeModel

Strict = ConfigDict(extra="forbid", strict=True)


class ConstantTime(BaseModel):
    """The same seconds whatever the size."""

    model_config = Strict
    kind: Literal["constant"]
    seconds: float


class LinearTime(BaseModel):
    """``fixed_s + per_token_s * tokens``."""

    model_config = Strict
    kind: Literal["linear"]
    fixed_s: float
    per_token_s: float


class TransferTime(BaseModel):
    """``latency_s + bytes_per_token * tokens / bytes_per_s``."""

    model_config = Strict
    kind: Literal["transfer"]
    latency_s: float
    bytes_per_token: float
    bytes_per_s: float


class TableTime(BaseModel):
    """Measured seconds by tokens."""

    model_config = Strict
    kind: Literal["table"]
    tokens: list[int]
    seconds: list[float]
    extend: bool = False


StageTime = Annotated[ConstantTime | LinearTime | TransferTime | TableTime, Field(discriminator="kind")]


class InstanceDocument(BaseModel):
    """One micro-batch instance; seconds and bytes throughout. L layers."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA)

    schema_: Literal["moeopt/microbatch-instance/1"] = Field(alias="schema")
    name: str = ""
    pattern: str = Field("ping-pong", description="how the work of a layer is cut up and overlapped")
    layers: int
    times: dict[str, StageTime | float] = Field(description="seconds of each stage of a layer for one micro-batch")
    m: list[int] | int | None = Field(None, description="candidate numbers of micro-batches")
    batches: list[int] | int | None = Field(None, description="candidate tokens of a whole step")
    micro_batch: int = Field(1, description="tokens of a micro-batch where no batches are given")
    uneven: bool = Field(False, description="allow batches that m does not divide")
    latency: Literal["per-message", "amortised"] = "per-message"
    layer_scale: dict[str, list[float]] | None = Field(None, description="stage to L factors on its time")
    tbt_slo_s: float | None = Field(None, description="most seconds a step may take")
    bytes_per_sequence: float | None = None
    memory_bytes: float | None = None
    objective: Literal["time", "throughput"] | None = None


def read_instance(document: Any, source: str = "") -> MicrobatchInstance:
    """Build an instance from a parsed document; every violation at once, unknown fields and versions by name."""
    parsed = instance_form(InstanceDocument, document, SCHEMA, "a micro-batch instance", source)
    fields = {name: getattr(parsed, name) for name in InstanceDocument.model_fields if name != "schema_"}
    fields["times"] = {stage: _model(time, document["times"][stage]) for stage, time in parsed.times.items()}
    try:
        return MicrobatchInstance(**fields)
    except InstanceError as error:
        raise InstanceError(error.violations, source) from error


def load_instance(path: str | Path) -> MicrobatchInstance:
    """Read an instance document from a file (``-``: standard input)."""
    return read_instance(read_json(read_bytes(path), str(path), allow_nan=True), str(path))


def _model(parsed: Any, given: Any) -> TimeModel | float:
    """The time model, with numbers as they were written: whole ones stay whole."""
    if not isinstance(given, dict):
        number: float = given
        return number
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items() if key != "kind"
    }
    kind: Callable[..., TimeModel] = KINDS[parsed.kind]
    return kind(**fields)
