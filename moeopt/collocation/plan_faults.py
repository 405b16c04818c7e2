"""A written collocation, doubted: its numbers against each other, and with its trace against referee and proofs.

Without the trace the structure is checked: slots, ids, cover, doubles, and that stated numbers agree with each other.
With it the instance is built again, its digest compared, every figure computed again and every bound re-derived.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from moeopt.collocation import bounds, describe, verify
from moeopt.collocation.bounds import LayerBound
from moeopt.collocation.document import with_trace
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.result_document import ResultDocument, Solution
from moeopt.documents import sha256
from moeopt.errors import InstanceError, PlanError, Violation
from moeopt.result import relative_gap
from moeopt.result_frame import frame_faults

TOLERANCE = 1e-9
"""Relative difference up to which a stated number and the recomputed one are the same."""
SOLVED = 1e-5
"""The same for the answer of a solver."""
MOST_CELLS = 1 << 31
"""Numbers in a trace that a plan may name."""
DIGEST = "instance.sha256 says"
"""How the fault begins that names another trace or other rules than the plan's."""


@dataclass(frozen=True)
class Trace:
    """What a plan is held against: tokens' experts, or counts of pairs.

    Parameters
    ----------
    table
        (L, T, k) ids, or (L, E, E) counts of pairs.
    layers
        L layer ids.
    """

    table: Any
    layers: Sequence[int]


def document_faults(document: ResultDocument, given: Trace | CollocationInstance | None = None) -> list[str]:
    """Everything that is wrong with a plan, each fault naming its place; empty for a good one.

    Parameters
    ----------
    document
        From `read_result`.
    given
        The trace it was made for, or the instance; without either only its form is checked.
    """
    solution = document.solution
    if solution is None:
        return [f"the document has no plan, its status is {document.status}"]
    told = document.instance.document
    found = [layer.layer for layer in solution.layers]
    if found != told.get("layers"):
        return [f"layers: the plan has {found}, its instance {told.get('layers')}"]
    stated = sha256({key: value for key, value in told.items() if key not in ("name", "notes")})
    faults = []
    if stated != document.instance.sha256:
        faults.append(f"{DIGEST} {document.instance.sha256}, instance.document gives {stated}")
    if document.instance.name != told.get("name"):
        faults.append(f"instance.name says {document.instance.name!r}, instance.document.name {told.get('name')!r}")
    try:
        shape = with_trace(told, _nothing(told))
    except InstanceError as error:
        return [*faults, *(f"instance.document: {violation}" for violation in error.violations)]
    faults += _figures_alone(document, shape)
    broken = list(_slot_faults(solution, shape))
    if given is None or broken:
        return [*faults, *broken]
    instance = given if isinstance(given, CollocationInstance) else _rebuilt(told, given, faults)
    if instance is None:
        return faults
    if instance.sha256 != document.instance.sha256:
        what = "the instance given" if isinstance(given, CollocationInstance) else "with this trace it"
        faults.insert(
            0, f"{DIGEST} {document.instance.sha256}, {what} is {instance.sha256}: it was made for another trace"
        )
    if (instance.num_layers, instance.num_slots) != (shape.num_layers, shape.num_slots):
        return faults
    return [*faults, *_judged(document, instance)]


def unchecked(document: ResultDocument) -> list[str]:
    """Numbers in a plan that nothing here can compute again."""
    found = []
    if document.solution is not None and document.solution.affinity is not None:
        found.append("solution.affinity: hops between layers")
    claims = [one.layer for one in (document.certificate.layers if document.certificate else ()) if _claim(one.kind)]
    if claims:
        found.append(f"the bounds of layers {', '.join(map(str, claims))}: a solver's claim")
    return found


def _claim(kind: str) -> bool:
    return kind == "solver"


