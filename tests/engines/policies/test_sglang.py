"""The algorithm of SGLang."""

from __future__ import annotations

import inspect
import sys
from enum import Enum, auto
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moeopt.engines.policies import sglang
from tests.engines.policies.fake_torch import Tensor, install

STEPS = np.array([[[8, 4, 2, 2, 1, 3, 1, 1]], [[6, 4, 1, 2, 2, 3, 1, 2]]])


class EplbAlgorithm(Enum):
    """As the engine's."""

    deepseek = auto()
    deepseek_hierarchical = auto()
    deepseek_vec = auto()
    deepseek_vec_hierarchical = auto()
    elasticity_aware = auto()
    elasticity_aware_hierarchical = auto()


def test_the_signature_is_the_engines() -> None:
    names = list(inspect.signature(sglang.rebalance_experts).parameters)[:6]
    assert names == list(inspect.signature(sglang.configure()).parameters)
    assert names == [
        "tokens_per_expert",
        "num_physical_experts",
        "num_local_physical_experts",
        "num_groups",
        "num_nodes",
        "algorithm",
    ]


@pytest.mark.parametrize("algorithm", [*EplbAlgorithm, "auto", "deepseek"])
def test_every_algorithm_gives_three_tensors(algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    counts = Tensor(STEPS, np.int32)
    maps = sglang.rebalance_experts(
        tokens_per_expert=counts,
        num_physical_experts=12,
        num_local_physical_experts=3,
        num_groups=4,
        num_nodes=2,
        algorithm=algorithm,
    )
    assert all((type(table), table.device, table.dtype) == (Tensor, "gpu:0", np.int64) for table in maps)
    held, lists, amounts = (table.data for table in maps)
    assert held.shape == (1, 12) and amounts.shape == (1, 8) and amounts.sum() == 12
    name = getattr(algorithm, "name", algorithm)
    assert lists.shape == (1, 8, 5 if "vec" in name else amounts.max())
    assert all(held[0, slot] == expert for expert in range(8) for slot in lists[0, expert] if slot >= 0)
    if "hierarchical" in name or name == "auto":
        halves = held.reshape(2, 6) // 2  # groups of two experts
        assert not set(halves[0]) & set(halves[1])


def test_steps_are_summed_in_64_bits() -> None:
    counts = np.full((3, 1, 4), 2**31 - 1, dtype=np.int32)
    counts[:, 0, 0] = 1
    held = sglang.rebalance_experts(counts, 6, 3, None, 1, "deepseek")[0]
    size = counts.sum(axis=(0, 1), dtype=float) / np.bincount(held[0])
    assert size[held[0]].reshape(2, 3).sum(axis=1).max() == pytest.approx(4.5 * (2**31 - 1))


def test_the_running_map_may_be_a_function() -> None:
    running = np.array([[7, 6, 5, 4, 3, 2, 1, 0]])
    still = sglang.configure(current=lambda: running, max_moves=0)
    assert (still(STEPS, 8, 2, None, 1, EplbAlgorithm.deepseek)[0] == running).all()
    lost = sglang.configure(current=lambda: 1 / 0)
    assert sorted(lost(STEPS, 8, 2, None, 1, EplbAlgorithm.deepseek)[0][0].tolist()) == list(range(8))


def test_dead_ranks_get_nothing_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(sglang.ELASTIC)
    state = SimpleNamespace(active_ranks=np.array([1, 0, 1, 1]))
    module.get_elastic_ep_state = lambda: state  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, sglang.ELASTIC, module)
    held, lists, counts = sglang.rebalance_experts(STEPS, 16, 4, 4, 2, EplbAlgorithm.elasticity_aware)
    assert held[0, 4:8].tolist() == [0] * 4
    assert not {4, 5, 6, 7} & set(lists.ravel().tolist())
    assert counts.sum() == 12
    assert all(held[0, slot] == expert for expert in range(8) for slot in lists[0, expert] if slot >= 0)


@pytest.mark.parametrize(
    "call", [(None, 8, 2, None, 1), (STEPS, 8, 0, None, 1), (STEPS, 7, 2, None, 1), ("x", 8, 2, 0, 0)]
)
def test_nonsense_raises_nothing(call: Any) -> None:
    assert len(sglang.rebalance_experts(*call, "deepseek_vec")) == 3


@pytest.mark.parametrize("counts", [None, "x", STEPS, STEPS * np.nan])
@pytest.mark.parametrize(
    ("slots", "ranks"), [(16, [1, 0, 1, 1]), (16, [1, 0, 0, 0]), (17, [1, 0, 1, 1]), (16, [0] * 4)]
)
def test_nonsense_beside_dead_ranks_raises_nothing_and_keeps_the_shape(counts: Any, slots: int, ranks: Any) -> None:
    for current in (None, np.arange(slots)[None] % 8, "junk"):
        held, lists, amounts = sglang.rebalance_experts(
            counts, slots, 4, 4, 2, "elasticity_aware", current=current, active_ranks=ranks
        )
        assert held.shape == (1, slots) and held.dtype == np.int64
        assert lists.shape[:2] == amounts.shape
