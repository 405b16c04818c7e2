"""The drop-in for EPLB: form, quality, stability."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.engines import eplb
from moeopt.engines.policies.shape import Shape, new_pairs
from moeopt.errors import InstanceError
from moeopt.workload import generate
from tests.benchmarks.rows import all_rows, instance_of, loads_of
from tests.benchmarks.target_policies import fault
from tests.engines.policies.fake_torch import HalfTensor, PlainTensor, Tensor, install

EXAMPLE = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
"""Of EPLB's own page: 16 replicas, 4 groups, 2 nodes, 8 GPUs; its map has 156 and 179.5."""


def tops(loads: Any, held: Any, gpus: int) -> list[float]:
    """Busiest GPU of each layer, straight from the definition."""
    found = []
    for row, slots in zip(np.asarray(loads, dtype=float), np.asarray(held), strict=True):
        size = row / np.maximum(np.bincount(slots, minlength=len(row)), 1)
        found.append(float(size[slots].reshape(gpus, -1).sum(axis=1).max()))
    return found


def test_published_example_is_solved_to_the_optimum() -> None:
    answers = eplb.rebalance_experts(EXAMPLE, 16, 4, 2, 8)
    assert fault({"slots": 16}, np.array(EXAMPLE), answers) == ""
    assert tops(EXAMPLE, answers[0], 8) == [151, 179.5]


def test_arguments_go_by_name_as_well() -> None:
    named = eplb.rebalance_experts(weight=EXAMPLE, num_replicas=16, num_groups=4, num_nodes=2, num_gpus=8)
    placed = eplb.rebalance_experts(EXAMPLE, 16, 4, 2, 8)
    assert all((one == other).all() for one, other in zip(named, placed, strict=True))


@pytest.mark.parametrize("name", ["mixtral_12_g4", "qwen3_160_g32/zipf1.2/flat", "gptoss_136_g8/uniform"])
def test_rows_have_the_form_of_the_public_rule_and_no_layer_is_worse(name: str) -> None:
    for row in all_rows(name):
        loads = loads_of(row)[:6]
        answers = eplb.rebalance_experts(loads, row["slots"], row["groups"] or 1, row["nodes"], row["gpus"])
        assert fault(row, loads, answers) == ""
        instance = instance_of(row, loads)
        rule = placement.evaluate(instance, placement.solve(instance, method="eplb").plan)
        ours = placement.evaluate(instance, answers[0])  # refuses doubles
        assert all(a <= b * (1 + 1e-9) for a, b in zip(ours.max_load, rule.max_load, strict=True))


def test_hierarchical_row_keeps_groups_on_nodes_and_is_not_worse() -> None:
    row = next(all_rows("dsv3_288_g32/lognormal/hierarchical"))
    loads = loads_of(row)[:4]
    held = eplb.rebalance_experts(loads, row["slots"], row["groups"], row["nodes"], row["gpus"])[0]
    instance = instance_of(row, loads)
    rule = placement.evaluate(instance, placement.solve(instance, method="eplb").plan)
    ours = placement.evaluate(instance, held)
    assert all(a <= b * (1 + 1e-9) for a, b in zip(ours.max_load, rule.max_load, strict=True))


