"""Plans as documents, doubted: every number a plan states is held against the plan itself.

Without the loads the structure is checked: lengths, ids, cover, doubles, groups, shares, and that the stated numbers
agree with each other. With them the instance is rebuilt, its digest compared, every layer evaluated again, exactly, and
every bound re-derived from its certificate.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, PlanError
from moeopt.placement import bounds, enumeration, verify
from moeopt.placement.document import read_instance
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement
from moeopt.placement.plan_beside import recomputed_faults, stated_faults, unchecked
from moeopt.placement.plan_document import SCHEMA, Certificate, LayerPlan, ResultDocument, as_plan, read_result
from moeopt.placement.plan_extras import extra_faults, move_faults
from moeopt.placement.replanning.report import imbalance_now
from moeopt.result import SOLVER_TOLERANCE, relative_gap
from moeopt.result_frame import frame_faults

TOLERANCE = 1e-9
"""Relative difference up to which a stated number and the recomputed one are the same."""
MAX_FAULTS = 200
"""How many faults of one kind in one layer are listed."""


def document_faults(document: ResultDocument, loads: Any = None, layers: Sequence[int] | None = None) -> list[str]:
    """Everything that is wrong with a plan, each fault naming its place; empty for a good one.

    Parameters
    ----------
    document
        From `read_result`.
    loads
        (L, E) tokens the plan was made for; without them the structure alone is checked.
    layers
        L layer ids of the rows of `loads`, the plan's own by default. Layers the plan has not are left aside.
    """
    if document.solution is None:
        return [f"the document has no plan, its status is {document.status}"]
    found = list(_layer_list_faults(document))
    if found:
        return found  # which row is which layer is unclear
    found.extend(_arithmetic_faults(document))
    dummy = _dummy_loads(document)
    try:
        shape = _rebuild(document, dummy)
    except InstanceError as error:
        return [*found, *(f"instance.document: {violation}" for violation in error.violations)]
    broken = dict(_structure_faults(document, shape))
    found.extend(fault for faults in broken.values() for fault in faults)
    found.extend(_frame_faults(document, shape))
    if loads is None:
        return found
    table = np.asarray(loads)
    if table.ndim == 3 and len(table) == 1:
        table = table[0]
    count, said = (1 if table.ndim < 3 else len(table)), (1 if dummy.ndim < 3 else len(dummy))
    if table.ndim == dummy.ndim == 3 and count == said:
        table = table.swapaxes(0, 1)  # layers first, to choose and count them
    elif count != said:
        return [*found, f"the loads have {count} windows, the plan was made for {said}"]
    ids = list(layers) if layers is not None else document.instance.document.layers
    if table.ndim != dummy.ndim or len(ids) != len(table):
        return [*found, f"the loads have shape {table.shape}, need {len(ids)} layers x experts"]
    absent = [layer for layer in document.instance.document.layers if layer not in ids]
    if absent:
        return [*found, *(f"the loads have no layer {layer}, the plan has" for layer in absent)]
    table = table[[ids.index(layer) for layer in document.instance.document.layers]]
    if table.shape[-1] != dummy.shape[-1]:
        return [*found, f"the loads have {table.shape[-1]} experts, the plan {dummy.shape[-1]}"]
    if table.ndim == 3:
        table = table.swapaxes(0, 1)
    return [*found, *_load_faults(document, _rebuild(document, table), set(broken))]


def instance_of(document: ResultDocument) -> PlacementInstance:
    """The instance of a plan with every load 1: its shape and its rules."""
    return _rebuild(document, _dummy_loads(document))


def _dummy_loads(document: ResultDocument) -> NDArray[np.int64]:
    """Loads of the right shape, for a plan whose structure alone is looked at."""
    assert document.solution is not None
    layers, fields = document.solution.layers, document.instance.document.model_dump(by_alias=True)
    hosted = fields.get("num_shared", 1) if fields.get("shared") == "hosted" else 0
    width = len(layers[0].replicas) - (hosted if isinstance(hosted, int) else 0)
    shape: tuple[int, ...] = (len(layers), max(width, 1))
    if isinstance(fields.get("steps"), list) and len(fields["steps"]) > 1:
        shape = (len(fields["steps"]), *shape)
    return np.ones(shape, dtype=np.int64)


def _layer_list_faults(document: ResultDocument) -> Iterator[str]:
    assert document.solution is not None
    planned = [layer.layer for layer in document.solution.layers]
    wanted = document.instance.document.layers
    for layer in dict.fromkeys(planned):
        if planned.count(layer) > 1:
            yield f"layer {layer}: stands {planned.count(layer)} times in the plan"
        if layer not in wanted:
            yield f"layer {layer}: is in the plan and not in its instance"
    for layer in wanted:
        if layer not in planned:
            yield f"layer {layer}: is in the instance and not in the plan"
    if not document.solution.layers[0].replicas:
        yield f"layer {planned[0]}: replicas are empty"
    elif sorted(planned) == sorted(wanted) and planned != wanted:
        yield f"layers: the plan has them in the order {planned}, its instance {wanted}"


def _arithmetic_faults(document: ResultDocument) -> Iterator[str]:
    """Stated numbers against each other."""
    solution = document.solution
    assert solution is not None
    layers = solution.layers
    numbers_ok = True
    for layer in layers:
        for field in ("max_load", "ideal", "imbalance", "lower_bound"):
            value = getattr(layer, field)
            if not (math.isfinite(value) and value >= 0):
                numbers_ok = False
                yield f"layer {layer.layer}: {field} is {value}, must be a finite number >= 0"
    if not numbers_ok:
        return
    for layer in layers:
        ratio = layer.max_load / layer.ideal if layer.ideal else 1.0
        slack = _slack(layer.max_load, layer.ideal, layer.lower_bound)
        if not abs(layer.imbalance - ratio) <= slack * max(ratio, 1.0):
            yield f"layer {layer.layer}: imbalance says {layer.imbalance}, max_load / ideal is {ratio}"
        if layer.lower_bound > layer.max_load * (1 + slack):
            yield f"layer {layer.layer}: lower_bound {layer.lower_bound} lies above max_load {layer.max_load}"
        gap = relative_gap(layer.max_load, layer.lower_bound) if layer.max_load else 0.0
        if not abs(layer.gap - gap) <= slack:
            yield f"layer {layer.layer}: gap says {layer.gap}, max_load and lower_bound give {gap}"
    slack = _slack(*(value for layer in layers for value in (layer.max_load, layer.ideal)))
    mean = sum(layer.imbalance for layer in layers) / len(layers)
    ideal, top = sum(layer.ideal for layer in layers), sum(layer.max_load for layer in layers)
    inverse = [1 / layer.imbalance if layer.imbalance else math.inf for layer in layers]
    for field, said, value in (
        ("objective", document.objective, top),
        ("lower_bound", document.lower_bound, sum(layer.lower_bound for layer in layers)),
        ("gap_worst_layer", document.gap_worst_layer, max(layer.gap for layer in layers)),
        ("solution.imbalance_mean", solution.imbalance_mean, mean),
        ("solution.imbalance_total", solution.imbalance_total, top / ideal if ideal else 1.0),
        ("solution.mean_over_max", solution.mean_over_max, sum(inverse) / len(inverse)),
    ):
        spread = 1.0 if field.startswith("gap") else max(abs(value), 0.0 if said is None else abs(said))
        if said is None or not abs(said - value) <= slack * spread:
            yield f"{field} says {said}, the layers give {value}"
    if not abs(solution.excess - (solution.imbalance_mean - 1)) <= TOLERANCE:
        yield f"solution.excess says {solution.excess}, imbalance_mean - 1 is {solution.imbalance_mean - 1}"
    if document.objective is not None and document.lower_bound is not None and document.objective >= 0:
        gap = relative_gap(document.objective, document.lower_bound) if document.objective else 0.0
        if document.gap is None or not abs(document.gap - gap) <= slack:
            yield f"gap says {document.gap}, objective and lower_bound give {gap}"
    yield from frame_faults(document)


def _structure_faults(document: ResultDocument, shape: PlacementInstance) -> Iterator[tuple[int, list[str]]]:
    """Per row with faults: slots, cover, doubles, groups, shares, and replicas that disagree with the slots."""
    solution = document.solution
    assert solution is not None
    shares = solution.shares
    for row, layer in enumerate(solution.layers):
        found = []
        if len(layer.slot_expert) != shape.num_slots:
            found.append(
                f"layer {layer.layer}: slot_expert has {len(layer.slot_expert)} entries, "
                f"the instance {shape.num_slots} slots"
            )
        else:
            own = None if shares is None or row >= len(shares) else [shares[row]]
            found.extend(_judge(_one_layer(document, shape, row), layer.slot_expert, own))
            found.extend(_replica_faults(layer, shape.num_experts))
        if found:
            yield row, found


def _judge(alone: PlacementInstance, slots: list[int], shares: list[list[tuple[int, int, float]]] | None) -> list[str]:
    try:
        return verify.faults(alone, Placement.of([slots], shares))
    except PlanError as error:
        return [f"layer {alone.layers[0]}: {fault}" for fault in error.faults]


def _replica_faults(layer: LayerPlan, num_experts: int) -> list[str]:
    if len(layer.replicas) != num_experts:
        return [f"layer {layer.layer}: replicas has {len(layer.replicas)} entries for {num_experts} experts"]
    held = [0] * num_experts
    for expert in layer.slot_expert:
        if EMPTY < expert < num_experts:
            held[expert] += 1
    return [
        f"layer {layer.layer}: replicas say {said} of expert {expert}, the slots hold {count}"
        for expert, (said, count) in enumerate(zip(layer.replicas, held, strict=True))
        if said != count
    ][:MAX_FAULTS]


def _frame_faults(document: ResultDocument, shape: PlacementInstance) -> Iterator[str]:
    """What the plan says about its GPUs and proofs, against its instance."""
    solution = document.solution
    assert solution is not None
    if solution.gpu_of_slot != shape.gpu_of_slot.tolist():
        yield "solution.gpu_of_slot is not the one of the instance's slots"
    if solution.ep_size != shape.num_gpus:
        yield f"solution.ep_size says {solution.ep_size}, the instance has {shape.num_gpus} GPUs"
    if solution.split != shape.split:
        yield f"solution.split says {solution.split}, the instance {shape.split}"
    if solution.shares is not None and len(solution.shares) != len(solution.layers):
        yield f"shares cover {len(solution.shares)} layers of {len(solution.layers)}"
    yield from extra_faults(document, shape)
    yield from move_faults(document, shape)
    yield from stated_faults(document, shape)
    for field in ("llm", "phase", "engine"):
        if getattr(solution, field) != getattr(shape, field):
            yield f"solution.{field} says {getattr(solution, field)!r}, the instance {getattr(shape, field)!r}"
    proved = [] if document.certificate is None else [proof.layer for proof in document.certificate.layers]
    if proved != list(shape.layers):
        yield f"certificate covers layers {proved}, the plan {list(shape.layers)}"


def _load_faults(document: ResultDocument, instance: PlacementInstance, broken: set[int]) -> Iterator[str]:
    """Digest, every layer's numbers computed again, and every bound from its certificate."""
    solution = document.solution
    assert solution is not None
    if instance.sha256 != document.instance.sha256:
        yield (
            f"instance.sha256 says {document.instance.sha256}, these loads give {instance.sha256}: "
            "they are not the loads, or not the rules, this plan was made for"
        )
    if instance.current is not None:
        now = imbalance_now(instance)
        said_now = solution.imbalance_now
        if (now is None) != (said_now is None) or (now is not None and not _close(said_now or 0.0, now)):
            yield f"solution.imbalance_now says {said_now}, the running plan has {now}"
    for row, layer in enumerate(solution.layers):
        if row in broken and _breaks_rules(document, instance, row):
            continue
        if solution.shares is not None and row >= len(solution.shares):
            continue  # said already: the shares do not cover the layers
        alone = _one_layer(document, instance, row)
        shares = None if solution.shares is None else [solution.shares[row]]
        judged = verify.evaluate(alone, Placement.of([layer.slot_expert], shares))
        for field, said, value in (
            ("max_load", layer.max_load, float(judged.max_load[0])),
            ("ideal", layer.ideal, float(judged.ideal[0])),
            ("imbalance", layer.imbalance, judged.imbalance[0]),
        ):
            if not _close(said, value):
                yield f"layer {layer.layer}: {field} says {said}, recomputed {value}"
        ratios = [float(ratio) for ratio in judged.windows[0]] if judged.windows else []
        told = layer.windows or []
        if len(told) != len(ratios) or not all(map(_close, told, ratios)):
            yield f"layer {layer.layer}: windows say {told}, recomputed {ratios}"
        if layer.max_load_even is not None:
            even = float(verify.evaluate(alone, Placement.of([layer.slot_expert]), "even").max_load[0])
            if not _close(layer.max_load_even, even):
                yield f"layer {layer.layer}: max_load_even says {layer.max_load_even}, recomputed {even}"
    if not broken:
        yield from recomputed_faults(document, instance)
    if document.certificate is None or len(document.certificate.layers) != len(solution.layers):
        return
    for row, (layer, proof) in enumerate(zip(solution.layers, document.certificate.layers, strict=True)):
        if proof.kind == "solver":
            if document.bound_kind != "solver":
                yield f"layer {layer.layer}: the bound is a solver's claim, bound_kind says {document.bound_kind}"
            yield from _claim_faults(instance, row, layer, proof)
            continue
        try:
            value = float(bounds.check(instance, row, proof.model_dump(exclude={"layer"})))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            text = str(error) if str(error).startswith("layer") else f"layer {layer.layer}: certificate: {error!r}"
            yield text
            continue
        if layer.lower_bound > value * (1 + TOLERANCE):
            stated = f"lower_bound says {layer.lower_bound}"
            yield f"layer {layer.layer}: {stated}, its {proof.kind} certificate gives {value}"


