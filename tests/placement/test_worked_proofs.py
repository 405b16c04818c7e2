"""Proofs of bounds held to the arguments of ``models/placement.md``, and each bound to where its argument ends."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import pytest

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds, deal_bounds, deals, pigeonhole, simple_bounds
from tests import oracles

# --- pigeonhole -------------------------------------------------------------------------------------------------------


def lightest(weights: list[int], need: list[int], chosen: set[int], number: int) -> Fraction:
    """The lightest pieces of experts outside a set, at the counts they need."""
    pieces = [Fraction(weights[e], need[e]) for e in range(len(weights)) if e not in chosen for _ in range(need[e])]
    return sum(sorted(pieces)[: max(number, 0)], Fraction(0))


def refuted(weights: list[int], gpus: int, slots: int, top: Fraction, chosen: set[int], lifts: list[list[int]]) -> bool:
    """The argument of the page, over every number of replicas of the set and every number of GPUs they may lie on."""
    need = [max(-int(-weight // top), 1) for weight in weights]
    for lifted in lifts:
        spare = gpus * slots - sum(need)
        if spare < 0:
            return True
        for e in lifted:
            if weights[e] + lightest(weights, need, {e}, need[e] * (slots - 1) - spare) <= need[e] * top:
                return False
        need = [count + (e in lifted) for e, count in enumerate(need)]
    spare = gpus * slots - sum(need)
    if spare < 0:
        return True
    if not chosen:
        return False
    heavy, least = sum(weights[e] for e in chosen), sum(need[e] for e in chosen)
    for q in range(least, least + spare + 1):
        for u in range(1, min(q, gpus) + 1):
            unspent = spare - (q - least)
            if u * slots >= q and heavy + lightest(weights, need, chosen, u * slots - q - unspent) <= u * top:
                return False
    return True


@pytest.mark.parametrize(("gpus", "slots", "experts"), [(2, 3, 5), (2, 3, 6), (3, 2, 5), (2, 2, 4)])
def test_the_pigeonhole_proves_what_its_argument_does(gpus: int, slots: int, experts: int) -> None:
    seen, last = {True: 0, False: 0}, experts - 1
    for weights in map(list, combinations_with_replacement((1, 3, 10), experts)):
        sets = [set(some) for size in range(3) for some in combinations(range(experts), size)]
        for top in (Fraction(sum(weights) * part, 16 * gpus) for part in (10, 13, 16, 17, 19)):
            for chosen, lifts in product(sets, ([], [[last]], [[last, last - 1], [last]])):
                wanted = refuted(weights, gpus, slots, top, chosen, lifts)
                assert pigeonhole.proves(weights, gpus, slots, top, sorted(chosen), lifts) is wanted
                seen[wanted] += 1
    assert min(seen.values()) > 50


@pytest.mark.parametrize(("gpus", "slots", "distinct"), [(2, 3, True), (2, 3, False), (3, 2, True)])
def test_nothing_is_proved_at_the_optimum(gpus: int, slots: int, distinct: bool) -> None:
    rounds: list[list[list[int]]] = [[], [[3]], [[3], [3]], [[3], [2]], [[3, 2]], [[0]]]
    for weights in map(list, combinations_with_replacement((1, 4, 9), 4)):
        best = oracles.optimum(PlacementInstance([weights], slots=[slots] * gpus, distinct=distinct))
        assert best is not None
        sets = [list(some) for size in range(5) for some in combinations(range(4), size)]
        for chosen, lifts in product(sets, rounds if distinct else [[]]):
            assert not pigeonhole.proves(weights, gpus, slots, best, chosen, lifts)


def test_a_lift_of_no_expert_proves_nothing() -> None:
    weights, low = [18, 7, 6, 6], Fraction(24) - Fraction(1, 10**9)
    assert pigeonhole.proves(weights, 2, 2, low, [], [[0]])
    assert pigeonhole._need_more(weights, [1] * 4, 2, 0, Fraction(24), [0]) is False
    assert pigeonhole._need_more(weights, [1] * 4, 2, 0, low, [4]) is False
    for nobody in (-4, 4, 9):  # the first would be the 18, counted from the end
        assert not pigeonhole.proves(weights, 2, 2, low, [], [[nobody]])


def test_many_light_experts_need_more_than_one_gpu() -> None:
    """Four experts of 1 do not fit into three slots, and beside them on two GPUs lies all the rest, 10 together."""
    assert pigeonhole.proves([1, 1, 1, 1, 3, 3], 2, 3, Fraction(49, 10), [0, 1, 2, 3])
    assert not pigeonhole.proves([1, 1, 1, 1, 3, 3], 2, 3, Fraction(5), [0, 1, 2, 3])


def test_thresholds_below_one_and_many_rounds() -> None:
    assert pigeonhole.proves([3, 3], 2, 1, Fraction(1, 2), [])
    assert not pigeonhole.proves([3, 3], 2, 1, Fraction(-1, 2), [])
    most: list[list[int]] = [[]] * pigeonhole.MOST_LIFTS
    assert pigeonhole.proves([3, 3], 2, 1, Fraction(1), [], most)
    assert not pigeonhole.proves([3, 3], 2, 1, Fraction(1), [], [*most, []])


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_the_least_largest_piece_is_that_of_the_best_counts() -> None:
    for loads in map(list, product((0, 1, 4, 7), repeat=3)):
        for slots, most in product((3, 4, 6, 9), (1, 2, 4)):
            every = [row for row in product(range(1, most + 1), repeat=3) if sum(row) <= slots]
            best = min(max(Fraction(load, r) for load, r in zip(loads, row, strict=True)) for row in every)
            assert simple_bounds._least_largest(loads, slots, most) == best


@pytest.mark.parametrize("pace", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("floor_rule", ["per_expert", "per_replica"])
def test_cheap_is_the_best_of_its_kinds_at_any_speed(pace: float, floor_rule: str) -> None:
    """A filter in floating point decides where the largest replica is looked at, and may not lose one."""
    for loads in ([9, 1, 1], [5, 5, 2], [1, 1, 1], [8, 3, 1], [0, 0, 0]):
        for fields in ({"slots": [2, 2]}, {"slots": [1, 1, 1]}, {"slots": [2, 2], "floor_tokens": 2.5}):
            plain: dict[str, Any] = {**fields, "floor_rule": floor_rule, "distinct": False}
            instance = PlacementInstance([loads], **plain, speed=[pace] * len(plain["slots"]))
            values = {kind: bounds.check(instance, 0, {"kind": kind}) for kind in ("mean", "largest")}
            (found,) = bounds.cheap(instance)
            assert found.value == values[found.kind] == max(values.values())
            assert found.kind == "mean" or values["largest"] > values["mean"]


def test_the_largest_replica_counts_where_it_is_a_trifle_above_the_mean() -> None:
    (found,) = bounds.cheap(PlacementInstance([[2**41 + 1, 2**41 - 1]], slots=[1, 1]))
    assert (found.kind, found.value) == ("largest", 2**41 + 1)


def test_a_layer_is_open_above_the_gap_alone() -> None:
    known = bounds.LayerBound("mean", Fraction(3), {"kind": "mean"})
    assert [bounds._is_open(known, 4.0, gap) for gap in (0.0, 0.125, 0.25, 0.5)] == [True, True, False, False]
    assert [bounds._is_open(known, top, 0.0) for top in (-4.0, 0.0, 3.0)] == [False] * 3
    assert not bounds._is_open(bounds.LayerBound("mean", Fraction(-1), {}), 0.0, 0.0)


def test_certificates_prove_no_more_than_their_prices() -> None:
    instance = PlacementInstance([[12, 12, 9, 2]], slots=[2, 2])
    bound = bounds.tighten(instance, bounds.cheap(instance)[0], 0, 21.0)
    assert bound.kind == "configuration" and bounds.proved(instance, 0, bound.certificate) == bound.value
    for damage in ({"threshold": 21}, {"threshold": None}, {"prices": [0] * len(bound.certificate["prices"])}):
        assert bounds.proved(instance, 0, {**bound.certificate, **damage}) is None
    assert bounds.proved(instance, 0, {"kind": "enumeration", "value": "21"}) is not None
    assert bounds.proved(instance, 0, {"kind": "enumeration", "value": "22"}) is None


def test_a_bound_beside_a_constant_load_is_never_given_up_for_less() -> None:
    """GPUs of two speeds: the share of the constant load that is sure is that of the fastest."""
    instance = PlacementInstance([[12, 12, 9, 2]], slots=[2, 2], speed=[1, 2], top_k=2, shared="replicated")
    (cheap,) = bounds.cheap(instance)
    for more in (Fraction(0), Fraction(1, 2), Fraction(2)):
        known = bounds.LayerBound("mean", cheap.value + more, {"kind": "mean"})
        found = bounds.priced(instance, known, 0, float(known.value) * 1.4, 0.0, Deadline(None))
        assert found is known or found.value > known.value
        if found is not known:
            assert bounds.check(instance, 0, found.certificate) == found.value


def test_a_constant_load_is_spread_over_all_speed_or_on_the_fastest() -> None:
    """Two GPUs of three have slots; of 5 of speed 2/5 of the load are sure in the mean, 1/3 on the fastest."""
    shape: dict[str, Any] = {"slots": [3, 1, 0], "speed": [1, 3, 1], "top_k": 2}
    instance = PlacementInstance([[8, 1, 1, 2]], **shape, shared="replicated")
    (base,) = instance.exact_base or ()
    for kind, share in (("mean", Fraction(2, 5)), ("largest", Fraction(1, 3))):
        bare = bounds.check(instance.bare, 0, {"kind": kind})
        assert bounds.check(instance, 0, {"kind": kind}) == bare + base * share
        lifted = bounds.lifted(instance, 0, bounds.LayerBound(kind, bare, {"kind": kind}))
        assert (lifted.value, lifted.certificate) == (bare + base * share, {"kind": kind})
    assert bounds.proved(instance, 0, {"kind": "guess"}) is None


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("weights", "slots", "best"), [([12, 12, 9, 2], 2, 21), ([10, 4, 4, 4, 4, 4], 3, 18)])
def test_quick_bounds_scale_with_a_common_speed(weights: list[int], slots: int, best: int, pace: float) -> None:
    plain = PlacementInstance([weights], slots=[slots] * 2)
    instance = PlacementInstance([weights], slots=[slots] * 2, speed=[pace] * 2)
    wanted = bounds.tighten(plain, bounds.cheap(plain)[0], 0, float(best))
    found = bounds.tighten(instance, bounds.cheap(instance)[0], 0, best / pace)
    assert found.kind == wanted.kind != "mean"
    assert float(found.value) * pace == pytest.approx(float(wanted.value), rel=1e-9)
    assert bounds.check(instance, 0, found.certificate) == found.value


# --- deals of groups --------------------------------------------------------------------------------------------------

FOUR = PlacementInstance([[7, 5, 4, 1]], slots=[1] * 4, nodes=[0, 0, 1, 1], groups=4)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_deal_is_raised_to_what_its_nodes_can_be_raised_to(seed: int) -> None:
    """Six pairs of four groups, in three deals: the least over deals of the larger value of the two nodes."""
    values = [Fraction(1 + (seed * (place + 3)) % 5) for place in range(6)]
    most = [value + (seed * (place + 1) + place * place) % 4 for place, value in enumerate(values)]
    pairs = {pair: place for place, pair in enumerate(combinations(range(4), 2))}
    every = [(pairs[0, a], pairs[tuple(sorted({1, 2, 3} - {a}))]) for a in (1, 2, 3)]  # type: ignore[index]
    best = min(max(most[one], most[other]) for one, other in every)
    calls: list[int] = []

    def tool(node: PlacementInstance, value: Fraction, at: int) -> tuple[Fraction, Mapping[str, Any]]:
        assert value == values[at] and node.num_experts == 2
        calls.append(at)
        return most[at], {"kind": "told"}

    value, proofs = deal_bounds.tightened(FOUR, values, 0, 1e9, tool)
    assert value == best
    assert sorted(calls) == sorted(set(calls)) and [at for at, _ in proofs] == [
        at for at in sorted(calls) if most[at] > values[at]
    ]
    first = min(every, key=lambda deal: (max(values[at] for at in deal), sum(values[at] ** 2 for at in deal)))
    assert values[calls[0]] == max(values[at] for at in first)  # the node that is worst off comes first
    start = min(max(values[one], values[other]) for one, other in every)
    assert deal_bounds.tightened(FOUR, values, 0, float(start), tool) == (start, [])


def test_layers_are_ranked_one_by_one() -> None:
    both = PlacementInstance([[7, 5, 4, 1], [1, 1, 9, 1]], slots=[1] * 4, nodes=[0, 0, 1, 1], groups=4)
    rows = bounds.rank_deals(both, [0, 1])
    assert [len(ranked.subset_values) for ranked in rows] == [6, 6]
    for row, ranked in enumerate(rows):
        assert [ranked] == bounds.rank_deals(both, [row])
        assert ranked.bound.value == bounds.cheap(both)[row].value == (7, 9)[row]


def test_few_sets_of_groups_are_looked_at_more_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deal_bounds, "MOST_TRIED", 1)
    calls = []
    deal_bounds.tightened(FOUR, [Fraction(1)] * 6, 0, 9.0, lambda node, value, at: calls.append(at))  # type: ignore[func-returns-value]
    assert calls == [0]


def test_tools_for_nodes_keep_the_better_bound() -> None:
    fields: dict[str, Any] = {"slots": [2] * 4, "nodes": [0, 0, 1, 1], "groups": 2}
    instance = PlacementInstance([[12, 12, 9, 2, 12, 12, 9, 2]], **fields)
    assert deals.enumerable(instance)
    (cheap,) = bounds.cheap(instance)
    tools = (bounds.tighten, lambda *words: bounds.priced(*words, 0.0, Deadline(None)))
    for tool in tools:
        found = tool(instance, cheap, 0, 21.0)
        assert cheap.value < found.value <= 21 and found.kind in ("deals", "configuration")
        assert bounds.check(instance, 0, found.certificate) == found.value
        high = bounds.LayerBound("deals", Fraction(21), {"kind": "deals"})
        assert tool(instance, high, 0, 30.0) is high


def test_a_closed_node_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    def tightened(*words: Any) -> tuple[Fraction, list[Any]]:
        told.append(words[3])
        return Fraction(4 * len(told)), []

    monkeypatch.setattr(deal_bounds, "tightened", tightened)
    known = bounds.LayerBound("deals", Fraction(8), {"kind": "deals"})
    for _ in range(2):  # of 4 and of 8, which is no more than is known
        assert bounds._dealt(FOUR, known, 0, 16.0, 0.25, lambda node, bound, at: bound) is known
    assert bounds._dealt(FOUR, known, 0, 16.0, 0.25, lambda node, bound, at: bound).value == 12
    assert told == [12.0] * 3  # what is within the gap of the objective is enough
