"""Batches, fronts and waits by themselves: scans, comparisons of all pairs, a queue that is played."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.mesh.families.front import front
from moeopt.mesh.families.queue import busy_for, wait_s
from moeopt.mesh.families.search import largest


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 60)), min_size=1, max_size=9))
def test_largest_is_what_a_scan_finds(rows: list[tuple[int, int]]) -> None:
    limits, most = (np.array(column) for column in zip(*rows, strict=True))
    wanted = [max((b for b in range(1, m + 1) if b <= limit), default=0) for limit, m in rows]
    assert largest(lambda batch: batch <= limits, most).tolist() == wanted


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=12),
    st.booleans(),
)
def test_front_is_what_comparing_all_pairs_finds(rows: list[tuple[int, int, int]], both: bool) -> None:
    rate, first, second = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    uses = np.array([first, second]) if both else first[None]
    kept = front(rate, uses)
    for row in range(len(rows)):
        beaten = [
            other
            for other in range(len(rows))
            if rate[other] >= rate[row] and (uses[:, other] <= uses[:, row]).all()
            if rate[other] > rate[row] or (uses[:, other] < uses[:, row]).any()
        ]
        if kept[row]:
            assert rate[row] > 0 and not beaten
        elif rate[row] > 0:
            same = [o for o in np.flatnonzero(kept) if rate[o] >= rate[row] and (uses[:, o] <= uses[:, row]).all()]
            assert same


@given(st.floats(1e-3, 10), st.floats(0.01, 0.99), st.sampled_from([1, 2, 8]))
def test_queueing_inverts(service: float, busy: float, prompts: int) -> None:
    wait = wait_s(np.array(busy), np.array(service), prompts)
    assert float(busy_for(wait, np.array(service), prompts)) == pytest.approx(busy, abs=1e-9)
    assert busy_for(np.array(-1.0), np.array(service), prompts) == 0


@pytest.mark.parametrize("prompts", [1, 4])
def test_waits_agree_with_a_queue_that_is_played(prompts: int) -> None:
    rng, busy, count = np.random.default_rng(0), 0.8, 200_000
    arrivals = np.cumsum(rng.exponential(1 / (busy * prompts), count))
    if prompts == 1:
        waits, free = np.zeros(count), 0.0
        for place, arrival in enumerate(arrivals.tolist()):
            waits[place] = max(free - arrival, 0.0)
            free = max(free, arrival) + 1.0
        assert waits.mean() == pytest.approx(float(wait_s(np.array(busy), np.array(1.0), 1)), rel=0.05)
        return
    start, queue, waits_of = 0.0, 0, []
    while queue < count:  # served at whole seconds, up to `prompts` of those that are there
        there = int(np.searchsorted(arrivals, start, side="right"))
        taken = min(there, queue + prompts)
        waits_of += (start - arrivals[queue:taken]).tolist()
        queue, start = taken, start + 1.0
    bound = 0.5 + float(wait_s(np.array(busy), np.array(1.0), prompts))
    assert np.mean(waits_of) <= bound
    assert np.mean(waits_of) >= 0.5
