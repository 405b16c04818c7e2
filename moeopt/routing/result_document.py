"""A written routing, doubted: its numbers against each other, and with loads against the referee and its proofs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from moeopt.errors import InstanceError, PlanError, Violations
from moeopt.forms import result_form
from moeopt.result_frame import InstanceReference, ResultFrame, check_schema
from moeopt.routing import describe, verify
from moeopt.routing.bounds import confined
from moeopt.routing.checks import MOST_EXPERTS, widest_id
from moeopt.routing.document import read_instance
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.plan import Routing

SCHEMA = "moeopt/routing-result/1"
UNIT = "tokens"
TOLERANCE = 1e-9
"""Relative difference up to which a stated number and the recomputed one are the same."""

_FRACTION = r"^[0-9]+(/[1-9][0-9]*)?$"
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class CutDocument(BaseModel):
    """The set of GPUs that proves a layer's bound."""

    model_config = _STRICT
    gpus: list[int]
    experts: int = Field(description="experts that lie nowhere else")


class LayerDocument(BaseModel):
    """One layer of a routing."""

    model_config = _STRICT
    layer: int
    max_load: float = Field(description="cost of the busiest GPU, tokens")
    ideal: float = Field(description="cost of every GPU in perfect balance, tokens")
    imbalance: float
    lower_bound: float
    gap: float
    even_max_load: float = Field(description="max_load if parts were even")
    local_tokens: float | None = Field(None, description="most tokens that can stay on their node")
    crossing_tokens: float | None = None
    cut: CutDocument


class SolutionDocument(BaseModel):
    """The shares and their figures."""

    model_config = _STRICT
    layers: list[LayerDocument] = Field(min_length=1)
    imbalance_mean: float
    even_objective: float
    gain_over_even: float = Field(description="part of even_objective that this split saves")
    local_share: float | None = None
    unit: Literal["share", "tokens"]
    shares: list[list[list[float]]] = Field(description="per layer [expert, GPU, share or tokens]")
    solver_bound: float | None = None


class Proof(BaseModel):
    """A cut, what it proves, and its dual prices; numbers are fractions."""

    model_config = _STRICT
    layer: int
    kind: Literal["cut", "whole-cut"]
    gpus: list[int]
    value: str = Field(pattern=_FRACTION)
    price: str | None = Field(None, pattern=_FRACTION, description="of one token more on these GPUs")
    experts: list[int] = Field([], description="whose tokens have that price; all others cost nothing")


class Proofs(BaseModel):
    """The proofs of all layers."""

    model_config = _STRICT
    layers: list[Proof]


class ResultDocument(ResultFrame):
    """The result of a routing."""

    model_config = ConfigDict(title=SCHEMA)
    schema_: Literal["moeopt/routing-result/1"] = Field(alias="schema")
    problem: Literal["routing"]
    instance: InstanceReference
    unit: str
    certificate: Proofs | None
    solution: SolutionDocument | None
    conflicts: list[dict[str, Any]]


def read_result(document: Any, source: str = "") -> ResultDocument:
    """Check the form of a parsed result; whether its numbers are true is for `document_faults`."""
    check_schema(document, SCHEMA, "a routing", source)
    return result_form(ResultDocument, document, source)


