"""The result of a micro-batch problem as a strict JSON document; pydantic checks its form, `plan_faults` its truth."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.result_frame import CountedFrame, InstanceReference

SCHEMA = "moeopt/microbatch-result/1"

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
Order = Literal["fcfs", "own"]
"""First come, first served, or an order of its own, which is faster."""


class Row(BaseModel):
    """A candidate of the sweep with the least time known."""

    model_config = _STRICT
    m: int
    batch: int = Field(description="tokens of the step")
    micro_batch: int = Field(description="tokens of the largest part")
    time_s: float
    throughput: float | None = Field(description="tokens a second; null where a step takes no time")
    cycle_s: float | None = Field(description="what one more layer costs; null where that is not known")
    lower_bound_s: float | None = Field(description="null where there was no time for a bound")
    how: Literal["closed_form", "periodic", "simulate", "order"]
    why_not: Literal["", "memory", "tbt"] = Field(description="the limit that it breaks")
    order: Order
    sequences: list[list[int]] | None = Field(description="of an order of its own; null: those of the plan, or none")


class Why(BaseModel):
    """The numbers of a reason, seconds or parts of 1."""

    model_config = _STRICT
    kind: Literal["time", "better", "equal", "behind", "transfers", "layer", "token", "ends"]
    tokens: int
    theirs: float | None
    ours: float | None


class SecondBest(BaseModel):
    """The best other candidate."""

    model_config = _STRICT
    m: int
    batch: int
    time_s: float
    throughput: float | None
    objective: float
    behind: float | None
    order: Order
    reason: str
    why: Why


class Bound(BaseModel):
    """The argument for the candidate that was taken."""

    model_config = _STRICT
    seconds: float
    kind: str
    where: str


class Published(BaseModel):
    """A formula as published, held against the time of the plan."""

    model_config = _STRICT
    time_s: float
    valid: bool
    error: float | None
    source: str


class Fewest(BaseModel):
    """Fewest micro-batches that keep the busiest resource busy."""

    model_config = _STRICT
    ours: int
    published: int | None
    micro_batch: int


class Overlap(BaseModel):
    """What cutting up is worth."""

    model_config = _STRICT
    gain: float
    pays_from: int | None


class Drawn(BaseModel):
    """The timeline."""

    model_config = _STRICT
    resources: list[str]
    stages: list[str]
    layers: list[int] | None = Field(description="layers whose items are listed; null: all")
    items: list[Annotated[list[float], Field(min_length=6, max_length=6)]]


class Solution(BaseModel):
    """The plan and its figures."""

    model_config = _STRICT
    m: int
    batch: int
    micro_batches: list[int]
    pattern: str
    num_layers: int
    time_s: float
    tbt_s: float
    throughput: float | None
    utilisation: dict[str, float]
    sides: list[str]
    stages: dict[str, list[float]]
    cycle_s: float | None
    round_trip_s: float | None
    busiest_s: float | None
    bound: Bound
    published: Published | None
    fewest_m: Fewest | None
    overlap: Overlap | None
    overlap_reason: str | None = Field(description="why there is no overlap to tell of")
    runner_up: SecondBest | None
    other_m: SecondBest | None
    sweep: list[Row] = Field(min_length=1)
    order: str
    sequences: list[list[int]] | None
    timeline: Drawn


FRACTION = r"^[0-9]+(/[1-9][0-9]*)?$"
"""What else Python reads as a fraction may take it hours."""


class Candidates(BaseModel):
    """``[m, batch, kind, where, seconds]`` of every candidate, and the least of them as the objective counts."""

    model_config = _STRICT
    kind: Literal["candidates"]
    value: str = Field(pattern=FRACTION, max_length=5000)
    candidates: list[Annotated[list[int | str], Field(min_length=5, max_length=5)]]


class Claim(BaseModel):
    """What a solver claims above what is certified."""

    model_config = _STRICT
    kind: Literal["solver"]
    claim: float
    certified: Candidates


class Conflict(BaseModel):
    """A limit that no candidate keeps."""

    model_config = _STRICT
    rule: Literal["memory_bytes", "tbt_slo_s"]
    message: str
    shortfall: float
    best: float


class ResultDocument(CountedFrame):
    """The result, which is the plan as well."""

    model_config = ConfigDict(title=SCHEMA)
    schema_: Literal["moeopt/microbatch-result/1"] = Field(alias="schema")
    problem: Literal["microbatch"]
    instance: InstanceReference
    unit: Literal["s", "s/token"]
    certificate: Annotated[Candidates | Claim, Field(discriminator="kind")] | None
    solution: Solution | None
    conflicts: list[Conflict]