def _nothing(told: Mapping[str, Any]) -> Any:
    """A trace of the right shape in which every token selects expert 0, or any two one.

    Raises
    ------
    InstanceError
        A larger trace than anybody has recorded.
    """
    trace = told.get("trace")
    shape = trace.get("shape") if isinstance(trace, Mapping) else None
    whole = isinstance(shape, list) and len(shape) == 3 and all(type(size) is int and size > 0 for size in shape)
    if not whole:
        return None
    assert isinstance(shape, list) and isinstance(trace, Mapping)
    if math.prod(shape) > MOST_CELLS:
        rule = f"a trace has at most {MOST_CELLS:,} numbers"
        raise InstanceError([Violation("trace.shape", "", str(shape), rule, "Give the shape of the trace")])
    if trace.get("of") == "pairs":
        return np.ones(shape, dtype=np.int64)
    return np.zeros((*shape[:2], 1), dtype=np.int64)


def _rebuilt(told: Mapping[str, Any], given: Trace, faults: list[str]) -> CollocationInstance | None:
    """The instance with the trace given, or ``None`` and why it does not fit."""
    known = list(given.layers)
    absent = [layer for layer in told["layers"] if layer not in known]
    if absent:
        faults.extend(f"the trace has no layer {layer}, the plan has" for layer in absent)
        return None
    table = np.asarray(given.table)[[known.index(layer) for layer in told["layers"]]]
    try:
        return with_trace(told, table)
    except InstanceError as error:
        faults.append(f"the trace is not the one it was made for: {error.violations[0]}")
        return None


def _slot_faults(solution: Solution, shape: CollocationInstance) -> Iterator[str]:
    """Lengths, ids, cover, doubles, and replicas that disagree with the slots."""
    wrong = [layer for layer in solution.layers if len(layer.slot_expert) != shape.num_slots]
    for layer in wrong:
        yield f"layer {layer.layer}: slot_expert has {len(layer.slot_expert)} entries, the instance {shape.num_slots}"
    if wrong:
        return
    try:
        plan = Collocation.of([layer.slot_expert for layer in solution.layers])
    except PlanError as error:
        yield from error.faults
        return
    broken = verify.faults(shape, plan, capped=False)
    yield from broken
    if broken:
        return
    for layer, held in zip(solution.layers, plan.slot_expert, strict=True):
        counts = np.bincount(held[held >= 0], minlength=shape.num_experts).tolist()
        if layer.replicas != counts:
            yield f"layer {layer.layer}: replicas disagree with slot_expert"


def _figures_alone(document: ResultDocument, shape: CollocationInstance) -> Iterator[str]:
    """Stated numbers against each other."""
    solution = document.solution
    assert solution is not None
    rows = solution.layers
    for row in rows:
        if row.lower_bound > row.objective * (1 + TOLERANCE):
            yield f"layer {row.layer}: lower_bound {row.lower_bound!r} lies above objective {row.objective!r}"
        elif not _close(row.gap, relative_gap(row.objective, row.lower_bound), 1.0):
            yield f"layer {row.layer}: gap says {row.gap!r}, objective and lower_bound give otherwise"
    total, below = (math.fsum(getattr(row, key) for row in rows) for key in ("objective", "lower_bound"))
    gap = relative_gap(total, below) if total >= below else 0.0
    scored = rows[0].lambda_held_out is not None
    merged = rows[0].lambda_lower_bound is not None
    right: list[tuple[str, Any, Any]] = [
        ("objective", document.objective, total),
        ("lower_bound", document.lower_bound, min(below, total)),
        ("solution.lambda", solution.lambda_, _mean(row.lambda_ for row in rows)),
        ("solution.copies_per_token", solution.copies_per_token, _mean(row.copies_per_token for row in rows)),
        ("solution.imbalance", solution.imbalance, max(row.imbalance for row in rows)),
        ("solution.lambda_held_out", solution.lambda_held_out, _mean(row.lambda_held_out for row in rows)
         if scored else None),
        ("solution.lambda_lower_bound", solution.lambda_lower_bound, _mean(row.lambda_lower_bound for row in rows)
         if merged else None),
        ("solution.gpu_of_slot", solution.gpu_of_slot, shape.gpu_of_slot.tolist()),
        ("solution.ep_size", solution.ep_size, shape.num_gpus),
        ("solution.objective", solution.objective, shape.objective),
        ("solution.transport", solution.transport, shape.transport.name),
        ("solution.replica_rule", solution.replica_rule, shape.replica_rule),
        ("unit", document.unit, describe.unit(shape)),
    ]  # fmt: skip
    for name, said, value in right:
        yield from _differences(said, value, name)
    for name, said_gap, worst in (
        ("gap", document.gap, gap),
        ("gap_worst_layer", document.gap_worst_layer, max(gap, *(row.gap for row in rows))),
    ):
        if said_gap is None or not _close(said_gap, worst, 1.0):
            yield f"{name} says {said_gap!r}, the layers give {worst!r}"
    yield from frame_faults(document)


