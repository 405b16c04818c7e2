"""The result of a collocation as a strict JSON document; pydantic checks the form, `plan_faults` whether it is true."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.forms import result_form
from moeopt.result_frame import InstanceReference, ResultFrame, check_schema

SCHEMA = "moeopt/collocation-result/1"

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
FRACTION = r"^-?[0-9]+(/[1-9][0-9]*)?$"


class LayerDocument(BaseModel):
    """One layer of a plan. Lengths: S slots, E experts."""

    model_config = _STRICT
    layer: int = Field(description="layer id")
    slot_expert: list[int] = Field(description="S expert ids, slots in GPU-major order, -1 where a slot is empty")
    replicas: list[int] = Field(description="E copies of each expert")
    objective: float = Field(description="of this layer, in the unit of the result")
    lower_bound: float = Field(description="proven floor under it")
    gap: float = Field(description="(objective - lower_bound) / objective")
    lambda_: float = Field(alias="lambda", description="units a token touches, mean over tokens")
    lambda_lower_bound: float | None = Field(description="proven floor under lambda; null: nothing is merged")
    copies_per_token: float = Field(description="copies to units besides the token's own")
    imbalance: float = Field(description="tokens of the busiest GPU over the mean")
    lambda_held_out: float | None = Field(None, description="lambda on tokens that the plan was not made for")
    imbalance_held_out: float | None = None
    seconds: float | None = Field(None, description="of the busiest link, dispatch and combine")


class Advice(BaseModel):
    """What to do with the plan."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    action: Literal["keep", "move"]
    reason: str


class Solution(BaseModel):
    """The plan of every layer and its figures."""

    model_config = _STRICT
    layers: list[LayerDocument] = Field(min_length=1)
    lambda_: float = Field(alias="lambda", description="mean over layers")
    lambda_held_out: float | None
    lambda_lower_bound: float | None
    copies_per_token: float
    imbalance: float = Field(description="of the worst layer")
    gpu_of_slot: list[int] = Field(description="S GPU ids")
    ep_size: int = Field(description="G")
    objective: Literal["time", "copies", "tokens"]
    transport: str
    replica_rule: str
    busiest_link_s: float | None = Field(None, description="sum over layers")
    critical_path: dict[str, float] | None = Field(None, description="seconds of both stages, summed over layers")
    links: dict[str, Any] | None = Field(None, description="the links of the layer that takes longest, on the way out")
    weakest_cut: dict[str, Any] | None = None
    free_routes: dict[str, Any] | None = Field(
        None, description="on a damaged link graph: the busiest link of that layer by fixed paths and by free routes"
    )
    rank_cost: list[list[float]] | None = Field(None, description="G x G relative cost of a token")
    affinity: Any = Field(None, description="hops between layers, where results stay where they are")
    advice: Advice


class Certificate(BaseModel):
    """What proves the bound of one layer; fields by kind, see ``models/collocation.md``."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    layer: int
    kind: str
    value: str = Field(pattern=FRACTION)
    touched: str | None = Field(None, pattern=FRACTION)


class Certificates(BaseModel):
    """The proofs of all layers."""

    model_config = _STRICT
    layers: list[Certificate]


class ResultDocument(ResultFrame):
    """The result of a collocation, which is the plan as well."""

    model_config = ConfigDict(title=SCHEMA)
    schema_: Literal["moeopt/collocation-result/1"] = Field(alias="schema")
    problem: Literal["collocation"]
    instance: InstanceReference
    objective: float | None = Field(description="sum over layers")
    unit: str
    certificate: Certificates | None
    solution: Solution | None
    conflicts: list[dict[str, Any]]


def read_result(document: Any, source: str = "") -> ResultDocument:
    """Check the form of a parsed plan; whether its numbers are true is for `plan_faults.document_faults`.

    Raises
    ------
    InstanceError
        Another schema, a missing or unknown field, a wrong type; all of them at once.
    """
    check_schema(document, SCHEMA, "a collocation", source)
    return result_form(ResultDocument, document, source)