def document_faults(
    document: ResultDocument, loads: Any = None, layers: Sequence[int] | None = None, sources: Any = None
) -> list[str]:
    """Everything wrong with a routing; empty for a good one.

    Parameters
    ----------
    document
        From `read_result`.
    loads, layers
        (L, E) tokens it was made for, and their layer ids; without them only its form is checked.
    sources
        (L, E, G) tokens by source GPU, where it was made for some.
    """
    solution = document.solution
    if solution is None:
        return [f"the document has no routing, its status is {document.status}"]
    ids = document.instance.document.get("layers")
    found = [layer.layer for layer in solution.layers]
    if found != ids:
        return [f"layers: the routing has {found}, its instance {ids}"]
    faults = list(_arithmetic(document))
    if loads is None:
        widest = widest_id(document.instance.document.get("slot_expert"), solution.shares)
        if widest >= MOST_EXPERTS:
            return [*faults, f"expert {widest} has a share or a slot, ids run to {MOST_EXPERTS - 1:,} at most"]
        table = np.ones((len(found), widest + 1))
    else:
        given = list(layers) if layers is not None else found
        absent = [layer for layer in found if layer not in given]
        if absent:
            return [*faults, *(f"the loads have no layer {layer}, the routing has" for layer in absent)]
        table = np.asarray(loads)[[given.index(layer) for layer in found]]
    try:
        embedded = {**document.instance.document, "loads": table.tolist(), "sources": sources}
        instance = read_instance(embedded)
    except InstanceError as error:
        return [*faults, *(f"instance.document: {violation}" for violation in error.violations)]
    try:
        plan = Routing.of(_typed(solution), solution.unit == "tokens")
    except PlanError as error:
        return [*faults, *error.faults]
    if loads is None:
        free = Routing(tuple(_in_shares(row) for row in plan.shares)) if plan.in_tokens else plan
        shape = RoutingInstance.from_dict({**instance.to_dict(), "whole": False})
        return [*faults, *verify.faults(shape, free)]
    if instance.sha256 != document.instance.sha256:
        faults.append(f"the loads are not those it was made for: digest {instance.sha256}")
    wrong = verify.faults(instance, plan)
    return [*faults, *(wrong or _judged(document, instance, plan))]


def as_plan(document: ResultDocument, layers: Sequence[int], source: str = "") -> Routing:
    """The split of some layers, in their order.

    Raises
    ------
    InstanceError
        There is no split, or it lacks a layer.
    """
    check, solution = Violations(source), document.solution
    if solution is None:
        rule = "is its status: it has no split"
        check.add("status", document.status, rule=rule, fix="Write one with moeopt route -o routing.json")
        check.raise_if_any()
    assert solution is not None
    place = {layer.layer: row for row, layer in enumerate(solution.layers)}
    absent = [layer for layer in layers if layer not in place]
    if absent or len(solution.shares) != len(place):
        seen = f"no layer {absent[0]}" if absent else f"{len(solution.shares)} of {len(place)} layers"
        check.add("solution.shares", seen, rule="must have every layer that is routed", fix="Route all of them")
        check.raise_if_any()
    rows = _typed(solution)
    return Routing.of([rows[place[layer]] for layer in layers], solution.unit == "tokens")


def _typed(solution: SolutionDocument) -> list[list[list[Any]]]:
    """JSON has one kind of number: ids, and tokens, are whole."""

    def whole(value: float) -> Any:
        return int(value) if float(value).is_integer() else value

    in_tokens = solution.unit == "tokens"
    return [
        [[*map(whole, row[:2]), *(whole(part) if in_tokens else part for part in row[2:])] for row in rows]
        for rows in solution.shares
    ]