def _mean(values: Iterator[Any]) -> float:
    found = [math.nan if value is None else value for value in values]
    return sum(found) / len(found)


def _judged(document: ResultDocument, instance: CollocationInstance) -> list[str]:
    """Every figure computed again, and every proof gone through."""
    solution = document.solution
    assert solution is not None
    plan = Collocation.of([layer.slot_expert for layer in solution.layers])
    capped = verify.faults(instance, plan)
    judged = verify.evaluate(instance, plan, capped=False)
    if document.certificate is None or [one.layer for one in document.certificate.layers] != list(instance.layers):
        return [*capped, "there is no certificate of the lower bound of each layer"]
    faults, floors = list(capped), []
    for row, one in enumerate(document.certificate.layers):
        certificate = one.model_dump(exclude_unset=True)
        touched = None if one.touched is None else Fraction(one.touched)
        if not _claim(one.kind):
            faults += _proof_faults(instance, row, certificate)
        else:
            said = solution.layers[row].lambda_lower_bound
            touched = None if said is None else Fraction(said) * judged.layers[row].counts.tokens
        floors.append(LayerBound(Fraction(one.value), touched, certificate))
    kind = "solver" if any(_claim(one.kind) for one in document.certificate.layers) else "certified"
    if document.bound_kind != kind:
        faults.append(f"bound_kind says {document.bound_kind}, its certificates are {kind}")
    if faults:
        return faults
    lows = [min(floor.value, value) for floor, value in zip(floors, judged.values, strict=True)]
    gaps = [relative_gap(float(value), float(low)) for value, low in zip(judged.values, lows, strict=True)]
    right = describe.solution(instance, plan, judged, floors, gaps)
    said_all = solution.model_dump(by_alias=True, exclude_unset=True)
    said_all.pop("affinity", None)
    routes = [one.pop("free_routes", None) for one in (said_all, right)]
    return [
        *_differences(said_all, right, "solution"),
        *_differences(routes[0], routes[1], "solution.free_routes", SOLVED),  # a linear programme, solved again
    ]


def _proof_faults(instance: CollocationInstance, row: int, certificate: Mapping[str, Any]) -> list[str]:
    try:
        return bounds.recheck(instance, row, certificate)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        return [f"layer {instance.layers[row]}: its certificate cannot be read ({type(error).__name__}: {error})"]


def _differences(said: Any, right: Any, where: str, tolerance: float = TOLERANCE) -> Iterator[str]:
    """Where a stated value is not the right one, down to its parts."""
    if isinstance(right, Mapping) and isinstance(said, Mapping):
        for key in [*right, *(key for key in said if key not in right)]:
            if key not in said or key not in right:
                yield f"{where}.{key} {'is missing' if key in right else 'should not be there'}"
            else:
                yield from _differences(said[key], right[key], f"{where}.{key}", tolerance)
    elif isinstance(right, list) and isinstance(said, list) and len(right) == len(said):
        for place, (one, other) in enumerate(zip(said, right, strict=True)):
            yield from _differences(one, other, f"{where}[{place}]", tolerance)
    elif isinstance(right, int | float) and isinstance(said, int | float) and not isinstance(right, bool):
        if not _close(said, right, max(abs(said), abs(right)), tolerance):
            yield f"{where} says {said!r}, is {right!r}"
    elif said != right:
        shown = [repr(value) if len(repr(value)) <= 60 else "..." for value in (said, right)]
        yield f"{where} says {shown[0]}, is {shown[1]}"


def _close(said: float, value: float, scale: float, tolerance: float = TOLERANCE) -> bool:
    return said == value or abs(said - value) <= tolerance * scale
