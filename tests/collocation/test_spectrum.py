"""The bound on pairs by eigenvalues, on tables that most experts are no part of: many equal eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from moeopt import collocation
from moeopt.collocation import CollocationInstance, spectrum


def test_no_partition_has_more_pairs_than_the_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        units, room = int(rng.integers(2, 4)), int(rng.integers(2, 6))
        size = units * room
        few = int(rng.integers(2, min(size, 5)))
        pairs = np.zeros((size, size))
        pairs[:few, :few] = np.triu(rng.integers(0, 4, (few, few)), 1)
        pairs += pairs.T
        diagonal = np.zeros(size)
        diagonal[:few] = rng.choice([-1.5, -0.3, 0.0], few)
        diagonal[few:] = -diagonal[:few].sum() / (size - few)
        parts = [rng.permutation(size) for _ in range(5)] + [np.arange(size)]
        most = max(sum(pairs[np.ix_(one, one)].sum() / 2 for one in np.split(order, units)) for order in parts)
        assert spectrum.most_pairs(pairs, diagonal, units) >= most


def test_all_eigenvalues_are_taken_where_lapack_gives_none_of_a_few() -> None:
    """Two experts of 12 places: asked for the largest two of ten equal and two other eigenvalues it gave none."""
    pairs, diagonal = np.zeros((12, 12)), np.full(12, 0.3)
    pairs[0, 1] = pairs[1, 0] = 3
    diagonal[:2] = -1.5
    assert spectrum.most_pairs(pairs, diagonal, 3) == pytest.approx(4.2)
    table, slope = spectrum.relaxed(pairs, diagonal, 3)
    assert table.shape == pairs.shape and np.isfinite(table).all() and np.isfinite(slope).all()


def test_a_full_copy_of_all_experts_on_every_gpu_sends_nothing() -> None:
    ids = [[0, 1], [1, -1], [0, -1], [0, 1], [0, 1]]
    instance = CollocationInstance(ids, experts=4, nodes=3, gpus=3, slots=12, source=[2, 1, 0, 2, 2])
    everywhere = collocation.Collocation.of([[0, 1, 2, 3] * 3])
    assert collocation.evaluate(instance, everywhere).objective == 0
    assert collocation.bound(instance, 0).value == 0
