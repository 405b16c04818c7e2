"""Lower bounds on ``max_g C_g`` of one layer, each with where it holds and a certificate that is re-checked exactly.

| kind | holds for | certificate |
|---|---|---|
| ``mean`` | every split, floor rule, speed and fill | none needed |
| ``alone`` | every split, floor rule, speed and fill | the expert |
| ``largest`` | even split, every speed (divided by the fastest) | none needed |
| ``pigeonhole`` | even split, floor per expert, equal slots and speeds | threshold and a set of experts |
| ``enumeration`` | even split, equal GPUs, all slots filled, no groups, no pins, small | the value |
| ``deals`` | groups on nodes that are alike, deals that can be listed | none needed |
| ``sources`` | dispatch rules of whole sources, every floor rule, speed and fill | none needed |

Under ``random`` everything is as under the even split; under a rule of whole sources only ``mean``, ``deals`` and
``sources`` hold.

Proofs are in ``models/placement.md``. A bound of a flat placement holds for a hierarchical one too, which has fewer
plans. Floating point only chooses what to certify; `check` recomputes every value in whole numbers and fractions.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.placement import deals, engine_rule, enumeration, pigeonhole
from moeopt.placement.instance import PlacementInstance


@dataclass(frozen=True)
class LayerBound:
    """A floor under ``max_g C_g`` of one layer: its kind, exact value in tokens, and certificate."""

    kind: str
    value: Fraction
    certificate: Mapping[str, Any]


def cheap(instance: PlacementInstance) -> list[LayerBound]:
    """Best of mean, one expert alone and largest replica, for each layer; milliseconds for a whole LLM.

    Where groups are kept on nodes: the least over all deals of groups to nodes of the node that is worst off.

    >>> [bound.kind for bound in cheap(PlacementInstance([[5, 5, 5, 5], [9, 1, 1, 1]], gpus=4, slots=4))]
    ['mean', 'largest']
    """
    if instance.engine_split:
        return _cheap_for_engine(instance)
    if deals.enumerable(instance):
        return [ranked.bound for ranked in rank_deals(instance, list(range(instance.num_layers)))]
    weights = instance.weights
    exact_means = _means(instance)
    means = np.array([float(value) for value in exact_means])
    fastest = max(instance.speed)
    if instance.split == "even":
        single = pieces(instance, instance.greedy_counts).max(axis=1) / fastest
    else:
        heaviest = weights.argmax(axis=1)
        alone = [float(_alone(instance, row, int(expert))) for row, expert in enumerate(heaviest)]
        single = np.array(alone)
    bounds = []
    for row in range(instance.num_layers):
        mean = LayerBound("mean", exact_means[row], {"kind": "mean"})
        if single[row] <= means[row] * (1 - 1e-12):
            bounds.append(mean)
            continue
        if instance.split == "even":
            other = LayerBound("largest", check(instance, row, {"kind": "largest"}), {"kind": "largest"})
        else:
            certificate = {"kind": "alone", "expert": int(weights[row].argmax())}
            other = LayerBound("alone", check(instance, row, certificate), certificate)
        bounds.append(max(mean, other, key=lambda bound: bound.value))
    return bounds


def _cheap_for_engine(instance: PlacementInstance) -> list[LayerBound]:
    """The same under an engine's dispatch rule."""
    even = engine_rule.with_even_parts(instance)
    if not engine_rule.fixed(instance):
        return cheap(even)
    rows = list(range(instance.num_layers))
    if deals.enumerable(instance):
        found = [ranked.bound for ranked in rank_deals(even, rows)]
    else:
        found = [LayerBound("mean", value, {"kind": "mean"}) for value in _means(instance)]
    most = most_replicas(instance)
    own = (engine_rule.whole_source_bound(instance, row, most) for row in rows)
    sources = [LayerBound("sources", value, {"kind": "sources"}) for value in own]
    return [max(pair, key=lambda bound: bound.value) for pair in zip(found, sources, strict=True)]


@dataclass(frozen=True)
class RankedDeals:
    """All deals of one layer by rising bound, as indices into `deals.all_deals`; the bound that the first one gives."""

    bound: LayerBound
    order: list[int]
    subset_values: list[Fraction]


