"""The policy class of vLLM."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from moeopt.engines.policies import vllm
from tests.engines.policies.fake_torch import Tensor, install

LOADS = [[8, 4, 2, 2], [1, 5, 3, 2]]
RUNNING = [[3, 2, 1, 0, 2, 3], [0, 1, 2, 3, 0, 1]]


def test_the_signature_is_the_engines() -> None:
    names = list(inspect.signature(vllm.EplbPolicy.rebalance_experts).parameters)
    assert names == ["weight", "num_replicas", "num_groups", "num_nodes", "num_ranks", "old_global_expert_indices"]


def test_one_tensor_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    weight, old = Tensor(LOADS, np.float32, "cpu"), Tensor(RUNNING, np.int64, "cpu")
    for answer in (
        vllm.EplbPolicy.rebalance_experts(weight, 6, 1, 1, 2),
        vllm.EplbPolicy.rebalance_experts(weight, 6, 1, 1, 2, old),
        vllm.EplbPolicy.rebalance_experts(
            weight=weight, num_replicas=6, num_groups=1, num_nodes=1, num_ranks=2, old_global_expert_indices=old
        ),
    ):
        assert (type(answer), answer.device, answer.dtype, answer.shape) == (Tensor, "cpu", np.int64, (2, 6))


def test_a_profile_run_without_loads_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    answer = vllm.EplbPolicy.rebalance_experts(Tensor(np.zeros((2, 4))), 6, 1, 1, 2, Tensor(RUNNING))
    assert answer.tolist() == RUNNING


def test_options_belong_to_the_class_they_were_given_to() -> None:
    still = vllm.configure(max_moves=0)
    assert still.rebalance_experts(LOADS, 6, 1, 1, 2, RUNNING).tolist() == RUNNING
    assert vllm.EplbPolicy.options.max_moves is None
    assert issubclass(still, vllm.EplbPolicy)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_ranks_that_come_or_go_get_a_legal_map(ranks: int) -> None:
    loads = [[8, 4, 2], [1, 5, 3]]
    held = vllm.EplbPolicy.rebalance_experts(loads, 3 * ranks, 1, 1, ranks, [[0, 1, 2, 2, 1, 0]] * 2)
    assert held.shape == (2, 3 * ranks)
    assert all(sorted(gpu) == [0, 1, 2] for gpu in held.reshape(-1, 3).tolist())
