"""Models for the back ends: a hard one, easy ones, and a way to write small ones down."""

from __future__ import annotations

import math

import numpy as np
import pytest

from moeopt.backends import LinearModel


def dense(cost, matrix, row_lower, row_upper, upper, *, integral=True, lower=0.0, offset=0.0) -> LinearModel:
    """Build a model from a dense matrix; scalars are repeated."""
    matrix = np.array(matrix, dtype=float).reshape(-1, len(cost))
    m, n = matrix.shape
    return LinearModel(
        columns=tuple(f"x{j}" for j in range(n)),
        cost=np.array(cost, dtype=float),
        offset=offset,
        rows=tuple(f"r{i}" for i in range(m)),
        indptr=np.arange(m + 1) * n,
        indices=np.tile(np.arange(n), m),
        data=matrix.ravel(),
        row_lower=np.broadcast_to(np.asarray(row_lower, dtype=float), m),
        row_upper=np.broadcast_to(np.asarray(row_upper, dtype=float), m),
        column_lower=np.broadcast_to(np.asarray(lower, dtype=float), n),
        column_upper=np.broadcast_to(np.asarray(upper, dtype=float), n),
        integral=np.broadcast_to(np.asarray(integral), n),
    )


def partition(seed: int = 3, items: int = 30, dimensions: int = 6) -> LinearModel:
    """Split vectors into two halves as even as can be: the relaxation proves nothing and the tree is huge."""
    sizes = np.random.default_rng(seed).integers(1, 100, (dimensions, items)).astype(float)
    matrix = np.hstack([sizes, np.eye(dimensions), -np.eye(dimensions)])
    half = sizes.sum(axis=1) / 2 + 0.25
    cost = np.r_[np.zeros(items), np.ones(2 * dimensions)]
    upper = np.r_[np.ones(items), np.full(2 * dimensions, math.inf)]
    return dense(cost, matrix, half, half, upper, integral=np.arange(cost.size) < items)


def knapsack(seed: int = 0, items: int = 12) -> LinearModel:
    """Easy: the best of twelve items in a bag, as a minimum."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(5, 30, items)
    return dense(-rng.integers(5, 40, items), weight[None, :], -math.inf, int(weight.sum() // 2), 1.0)


@pytest.fixture
def hard() -> LinearModel:
    return partition()


@pytest.fixture
def easy() -> LinearModel:
    return knapsack()