def rank_deals(instance: PlacementInstance, rows: list[int]) -> list[RankedDeals]:
    """For some layers, every deal of groups to nodes by the bound of the node that is worst off."""
    values = [bound.value for bound in cheap(deals.on_one_node(instance, rows))]
    each = len(values) // len(rows)
    ranked = []
    for place in range(len(rows)):
        mine = values[place * each : (place + 1) * each]
        order, deciding = deals.least_worst(instance, mine)
        ranked.append(RankedDeals(LayerBound("deals", mine[deciding], {"kind": "deals"}), order, mine))
    return ranked


def tighten(instance: PlacementInstance, bound: LayerBound, row: int, objective: float, gap: float = 0.0) -> LayerBound:
    """Try the pigeonhole bound where it applies and the layer's gap is above `gap`; never worse than `bound`."""
    if objective <= 0 or (objective - float(bound.value)) <= gap * objective:
        return bound
    if instance.split == "random":
        return tighten(engine_rule.with_even_parts(instance), bound, row, objective, gap)
    if instance.split != "even" or instance.floor_rule != "per_expert" or not instance.uniform:
        return bound
    speed = instance.speed[0]
    slots = instance.slots[0]
    found = pigeonhole.search(
        instance.weights[row], instance.num_gpus, slots, float(bound.value) * speed, objective * speed
    )
    if found is None:
        return bound
    threshold, experts = found
    certificate = {"kind": "pigeonhole", "threshold": threshold / speed, "experts": experts}
    value = _proved(instance, row, certificate)
    if value is None or value <= bound.value:
        return bound
    return LayerBound("pigeonhole", value, certificate)


def check(instance: PlacementInstance, row: int, certificate: Mapping[str, Any]) -> Fraction:
    """Recompute a bound from its certificate, exactly.

    Raises
    ------
    ValueError
        The certificate proves nothing here, with the reason.
    """
    value = _proved(instance, row, certificate)
    if value is None:
        raise ValueError(f"layer {instance.layers[row]}: the {certificate.get('kind')} certificate proves nothing")
    return value


def _proved(instance: PlacementInstance, row: int, certificate: Mapping[str, Any]) -> Fraction | None:
    kind = certificate.get("kind")
    if instance.split == "random":
        return _proved(engine_rule.with_even_parts(instance), row, certificate)
    if kind == "mean":
        return _means(instance)[row]
    if engine_rule.fixed(instance):
        if kind == "sources":
            return engine_rule.whole_source_bound(instance, row, most_replicas(instance))
        return _proved(engine_rule.with_even_parts(instance), row, certificate) if kind == "deals" else None
    if kind == "alone":
        alone = [certificate.get("expert")]
        return _alone(instance, row, alone[0]) if _are_experts(alone, instance) else None
    if kind == "largest" and instance.split == "even":
        return _largest(instance, row)
    if kind == "deals" and deals.enumerable(instance):
        return rank_deals(instance, [row])[0].bound.value
    if kind == "enumeration":
        value = _number(certificate.get("value"))
        return (
            value if value is not None and enumeration.refutes(instance, row, most_replicas(instance), value) else None
        )
    if kind == "pigeonhole" and instance.split == "even" and instance.floor_rule == "per_expert" and instance.uniform:
        threshold, experts = _number(certificate.get("threshold")), certificate.get("experts")
        if threshold is None or not _are_experts(experts, instance):
            return None
        whole, denominator = _exact_weights(instance, row)
        scaled = threshold * denominator * Fraction(instance.speed[0])
        if pigeonhole.proves(whole, instance.num_gpus, instance.slots[0], scaled, experts):
            return threshold
    return None


def _number(value: Any) -> Fraction | None:
    """A number of a certificate, which may come from a file; ``None`` for what is none."""
    if isinstance(value, str) and not (len(value) <= 4000 and re.fullmatch(r"[0-9]+(/[0-9]+)?", value)):
        return None  # an exponent of a million in a file would keep us busy for minutes
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None


def _are_experts(value: Any, instance: PlacementInstance) -> TypeGuard[Sequence[int]]:
    """Whether a part of a certificate, which may come from a file, is a list of expert ids."""
    return isinstance(value, Sequence) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < instance.num_experts for item in value
    )


def most_replicas(instance: PlacementInstance) -> int:
    """Largest number of GPUs that can share one expert: every other expert needs a slot."""
    spare = instance.num_slots - instance.num_experts + 1
    usable = sum(count > 0 for count in instance.slots)
    return min(usable, spare) if instance.distinct else spare