def _claim_faults(instance: PlacementInstance, row: int, layer: LayerPlan, proof: Certificate) -> Iterator[str]:
    """A solver's claim cannot be re-checked, but it can contradict the plan, or a proof of our own."""
    claim = proof.model_dump().get("value")
    if not isinstance(claim, int | float) or isinstance(claim, bool) or not 0 <= claim <= sys.float_info.max:
        yield f"layer {layer.layer}: the solver's certificate claims {claim!r}, not a bound"
    elif not _close(layer.lower_bound, claim):
        yield f"layer {layer.layer}: lower_bound says {layer.lower_bound}, the solver's certificate {claim}"
    most = bounds.most_replicas(instance)
    if enumeration.applies(instance, most) and math.isfinite(layer.max_load):
        known = enumeration.optimum(instance, row, most, Fraction(layer.max_load))
        if known is not None and layer.lower_bound > float(known[0]) * (1 + SOLVER_TOLERANCE):
            yield f"layer {layer.layer}: lower_bound says {layer.lower_bound}, a plan of {float(known[0])} exists"


def claimed_layers(document: ResultDocument) -> list[int]:
    """Layers whose bound is a solver's claim, which nothing here can re-check."""
    proofs = [] if document.certificate is None else document.certificate.layers
    return [proof.layer for proof in proofs if proof.kind == "solver"]


