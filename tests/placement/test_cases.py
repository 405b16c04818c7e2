"""Bad and awkward input that has broken planners before: each gives the value, or names what is wrong and what to do.

Every case is an incident reported against a serving engine, a solver or a planner; the inputs are small stand-ins.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from moeopt import placement
from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.placement import METHODS, PlacementInstance
from moeopt.result import Result, Status

STRONG = [name for name in ("search", "exact", "auto") if name in METHODS]
"""Methods that must reach the best known value."""


def refusal(loads: Any, **fields: Any) -> str:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance(loads, **fields)
    return str(caught.value)


def names(text: str, *words: str) -> None:
    missing = [word for word in words if word.lower() not in text.lower()]
    assert not missing, f"{missing} not in: {text}"


def tops(result: Result) -> list[float]:
    assert result.solution is not None
    return [layer["max_load"] for layer in result.solution["layers"]]


# --- malformed, or a shape that is refused ----------------------------------------------------------------------------


def test_a_load_that_is_not_a_number_is_refused_by_place() -> None:
    for row in ([5.0, float("nan"), 3.0, 1.0], np.array([5.0, np.nan, 3.0, 1.0], dtype=np.float32)):
        names(refusal([row], gpus=2, slots=4), "NaN", "layer 0", "expert 1")


# --- well-formed rules that conflict ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_pin_that_a_prohibition_contradicts_is_explained(method: str) -> None:
    instance = PlacementInstance([[1] * 8], gpus=4, slots=8, pin=[(0, 3)], forbid=[(None, 3)])
    result = placement.solve(instance, method=method)
    assert result.status is Status.INFEASIBLE and result.plan is None and result.objective is None
    names(result.conflicts[0]["message"], "expert 0", "GPU 3", "pin and forbid contradict each other")


@pytest.mark.parametrize("method", METHODS)
def test_memory_below_one_copy_of_everything_is_explained(method: str) -> None:
    instance = PlacementInstance([[1] * 12], expert_bytes=1e9, memory_bytes=[4e9, 6e9])
    result = placement.solve(instance, method=method)
    assert result.status is Status.INFEASIBLE
    names(result.conflicts[0]["message"], "12 GB needed", "10 GB available", "2 experts too many")
    assert result.conflicts[0]["shortfall"] == 2


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", STRONG)
@pytest.mark.parametrize(
    ("loads", "fields", "value"),
    [
        ([3, 3, 2, 2, 2, 0], {"gpus": 2, "slots": 6}, 6),  # largest first with a count limit gives 7
        ([1e12, 1e12, 1e-9, 1e-9], {"gpus": 2, "slots": 4}, 1e12),  # both huge ones together by a tolerance
        ([8, 4, 2, 2], {"gpus": 8, "slots": 8}, 2),  # more GPUs than experts
        ([0, 0, 0, 1000, 0, 0, 0, 0], {"gpus": 4, "slots": 12}, 250),  # five replicas on four GPUs give 400
        ([3, 1, 10**9, 10**9, 2, 5], {"gpus": 3, "slots": 6}, 10**9 + 2),  # unscaled, a MIP solver says 2e9
    ],
    ids=["largest-first-trap", "mixed-huge-and-tiny", "more-gpus-than-experts", "one-takes-all", "counts-1e9"],
)
def test_the_best_known_value_is_reached(method: str, loads: list[float], fields: dict[str, int], value: float) -> None:
    result = placement.solve(PlacementInstance([loads], **fields), method=method)
    assert result.objective == pytest.approx(value, rel=1e-9)


def test_largest_first_falls_into_its_trap() -> None:
    instance = PlacementInstance([[3, 3, 2, 2, 2, 0]], gpus=2, slots=6)
    assert placement.solve(instance, method="eplb").objective == 7
    exact = placement.solve(instance, method="search", limits=Limits(gap=0))
    assert (exact.objective, exact.status) == (6, Status.OPTIMAL)


@pytest.mark.parametrize("method", ["lpt", *STRONG])
def test_replicas_that_meet_the_mean_are_proved(method: str) -> None:
    result = placement.solve(PlacementInstance([[8, 4, 2, 2]], gpus=8, slots=8), method=method)
    assert result.status is Status.OPTIMAL
    assert result.plan.replicas(4).tolist() == [[4, 2, 1, 1]]


@pytest.mark.parametrize("method", METHODS)
def test_no_expert_has_more_replicas_than_gpus(method: str) -> None:
    instance = PlacementInstance([[0, 0, 0, 1000, 0, 0, 0, 0]], gpus=4, slots=12)
    if METHODS[method].applies(instance) is None:
        assert placement.solve(instance, method=method).plan.replicas(8).max() <= 4


@pytest.mark.parametrize("method", METHODS)
def test_sums_of_32_bit_counts_do_not_wrap(method: str) -> None:
    loads = np.full((1, 4), 2_000_000_000, dtype=np.int32)
    instance = PlacementInstance(loads, gpus=2, slots=4, distinct=method != "eplb_raw")
    if METHODS[method].applies(instance) is None:
        assert placement.solve(instance, method=method).objective == 4_000_000_000


@pytest.mark.parametrize("method", METHODS)
def test_a_layer_without_load_is_planned_like_any_other(method: str) -> None:
    instance = PlacementInstance([[0] * 8], gpus=4, slots=8, distinct=method != "eplb_raw")
    if METHODS[method].applies(instance) is not None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = placement.solve(instance, method=method)
    assert result.status is Status.OPTIMAL and result.gap == 0
    assert tops(result) == [0.0]
    assert sorted(result.plan.slot_expert[0].tolist()) == list(range(8))
    assert result.solution["layers"][0]["imbalance"] == result.solution["imbalance_mean"] == 1.0
    assert result.solution["imbalance_total"] == result.solution["mean_over_max"] == 1.0


@pytest.mark.parametrize("method", ["lpt", *STRONG])
def test_cards_of_different_memory_are_filled_each_to_its_own(method: str) -> None:
    instance = PlacementInstance([[1] * 12], expert_bytes=1e9, memory_bytes=[4e9, 8e9], speed=[1, 1])
    assert instance.slots == (4, 8)
    assert placement.solve(instance, method=method).objective == 8


@pytest.mark.parametrize("method", ["eplb", "lpt", *STRONG])
def test_groups_that_do_not_divide_over_nodes_are_left_with_a_note(method: str) -> None:
    instance = PlacementInstance([[1] * 24], gpus=24, slots=24, nodes=3, groups=8)
    result = placement.solve(instance, method=method)
    assert result.objective == 1
    names("\n".join(result.notes), "global placement", "8 groups", "3 nodes")
    names(refusal([[1] * 24], gpus=24, slots=24, nodes=3, groups=8, group_rule="hierarchical"), "8", "3", "nodes")


def test_imbalance_has_one_name_for_each_definition() -> None:
    instance = PlacementInstance([[30, 10, 20, 20]], gpus=4, slots=4)
    judged = placement.evaluate(instance, [[0, 1, 2, 3]])
    assert judged.imbalance == (1.5,)
    assert judged.mean_over_max == pytest.approx(2 / 3, rel=1e-9)
    assert judged.excess == pytest.approx(0.5, rel=1e-9)
    solution = placement.solve(instance, method="contiguous").solution
    assert solution["imbalance_mean"] == 1.5
    assert solution["mean_over_max"] == pytest.approx(2 / 3, rel=1e-9)
    assert solution["excess"] == pytest.approx(0.5, rel=1e-9)


def test_layers_that_lean_to_opposite_sides_do_not_cancel() -> None:
    instance = PlacementInstance([[10, 0], [0, 10]], gpus=2, slots=2)
    judged = placement.evaluate(instance, [[0, 1], [0, 1]])
    assert judged.imbalance_total == pytest.approx(2.0, rel=1e-9)  # 1.0 if GPUs were summed over layers first


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", STRONG)
def test_no_time_at_all_still_gives_a_whole_plan_and_no_claim(method: str) -> None:
    loads = [[1 + e * e * 31 % 97 for e in range(64)]]
    instance = PlacementInstance(loads, gpus=16, slots=80)
    result = placement.solve(instance, method=method, limits=Limits(time_s=0.001, gap=0))
    assert placement.faults(instance, result.plan) == []
    assert result.status is Status.FEASIBLE
    assert str(result.stop) == "TIME"
    if method == "exact":
        names("\n".join(result.notes), "heuristic")
