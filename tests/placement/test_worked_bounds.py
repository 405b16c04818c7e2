"""Closed bounds by their definitions, windows by hand, and where a certificate stops to prove anything."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds, deal_bounds, pigeonhole, window_bounds
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


# --- pigeonhole -------------------------------------------------------------------------------------------------------


def truth(weights: list[int], gpus: int, slots: int, threshold: Fraction, distinct: bool) -> bool:
    """Whether no plan stays at or below the threshold, by looking at all of them."""
    instance = PlacementInstance([weights], slots=[slots] * gpus, distinct=distinct)
    best = oracles.optimum(instance)
    return best is not None and best > threshold


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=4),
    st.integers(2, 3),
    st.integers(2, 3),
    st.booleans(),
    st.data(),
)
def test_what_the_pigeonhole_proves_is_true(
    weights: list[int], gpus: int, slots: int, distinct: bool, data: st.DataObject
) -> None:
    if len(weights) > gpus * slots or (distinct and slots > len(weights)):
        return
    top = Fraction(sum(weights))
    threshold = data.draw(st.fractions(top / gpus / 2, top, max_denominator=12))
    experts = data.draw(st.lists(st.integers(0, len(weights) - 1), unique=True))
    rounds = st.lists(st.lists(st.integers(0, len(weights) - 1), min_size=1, max_size=2, unique=True), max_size=2)
    lifts = data.draw(rounds) if distinct else []
    if pigeonhole.proves(weights, gpus, slots, threshold, experts, lifts):
        assert truth(weights, gpus, slots, threshold, distinct)


def test_pigeonhole_at_its_edges() -> None:
    weights = [10, 4, 4, 4, 4, 4]  # two GPUs of three slots: one of them has the 10 and two 4s, 18 together
    assert pigeonhole.proves(weights, 2, 3, Fraction(18) - Fraction(1, 10**9), [0])
    assert not pigeonhole.proves(weights, 2, 3, Fraction(18), [0])
    assert not pigeonhole.proves(weights, 2, 3, Fraction(0), [0])
    assert not pigeonhole.proves(weights, 2, 3, Fraction(17), [])
    for wrong in ([6], [-1]):
        assert not pigeonhole.proves(weights, 2, 3, Fraction(17), wrong)
    assert pigeonhole.proves([10, 10, 10], 2, 2, Fraction(9), [])  # six replicas for four slots, whatever the set
    assert not pigeonhole.proves([10, 10, 4], 2, 2, Fraction(10), [])
    # five experts of 6 on three GPUs of two slots: at 11 one of them alone may be on two GPUs, which costs 9 at least
    assert not pigeonhole.proves([6, 6, 6, 6, 6], 3, 2, Fraction(11), [0, 1], [[0], [9]])
    assert not pigeonhole.proves([6, 6, 6, 6, 6], 3, 2, Fraction(11), [0, 1], [[-1]])


def test_a_lift_needs_its_reason() -> None:
    """Two GPUs of two slots: below 24 the 18 cannot lie on one of them, as a 6 lies beside it, and two are too many."""
    weights, low = [18, 7, 6, 6], Fraction(24) - Fraction(1, 10**9)
    assert pigeonhole.proves(weights, 2, 2, low, [], [[0]])
    assert not pigeonhole.proves(weights, 2, 2, low, [])
    assert not pigeonhole.proves(weights, 2, 2, Fraction(24), [], [[0]])
    assert not pigeonhole.proves(weights, 2, 2, low, [], [[1]])  # beside a 7 there may be another
    assert not pigeonhole.proves(weights, 2, 2, low, [], [[0, 1]])
    assert pigeonhole.proves(weights, 2, 2, low, [], [[0, 0]])
    assert pigeonhole.proves(weights, 2, 2, low, [], [[0], [9]])  # enough was shown before
    assert pigeonhole.proves(weights, 2, 2, low, [], [[0]] * pigeonhole.MOST_LIFTS)
    assert not pigeonhole.proves(weights, 2, 2, low, [], [[0]] * (pigeonhole.MOST_LIFTS + 1))


@pytest.mark.parametrize("distinct", [True, False])
def test_pigeonhole_search_finds_what_can_be_proved(distinct: bool) -> None:
    found = 0
    for weights in combinations_with_replacement((1, 3, 4, 9), 4):
        best = oracles.optimum(PlacementInstance([list(weights)], slots=[3, 3], distinct=distinct))
        assert best is not None
        lower, upper = sum(weights) / 2 * 0.98, float(best) * 1.2
        answer = pigeonhole.search(np.array(weights, dtype=float), 2, 3, lower, upper, distinct)
        if answer is None:
            continue
        threshold, experts, lifts = answer
        assert lower < threshold < upper and (distinct or not lifts)
        if pigeonhole.proves(weights, 2, 3, Fraction(threshold), experts, lifts):  # floating point may be mistaken
            found += 1
            assert threshold < best
    assert found > 20
    assert pigeonhole.search(np.array([4.0, 4.0]), 2, 1, 4.0, 4.0) is None


# --- where certificates prove nothing ---------------------------------------------------------------------------------

PLAIN = {"slots": [3, 3]}
HEAVY = [[10, 4, 4, 4, 4, 4]]
NODES = {"slots": [1, 1], "nodes": [0, 1], "groups": 2}
LIFTED = {"kind": "pigeonhole", "threshold": 17.0, "experts": [0], "lifts": []}


@pytest.mark.parametrize(
    ("fields", "certificate", "good"),
    [
        (PLAIN, LIFTED, True),
        (PLAIN, {**LIFTED, "lifts": 3}, False),
        (PLAIN, {**LIFTED, "lifts": [3]}, False),
        (PLAIN, {**LIFTED, "lifts": [[7]]}, False),
        ({**PLAIN, "distinct": False}, {**LIFTED, "lifts": [[0]]}, False),
        (PLAIN, {**LIFTED, "threshold": "17"}, True),
        (PLAIN, {**LIFTED, "threshold": "35/2"}, True),
        (PLAIN, {**LIFTED, "threshold": "1e1"}, False),
        (PLAIN, {**LIFTED, "threshold": "1" * 4001}, False),
        (PLAIN, {**LIFTED, "threshold": "0" * 3998 + "17"}, True),
        (PLAIN, {**LIFTED, "threshold": "0" * 3999 + "17"}, False),
        (PLAIN, {"kind": "alone", "expert": True}, False),
        (PLAIN, {"kind": "alone", "expert": 5}, True),
        ({**PLAIN, "split": "free"}, {"kind": "alone", "expert": 0}, True),
        ({**PLAIN, "split": "random"}, {"kind": "largest"}, True),
        ({**PLAIN, "split": "random"}, LIFTED, True),
        ({**PLAIN, "split": "sglang-static"}, {"kind": "largest"}, False),
        ({**PLAIN, "split": "sglang-static"}, {"kind": "sources"}, True),
        ({**PLAIN, "split": "sglang-static"}, {"kind": "deals"}, False),
        (PLAIN, {"kind": "sources"}, False),
    ],
)
def test_a_certificate_holds_where_its_argument_does(
    fields: dict[str, Any], certificate: dict[str, Any], good: bool
) -> None:
    value = bounds.proved(PlacementInstance(HEAVY, **fields), 0, certificate)
    assert (value is not None) == good
    if value is not None and "threshold" in certificate:
        assert value == Fraction(certificate["threshold"])


def test_deals_of_groups_take_proofs_for_single_sets() -> None:
    instance = PlacementInstance([[5, 1, 1, 5]], slots=[1, 1, 1, 1], nodes=[0, 0, 1, 1], groups=2)
    assert bounds.cheap(instance)[0].value == bounds.check(instance, 0, {"kind": "deals"}) == 5
    uneven = PlacementInstance([[4, 4, 1, 1]], slots=[1, 1, 1, 1], nodes=[0, 0, 1, 1], groups=2)
    values = bounds.rank_deals(uneven, [0])[0].subset_values
    good = [[at, {"kind": "mean"}] for at in range(len(values))]

    def proved(proofs: object) -> Fraction | None:
        return deal_bounds.proved(uneven, values, 0, proofs, bounds.proved)

    assert proved([]) == proved(good) == proved(good[:1]) == 4
    wrong: list[object] = [None, "x", 3, [3], [[0]], [[0, {}, 1]], [[True, {}]], [["0", {}]], [[-1, {"kind": "mean"}]]]
    wrong += [[[len(values), {"kind": "mean"}]], [[0, "mean"]], [[0, {"kind": "guess"}]]]
    assert [proved(one) for one in wrong] == [None] * len(wrong)
    raised = deal_bounds.tightened(uneven, values, 0, 9.0, lambda node, value, at: (value + 1, {"kind": "x"}))
    assert raised[0] > 4 and all(proof == {"kind": "x"} for _, proof in raised[1])
    assert [at for at, _ in raised[1]] == sorted(at for at, _ in raised[1])
    assert deal_bounds.tightened(uneven, values, 0, 4.0, lambda *_: (Fraction(9), {}))[0] == 4  # it is enough
    assert deal_bounds.tightened(uneven, values, 0, 9.0, lambda *_: None) == (Fraction(4), [])
    assert deal_bounds.tightened(uneven, values, 0, 9.0, lambda node, value, at: (value, {})) == (Fraction(4), [])


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


# --- windows ----------------------------------------------------------------------------------------------------------

WINDOWS = [[[6, 2, 2, 2]], [[2, 2, 2, 6]], [[0, 0, 0, 0]]]


def windowed(**fields: Any) -> PlacementInstance:
    return PlacementInstance(WINDOWS, **{"gpus": 4, "slots": 4, "combine": "worst", **fields})


THIRDS = ["1/3"] * 3
ENVELOPE = {"kind": "envelope"}
BLEND = {"kind": "blend", "weights": THIRDS, "blended": {"kind": "largest"}}
EACH = {"kind": "windows", "windows": [{"kind": "largest"}] * 3}


@pytest.mark.parametrize(
    ("fields", "certificate", "value"),
    [
        ({}, EACH, Fraction(2)),
        ({"combine": "mean"}, EACH, Fraction(5, 3)),  # the idle window counts as 1
        ({"combine": "cvar", "alpha": 0.5}, EACH, Fraction(2)),
        ({}, {**EACH, "windows": [{"kind": "mean"}, {"kind": "largest"}, {"kind": "mean"}]}, Fraction(2)),
        ({}, {**EACH, "windows": [{"kind": "largest"}] * 2}, None),
        ({}, {**EACH, "windows": [{"kind": "largest"}, {"kind": "largest"}, "x"]}, None),
        ({}, {**EACH, "windows": "xyz"}, None),
        ({}, {**EACH, "windows": [{"kind": "guess"}] * 3}, None),
        ({}, ENVELOPE, Fraction(2)),
        ({"combine": "mean"}, ENVELOPE, None),
        ({"split": "free"}, ENVELOPE, None),
        ({}, BLEND, Fraction(8, 9)),  # a third of 6/3 and of 2/3, and nothing of the idle one
        ({"combine": "mean"}, BLEND, Fraction(8, 9)),
        ({}, {**BLEND, "weights": ["1", "0", "0"]}, Fraction(2)),
        ({}, {**BLEND, "weights": ["2", "-1", "0"]}, None),
        ({"combine": "mean"}, {**BLEND, "weights": ["1", "0", "0"]}, None),
        ({"combine": "cvar", "alpha": 0.5}, {**BLEND, "weights": ["2/3", "1/3", "0"]}, Fraction(14, 9)),
        ({"combine": "cvar", "alpha": 0.5}, {**BLEND, "weights": ["3/4", "1/4", "0"]}, None),
        ({}, {**BLEND, "weights": ["1/2", "1/4", "0"]}, None),
        ({}, {**BLEND, "weights": [1, 1, -1]}, None),
        ({}, {**BLEND, "weights": ["1/2", "1/2"]}, None),
        ({}, {**BLEND, "weights": "111"}, None),
        ({}, {**BLEND, "blended": 3}, None),
        ({}, {**BLEND, "blended": {"kind": "guess"}}, None),
        ({"split": "sglang-static"}, BLEND, None),
        ({}, {"kind": "largest"}, None),
    ],
)
def test_windows_by_hand(fields: dict[str, Any], certificate: dict[str, Any], value: Fraction | None) -> None:
    found = bounds.proved(windowed(**fields), 0, certificate)
    if value is None or certificate["kind"] == "windows":
        assert found == value
    else:
        assert found is not None and value * (1 - Fraction(1, 10**10)) <= found <= value


@pytest.mark.parametrize("floor_rule", ["per_expert", "per_replica"])
def test_a_blend_has_the_loads_and_floors_of_its_windows(floor_rule: str) -> None:
    instance = windowed(slots=8, floor_tokens=1, floor_rule=floor_rule, steps=[1, 2, 1])
    blended = window_bounds.blend(instance, 0, (Fraction(1, 4), Fraction(3, 4), Fraction(0)))
    grain = window_bounds.grain(instance)
    ideals = [window.ideal[0] for window in instance.windows]
    for expert, load in enumerate(blended.loads[0].tolist()):
        wanted = sum(
            weight * (max(loads[0][expert], steps) if floor_rule == "per_expert" else loads[0][expert]) / ideal
            for weight, loads, steps, ideal in zip(
                (Fraction(1, 4), Fraction(3, 4)), WINDOWS[:2], (1, 2), ideals[:2], strict=True
            )
        )
        assert 0 <= wanted - load * grain <= 2 * grain
    floor = (Fraction(1, 4) / ideals[0] + Fraction(3, 4) * 2 / ideals[1]) * (floor_rule == "per_replica")
    assert 0 <= floor - Fraction(blended.floor_tokens) * grain <= 2 * grain


def test_without_time_windows_keep_their_own_bounds() -> None:
    """The envelope says more here, and takes time that there is not."""
    instance = PlacementInstance([[[6, 1, 1]], [[1, 1, 6]]], slots=[2, 2], combine="worst")
    (late,) = bounds.cheap(instance, Deadline(0.0))
    (found,) = bounds.cheap(instance)
    assert late.kind == "windows" and found.value >= late.value
    assert (found.kind, found.value > late.value) == ("envelope", True)


def test_tightened_windows_are_never_worse_and_hold() -> None:
    instance = PlacementInstance([[[10, 4, 4, 4, 4, 4]], [[4, 4, 4, 4, 4, 10]]], slots=[3, 3])
    (cheap,) = bounds.cheap(instance)
    best = Fraction(18, 15)
    for gap in (0.0, 1e-3):
        tight = bounds.tighten(instance, cheap, 0, float(best), gap)
        assert cheap.value < tight.value <= best and bounds.check(instance, 0, tight.certificate) == tight.value
    assert bounds.tighten(instance, cheap, 0, float(cheap.value)) is cheap
    assert bounds.tighten(instance, cheap, 0, 0.0) is cheap


def test_tightened_windows_under_a_rule_of_whole_sources_hold() -> None:
    loads = [[[10, 4, 4, 4, 4, 4]], [[4, 4, 4, 4, 4, 10]]]
    instance = PlacementInstance(loads, slots=[3, 3], split="sglang-static")
    (cheap,) = bounds.cheap(instance)
    tight = bounds.tighten(instance, cheap, 0, float(cheap.value) * 2)
    assert bounds.check(instance, 0, tight.certificate) == tight.value >= cheap.value


@pytest.mark.parametrize(("floor", "slots"), list(product((2, 3), ([2, 2], [2, 1], [3, 3]))))
def test_the_mean_counts_what_replicas_below_their_floor_add(floor: int, slots: list[int]) -> None:
    for loads in product((0, 1, 2, 3, 5, 7), repeat=2):
        fields: dict[str, Any] = {"slots": slots, "floor_tokens": floor, "floor_rule": "per_replica", "distinct": False}
        instance = PlacementInstance([list(loads)], **fields)
        assert bounds.check(instance, 0, {"kind": "mean"}) == mean(instance, 0)
