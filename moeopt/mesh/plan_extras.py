"""What stands beside a plan where it was asked for, as strict JSON: a simulation, a curve of service levels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from moeopt.mesh.plan_certificates import STRICT

Percentiles = Annotated[list[float], Field(min_length=3, max_length=3)]


class Simulated(BaseModel):
    """The rate at which requests that come at random keep their service levels."""

    model_config = STRICT
    demand: int = Field(ge=0)
    attainment: float = Field(gt=0, le=1, description="part of the requests that keeps both levels")
    rate_per_s: float = Field(ge=0)
    means_per_s: float = Field(ge=0, description="the rate of means that the plan states")
    binds: Literal["ttft", "tpot", "capacity"]
    kept: float
    ttft_kept: float
    tpot_kept: float
    at_means: float
    ttft_s: Percentiles | None = Field(description="percentiles 50, 90, 99 at that rate")
    tpot_s: Percentiles | None
    requests: int = Field(ge=1, description="counted of a replica and rate")
    simulations: int
    seed: int = Field(ge=0)
    notes: list[str]


class CurvePoint(BaseModel):
    """The best plan at other limits; the other level is as asked."""

    model_config = STRICT
    level: Literal["tpot_s", "ttft_s"]
    factor: float = Field(gt=0, description="multiple of the limit that was asked for")
    limits_s: list[float | None] = Field(description="that limit by demand")
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"]
    objective: float | None
    lower_bound: float | None
    rate_per_s: float | None
    total_gpus: int | None
    price: float | None
    pools: list[Annotated[list[str | int], Field(min_length=2, max_length=2)]] = Field(description="[label, replicas]")
    why_not: str
