"""The answer of a replay as a strict JSON document; pydantic checks the form, `faults` whether it is true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from moeopt.forms import result_form
from moeopt.placement.plan_document import InstanceReference
from moeopt.replay.answer import SCHEMA
from moeopt.result_frame import check_schema

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
STOPS = Literal["FINISHED", "GAP", "TIME", "NODES", "ITERATIONS", "INTERRUPTED"]


class WindowDocument(BaseModel):
    """One window of the history."""

    model_config = _STRICT
    name: str
    selections: float = Field(description="of all layers")
    steps: int = Field(description="forward passes it was counted over")


class PricesDocument(BaseModel):
    """What a step and a move take."""

    model_config = _STRICT
    step_seconds: float | None = Field(description="of the experts of all layers, in the first scored window")
    stall_seconds: float | None
    bytes_per_s: float | None


class MapDocument(BaseModel):
    """A placement. Lengths: L layers, S slots."""

    model_config = _STRICT
    slot_expert: list[list[int]] | None = Field(description="L rows of S experts, GPU-major, -1 empty; null: none new")
    shares: list[list[list[int | float]]] | None = Field(
        None, description="for a free split, per layer [expert, GPU, share of the expert's tokens]"
    )


class FirstDocument(MapDocument):
    """The placement that all policies begin with."""

    method: str = Field(description="what made it; current: it was given")


class ScoreDocument(BaseModel):
    """A policy in one window."""

    model_config = _STRICT
    window: int
    imbalance_mean: float = Field(description="mean over layers of the busiest GPU over the ideal")
    imbalance_worst: float
    worst_layer: int = Field(description="layer id")
    imbalance_total: float = Field(description="sum over layers of the busiest GPU over that of the ideals")


class ReplanDocument(MapDocument):
    """One re-plan."""

    window: int = Field(description="the first window that it serves")
    seen: tuple[int, int] = Field(description="first and last window that it was made from")
    moves: int = Field(description="(expert, GPU) pairs that the plan before lacks")
    budget_held: bool | None = Field(description="whether it moved no more than the budget; null: there is none")
    imbalance_now: float | None = Field(description="over all layers in the windows seen, of the plan before")
    imbalance_after: float | None = Field(description="the same of the plan that was made")
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"]
    stop: STOPS
    note: str
    stall_s: float | None = Field(description="seconds that serving stands still")
    gain_s: float | None = Field(description="seconds saved in its windows against the plan before")
    break_even_steps: int | None = Field(description="steps after which the stall is made up for")
    runtime_s: float


class FiguresDocument(BaseModel):
    """A policy over all scored windows."""

    model_config = _STRICT
    imbalance_mean: float = Field(description="mean over windows of the mean over layers")
    imbalance_worst_window: float
    worst_window: int
    imbalance_worst_layer: float
    worst_layer: int
    worst_layer_window: int
    imbalance_total: float
    replans: int
    moves: int
    moves_part: float = Field(description="of a re-plan, in parts of the slots of all layers; the mean")
    most_moves: int
    moved_bytes: float | None
    experts_s: float | None
    stall_s: float | None
    total_s: float | None
    saved_s: float | None = Field(description="against keeping the first placement")


class PolicyDocument(BaseModel):
    """One policy."""

    model_config = _STRICT
    policy: str
    method: str
    max_moves: int | None
    budget_held: bool | None = Field(description="whether every re-plan did; null: it has none")
    reason: str = Field(description="why it failed; empty where it did not")
    figures: FiguresDocument | None
    scores: list[ScoreDocument]
    replans: list[ReplanDocument]
    runtime_s: float


class ReplayDocument(BaseModel):
    """All policies over one history."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, title=SCHEMA)
    schema_: Literal["moeopt/replay-result/1"] = Field(alias="schema")
    instance: InstanceReference
    windows: list[WindowDocument] = Field(min_length=1)
    prepared: dict[str, Any] = Field(description="what was done to the loads before, such as slices")
    every: int = Field(ge=1)
    lookback: int = Field(ge=1)
    combine: Literal["sum", "worst", "mean", "cvar"]
    max_moves: int | None
    max_moves_per_layer: int | None
    prices: PricesDocument | None
    if_it_pays: bool
    first: FirstDocument
    scored: tuple[int, int] = Field(description="first and last window that was scored")
    bound: list[float] = Field(description="for every scored window, what no plan made for it alone is below")
    policies: list[PolicyDocument]
    best: str | None = Field(description="the policy with the least mean imbalance of those that held their budget")
    complete: bool
    stop: STOPS
    conflicts: list[dict[str, Any]]
    notes: list[str]
    seed: int
    versions: dict[str, str]
    runtime_s: float

    @field_validator("scored")
    @classmethod
    def _windows(cls, value: tuple[int, int], info: ValidationInfo) -> tuple[int, int]:
        windows = info.data.get("windows")
        if windows is not None and not 0 <= min(value) <= max(value) < len(windows):
            raise PydanticCustomError("windows", "must be two of the {count} windows", {"count": len(windows)})
        return value


def read_replay(document: Any, source: str = "") -> ReplayDocument:
    """Check the form of a parsed document; whether its numbers are true is for `faults`.

    Raises
    ------
    InstanceError
        Another schema, a missing or unknown field, a wrong type; all of them at once.
    """
    check_schema(document, SCHEMA, "a replay", source)
    return result_form(ReplayDocument, _with_tuples(document), source)


def _with_tuples(document: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no tuples; strict pydantic wants them for pairs."""
    found: dict[str, Any] = dict(_tuple_at(document, "scored"))
    rows = found.get("policies")
    if isinstance(rows, list):
        found["policies"] = [
            {**row, "replans": [_tuple_at(one, "seen") for one in row["replans"]]}
            if isinstance(row, Mapping) and isinstance(row.get("replans"), list)
            else row
            for row in rows
        ]
    return found


def _tuple_at(item: Any, key: str) -> Any:
    if isinstance(item, Mapping) and isinstance(item.get(key), list):
        return {**item, key: tuple(item[key])}
    return item
