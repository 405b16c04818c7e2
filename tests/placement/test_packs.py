"""The dearest filling of a GPU against all of them, listed one by one."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.placement import packs

Case = tuple[list[int], list[float], int, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Sizes that rise, the first that of an empty slot, a price of each, slots, and room for at least one piece."""
    sizes = [0, *sorted(draw(st.lists(st.integers(1, 12), min_size=1, max_size=6)))]
    prices = [0.0, *(draw(st.integers(0, 20)) / 4 for _ in sizes[1:])]
    slots = draw(st.integers(1, 4))
    return sizes, prices, slots, draw(st.integers(sizes[1], 30))


def listed(case: Case) -> dict[tuple[int, ...], float]:
    """Every filling that fits, and its worth."""
    sizes, prices, slots, room = case
    return {
        filling: sum(prices[piece] for piece in filling)
        for filling in combinations_with_replacement(range(len(sizes)), slots)
        if sum(sizes[piece] for piece in filling) <= room
    }


def fillings(case: Case) -> list[packs.Fillings | packs.ByCells]:
    sizes, _, slots, room = case
    halves = packs.halves_of(np.array(sizes, dtype=float), slots, float(room))
    assert halves is not None
    return [
        packs.ByCells(np.array(sizes, dtype=np.int64), slots, room),
        packs.Fillings(np.array(sizes, dtype=float), slots, float(room), halves),
    ]


@given(cases(), st.sampled_from([0.0, 0.5, 0.99]))
def test_both_ways_find_the_dearest_and_say_only_fillings_that_fit(case: Case, part: float) -> None:
    every = listed(case)
    most = max(every.values())
    for way in fillings(case):
        best, shown = way.dearest(np.array(case[1]), part * most, 5)
        assert best == pytest.approx(most)
        assert bool(shown) == (most > part * most + 1e-9)
        for filling in shown:
            assert every[tuple(filling)] > part * most
        assert not shown or max(every[tuple(filling)] for filling in shown) == pytest.approx(most)


@given(cases())
def test_nothing_is_shown_where_nothing_is_dearer_than_the_budget(case: Case) -> None:
    most = max(listed(case).values())
    for way in fillings(case):
        assert way.dearest(np.array(case[1]), most, 5) == (pytest.approx(most), [])


def test_too_many_sets_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "MOST_SETS", 5)
    sizes = np.arange(1.0, 7.0)
    assert packs.Sets.of(sizes, 2, 100.0) is None and packs.halves_of(sizes, 4, 100.0) is None
    assert packs.halves_of(sizes, 2, 100.0) is not None
