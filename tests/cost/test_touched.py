"""Touched experts and units: against counting by hand, and in their limits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    expert_bytes_read,
    spread_evenly,
    tokens_per_expert,
    touched_by_chances,
    touched_exactly,
    touched_experts,
    touched_units,
    touched_units_distribution,
)
from moeopt.errors import InstanceError

SIZES = st.integers(1, 300).flatmap(lambda e: st.tuples(st.just(e), st.integers(1, e)))


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(3, 1, 3), (4, 2, 3), (5, 3, 2), (3, 3, 2), (4, 2, 0)])
def test_touched_experts_equal_the_mean_over_all_batches(experts: int, top_k: int, tokens: int) -> None:
    choices = list(itertools.combinations(range(experts), top_k))
    batches = [len(set().union(*batch)) for batch in itertools.product(choices, repeat=tokens)]
    assert touched_exactly(experts=experts, top_k=top_k, tokens=tokens) == Fraction(sum(batches), len(batches))


@given(SIZES, st.integers(0, 2000))
def test_the_float_form_agrees_with_the_exact_one(sizes: tuple[int, int], tokens: int) -> None:
    experts, top_k = sizes
    exact = touched_exactly(experts=experts, top_k=top_k, tokens=tokens)
    assert touched_experts(experts=experts, top_k=top_k, tokens=tokens) == pytest.approx(float(exact), rel=1e-12)


@given(SIZES, st.integers(0, 10**6))
def test_touched_experts_grow_with_tokens_and_stay_within_their_limits(sizes: tuple[int, int], tokens: int) -> None:
    experts, top_k = sizes
    now, more = (touched_experts(experts=experts, top_k=top_k, tokens=n) for n in (tokens, tokens + 1))
    assert 0 <= now <= more <= experts
    assert now <= tokens * top_k * (1 + 1e-12)
    assert touched_experts(experts=experts, top_k=top_k, tokens=1) == pytest.approx(top_k)
    assert touched_experts(experts=experts, top_k=top_k, tokens=0) == 0
    if top_k == experts:
        assert more == experts


@given(SIZES, st.integers(0, 500), st.randoms(use_true_random=False))
def test_unequal_chances_touch_fewer(sizes: tuple[int, int], tokens: int, random: object) -> None:
    experts, top_k = sizes
    even = np.full(experts, top_k / experts)
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    moved = even + rng.uniform(-1, 1, experts) * np.minimum(even, 1 - even)
    moved = np.clip(moved - (moved.mean() - even[0]), 0, 1)
    uniform = touched_by_chances(even, tokens=tokens)
    assert uniform == pytest.approx(touched_experts(experts=experts, top_k=top_k, tokens=tokens), rel=1e-9, abs=1e-9)
    if abs(moved.sum() - top_k) < 1e-9:
        assert touched_by_chances(moved, tokens=tokens) <= uniform + 1e-9


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any), st.data())
def test_touched_units_equal_the_mean_over_all_choices(sizes: list[int], data: st.DataObject) -> None:
    experts = sum(sizes)
    top_k = data.draw(st.integers(1, experts))
    unit = [u for u, size in enumerate(sizes) for _ in range(size)]
    counts = [len({unit[e] for e in chosen}) for chosen in itertools.combinations(range(experts), top_k)]
    assert touched_units(sizes=sizes, top_k=top_k) == Fraction(sum(counts), len(counts))
    chances = touched_units_distribution(sizes=sizes, top_k=top_k)
    assert chances == [Fraction(counts.count(x), len(counts)) for x in range(len(chances))]
    assert sum(chances) == 1


def test_touched_units_under_a_limit_equal_the_mean_over_all_choices() -> None:
    """A router that takes two of four nodes at random, then three experts of theirs."""
    counts = []
    for nodes in itertools.combinations(range(4), 2):
        mine = [(node, e) for node in nodes for e in range(3)]
        counts += [len({node for node, _ in chosen}) for chosen in itertools.combinations(mine, 3)]
    assert touched_units(sizes=[3] * 4, top_k=3, limit=2) == Fraction(sum(counts), len(counts))


@given(st.integers(1, 64), st.integers(1, 16), st.data())
def test_touched_units_in_their_limits(units: int, each: int, data: st.DataObject) -> None:
    experts = units * each
    top_k = data.draw(st.integers(1, experts))
    found = touched_units(sizes=[each] * units, top_k=top_k)
    assert 1 <= found <= min(units, top_k)
    assert touched_units(sizes=[experts], top_k=top_k) == 1
    assert touched_units(sizes=[1] * experts, top_k=top_k) == top_k
    assert touched_units(sizes=[each] * units, top_k=1) == 1
    if top_k == experts:
        assert found == units
    assert found == units * (1 - Fraction(math.comb(experts - each, top_k), math.comb(experts, top_k)))


@given(st.integers(1, 1000), st.integers(1, 100))
def test_experts_spread_evenly_differ_by_one(count: int, units: int) -> None:
    sizes = spread_evenly(count, units)
    assert sum(sizes) == count and len(sizes) == units and max(sizes) - min(sizes) <= 1


@given(SIZES, st.integers(0, 10**6), st.integers(1, 1000))
def test_tokens_of_an_expert_are_exact_and_scale(sizes: tuple[int, int], tokens: int, ranks: int) -> None:
    experts, top_k = sizes
    one = tokens_per_expert(experts=experts, top_k=top_k, tokens=tokens)
    assert one * experts == tokens * top_k
    assert tokens_per_expert(experts=experts, top_k=top_k, tokens=tokens * ranks) == one * ranks
    assert float(one) == pytest.approx(tokens_per_expert(experts=experts, top_k=top_k, tokens=float(tokens)))


def test_every_bad_number_is_named_at_once() -> None:
    with pytest.raises(InstanceError) as error:
        expert_bytes_read(experts=8, top_k=9, tokens=float("nan"), bytes_per_expert=-1, layers=True)
    assert {v.field for v in error.value.violations} == {"top_k", "tokens", "bytes_per_expert", "layers"}
    with pytest.raises(InstanceError, match=r"(?s)sizes\[unit 1\] = 2\.5.*sizes\[unit 2\] = -1"):
        touched_units(sizes=[1, 2.5, -1], top_k=1)  # type: ignore[list-item]
    with pytest.raises(InstanceError, match="top_k = 5: a token cannot select more than the 4 experts"):
        touched_units(sizes=[2, 2, 2], top_k=5, limit=2)
    with pytest.raises(InstanceError, match="chances"):
        touched_by_chances([0.5, 1.5], tokens=1)
