"""Capacity in exact arithmetic, conservation of tokens, and the price of every way to treat overflow."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import expert_capacity, expert_filling, load_ratio, overflow_actions
from tests.cost.faults import names_all

loads = st.lists(st.integers(0, 50), min_size=1, max_size=12)
shapes = st.integers(1, 64).flatmap(lambda experts: st.tuples(st.just(experts), st.integers(1, experts)))
hundredths = st.integers(1, 500)


@given(st.integers(0, 10**7), shapes, hundredths)
def test_capacity_is_the_exact_ceiling_however_the_factor_is_written(
    tokens: int, shape: tuple[int, int], cents: int
) -> None:
    experts, top_k = shape
    factor = Fraction(cents, 100)
    expected = math.ceil(factor * top_k * tokens / experts)
    for written in (
        factor,
        cents / 100,
        np.float64(cents / 100),
        Decimal(cents) / 100,
        f"{cents}/100",
        f"{cents / 100}",
    ):
        assert expert_capacity(tokens, top_k=top_k, experts=experts, factor=written) == expected


def test_capacity_where_floating_point_is_one_too_many() -> None:
    assert expert_capacity(100, top_k=1, experts=1, factor=1.1) == 110 < math.ceil(1.1 * 100)
    assert expert_capacity(5600, top_k=16, experts=896, factor=1.2) == 120
    huge = 10**30
    assert expert_capacity(huge, top_k=1, experts=1, factor="1.1") == 11 * huge // 10


@given(st.integers(0, 10**6), shapes, hundredths, st.integers(1, 256))
def test_capacity_rises_and_whole_tiles_hold_it(tokens: int, shape: tuple[int, int], cents: int, tile: int) -> None:
    experts, top_k = shape
    room: dict[str, Any] = {"top_k": top_k, "experts": experts}
    found = expert_capacity(tokens, **room, factor=Fraction(cents, 100))
    assert expert_capacity(tokens + 1, **room, factor=Fraction(cents, 100)) >= found
    assert expert_capacity(tokens, **room, factor=Fraction(cents + 1, 100)) >= found
    tiled = expert_capacity(tokens, **room, factor=Fraction(cents, 100), multiple_of=tile)
    assert tiled % tile == 0 and 0 <= tiled - found < tile


@given(loads, st.integers(0, 60))
def test_every_pair_is_accepted_or_overflows(counts: list[int], places: int) -> None:
    full = expert_filling(counts, capacity=places)
    assert full.accepted + full.overflow == sum(counts)
    assert full.accepted + full.padding == places * len(counts)
    assert 0 <= full.payload <= 1
    assert (full.overflow == 0) == (max(counts) <= places)
    wider = expert_filling(counts, capacity=places + 1)
    assert wider.overflow <= full.overflow and wider.padding >= full.padding


@given(loads, st.integers(1, 60), st.floats(0, 1))
def test_ways_to_treat_overflow_lose_nothing_unsaid(counts: list[int], places: int, round_s: float) -> None:
    ways = {way.name: way for way in overflow_actions(counts, capacity=places, round_s=round_s, expert_bytes=7)}
    over = expert_filling(counts, capacity=places).overflow
    assert list(ways) == ["drop", "next_expert", "second_round", "replica"]
    assert [way.changes_output for way in ways.values()] == [True, True, False, False]
    assert ways["drop"].lost == over and ways["next_expert"].lost + ways["next_expert"].moved == over
    for name in ("second_round", "replica"):
        assert ways[name].lost == 0
    assert ways["second_round"].rounds == max(1, math.ceil(Fraction(max(counts), places)))
    assert ways["replica"].extra_bytes == 7 * ways["replica"].copies
    assert (ways["replica"].copies == 0) == (over == 0) == (ways["second_round"].rounds == 1)
    if round_s:
        assert (ways["second_round"].extra_s == 0) == (over == 0)


@given(loads, st.integers(1, 60))
def test_both_load_ratios_agree_until_tokens_are_dropped(counts: list[int], places: int) -> None:
    total = sum(counts)
    assert load_ratio(counts) == load_ratio(counts, tokens=total, top_k=1) >= 1
    kept = [min(count, places) for count in counts]
    assert load_ratio(kept, tokens=total, top_k=1) <= load_ratio(kept)  # the received mean is the smaller one
    assert load_ratio([7 * count for count in counts]) == load_ratio(counts)


def test_an_idle_layer_is_balanced() -> None:
    assert load_ratio([0, 0]) == load_ratio([0, 0], tokens=0, top_k=2) == 1
    assert expert_filling([0, 0], capacity=0).payload == 1


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf"), "much", "1/0", None, True, Decimal("Infinity")])
def test_a_factor_that_is_no_number_is_refused(factor: object) -> None:
    names_all(lambda: expert_capacity(1, top_k=1, experts=1, factor=factor), "factor")


def test_bad_input_is_named_all_at_once() -> None:
    names_all(
        lambda: expert_capacity(-1, top_k=9, experts=8, factor=0, multiple_of=0),
        *("tokens", "top_k", "factor", "multiple_of"),
    )
    names_all(lambda: expert_filling([1, -1, True], capacity=-1), "counts", "capacity")
    names_all(lambda: expert_filling([], capacity=1), "counts")
    names_all(lambda: load_ratio([3, 4], tokens=3, top_k=2), "counts")
    names_all(lambda: load_ratio([3, 4], tokens=3), "tokens, top_k")
    names_all(
        lambda: overflow_actions([0.5], capacity=0, round_s=-1, expert_bytes=float("inf")),  # type: ignore[list-item]
        *("counts", "capacity", "round_s", "expert_bytes"),
    )
