"""The pigeonhole bound against brute force, and where a certificate stops to prove anything."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.placement import PlacementInstance, bounds, deal_bounds, pigeonhole
from tests import oracles


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


PLAIN = {"slots": [3, 3]}


HEAVY = [[10, 4, 4, 4, 4, 4]]


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