def _means(instance: PlacementInstance) -> Sequence[Fraction]:
    """Total cost over total speed; with a floor per replica every replica beyond a_e/K adds to the total."""
    if instance.floor_rule == "per_expert" or not instance.floor:
        return instance.ideal
    speed = sum(map(Fraction, instance.speed))
    spare = instance.num_slots - instance.num_experts if instance.fill == "all" else 0
    whole, floor, denominator = instance.exact_loads
    return [Fraction(_least_total(row, floor, spare), denominator) / speed for row in whole.tolist()]


def _least_total(loads: list[int], floor: int, spare: int) -> int:
    """Least ``sum_e max(a_e, r_e K)`` over counts with `spare` replicas more than one each: convex in each r_e."""
    total = sum(max(load, floor) for load in loads)
    free = sum(max(load // floor, 1) - 1 for load in loads)  # replicas that stay above the floor cost nothing
    rest = spare - free
    if rest <= 0:
        return total
    partial = sorted(floor - load % floor for load in loads if load > floor and load % floor)
    total += sum(partial[:rest])
    return total + max(rest - len(partial), 0) * floor


def _exact_weights(instance: PlacementInstance, row: int) -> tuple[list[int], int]:
    whole, floor, denominator = instance.exact_loads
    return [max(int(a), floor) for a in whole[row].tolist()], denominator


def _alone(instance: PlacementInstance, row: int, expert: int) -> Fraction:
    """One expert on as many GPUs as can share it, the fastest ones."""
    whole, floor, denominator = instance.exact_loads
    load = int(whole[row, expert])
    speeds = sorted(
        (Fraction(s) for s, count in zip(instance.speed, instance.slots, strict=True) if count), reverse=True
    )
    speeds = speeds[: most_replicas(instance)]
    per_replica = instance.floor_rule == "per_replica"
    floor_cost = Fraction(floor if per_replica else 0, denominator) / speeds[0]  # per expert, replicas share the floor
    weight = Fraction(load if per_replica else max(load, floor), denominator)
    if instance.split == "free":
        return max(weight / sum(speeds), floor_cost)
    if not instance.distinct:  # several replicas on the fastest GPU: only the share of one piece is sure
        return max(weight / most_replicas(instance) / speeds[0], floor_cost)
    # r equal pieces on r different GPUs: the slowest of them decides, at best the r-th fastest
    return max(min(weight / (r * speed) for r, speed in enumerate(speeds, start=1)), floor_cost)


def _largest(instance: PlacementInstance, row: int) -> Fraction:
    """Smallest possible largest replica: below it more replicas are needed than there are slots."""
    whole, floor, denominator = instance.exact_loads
    per_replica = instance.floor_rule == "per_replica"
    loads = [int(a) if per_replica else max(int(a), floor) for a in whole[row].tolist()]
    most = most_replicas(instance)
    guess = instance.loads[row] if per_replica else instance.weights[row]
    counts = greedy_counts(guess[None, :].astype(np.float64), instance.num_slots, most)[0].tolist()
    top = max(map(Fraction, loads, counts))
    if top > 0:  # a largest piece below `top` needs at least floor(load / top) + 1 replicas of each expert
        needed = [load * top.denominator // top.numerator + 1 for load in loads]
        if sum(needed) <= instance.num_slots and max(needed) <= most:  # rounding misled the greedy counts
            top = _least_largest(loads, instance.num_slots, most)
    value = max(top, Fraction(floor)) if per_replica else top
    return value / denominator / Fraction(max(instance.speed))


def _least_largest(loads: list[int], num_slots: int, most: int) -> Fraction:
    """The greedy rule in fractions: the largest piece gets the next slot, until it may not have one more."""
    counts = [1] * len(loads)
    heap = [(-Fraction(load), expert) for expert, load in enumerate(loads)]
    heapq.heapify(heap)
    for _ in range(num_slots - len(loads)):
        expert = heap[0][1]
        if counts[expert] == most:
            break
        counts[expert] += 1
        heapq.heapreplace(heap, (-Fraction(loads[expert], counts[expert]), expert))
    return -heap[0][0]


def pieces(instance: PlacementInstance, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(L, E) cost of one replica under these counts, at speed 1."""
    if instance.floor_rule == "per_expert":
        return instance.weights / counts
    return np.maximum(instance.loads / counts, float(instance.floor))
