"""The plan of a placement as a strict JSON document; pydantic checks the form, `load_plan` whether it is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.errors import PlanError
from moeopt.forms import result_form
from moeopt.placement.plan import Placement
from moeopt.result_frame import ResultFrame, check_schema

SCHEMA = "moeopt/placement-result/1"

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class LayerPlan(BaseModel):
    """One layer of a plan. Lengths: S slots, E experts."""

    model_config = _STRICT
    layer: int = Field(description="layer id")
    slot_expert: list[int] = Field(description="S expert ids, slots in GPU-major order, -1 where a slot is empty")
    replicas: list[int] = Field(description="E copies of each expert")
    max_load: float = Field(description="cost of the busiest GPU, tokens")
    ideal: float = Field(description="cost of every GPU in perfect balance, tokens")
    imbalance: float = Field(description="max_load / ideal, 1 for an idle layer")
    lower_bound: float = Field(description="proven floor under max_load")
    gap: float = Field(description="(max_load - lower_bound) / max_load")
    max_load_even: float | None = Field(None, description="max_load if parts were even, where an engine's rule rules")
    draw_deviation: float | None = Field(None, description="split random: what the draw adds to max_load, one sigma")
    moves: int | None = Field(None, description="(expert, GPU) pairs that the running plan lacks")
    moved: list[list[int]] | None = Field(
        None, description="[expert, GPU it is copied from (-1: storage), GPU, slot] of each of them"
    )
    windows: list[float] | None = Field(
        None, description="with windows, the imbalance of each; max_load is then their combination, and ideal 1"
    )
    per_step_imbalance: float | None = Field(
        None, description="imbalance of single passes: measured, or the floor that counting noise sets"
    )
    seconds: float | None = Field(None, description="of the busiest GPU in a pass")
    seconds_now: float | None = Field(None, description="the same under the running plan")


class Seconds(BaseModel):
    """Sums over layers of the busiest GPU's seconds in a pass."""

    model_config = _STRICT
    now: float | None = Field(description="under the running plan, null where there is none that serves every expert")
    after: float
    ideal: float = Field(description="in perfect balance")


class Advice(BaseModel):
    """What to do with the plan."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    action: str
    reason: str


class LayerRepair(BaseModel):
    """What one layer takes to be restored."""

    model_config = _STRICT
    layer: int
    lost: list[int] = Field(description="experts whose last replica is gone")
    from_storage: list[list[int]] = Field(description="[expert, GPU, slot] to be loaded from storage")
    copied: list[list[int]] = Field(description="[expert, source GPU, GPU, slot] to be copied")


class Repair(BaseModel):
    """How a plan is reached from the running one after GPUs were lost or retired."""

    model_config = _STRICT
    lost_gpus: list[int]
    retired_gpus: list[int]
    storage_loads: int
    storage_loads_fewest: int = Field(description="proved: one for every expert that no GPU has")
    moves: int = Field(description="new (expert, GPU) pairs, loads from storage included")
    moves_fewest: int | None = Field(description="proved least number of them that restores every expert")
    layers: list[LayerRepair]


class EqualSplit(BaseModel):
    """Copies of an exactly equal split, layer by layer."""

    model_config = _STRICT
    extra_copies: list[int] = Field(description="L copies beyond one an expert")
    extra_copies_fewest: list[int] = Field(description="L proved floors under them")


class Solution(BaseModel):
    """The plan of every layer and its figures."""

    model_config = _STRICT
    layers: list[LayerPlan] = Field(min_length=1)
    imbalance_mean: float
    imbalance_total: float
    mean_over_max: float
    excess: float
    gpu_of_slot: list[int] = Field(description="S GPU ids")
    ep_size: int = Field(description="G")
    imbalance_even_mean: float | None = Field(None, description="imbalance_mean if parts were even")
    split: Literal["even", "free", "sglang-static", "sglang-static-node", "random"]
    llm: dict[str, Any] | None = None
    phase: str | None = None
    engine: str | None = None
    repair: Repair | None = None
    equal_split: EqualSplit | None = None
    seconds: Seconds | None = None
    advice: Advice | None = None
    per_step: dict[str, Any] | None = Field(None, description="what per_step_imbalance was measured on")
    moves: int | None = Field(None, description="pairs that the running plan lacks, in all layers")
    moved_bytes: float | None = None
    imbalance_now: float | None = Field(None, description="imbalance_total if the running plan stays; null: it cannot")
    decision: dict[str, Any] | None = Field(None, description="keep or move, with reason and break-even")
    frontier: list[list[float]] | None = Field(
        None, description="[moves, imbalance_total] of the best plans found, from the fewest moves on"
    )
    shares: list[list[tuple[int, int, float]]] | None = Field(
        None, description="for a free split, per layer (expert, GPU, share of the expert's tokens)"
    )


class Certificate(BaseModel):
    """What proves the bound of one layer; fields by kind, see ``models/placement.md``."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    layer: int
    kind: str


