"""The policy class of vLLM-Ascend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moeopt.engines.policies import ascend
from tests.engines.policies.fake_torch import Tensor, install

TABLE = [[[0, 1, 2], [3, 0, 1]], [[0, 1, 2], [3, 0, 1]]]
LOADS = [[[9, 1, 7], [2, 9, 1]], [[1, 1, 1], [1, 1, 1]]]


def legal(table: Any, num_experts: int) -> bool:
    """Every expert is there, and no NPU has one twice."""
    return all(len(set(npu)) == len(npu) for layer in table for npu in layer) and all(
        {expert for npu in layer for expert in npu} == set(range(num_experts)) for layer in table
    )


@pytest.mark.parametrize("form", [list, np.array, Tensor])
def test_flag_priority_and_lists_come_back(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    change, priority, table = ascend.EplbPolicy().rebalance_experts(form(TABLE), form(LOADS))
    assert change == 1 and isinstance(change, int)
    assert priority.tolist() == [0, 1] and priority.dtype == np.int64
    assert isinstance(table[0][0][0], int) and legal(table, 4)
    assert np.array(table).shape == (2, 2, 3)


def test_an_expert_that_stays_keeps_its_slot() -> None:
    rng = np.random.default_rng(0)
    old = (np.arange(40) % 32).reshape(1, 8, 5)
    table = np.array(ascend.EplbPolicy().rebalance_experts(old, rng.integers(1, 99, (1, 8, 5)))[2])
    for before, after in zip(old[0], table[0], strict=True):
        stays = np.isin(after, before)
        assert (after[stays] == before[stays]).all()


def test_stages_are_summed() -> None:
    policy = ascend.EplbPolicy()
    halves = np.array([LOADS, LOADS])
    assert policy.rebalance_experts(TABLE, halves)[2] == policy.rebalance_experts(TABLE, LOADS)[2]


@pytest.mark.parametrize(
    "loads",
    [
        np.zeros((2, 2, 3)),
        np.full((2, 2, 3), np.nan),
        np.full((2, 2, 3), -1),
        np.full((2, 2, 3), np.inf),
        np.ones((2, 2, 2)),
        None,
        "loads",
    ],
)
def test_bad_loads_change_nothing(loads: Any) -> None:
    change, priority, table = ascend.EplbPolicy().rebalance_experts(TABLE, loads)
    assert (change, priority.tolist(), table) == (0, [0, 1], TABLE)


@pytest.mark.parametrize("table", [None, [], "table", [[0, 1]], [[[-1, -1], [-1, -1]]]])
def test_a_table_that_is_none_comes_back(table: Any) -> None:
    change, _, back = ascend.EplbPolicy().rebalance_experts(table, [[[1, 2], [3, 4]]])
    assert (change, back) == (0, table)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_table_has_the_npus_that_scaling_announced(size: int) -> None:
    policy = ascend.EplbPolicy()
    old = [[[0, 1, 2, 3], [3, 2, 1, 0]]]
    policy.set_new_ep_size(size)
    table = policy.rebalance_experts(old, [[[5, 1, 1, 1], [1, 1, 1, 5]]])[2]
    assert np.array(table).shape == (1, size, 4) and legal(table, 4)
    assert np.array(policy.rebalance_experts(old, [[[5, 1, 1, 1]] * 2])[2]).shape == (1, 2, 4)  # once only


def test_options_and_the_factorys_configuration() -> None:
    policy = ascend.configure(max_moves=0)({"ep_worldsize": 2})
    assert policy.rebalance_experts(TABLE, LOADS)[2] == TABLE