@settings(max_examples=25)
@given(st.data())
def test_any_shape_gets_a_legal_map_not_worse_than_the_rule(data: st.DataObject) -> None:
    gpus = data.draw(st.integers(1, 6))
    experts = data.draw(st.integers(gpus, 16))
    per_gpu = data.draw(st.integers(-(-experts // gpus), experts))
    groups, nodes = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 4))
    number = st.one_of(st.integers(0, 10**6), st.floats(0, 1e6, allow_subnormal=False))
    loads = np.array(data.draw(st.lists(st.lists(number, min_size=experts, max_size=experts), min_size=1, max_size=2)))
    fast = eplb.configure(time_limit_s=30.0)
    held, lists, counts = fast(loads, gpus * per_gpu, groups, nodes, gpus)
    assert fault({"slots": gpus * per_gpu}, loads, (held, lists, counts)) == ""
    instance = placement.PlacementInstance(loads, gpus=gpus, slots=gpus * per_gpu)
    assert placement.faults(instance, placement.Placement.of(held)) == []
    again = fast(loads, gpus * per_gpu, groups, nodes, gpus, current=held)[0]
    assert (again == held).all()


def test_unchanged_loads_give_the_old_map_back() -> None:
    loads = generate("lognormal", layers=3, experts=64, top_k=6, tokens=4096, seed=1).loads
    held = eplb.rebalance_experts(loads, 72, 1, 1, 8)[0]
    assert (eplb.rebalance_experts(loads, 72, 1, 1, 8, current=held)[0] == held).all()


def test_another_name_for_the_same_map_is_no_reason_to_move() -> None:
    loads = generate("lognormal", layers=3, experts=64, top_k=6, tokens=4096, seed=1).loads
    held = eplb.rebalance_experts(loads, 72, 1, 1, 8)[0]
    renamed = held.reshape(3, 8, 9)[:, ::-1, ::-1].reshape(3, 72)
    for keep in (0.0, 0.01):
        answer = eplb.configure(keep=keep, time_limit_s=30.0)(loads, 72, 1, 1, 8, current=renamed)[0]
        assert tops(loads, answer, 8) == pytest.approx(tops(loads, renamed, 8), rel=0.001)
    assert (eplb.rebalance_experts(loads, 72, 1, 1, 8, current=renamed)[0] == renamed).all()
    assert eplb.rebalance_experts([[10, 1, 9, 2]], 4, 1, 1, 2, current=[[3, 2, 1, 0]])[0].tolist() == [[3, 2, 1, 0]]


def test_a_little_drift_moves_little() -> None:
    loads = generate("lognormal", layers=4, experts=256, top_k=8, tokens=65536, seed=1).loads
    later = np.rint(loads * np.exp(np.random.default_rng(0).normal(0, 0.05, loads.shape)))
    slow = eplb.configure(time_limit_s=30.0)
    held = slow(loads, 288, 1, 1, 32)[0]
    after = slow(later, 288, 1, 1, 32, current=held)[0]
    ideal = later.sum(axis=1) / 32
    assert (tops(later, after, 32) / ideal).mean() <= 1.006
    moved = new_pairs(Shape(4, 256, 288, 32), held, after).sum()
    assert 0 < moved <= 0.15 * held.size
    stays = (held.reshape(4, 32, 1, 9) == after.reshape(4, 32, 9, 1)).any(axis=3).sum()
    assert (held == after).sum() == stays  # what stays on its GPU stays in its slot


@pytest.mark.parametrize("budget", [0, 1, 2, 5])
def test_the_budget_of_moves_holds_in_every_layer(budget: int) -> None:
    loads = generate("zipf", layers=3, experts=16, top_k=2, tokens=4096, seed=2).loads
    start = np.tile(np.arange(20) % 16, (3, 1))
    held = eplb.configure(max_moves=budget, time_limit_s=30.0)(loads, 20, 1, 1, 4, current=start)[0]
    assert new_pairs(Shape(3, 16, 20, 4), start, held).max() <= budget
    before, after = tops(loads, start, 4), tops(loads, held, 4)
    assert all(a <= b for a, b in zip(after, before, strict=True))
    assert (after < before) == (budget >= 1)


def test_with_keep_zero_no_layer_ends_above_the_rule() -> None:
    loads = generate("lognormal", layers=3, experts=32, top_k=4, tokens=4096, seed=5).loads
    start = np.tile(np.arange(40) % 32, (3, 1))
    held = eplb.configure(keep=0.0, time_limit_s=30.0)(loads, 40, 1, 1, 8, current=start)[0]
    instance = placement.PlacementInstance(loads, gpus=8, slots=40)
    rule = placement.solve(instance, method="eplb").plan.slot_expert
    assert all(a <= b * (1 + 1e-9) for a, b in zip(tops(loads, held, 8), tops(loads, rule, 8), strict=True))


def test_doubles_of_the_running_map_are_mended() -> None:
    start = [[0, 0, 1, 2, 3, 1]]
    held = eplb.rebalance_experts([[8, 4, 2, 2]], 6, 1, 1, 2, current=start)[0]
    assert all(len(set(gpu)) == 3 for gpu in held.reshape(2, 3).tolist())


@pytest.mark.parametrize("kind", [Tensor, HalfTensor, PlainTensor])
def test_tensors_come_back_as_tensors_on_their_device(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    weight = kind(EXAMPLE, dtype=np.float64, device="gpu:3")
    answers = eplb.rebalance_experts(weight, 16, 4, 2, 8)
    for table in answers:
        assert (type(table), table.device, table.dtype) == (kind, "gpu:3", np.int64)
    assert tops(EXAMPLE, answers[0].data, 8) == [151, 179.5]
    assert weight.data.tolist() == EXAMPLE


def test_neither_torch_nor_numba_is_imported() -> None:
    code = (
        "import sys; from moeopt.engines import eplb; eplb.rebalance_experts([[3, 1]], 2, 1, 1, 2);"
        "print(sorted({'torch', 'numba', 'pulp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_inputs_are_left_as_they_were() -> None:
    weight, current = np.array(EXAMPLE, dtype=float), np.tile(np.arange(16) % 12, (2, 1))
    before = weight.copy(), current.copy()
    eplb.rebalance_experts(weight, 16, 1, 1, 8, current=current)
    assert (weight == before[0]).all() and (current == before[1]).all()


def test_options_are_checked_where_they_are_set() -> None:
    with pytest.raises(InstanceError, match="max_moves = -1: must be a whole number >= 0") as caught:
        eplb.configure(max_moves=-1, keep=2, time_limit_s=0, seed=-1, split="free")
    assert len(caught.value.violations) == 5


@pytest.mark.parametrize("split", ["sglang-static", "random"])
def test_the_split_of_the_engine_is_planned_for(split: str) -> None:
    loads = generate("zipf", layers=2, experts=8, top_k=2, tokens=4096, seed=2).loads
    held = eplb.configure(split=split)(loads, 12, 1, 1, 4)[0]
    instance = placement.PlacementInstance(loads, gpus=4, slots=12, split=split)
    rule = placement.evaluate(instance, placement.solve(instance, method="eplb").plan)
    ours = placement.evaluate(instance, held)
    assert all(a <= b for a, b in zip(ours.max_load, rule.max_load, strict=True))
