"""The larger `keep`, the fewer moves and the more imbalance."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from moeopt.engines import eplb
from moeopt.engines.policies.shape import Shape, new_pairs
from moeopt.workload import generate

KEEPS = (0.0, 0.003, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5)
SLACK = 1.06
"""Beyond 0.01 none is needed here. Up to it swaps end the sooner the larger `keep`, and a swap may bring an expert back
to where it ran; and re-planning, which sees fewer layers, now and then finds a better plan of fewer moves."""


@pytest.mark.parametrize("max_moves", [None, 6])
@pytest.mark.parametrize(
    ("experts", "slots", "gpus", "groups", "nodes", "drift"),
    [
        (64, 72, 8, 1, 1, 0.1),
        (64, 72, 8, 1, 1, 0.3),
        (128, 144, 16, 8, 4, 0.1),
        (16, 20, 4, 1, 1, 0.15),
        (24, 32, 32, 1, 1, 0.3),
    ],
)
def test_moves_fall_and_imbalance_rises_with_keep(
    experts: int, slots: int, gpus: int, groups: int, nodes: int, drift: float, max_moves: int | None
) -> None:
    loads = generate("lognormal", layers=8, experts=experts, top_k=4, tokens=65536, seed=3).loads
    later = np.rint(loads * np.exp(np.random.default_rng(1).normal(0, drift, loads.shape)))
    start = eplb.configure(time_limit_s=30.0)(loads, slots, groups, nodes, gpus)[0]
    shape = Shape(len(loads), experts, slots, gpus)
    moves, tops = [], []
    for keep in KEEPS:
        plan = eplb.configure(keep=keep, max_moves=max_moves, time_limit_s=30.0)
        held = plan(later, slots, groups, nodes, gpus, current=start)[0]
        moves.append(new_pairs(shape, start, held))
        tops.append(_busiest(later, held, gpus))
    before = _busiest(later, start, gpus)
    total, mean = [int(one.sum()) for one in moves], [float((top / before).mean()) for top in tops]
    late = KEEPS.index(0.01)
    assert all(more * SLACK + 1 >= fewer for more, fewer in pairwise(total[: late + 1])), total
    assert total[late:] == sorted(total[late:], reverse=True)
    assert all(better <= worse * 1.002 for better, worse in pairwise(mean)), mean
    assert total[0] > total[-1]
    for keep, some, top in zip(KEEPS, moves, tops, strict=True):
        gained = top < before * (1 - keep)
        assert (some[~gained] == 0).all()  # a layer that is kept takes no move


def _busiest(loads: np.ndarray, held: np.ndarray, gpus: int) -> np.ndarray:
    counts = np.stack([np.bincount(row, minlength=loads.shape[1]) for row in held])
    size = np.take_along_axis(loads / counts, held, axis=1)
    return np.asarray(size.reshape(len(held), gpus, -1).sum(axis=2).max(axis=1))