def _breaks_rules(document: ResultDocument, instance: PlacementInstance, row: int) -> bool:
    """Whether a layer breaks a rule, so that it has no value to compare; a wrong `replicas` alone does not."""
    assert document.solution is not None
    layer = document.solution.layers[row]
    if len(layer.slot_expert) != instance.num_slots:
        return True
    shares = document.solution.shares
    own = None if shares is None or row >= len(shares) else [shares[row]]
    return bool(_judge(_one_layer(document, instance, row), layer.slot_expert, own))


def _rebuild(document: ResultDocument, loads: Any) -> PlacementInstance:
    """The embedded instance with loads put back."""
    fields = document.instance.document.model_dump(by_alias=True)
    return read_instance({**fields, "loads": np.asarray(loads).tolist()})


def _one_layer(document: ResultDocument, instance: PlacementInstance, row: int) -> PlacementInstance:
    fields = document.instance.document.model_dump(by_alias=True)
    fields |= {"layers": [instance.layers[row]], "loads": instance.given_loads[..., row : row + 1, :].tolist()}
    if instance.current is not None:
        fields["current"] = instance.current[row : row + 1].tolist()
        fields.pop("max_moves", None)  # a budget for all layers together
    return read_instance(fields)


def _slack(*values: float) -> float:
    """Relative difference that rounding may leave: numbers near the smallest double have few digits."""
    least = min((value for value in values if value > 0), default=1.0)
    return TOLERANCE + 8 * 5e-324 / least


def _close(said: float, value: float) -> bool:
    return abs(said - value) <= TOLERANCE * max(abs(said), abs(value))


__all__ = [
    "SCHEMA",
    "ResultDocument",
    "as_plan",
    "claimed_layers",
    "document_faults",
    "instance_of",
    "read_result",
    "unchecked",
]
