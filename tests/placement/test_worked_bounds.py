"""Closed bounds by their definitions, and what constant loads, few slots and floors add to them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds
from moeopt.placement.simple_bounds import most_replicas
from tests import oracles, strategies

Fractions = list[Fraction]


def given_loads(instance: PlacementInstance, row: int) -> tuple[Fractions, Fraction]:
    return [Fraction(load) for load in instance.loads[row].tolist()], Fraction(instance.floor_tokens) * instance.steps


def counts(instance: PlacementInstance) -> list[tuple[int, ...]]:
    """Every way to give each expert a replica or more."""
    most = most_replicas(instance)
    every = product(range(1, most + 1), repeat=instance.num_experts)
    return [row for row in every if sum(row) <= instance.num_slots]


def mean(instance: PlacementInstance, row: int) -> Fraction:
    """The least total over all counts, over the total speed."""
    loads, floor = given_loads(instance, row)
    speed = sum(map(Fraction, instance.speed))
    if instance.floor_rule == "per_expert":
        return sum(max(load, floor) for load in loads) / speed
    spare = instance.num_slots - instance.num_experts if instance.fill == "all" else 0
    extra = [Fraction(0), *[Fraction(10) ** 400] * spare]
    for load in loads:  # of so many more replicas, the least they cost together
        costs = [max(load, (more + 1) * floor) for more in range(spare + 1)]
        extra = [min(extra[used - more] + costs[more] for more in range(used + 1)) for used in range(spare + 1)]
    return extra[spare] / speed


def alone(instance: PlacementInstance, row: int, expert: int) -> Fraction:
    """The best case of one expert: over how many replicas, and over which GPUs, the fastest first."""
    loads, floor = given_loads(instance, row)
    load, per_replica = loads[expert], instance.floor_rule == "per_replica"
    paces = sorted((Fraction(p) for p, c in zip(instance.speed, instance.slots, strict=True) if c), reverse=True)
    most = most_replicas(instance)
    if instance.split == "free":
        return max((load if per_replica else max(load, floor)) / sum(paces[:most]), floor * per_replica / paces[0])
    options = []
    for times in range(1, most + 1):
        piece = max(load / times, floor) if per_replica else max(load, floor) / times
        options.append(piece / (paces[times - 1] if instance.distinct else paces[0]))
    return min(options)


def largest(instance: PlacementInstance, row: int) -> Fraction:
    loads, floor = given_loads(instance, row)
    per_replica = instance.floor_rule == "per_replica"
    rows = counts(instance)
    tops = [
        max(max(a / r, floor) if per_replica else max(a, floor) / r for a, r in zip(loads, each, strict=True))
        for each in rows
    ]
    return min(tops) / Fraction(max(instance.speed))


@settings(max_examples=40)
@given(strategies.tiny(rules=False, groups=None))
def test_closed_bounds_are_what_they_are_defined_to_be(instance: PlacementInstance) -> None:
    assert bounds.check(instance, 0, {"kind": "mean"}) == mean(instance, 0)
    found = [mean(instance, 0)]
    for expert in range(instance.num_experts):
        value = alone(instance, 0, expert)
        assert bounds.check(instance, 0, {"kind": "alone", "expert": expert}) == value
    if instance.split == "even":
        assert bounds.check(instance, 0, {"kind": "largest"}) == largest(instance, 0)
        found.append(largest(instance, 0))
    else:
        heaviest = int(np.argmax(instance.weights[0]))
        found.append(alone(instance, 0, heaviest))
    (cheap,) = bounds.cheap(instance)
    assert cheap.value == bounds.check(instance, 0, cheap.certificate)
    assert cheap.value <= max(found) and cheap.value >= max(found) * (1 - Fraction(1, 10**11))


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"slots": [2, 2, 0], "distinct": True}, 2),
        ({"slots": [2, 2, 0], "distinct": False}, 3),
        ({"slots": [1, 1, 1], "distinct": True}, 2),
        ({"slots": [1, 1], "distinct": True}, 1),
        ({"slots": [2, 2, 2, 2]}, 4),
    ],
)
def test_how_many_gpus_may_share_an_expert(fields: dict[str, Any], most: int) -> None:
    assert most_replicas(PlacementInstance([[3, 1]], **fields)) == most


PLAIN = {"slots": [3, 3]}


HEAVY = [[10, 4, 4, 4, 4, 4]]


@pytest.mark.parametrize("shared", ["replicated", "fused"])
def test_a_constant_load_lifts_every_bound_by_what_it_adds(shared: str) -> None:
    rows, shape = [[8, 1, 1, 2]], {"slots": [3, 3, 0], "speed": [1, 2, 1], "top_k": 2}
    instance = PlacementInstance(rows, **shape, shared=shared, num_shared=1)
    bare, base = instance.bare, instance.exact_base
    assert base is not None and base[0] > 0 and bare.exact_base is None
    largest = bounds.check(bare, 0, {"kind": "largest"})
    assert bounds.check(instance, 0, {"kind": "largest"}) == largest + base[0] / 2  # the fastest one at least has it
    average = bounds.check(bare, 0, {"kind": "mean"})
    assert bounds.check(instance, 0, {"kind": "mean"}) == max(average + base[0] / 2, average + base[0] * 2 / 4)
    claim = bounds.LayerBound("solver", Fraction(3), {"kind": "solver", "value": 3.0, "by": "x"})
    lifted = bounds.lifted(instance, 0, claim)
    assert lifted.value == 3 + base[0] / 2 and lifted.certificate["value"] == float(lifted.value)
    assert lifted.kind == "solver" and lifted.certificate["by"] == "x"
    assert bounds.cheap(instance)[0].value == max(largest, average) + base[0] / 2


def test_under_a_rule_of_whole_sources_deals_hold_without_proofs() -> None:
    fields: dict[str, Any] = {"slots": [1, 1, 1, 1], "nodes": [0, 0, 1, 1], "groups": 2, "split": "sglang-static"}
    instance = PlacementInstance([[5, 1, 1, 5]], **fields)
    even = bounds.check(instance.even, 0, {"kind": "deals"})
    assert (
        bounds.check(instance, 0, {"kind": "deals"})
        == bounds.check(instance, 0, {"kind": "deals", "nodes": [3]})
        == even
    )
    (cheap,) = bounds.cheap(instance)
    assert cheap.value == max(even, bounds.check(instance, 0, {"kind": "sources"}))
    assert bounds.tighten(instance, cheap, 0, float(cheap.value) * 2) is cheap
    assert bounds.priced(instance, cheap, 0, float(cheap.value) * 2, 0.0, Deadline(None)) is cheap


@pytest.mark.parametrize("split", ["even", "random"])
@pytest.mark.parametrize(
    ("loads", "gpus"), [([12, 12, 9, 2], 2), ([11, 10, 2, 2], 3), ([9, 9, 6, 1], 2), ([8, 7, 1, 1], 3)]
)
def test_few_slots_have_bounds_of_their_own(loads: list[int], gpus: int, split: str) -> None:
    """Two slots a GPU, where crowds and partners prove more than pigeonholes do, and prices the most."""
    instance = PlacementInstance([loads], slots=[2] * gpus, split=split)
    (cheap,) = bounds.cheap(instance)
    best = oracles.optimum(instance.even)
    assert best is not None and cheap.value < best
    tight = bounds.tighten(instance, cheap, 0, float(best))
    found = bounds.priced(instance, cheap, 0, float(best), 0.0, Deadline(None))
    for bound in (tight, found):
        assert bound.kind == "configuration" and cheap.value < bound.value <= best
        assert bounds.check(instance, 0, bound.certificate) == bound.value
    assert bounds.priced(instance, found, 0, float(found.value), 0.0, Deadline(None)) is found
    high = bounds.LayerBound("mean", best, {"kind": "mean"})
    for tool in (bounds.tighten, lambda *words: bounds.priced(*words, 0.0, Deadline(None))):
        assert tool(instance, high, 0, float(best) * 1.5) is high  # what is known is never given up for less


def test_bounds_beside_a_constant_load_are_raised_as_one() -> None:
    shape: dict[str, Any] = {"slots": [2, 2], "top_k": 2, "shared": "replicated"}
    instance = PlacementInstance([[12, 12, 9, 2]], **shape)
    base = (instance.exact_base or (Fraction(0),))[0]
    (cheap,), best = bounds.cheap(instance), 21 + base
    assert cheap.value == Fraction(35, 2) + base
    for bound in (
        bounds.tighten(instance, cheap, 0, float(best)),
        bounds.priced(instance, cheap, 0, float(best), 0.0, Deadline(None)),
    ):
        assert Fraction(41, 2) + base < bound.value <= best
        assert bounds.check(instance, 0, bound.certificate) == bound.value
    assert bounds.tighten(instance, cheap, 0, float(cheap.value)) is cheap


def test_what_is_alone_in_a_plan_is_bounded_by_the_heaviest() -> None:
    """Free shares: a heavy expert on the GPUs there are for it; a floor for each replica counts once."""
    for rule, value in (("per_expert", Fraction(9)), ("per_replica", Fraction(9))):
        one = PlacementInstance([[9, 1, 1]], slots=[1] * 3, split="free", floor_rule=rule, floor_tokens=0.5)
        (found,) = bounds.cheap(one)
        assert (found.kind, found.value, found.certificate.get("expert")) == ("alone", value, 0)
    even = PlacementInstance([[9, 1, 1]], slots=[1] * 3)
    assert [(one.kind, one.value) for one in bounds.cheap(even)] == [("largest", 9)]
    flat = PlacementInstance([[1, 1, 1], [3, 1, 2]], slots=[1] * 3)
    assert [one.kind for one in bounds.cheap(flat)] == ["mean", "largest"]  # the mean where they are equal


def test_tighten_leaves_alone_what_is_closed_or_was_tried() -> None:
    instance = PlacementInstance(HEAVY, **PLAIN)
    cheap = bounds.cheap(instance)[0]
    assert bounds.tighten(instance, cheap, 0, float(cheap.value)) is cheap
    assert bounds.tighten(instance, cheap, 0, float(cheap.value) / 0.9, gap=0.2) is cheap
    once = bounds.tighten(instance, cheap, 0, 18.0, gap=1e-12)
    assert once.value > cheap.value and once.tried == 1e-12
    assert bounds.tighten(instance, once, 0, 18.0, gap=1e-12) is once
    assert bounds.tighten(instance, cheap, 0, 18.0).tried == 0.0


@pytest.mark.parametrize(("floor", "slots"), list(product((2, 3), ([2, 2], [2, 1], [3, 3]))))
def test_the_mean_counts_what_replicas_below_their_floor_add(floor: int, slots: list[int]) -> None:
    for loads in product((0, 1, 2, 3, 5, 7), repeat=2):
        fields: dict[str, Any] = {"slots": slots, "floor_tokens": floor, "floor_rule": "per_replica", "distinct": False}
        instance = PlacementInstance([list(loads)], **fields)
        assert bounds.check(instance, 0, {"kind": "mean"}) == mean(instance, 0)