class Certificates(BaseModel):
    """The proofs of all layers."""

    model_config = _STRICT
    layers: list[Certificate]


class EmbeddedInstance(BaseModel):
    """The instance document without its loads; its own model has the other fields."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    schema_: Literal["moeopt/placement-instance/1"] = Field(alias="schema")
    layers: list[int]


class InstanceReference(BaseModel):
    """Which instance was solved."""

    model_config = _STRICT
    name: str
    sha256: str = Field(description="digest of the canonical instance document with loads, without the name")
    document: EmbeddedInstance


class ResultDocument(ResultFrame):
    """The result of a placement, which is the plan as well."""

    model_config = ConfigDict(title=SCHEMA)
    schema_: Literal["moeopt/placement-result/1"] = Field(alias="schema")
    problem: Literal["placement"]
    instance: InstanceReference
    objective: float | None = Field(description="sum over layers of max_load: tokens, or with windows ratios")
    unit: str
    certificate: Certificates | None
    solution: Solution | None
    conflicts: list[dict[str, Any]]


def read_result(document: Any, source: str = "") -> ResultDocument:
    """Check the form of a parsed plan document; whether its numbers are true is for `document_faults`.

    Raises
    ------
    InstanceError
        Another schema, a missing or unknown field, a wrong type; all of them at once.
    """
    check_schema(document, SCHEMA, "a placement plan", source)
    return result_form(ResultDocument, _with_tuples(document), source)


def as_plan(document: ResultDocument, layers: Sequence[int]) -> Placement:
    """The plan for these layer ids, in this order.

    Raises
    ------
    PlanError
        The document has no plan, not one for each of these layers, or rows of different lengths.
    """
    if document.solution is None:
        raise PlanError([f"the document has no plan, its status is {document.status}"])
    place = {layer.layer: row for row, layer in enumerate(document.solution.layers)}
    missing = [layer for layer in layers if layer not in place]
    if missing:
        raise PlanError([f"the plan has no layer {layer}" for layer in missing])
    rows = [place[layer] for layer in layers]
    shares = document.solution.shares
    if shares is not None and len(shares) != len(document.solution.layers):
        raise PlanError([f"shares cover {len(shares)} layers of {len(document.solution.layers)}"])
    slots = [document.solution.layers[row].slot_expert for row in rows]
    return Placement.of(slots, None if shares is None else [shares[row] for row in rows])


def _with_tuples(document: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no tuples; strict pydantic wants them for triples."""
    found = dict(document)
    solution = found.get("solution")
    if isinstance(solution, Mapping) and isinstance(solution.get("shares"), list):
        shares = [[_as_tuple(share) for share in row] if isinstance(row, list) else row for row in solution["shares"]]
        found["solution"] = {**solution, "shares": shares}
    return found


def _as_tuple(item: Any) -> Any:
    return tuple(item) if isinstance(item, list) else item
