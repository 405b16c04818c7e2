"""The public rule to the slot, on the example that its authors published.

Source: the example in the README of DeepSeek-AI's EPLB repository (MIT licence): two layers of 12 experts in 4 groups,
16 slots on 8 GPUs of 2 nodes, and the map printed there. The map for one group on one node is the same code's answer.
"""

from __future__ import annotations

import numpy as np
import pytest

from moeopt import placement
from moeopt.errors import NotApplicable
from moeopt.placement import PlacementInstance
from tests import oracles

LOADS = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
PUBLISHED = [
    [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
    [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
]
FLAT = [
    [10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1],
    [1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7],
]
GROUPED = PlacementInstance(LOADS, gpus=8, slots=16, nodes=2, groups=4, distinct=False)
GLOBAL = PlacementInstance(LOADS, gpus=8, slots=16, distinct=False)


@pytest.mark.parametrize(
    ("instance", "slots", "tops"), [(GROUPED, PUBLISHED, [156.0, 179.5]), (GLOBAL, FLAT, [138.5, 172.0])]
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_the_published_map_comes_out_slot_by_slot(
    instance: PlacementInstance, slots: list[list[int]], tops: list[float], dtype: type
) -> None:
    typed = PlacementInstance(
        np.array(LOADS, dtype=dtype),
        gpus=8,
        slots=16,
        nodes=list(instance.node),
        groups=instance.groups,
        distinct=False,
    )
    result = placement.solve(typed, method="eplb_raw")
    assert result.plan.slot_expert.tolist() == slots
    assert [layer["max_load"] for layer in result.solution["layers"]] == tops
    assert [float(oracles.cost(typed, row, held)) for row, held in enumerate(slots)] == tops


@pytest.mark.parametrize("method", ["search", "auto"])
def test_search_beats_the_published_map_where_it_can_be_beaten(method: str) -> None:
    instance = PlacementInstance(LOADS, gpus=8, slots=16, nodes=2, groups=4)
    result = placement.solve(instance, method=method)
    assert [layer["max_load"] for layer in result.solution["layers"]] == [151.0, 179.5]


def test_the_published_rule_is_kept_from_what_it_does_not_know() -> None:
    with pytest.raises(NotApplicable, match="set distinct=false"):
        placement.solve(PlacementInstance(LOADS, gpus=8, slots=16), method="eplb_raw")
    refused = {
        "equal slots": {"slots": [2] * 7 + [3]},
        "equal speeds": {"slots": [2] * 8, "speed": [1.0] * 7 + [2.0]},
        "no pin": {"slots": [2] * 8, "pin": [(0, 0)]},
        "as many GPUs": {"slots": [3] * 8, "nodes": [0] * 3 + [1] * 5},
        "in order": {"slots": [2] * 8, "nodes": [0, 1] * 4, "groups": 4},
    }
    for words, fields in refused.items():
        instance = PlacementInstance(LOADS, distinct=False, **fields)
        with pytest.raises(NotApplicable, match=words):
            placement.solve(instance, method="eplb_raw")


def test_loads_beyond_float32_are_left_to_the_other_methods() -> None:
    """They became infinite, with a warning of numpy and no more."""
    instance = PlacementInstance([[1e39, 1.0]], gpus=2, slots=2, distinct=False)
    with pytest.raises(NotApplicable, match="float32"):
        placement.solve(instance, method="eplb_raw")
    assert placement.solve(instance, method="eplb").objective == 1e39


def test_ties_go_to_the_first_of_equals() -> None:
    result = placement.solve(PlacementInstance([[1] * 4], gpus=2, slots=4, distinct=False), method="eplb_raw")
    assert result.plan.slot_expert.tolist() == [[0, 2, 1, 3]]


def test_one_slot_a_gpu_keeps_the_replicas_in_the_order_they_were_made() -> None:
    result = placement.solve(PlacementInstance([[1, 9, 4]], gpus=5, slots=5, distinct=False), method="eplb_raw")
    assert result.plan.slot_expert.tolist() == [[0, 1, 2, 1, 1]]


def test_comparison_marks_the_plan_that_doubles_a_replica() -> None:
    instance = PlacementInstance([[100, 1]], gpus=2, slots=4)
    comparison = placement.compare(instance, ["eplb_raw", "eplb"])
    raw, fixed = comparison.rows
    assert raw.remark == "breaks distinct" and raw.result is not None
    assert fixed.remark == "" and comparison.best == "eplb"
