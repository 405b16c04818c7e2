"""Greedy counts have the smallest possible largest piece, for every layer of a batch as for it alone."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moeopt.kernels.counts import greedy_counts

rows = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.lists(st.one_of(st.integers(0, 9), st.integers(0, 1000)), min_size=width, max_size=width),
        min_size=1,
        max_size=4,
    )
)


def least_largest(loads: list[float], num_slots: int, most: int | None) -> float:
    """By brute force over all counts."""
    tops = []
    for cuts in combinations(range(1, num_slots), len(loads) - 1):
        counts = [b - a for a, b in pairwise((0, *cuts, num_slots))]
        if most is None or max(counts) <= most:
            tops.append(max(load / count for load, count in zip(loads, counts, strict=True)))
    return min(tops)


@given(rows, st.integers(0, 5), st.integers(0, 3), st.booleans())
def test_greedy_counts_have_the_smallest_largest_piece(
    loads: list[list[int]], spare: int, extra: int, capped: bool
) -> None:
    width = len(loads[0])
    num_slots = width + spare
    most = -(-num_slots // width) + extra if capped else None
    counts = greedy_counts(np.array(loads, dtype=float), num_slots, most)
    assert (counts >= 1).all() and (counts.sum(axis=1) == num_slots).all()
    assert most is None or counts.max() <= most
    for row, chosen in zip(loads, counts.tolist(), strict=True):
        top = max(load / count for load, count in zip(row, chosen, strict=True))
        assert top == least_largest([float(load) for load in row], num_slots, most)


@given(rows, st.integers(0, 5))
def test_a_batch_of_layers_counts_as_each_layer_alone(loads: list[list[int]], spare: int) -> None:
    table = np.array(loads, dtype=float)
    num_slots = table.shape[1] + spare
    alone = [greedy_counts(row[None, :], num_slots)[0].tolist() for row in table]
    assert greedy_counts(table, num_slots).tolist() == alone


def test_ties_go_to_the_lower_id_and_idle_layers_are_dealt_evenly() -> None:
    assert greedy_counts(np.array([[2.0, 2.0, 2.0]]), 5).tolist() == [[2, 2, 1]]
    assert greedy_counts(np.zeros((1, 3)), 7, 4).tolist() == [[3, 2, 2]]


def test_loads_are_not_changed() -> None:
    loads = np.array([[3.0, 1.0]])
    loads.flags.writeable = False
    greedy_counts(loads, 4, 3)
    assert loads.tolist() == [[3.0, 1.0]]
