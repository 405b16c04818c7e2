"""Lower bounds on ``max_g C_g`` of one layer, each with where it holds and a certificate that is re-checked exactly.

| kind | holds for | certificate |
|---|---|---|
| ``mean`` | every split, floor rule, speed and fill | none needed |
| ``alone`` | even and free split, every floor rule, speed and fill | the expert |
| ``largest`` | even split, every speed (divided by the fastest) | none needed |
| ``pigeonhole`` | even split, floor per expert, equal GPUs; lifts: ``distinct`` | threshold, experts, lifts |
| ``configuration`` | even split, every floor rule, slots, speed and fill | threshold, sizes and prices of pieces |
| ``enumeration`` | even split, equal GPUs, all slots filled, no groups, no pins, small | the value |
| ``deals`` | groups on nodes that are alike, deals that can be listed | none needed |
| ``sources`` | dispatch rules of whole sources, every floor rule, speed and fill | none needed |

Under ``random`` everything is as under the even split; under a rule of whole sources only ``mean``, ``deals`` and
``sources`` are used.

Crowd and partner bounds are ``configuration`` certificates of one or two prices, searched for at most four equal slots,
equal speeds and a floor per expert. Proofs are in ``models/placement.md``. A bound of a flat placement holds for a
hierarchical one too, which has fewer plans; so do all of them under pins, least
replicas or nodes to survive. Floating point only chooses what to certify; `check` recomputes every value in whole
numbers and fractions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from moeopt.limits import Deadline
from moeopt.placement import configuration, deal_bounds, deals, engine_rule, enumeration, partner, pigeonhole
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.simple_bounds import alone, exact_weights, largest, means
from moeopt.placement.simple_bounds import most_replicas as most_replicas


@dataclass(frozen=True)
class LayerBound:
    """A floor under ``max_g C_g`` of one layer: its kind, exact value in tokens, and certificate."""

    kind: str
    value: Fraction
    certificate: Mapping[str, Any]
    tried: float = field(default=0.0, compare=False)
    """Gap down to which `tighten` has tried all it knows, 0 before it has."""


def cheap(instance: PlacementInstance, deadline: Deadline | None = None) -> list[LayerBound]:
    """Best of mean, one expert alone and largest replica, for each layer; milliseconds for a whole LLM.

    Where groups are kept on nodes: the least over all deals of groups to nodes of the node that is worst off. With
    several windows some bounds are dearer, and left out once `deadline` has passed.

    >>> [bound.kind for bound in cheap(PlacementInstance([[5, 5, 5, 5], [9, 1, 1, 1]], gpus=4, slots=4))]
    ['mean', 'largest']
    """
    instance = instance.left
    if instance.windows:
        from moeopt.placement import window_bounds

        return window_bounds.cheap(instance, deadline)
    if instance.exact_base is not None:
        return [lifted(instance, row, bound) for row, bound in enumerate(cheap(instance.bare))]
    if instance.engine_split:
        return _cheap_for_engine(instance)
    if deals.enumerable(instance):
        return [ranked.bound for ranked in rank_deals(instance, list(range(instance.num_layers)))]
    weights = instance.weights
    exact_means = means(instance)
    average = np.array([float(value) for value in exact_means])
    fastest = max(instance.speed)
    if instance.split == "even":
        single = pieces(instance, instance.greedy_counts).max(axis=1) / fastest
    else:
        heaviest = weights.argmax(axis=1)
        single = np.array([float(alone(instance, row, int(expert))) for row, expert in enumerate(heaviest)])
    bounds = []
    for row in range(instance.num_layers):
        mean = LayerBound("mean", exact_means[row], {"kind": "mean"})
        if single[row] <= average[row] * (1 - 1e-12):
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
    even = instance.even
    if not engine_rule.fixed(instance):
        return cheap(even)
    rows = list(range(instance.num_layers))
    if deals.enumerable(instance):
        found = [ranked.bound for ranked in rank_deals(even, rows)]
    else:
        found = [LayerBound("mean", value, {"kind": "mean"}) for value in means(instance)]
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
    """Try the quick bounds of few slots where they hold and the layer's gap is above `gap`; never worse than `bound`.

    Where groups are kept on nodes: for a flat placement, and for the nodes that decide the best deal.
    """
    instance = instance.left
    if not _is_open(bound, objective, gap) or 0 < bound.tried <= gap:
        return bound
    found = _tightened(instance, bound, row, objective, gap)
    return replace(found, tried=gap) if gap > 0 else found


def _tightened(instance: PlacementInstance, bound: LayerBound, row: int, objective: float, gap: float) -> LayerBound:
    if instance.windows:
        from moeopt.placement import window_bounds

        return window_bounds.tighten(instance, bound, row, objective, gap)
    if instance.engine_split:
        even = instance.even
        return bound if engine_rule.fixed(instance) else tighten(even, bound, row, objective, gap)
    if instance.exact_base is not None:
        return _lifting(instance, bound, row, objective, lambda bare, known, top: tighten(bare, known, row, top, gap))
    bound = _online(instance, bound, row, objective, gap)
    if not _is_open(bound, objective, gap) or not deals.enumerable(instance):
        return bound
    return _dealt(
        instance, bound, row, objective, gap, lambda node, known, at: _online(node, known, at, objective, gap)
    )


def priced(
    instance: PlacementInstance, bound: LayerBound, row: int, objective: float, gap: float, deadline: Deadline
) -> LayerBound:
    """Search the configuration bound of a layer while its gap is above `gap`; a second a layer, never worse.

    Where groups are kept on nodes: for the nodes that decide the best deal.
    """

    def search(flat: PlacementInstance, known: LayerBound, at: int) -> LayerBound:
        found = configuration.certificate(flat, at, float(known.value), objective, gap, deadline)
        return known if found is None else _better(flat, known, at, found)

    instance = instance.left
    if instance.windows or engine_rule.fixed(instance) or not _is_open(bound, objective, gap):
        return bound
    if instance.engine_split:
        return priced(instance.even, bound, row, objective, gap, deadline)
    if instance.exact_base is not None:
        return _lifting(
            instance, bound, row, objective, lambda bare, known, top: priced(bare, known, row, top, gap, deadline)
        )
    if deals.enumerable(instance):
        return _dealt(instance, bound, row, objective, gap, search)
    return search(instance, bound, row)


def _lifting(
    instance: PlacementInstance,
    bound: LayerBound,
    row: int,
    objective: float,
    tool: Callable[[PlacementInstance, LayerBound, float], LayerBound],
) -> LayerBound:
    """A bound of the instance without its constant loads, raised by what they add."""
    assert instance.exact_base is not None
    lift = instance.exact_base[row] / Fraction(max(instance.speed))
    lower = LayerBound(bound.kind, bound.value - lift, bound.certificate)
    better = tool(instance.bare, lower, objective - float(lift))
    return bound if better.value <= lower.value else lifted(instance, row, better)


def _is_open(bound: LayerBound, objective: float, gap: float) -> bool:
    return objective > 0 and (objective - float(bound.value)) > gap * objective


def _better(instance: PlacementInstance, bound: LayerBound, row: int, certificate: Mapping[str, Any]) -> LayerBound:
    """The bound that a certificate proves, if it is higher."""
    value = _proved(instance, row, certificate)
    return bound if value is None or value <= bound.value else LayerBound(certificate["kind"], value, certificate)


def _dealt(
    instance: PlacementInstance,
    bound: LayerBound,
    row: int,
    objective: float,
    gap: float,
    tool: Callable[[PlacementInstance, LayerBound, int], LayerBound],
) -> LayerBound:
    """Sharper bounds, by `tool`, for the nodes that decide the best deal of groups."""

    def sharper(node: PlacementInstance, value: Fraction, at: int) -> tuple[Fraction, Mapping[str, Any]]:
        found = tool(node, LayerBound("deals", value, {}), at)
        return found.value, found.certificate

    (ranked,) = rank_deals(instance, [row])
    value, proofs = deal_bounds.tightened(instance, ranked.subset_values, row, objective * (1 - gap), sharper)
    if value <= bound.value:
        return bound
    return LayerBound("deals", value, {"kind": "deals", "nodes": proofs} if proofs else {"kind": "deals"})


def _online(instance: PlacementInstance, bound: LayerBound, row: int, objective: float, gap: float) -> LayerBound:
    """Crowd, partner and pigeonhole bounds of a flat placement, where they hold: milliseconds."""
    if instance.split != "even" or instance.floor_rule != "per_expert" or not instance.uniform:
        return bound
    speed, slots, weights = instance.speed[0], instance.slots[0], instance.weights[row]
    if slots <= partner.MOST_SLOTS and configuration.holds(instance):
        found = partner.search(weights, instance.num_gpus, slots, float(bound.value) * speed, objective * speed)
        if found is not None:
            proof = {"threshold": found[0] / speed, "sizes": found[1], "prices": found[2]}
            bound = _better(instance, bound, row, {"kind": configuration.KIND, **proof})
    if not _is_open(bound, objective, gap):
        return bound
    lower, distinct = float(bound.value) * speed, instance.distinct
    refuted = pigeonhole.search(weights, instance.num_gpus, slots, lower, objective * speed, distinct)
    if refuted is None:
        return bound
    certificate: dict[str, Any] = {"kind": "pigeonhole", "threshold": refuted[0] / speed, "experts": refuted[1]}
    if refuted[2]:
        certificate["lifts"] = refuted[2]
    return _better(instance, bound, row, certificate)


def check(instance: PlacementInstance, row: int, certificate: Mapping[str, Any]) -> Fraction:
    """Recompute a bound from its certificate, exactly.

    Raises
    ------
    ValueError
        The certificate proves nothing here, with the reason.
    """
    value = proved(instance, row, certificate)
    if value is None:
        raise ValueError(f"layer {instance.layers[row]}: the {certificate.get('kind')} certificate proves nothing")
    return value


def lifted(instance: PlacementInstance, row: int, bare: LayerBound) -> LayerBound:
    """A bound without the constant loads, raised by what they add; a solver's claim stays a claim."""
    if bare.kind == "solver":
        assert instance.exact_base is not None
        claim = bare.value + instance.exact_base[row] / Fraction(max(instance.speed))
        return LayerBound(bare.kind, claim, {**bare.certificate, "value": float(claim)})
    value = proved(instance, row, bare.certificate)
    assert value is not None  # its certificate has just been found
    return LayerBound(bare.kind, value, bare.certificate)


