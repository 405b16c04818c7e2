"""Swaps from a map that runs."""

from __future__ import annotations

import numpy as np

from moeopt.engines.policies.shape import Shape, legal_rows, new_pairs, replicas
from moeopt.engines.policies.warm import swapped


def start(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """A legal map: experts in order, renamed."""
    row = np.arange(shape.num_slots) % shape.num_experts
    return np.stack([rng.permutation(shape.num_experts)[row] for _ in range(shape.num_layers)])


def busiest(loads: np.ndarray, shape: Shape, held: np.ndarray) -> np.ndarray:
    size = np.take_along_axis(loads / replicas(held, shape.num_experts), held, axis=1)
    return size.reshape(len(held), shape.num_gpus, -1).sum(axis=2).max(axis=1)


def test_swaps_are_legal_few_and_never_worse() -> None:
    rng = np.random.default_rng(0)
    shape = Shape(5, 24, 32, 8)
    loads, old = rng.integers(1, 1000, (5, 24)), start(rng, shape)
    before = busiest(loads, shape, old)
    for swaps in (0, 1, 3, 20):
        held = swapped(loads, shape, old, np.zeros(5), swaps)
        assert legal_rows(shape, held).all()
        assert (replicas(held, 24) == replicas(old, 24)).all()
        assert (new_pairs(shape, old, held) <= 2 * swaps).all()
        after = busiest(loads, shape, held)
        assert (after <= before * (1 + 1e-12)).all()
        before = after


def test_a_layer_at_its_goal_is_left_alone() -> None:
    rng = np.random.default_rng(1)
    shape = Shape(2, 8, 8, 4)
    loads, old = rng.integers(1, 100, (2, 8)), start(rng, shape)
    assert (swapped(loads, shape, old, busiest(loads, shape, old)) == old).all()


def test_groups_stay_on_their_node() -> None:
    rng = np.random.default_rng(2)
    shape = Shape(1, 8, 12, 4, 2, 4)
    old = np.array([[0, 1, 2, 3, 0, 1, 4, 5, 6, 7, 4, 5]])
    held = swapped(rng.integers(1, 100, (1, 8)), shape, old, np.zeros(1))
    assert legal_rows(shape, held).all()
    assert set(held[0, :6].tolist()) == {0, 1, 2, 3}


def test_it_ends_when_told_to() -> None:
    shape, old = Shape(1, 4, 4, 2), np.array([[0, 1, 2, 3]])
    held = swapped(np.array([[8, 4, 2, 2]]), shape, old, np.zeros(1), go_on=lambda: False)
    assert new_pairs(shape, old, held).tolist() == [2]
