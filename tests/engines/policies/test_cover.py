"""The full map nearest to what runs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.engines.policies.cover import complete, covered, doubles
from moeopt.engines.policies.shape import Shape, legal_rows, new_pairs, start_up


def doubled(held: Any, gpus: int) -> np.ndarray:
    """(L,) replicas beside another of their expert, straight from the definition."""
    table = np.asarray(held)
    per_gpu = table.shape[1] // gpus
    return np.array([sum(per_gpu - len(set(gpu)) for gpu in row.reshape(gpus, -1).tolist()) for row in table])


@settings(max_examples=100)
@given(data=st.data())
def test_a_full_map_takes_as_few_moves_as_any(data: st.DataObject) -> None:
    gpus, experts = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 12))
    per_gpu = data.draw(st.integers(-(-experts // gpus), experts))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    lowest = data.draw(st.sampled_from([0, -1, -3, -20]))
    table = np.maximum(rng.integers(lowest, experts, (2, gpus * per_gpu)), -1)
    shape = Shape(2, experts, gpus * per_gpu, gpus)
    loads = data.draw(st.sampled_from([None, rng.integers(0, 99, (2, experts))]))
    forced = np.array([max((row < 0).sum(), experts - len(set(row.tolist()) - {-1})) for row in table])
    for budget in (0, 3, None):
        found = covered(shape, table, loads, budget)
        assert complete(shape, found.held)
        assert (found.moves == new_pairs(shape, table, found.held)).all()
        assert (found.doubles == doubled(found.held, gpus)).all() and (
            doubles(shape, found.held) == found.doubles
        ).all()
        if budget is None:
            assert not found.doubles.any()
        else:
            assert (found.moves <= np.maximum(forced, budget)).all() and (found.moves >= forced).all()
            assert not found.doubles[found.moves < budget].any()


def test_groups_stay_on_their_nodes_where_experts_are_filled_in() -> None:
    shape = Shape(1, 8, 12, 4, 2, 4)
    held = covered(shape, np.array([[4, 5, 4, 5, -1, 7, 0, 0, 0, 1, 2, -1]]), None, None).held
    assert set(held[0, :6].tolist()) == {4, 5, 6, 7} and set(held[0, 6:].tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("groups", [None, 8])
@pytest.mark.parametrize("state", ["holes", "lost", "doubles"])
def test_many_slots_are_filled_at_once_and_as_well(groups: Any, state: str) -> None:
    shape = Shape(1, 256, 80_000, 10_000, 1 if groups is None else 4, groups)
    loads = np.random.default_rng(0).lognormal(0, 1, (1, 256))
    old = start_up(shape)
    if state == "holes":
        old[:, ::3] = -1
    elif state == "lost":
        old[old % 2 == 1] = -1
    else:
        old[0] = np.repeat(old[0, ::8], 8)
    begun = time.perf_counter()
    held = covered(shape, old, loads, None)
    few = covered(shape, old, loads, 5)
    assert time.perf_counter() - begun < 20
    assert complete(shape, held.held) and not held.doubles.any() and complete(shape, few.held)
    assert legal_rows(shape, held.held).all()
    assert few.moves[0] == max((old < 0).sum(), 256 - len(set(old[0].tolist()) - {-1}), 5)
    counts = np.bincount(held.held[0], minlength=256)
    assert state == "doubles" or (loads[0] / counts).max() < 4 * loads.sum() / shape.num_slots