def proved(instance: PlacementInstance, row: int, certificate: Mapping[str, Any]) -> Fraction | None:
    """The bound that a certificate proves, exactly; ``None`` when it proves nothing here."""
    if instance.windows:
        from moeopt.placement import window_bounds

        return window_bounds.check(instance, row, certificate)
    if instance.exact_base is None:
        return _proved(instance, row, certificate)
    bare, base = proved(instance.bare, row, certificate), instance.exact_base[row]
    if bare is None:
        return None
    value = bare + base / Fraction(max(instance.speed))  # the busiest GPU carries its share of the constant load
    if certificate.get("kind") == "mean":
        carriers = sum(count > 0 for count in instance.slots)
        value = max(value, bare + base * carriers / sum(map(Fraction, instance.speed)))
    return value


def _proved(instance: PlacementInstance, row: int, certificate: Mapping[str, Any]) -> Fraction | None:
    instance = instance.left
    kind = certificate.get("kind")
    if instance.split == "random":
        return _proved(instance.even, row, certificate)
    if kind == "mean":
        return means(instance)[row]
    if engine_rule.fixed(instance):
        if kind == "sources":
            return engine_rule.whole_source_bound(instance, row, most_replicas(instance))
        even = instance.even  # of the deals' bounds those without certificates hold
        return _proved(even, row, {"kind": "deals"}) if kind == "deals" else None
    if kind == "alone":
        expert: Any = certificate.get("expert")
        return alone(instance, row, expert) if _are_experts([expert], instance) else None
    if kind == "largest" and instance.split == "even":
        return largest(instance, row)
    if kind == "deals" and deals.enumerable(instance):
        (ranked,) = rank_deals(instance, [row])
        return deal_bounds.proved(instance, ranked.subset_values, row, certificate.get("nodes", []), _proved)
    if kind == "enumeration":
        value = _number(certificate.get("value"))
        return (
            value if value is not None and enumeration.refutes(instance, row, most_replicas(instance), value) else None
        )
    if kind == configuration.KIND:
        value = _number(certificate.get("threshold"))
        return value if value is not None and configuration.proves(instance, row, value, certificate) else None
    if kind == "pigeonhole" and instance.split == "even" and instance.floor_rule == "per_expert" and instance.uniform:
        threshold, experts = _number(certificate.get("threshold")), certificate.get("experts")
        if threshold is None or not _are_experts(experts, instance):
            return None
        whole, denominator = exact_weights(instance, row)
        scaled = threshold * denominator * Fraction(instance.speed[0])
        lifts = certificate.get("lifts", [])
        if not isinstance(lifts, Sequence) or not all(_are_experts(lifted, instance) for lifted in lifts):
            return None
        if lifts and not instance.distinct:
            return None
        if pigeonhole.proves(whole, instance.num_gpus, instance.slots[0], scaled, experts, lifts):
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


def pieces(instance: PlacementInstance, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(L, E) cost of one replica under these counts, at speed 1."""
    if instance.floor_rule == "per_expert":
        return instance.weights / counts
    return np.maximum(instance.loads / counts, float(instance.floor))
