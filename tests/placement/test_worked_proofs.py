"""Proofs of bounds held to the arguments of ``models/placement.md``, and each bound to where its argument ends."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import pytest

from moeopt.limits import Deadline
from moeopt.placement import (
    PlacementInstance,
    bounds,
    configuration,
    partner,
    pigeonhole,
    simple_bounds,
)
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
    assert pigeonhole.proves(weights[::-1], 2, 2, low, [], [[3]])
    assert not pigeonhole.proves(weights[::-1], 2, 2, low, [], [[-1]])


def test_many_light_experts_need_more_than_one_gpu() -> None:
    """Four experts of 1 do not fit into three slots, and beside them on two GPUs lies all the rest, 10 together."""
    assert pigeonhole.proves([1, 1, 1, 1, 3, 3], 2, 3, Fraction(49, 10), [0, 1, 2, 3])
    assert not pigeonhole.proves([1, 1, 1, 1, 3, 3], 2, 3, Fraction(5), [0, 1, 2, 3])


def test_thresholds_are_in_tokens_where_loads_are_parts_of_one() -> None:
    instance = PlacementInstance([[2.5, 1, 1, 1, 1, 1]], slots=[3, 3])
    claim: dict[str, Any] = {"kind": "pigeonhole", "experts": [0]}
    assert bounds.proved(instance, 0, {**claim, "threshold": "17/4"}) == Fraction(17, 4)
    assert bounds.proved(instance, 0, {**claim, "threshold": "18/4"}) is None


def test_thresholds_below_one_and_many_rounds() -> None:
    assert pigeonhole.proves([3, 3], 2, 1, Fraction(1, 2), [])
    assert not pigeonhole.proves([3, 3], 2, 1, Fraction(-1, 2), [])
    most: list[list[int]] = [[]] * pigeonhole.MOST_LIFTS
    assert pigeonhole.proves([3, 3], 2, 1, Fraction(1), [], most)
    assert pigeonhole.proves([3, 3], 2, 1, Fraction(1), [], [*most, []]) is False
    assert pigeonhole.proves([3, 3], 2, 1, Fraction(-1, 2), []) is False


@pytest.mark.parametrize(
    "fields", [{"split": "free"}, {"floor_rule": "per_replica"}, {"speed": [1.0, 2.0]}, {"slots": [3, 4]}]
)
def test_nothing_is_searched_where_it_could_not_hold(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("searched")

    for module in (partner, pigeonhole):
        monkeypatch.setattr(module, "search", never)
    instance = PlacementInstance([[10, 4, 4, 4, 4, 4]], **{"slots": [3, 3], **fields})
    (cheap,) = bounds.cheap(instance)
    assert bounds.tighten(instance, cheap, 0, 30.0) is cheap


def test_pairs_and_crowds_are_searched_up_to_four_slots_and_are_enough_where_they_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = PlacementInstance([[12, 12, 9, 2]], slots=[2, 2])
    (cheap,) = bounds.cheap(instance)
    tight = bounds.tighten(instance, cheap, 0, 21.0)

    def never(*_: Any) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(pigeonhole, "search", never)
    closed = bounds.tighten(instance, cheap, 0, float(tight.value), 0.01)
    assert closed.kind == "configuration" and tight.value * Fraction(99, 100) <= closed.value <= tight.value
    monkeypatch.undo()
    asked: list[int] = []
    monkeypatch.setattr(partner, "search", lambda weights, gpus, slots, *_: asked.append(slots))
    for slots in (2, 3, 4, 5):
        many = PlacementInstance([[10, *[4] * (2 * slots - 1)]], slots=[slots] * 2)
        (cheap,) = bounds.cheap(many)
        assert bounds.tighten(many, cheap, 0, float(cheap.value) * 1.5).value >= cheap.value
    assert asked == [2, 3, 4]


def test_prices_are_not_searched_where_they_are_no_bound_or_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("searched")

    plain = PlacementInstance([[12, 12, 9, 2]], slots=[2, 2])
    (known,) = bounds.cheap(plain)
    monkeypatch.setattr(configuration, "certificate", never)
    assert bounds.priced(plain, known, 0, float(known.value), 0.0, Deadline(None)) is known
    for fields in ({"split": "sglang-static"}, {"combine": "worst"}):
        loads: Any = [[[12, 12, 9, 2]]] * 2 if "combine" in fields else [[12, 12, 9, 2]]
        instance = PlacementInstance(loads, slots=[2, 2], **fields)  # type: ignore[arg-type]
        (known,) = bounds.cheap(instance)
        assert bounds.priced(instance, known, 0, float(known.value) * 1.5, 0.0, Deadline(None)) is known


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


def test_several_replicas_of_one_expert_may_be_on_the_fastest_gpu() -> None:
    """Of four slots another expert needs one: three replicas, all of them at speed 2 at best."""
    fields: dict[str, Any] = {"slots": [2, 2], "speed": [1, 2], "distinct": False}
    instance = PlacementInstance([[9, 1]], **fields)
    assert bounds.check(instance, 0, {"kind": "alone", "expert": 0}) == Fraction(9, 3 * 2)


def test_the_largest_replica_counts_where_it_is_a_trifle_above_the_mean() -> None:
    (found,) = bounds.cheap(PlacementInstance([[2**41 + 1, 2**41 - 1]], slots=[1, 1]))
    assert (found.kind, found.value) == ("largest", 2**41 + 1)


def test_the_floor_of_a_replica_counts_where_it_is_above_the_mean() -> None:
    one = PlacementInstance([[9]], slots=[1, 1], fill="at_most", floor_rule="per_replica", floor_tokens=8)
    (found,) = bounds.cheap(one)  # 9 on one GPU, or 8 on each of two
    assert (found.kind, found.value, bounds.check(one, 0, {"kind": "mean"})) == ("largest", 8, Fraction(9, 2))


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
