"""The result of a mesh problem as a strict JSON document; pydantic checks its form, `plan_faults` its truth."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.mesh.config import Config, Family
from moeopt.mesh.plan_certificates import STRICT as _STRICT
from moeopt.mesh.plan_certificates import Claim, Covering, Dual, Faster, Trivial
from moeopt.mesh.plan_extras import CurvePoint, Simulated
from moeopt.mesh.records import model_of
from moeopt.result_frame import CountedFrame, InstanceReference

SCHEMA = "moeopt/mesh-result/1"

_Config = model_of(Config)
Counts = dict[str, Annotated[int, Field(ge=0)]]


class Engines(BaseModel):
    """Engines that launch the replicas of a pool."""

    model_config = _STRICT
    legal_in: list[str]
    flags: dict[str, str] = Field(description="the command that does")
    why_not: dict[str, str] = Field(description="what keeps each other engine")


class StagesRow(BaseModel):
    """The cut of layers into stages."""

    model_config = _STRICT
    layers: list[int] = Field(description="of each stage, as commands have them")
    slowest_s: float = Field(description="of the slowest stage and its hop")
    even_s: float = Field(description="the same with even counts, which figures of the pool have")


class PoolRow(BaseModel):
    """Replicas of one configuration."""

    model_config = _STRICT
    label: str
    llm: str
    replicas: int = Field(ge=1)
    gpus: Counts = Field(description="of all its replicas")
    prefill_per_s: float
    decode_per_s: float
    used: float = Field(description="part of what it can serve that is needed")
    engines: Engines
    stages: StagesRow | None
    config: _Config  # type: ignore[valid-type]


class DemandRow(BaseModel):
    """What one demand gets."""

    model_config = _STRICT
    llm: str
    wanted_per_s: float | None
    rate_per_s: float
    served_per_s: dict[str, float] = Field(description="by phase")
    output_tokens_per_s: float
    ttft_s: float | None
    tpot_s: float | None
    ttft_slo_s: float | None
    tpot_slo_s: float | None


class Alone(BaseModel):
    """The best with one way of serving."""

    model_config = _STRICT
    objective: float
    exact: bool = Field(description="whether that is its optimum")


class Families(BaseModel):
    """With and without disaggregation."""

    model_config = _STRICT
    used: list[Family]
    alone: dict[str, Alone | None]
    best: float


class Colocated(BaseModel):
    """The best replicas that serve whole requests."""

    model_config = _STRICT
    pools: list[Annotated[list[str | int], Field(min_length=2, max_length=2)]] = Field(description="[label, replicas]")
    gpus: Counts
    tokens_per_s: float
    paid: float
    per_unit: float
    most_per_unit: float | None = Field(description="that no colocated plan is above; null: not known")


class Beside(BaseModel):
    """A plan under roles beside the best colocated one, output tokens a second of each unit that is paid."""

    model_config = _STRICT
    unit: Literal["price", "GPU"]
    tokens_per_s: float
    paid: float
    per_unit: float
    colocated: Colocated | None = Field(description="null: none keeps what is asked")
    ratio: float | None = Field(description="of the plan to the best colocated")


class Simplest(BaseModel):
    """The best with one configuration for each phase of each demand."""

    model_config = _STRICT
    objective: float
    pools: list[Annotated[list[str | int], Field(min_length=2, max_length=2)]] = Field(description="[label, replicas]")


class Ranked(BaseModel):
    """A configuration, and why it was not bought."""

    model_config = _STRICT
    config: int = Field(ge=0, description="place in the list of configurations")
    demand: int
    family: Family
    label: str
    gpus: Counts
    redundant: int
    batch: int
    chunk: int | None
    draft: int
    overlap: bool
    kv: str
    ttft_s: float | None
    tpot_s: float | None
    prefill_per_s: float
    decode_per_s: float
    tokens_per_s_gpu: float | None
    memory_bytes: dict[str, float]
    binds: str
    parts_s: dict[str, float] = Field(description="of a step, by part; empty: not usable, or a figure that was given")
    imbalance: float = Field(description="load of the busiest rank over the mean, in the long run")
    legal_in: list[str] = Field(description="engines that launch it; empty: paper only")
    behind: float | None = Field(description="how much dearer a request is than at best; null: no plan with it")
    bought: bool
    why_not: str


class Brief(BaseModel):
    """A configuration of a short ranking that is not among the best of its family."""

    model_config = _STRICT
    config: int = Field(ge=0)
    demand: int
    family: Family
    label: str
    gpus: Counts
    batch: int
    ttft_s: float | None
    tpot_s: float | None
    memory_bytes: dict[str, float]
    behind: float | None
    bought: bool
    why_not: str


class Point(BaseModel):
    """A point of the front of speed against throughput."""

    model_config = _STRICT
    demand: int
    config: int
    family: Family
    label: str
    batch: int = Field(ge=0)
    user_tokens_per_s: float
    gpu_tokens_per_s: float
    whole_tokens_per_s: float | None = Field(description="with the GPUs that prefill for it; null: nothing prefills")
    gpus: int
    within_slo: bool
    bought: bool
    joint: bool = Field(description="no point beats it in speed and in whole_tokens_per_s")


class AtRate(BaseModel):
    """The objective with another rate."""

    model_config = _STRICT
    factor: float
    objective: float | None
    exact: bool


class Sensitivity(BaseModel):
    """How the answer would change."""

    model_config = _STRICT
    gpu_worth: dict[str, float] | None = Field(description="of one more GPU, by the relaxation")
    curve: list[Annotated[list[float], Field(min_length=2, max_length=2)]] | None = Field(
        description="[GPUs, requests a second] of one type"
    )
    next_gpus: int | None = Field(description="fewest GPUs beyond the stock that serve more")
    at_rates: list[AtRate] | None


class Solution(BaseModel):
    """The plan and its figures."""

    model_config = _STRICT
    pools: list[PoolRow] = Field(min_length=1)
    demands: list[DemandRow]
    rate_per_s: float
    gpus: Counts
    total_gpus: int
    price: float | None
    idle_gpus: Counts
    families: Families
    beside_colocated: Beside | None = Field(description="null without roles, or where time ran out")
    simplest: Simplest | None
    ranking: list[Ranked | Brief]
    ranking_left_out: int = Field(ge=0, description="rows that a short ranking does not have")
    pareto: list[Point]
    sensitivity: Sensitivity


class Conflict(BaseModel):
    """A rule that no plan keeps."""

    model_config = _STRICT
    rule: Literal["tpot_s", "ttft_s", "memory", "stock", "configs"]
    where: str
    message: str
    target: float | None
    best: float | None
    closest: str | None
    shortfall: float | None


class ResultDocument(CountedFrame):
    """The result, which is the plan as well."""

    model_config = ConfigDict(title=SCHEMA)
    schema_: Literal["moeopt/mesh-result/1"] = Field(alias="schema")
    problem: Literal["mesh"]
    instance: InstanceReference
    unit: Literal["GPUs", "price", "s/request", "s/token"]
    certificate: Annotated[Covering | Dual | Faster | Trivial | Claim, Field(discriminator="kind")] | None
    solution: Solution | None
    conflicts: list[Conflict]
    simulation: list[Simulated] | None = Field(None, description="of the plan, where it was asked for; by demand")
    slo_curve: list[CurvePoint] | None = Field(None, description="best plans at other limits, where that was asked")