def _in_shares(row: Sequence[tuple[int, int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Tokens as shares, for a look at the form alone."""
    sums: dict[int, float] = {}
    listed: dict[int, int] = {}
    for expert, _, part in row:
        sums[expert] = sums.get(expert, 0) + part
        listed[expert] = listed.get(expert, 0) + 1
    return tuple((e, g, part / sums[e] if sums[e] else 1 / listed[e]) for e, g, part in row)


def _arithmetic(document: ResultDocument) -> list[str]:
    """Stated numbers against each other."""
    solution = document.solution
    assert solution is not None
    found = []
    for layer in solution.layers:
        numbers = (layer.max_load, layer.ideal, layer.imbalance, layer.lower_bound, layer.gap)
        if not all(math.isfinite(value) and value >= 0 for value in numbers):
            found.append(f"layer {layer.layer}: a figure is not finite and >= 0")
            continue
        ratio = layer.max_load / layer.ideal if layer.ideal else 1.0
        if not _close(layer.imbalance, ratio):
            found.append(f"layer {layer.layer}: imbalance says {layer.imbalance!r}, max_load / ideal is {ratio!r}")
        if layer.lower_bound > layer.max_load * (1 + TOLERANCE):
            found.append(f"layer {layer.layer}: lower_bound {layer.lower_bound!r} is above max_load {layer.max_load!r}")
        gap = (layer.max_load - layer.lower_bound) / layer.max_load if layer.max_load else 0.0
        if abs(gap - layer.gap) > TOLERANCE:
            found.append(f"layer {layer.layer}: gap says {layer.gap!r}, max_load and lower_bound {gap!r}")
    for field, value in (("objective", "max_load"), ("lower_bound", "lower_bound")):
        total = math.fsum(getattr(layer, value) for layer in solution.layers)
        said = getattr(document, field)
        if said is None or not _close(said, total):
            found.append(f"{field} says {said!r}, its layers sum to {total!r}")
    worst = max(layer.gap for layer in solution.layers)
    if document.status == "OPTIMAL" and worst > TOLERANCE:
        found.append(f"status is OPTIMAL with a gap of {worst!r}")
    top, low = (math.fsum(getattr(one, key) for one in solution.layers) for key in ("max_load", "lower_bound"))
    whole = max((top - low) / top, 0.0) if top else 0.0
    for name, claim, right in (
        ("gap", document.gap, whole),
        ("gap_worst_layer", document.gap_worst_layer, max(whole, worst)),
    ):
        if claim is None or not abs(claim - right) <= TOLERANCE:
            found.append(f"{name} says {claim!r}, the layers give {right!r}")
    if document.unit != UNIT:
        found.append(f"unit says {document.unit!r}, is {UNIT!r}")
    if not document.runtime_s >= 0 or document.iterations < 0:
        found.append(f"runtime_s {document.runtime_s!r} or iterations {document.iterations} is below 0")
    if len(solution.shares) != len(solution.layers):
        found.append(f"shares cover {len(solution.shares)} layers of {len(solution.layers)}")
    return found


def _judged(document: ResultDocument, instance: RoutingInstance, plan: Routing) -> list[str]:
    """Stated numbers against the referee's, and every proof."""
    solution = document.solution
    assert solution is not None
    judged = verify.evaluate(instance, plan)
    found = []
    for layer, top, even in zip(solution.layers, judged.max_load, judged.ideal, strict=True):
        for field, right in (("max_load", float(top)), ("ideal", float(even))):
            if not _close(getattr(layer, field), right):
                found.append(f"layer {layer.layer}: {field} says {getattr(layer, field)!r}, is {right!r}")
    found += _beside(document, instance, plan, float(judged.objective))
    if document.certificate is None:
        return [*found, "there is no certificate of the lower bound"]
    wrong = verify.recheck(instance, document.certificate.model_dump())
    if wrong:
        return [*found, *wrong]
    proofs = {row.layer: row for row in document.certificate.layers}
    for place, layer in enumerate(solution.layers):
        gpus = proofs[layer.layer].gpus
        named = CutDocument(gpus=gpus, experts=confined(instance, place, gpus)[1])
        if layer.cut != named:
            found.append(f"layer {layer.layer}: cut says {layer.cut.model_dump()}, is {named.model_dump()}")
    proved = {row.layer: Fraction(row.value) for row in document.certificate.layers}
    for layer in solution.layers:
        if layer.lower_bound > float(proved[layer.layer]) * (1 + TOLERANCE):
            value = float(proved[layer.layer])
            found.append(f"layer {layer.layer}: lower_bound says {layer.lower_bound!r}, its cut proves {value!r}")
    return found


def _beside(document: ResultDocument, instance: RoutingInstance, plan: Routing, total: float) -> list[str]:
    """Figures beside the loads."""
    solution = document.solution
    assert solution is not None
    each, whole = describe.beside(instance, plan, total)
    mean = math.fsum(layer.imbalance for layer in solution.layers) / len(solution.layers)
    figures: list[tuple[str, float | None, float | None]] = [("imbalance_mean", solution.imbalance_mean, mean)]
    for name in ("even_objective", "gain_over_even", "local_share"):
        figures.append((name, getattr(solution, name), whole.get(name)))
    for layer, known in zip(solution.layers, each, strict=True):
        for name in ("even_max_load", "local_tokens", "crossing_tokens"):
            figures.append((f"layer {layer.layer}: {name}", getattr(layer, name), known.get(name)))
    return [f"{name} says {said!r}, is {right!r}" for name, said, right in figures if not _same(said, right)]


def _same(said: float | None, right: float | None) -> bool:
    """As near as sums in another order are, a millionth of a token too; or both are missing."""
    if said is None or right is None:
        return said is right
    return _close(said, right) or abs(said - right) <= 1e-6


def _close(said: float, value: float) -> bool:
    return abs(said - value) <= TOLERANCE * max(abs(said), abs(value), 1e-300)
