"""Largest first: every replica in a slot, the lightest GPU each time, a batch as layer by layer."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.lpt import pack

Case = tuple[np.ndarray, np.ndarray, list[int], list[float]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Pieces and counts of some layers, and GPUs with just as many slots, some of them with none."""
    num_experts = draw(st.integers(1, 6))
    slots = draw(st.lists(st.integers(0, num_experts), min_size=1, max_size=5))
    slots[0] += max(num_experts - sum(slots), 0)
    rows = draw(
        st.lists(st.lists(st.integers(0, 50), min_size=num_experts, max_size=num_experts), min_size=1, max_size=3)
    )
    loads = np.array(rows, dtype=float)
    counts = greedy_counts(loads, sum(slots))
    speed = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=len(slots), max_size=len(slots)))
    return loads / counts, counts, slots, speed


def by_hand(pieces: list[float], counts: list[int], slots: list[int], speed: list[float], distinct: bool) -> list[int]:
    """The rule, step by step."""
    on: list[list[int]] = [[] for _ in slots]
    cost = [0.0] * len(slots)
    for expert in sorted(range(len(pieces)), key=lambda e: (-pieces[e], e)):
        for _ in range(counts[expert]):
            free = [gpu for gpu, room in enumerate(slots) if len(on[gpu]) < room]
            good = [gpu for gpu in free if not (distinct and expert in on[gpu])] or free
            gpu = min(good, key=lambda g: (cost[g] + pieces[expert] / speed[g], g))
            on[gpu].append(expert)
            cost[gpu] += pieces[expert] / speed[gpu]
    return [expert for held in on for expert in held]


@given(cases(), st.booleans())
def test_packing_fills_every_slot_with_every_replica(case: Case, distinct: bool) -> None:
    pieces, counts, slots, speed = case
    out = pack(pieces, counts, slots, speed, distinct=distinct)
    assert out.shape == (len(pieces), sum(slots))
    for held, wanted in zip(out.tolist(), counts.tolist(), strict=True):
        assert Counter(held) == {expert: count for expert, count in enumerate(wanted) if count}


@given(cases(), st.booleans())
def test_packing_is_the_rule_step_by_step(case: Case, distinct: bool) -> None:
    pieces, counts, slots, _ = case
    even = [1.0] * len(slots)
    out = pack(pieces, counts, slots, even, distinct=distinct).tolist()
    rows = zip(pieces.tolist(), counts.tolist(), strict=True)
    assert out == [by_hand(piece, count, slots, even, distinct) for piece, count in rows]


@given(cases(), st.booleans())
def test_a_batch_of_layers_is_packed_as_each_layer_alone(case: Case, distinct: bool) -> None:
    pieces, counts, slots, speed = case
    alone = [
        pack(pieces[row : row + 1], counts[row : row + 1], slots, speed, distinct=distinct)[0].tolist()
        for row in range(len(pieces))
    ]
    assert pack(pieces, counts, slots, speed, distinct=distinct).tolist() == alone


def test_a_faster_gpu_gets_more() -> None:
    ones = np.ones((1, 4), dtype=np.int64)
    out = pack(np.array([[4.0, 3.0, 3.0, 2.0]]), ones, [3, 1], [2.0, 1.0], distinct=True)
    assert out.tolist() == [[0, 2, 3, 1]]
