"""Numbers, names and documents at the edge of what can be held: refused by name, or handled exactly."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from moeopt import placement
from moeopt.errors import InstanceError, MoeoptError
from moeopt.placement import PlacementInstance
from moeopt.placement.load_plan import document_faults, read_result
from moeopt.result import Result

PAIR: dict[str, Any] = {"gpus": 2, "slots": 2}
NEXT = {"now": 1.5, "after": 1.2}


def accepted(instance: PlacementInstance, result: Result) -> bool:
    document = read_result(json.loads(result.to_json()))
    return document_faults(document, instance.given_loads, instance.layers) == []


@pytest.mark.parametrize("loads", [[[0, 0, 5e-324], [3, 0, 0]], [[[0, 0, 5e-324]], [[3, 0, 0]]]])
def test_a_load_below_the_normal_doubles_is_refused(loads: object) -> None:
    """A third of it is no double, so that ratios and gaps contradicted each other."""
    with pytest.raises(InstanceError, match=r"expert 2] = 5e-324: loads must be 0 or at least 2.23e-308"):
        PlacementInstance(loads, gpus=3, slots=6)


def test_windows_whose_sum_is_no_double_are_refused() -> None:
    with pytest.raises(InstanceError, match=r"expert 0] = 1e\+308: the sum over windows must be a finite double"):
        PlacementInstance([[[1e308, 0]], [[1e308, 0]]], **PAIR)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("method", "loads", "shape"),
    [
        ("search", [[[0] * 6 + [1e-300]], [[0, 1e-300, 1e-300, 1e-300, 0, 0, 0]]], {"gpus": 4, "slots": 8}),
        ("auto", [[0] * 7, [0, 0, 0, 0, 0, 1e-300, 0]], {"slots": [3, 4, 4], "speed": [2, 0.001, 0.1]}),
    ],
)
def test_tiny_loads_are_planned(method: str, loads: object, shape: dict[str, Any]) -> None:
    """Thresholds next to nothing overflowed in the prices of the bounds."""
    instance = PlacementInstance(loads, **shape)
    assert accepted(instance, placement.solve(instance, method=method))


@pytest.mark.parametrize("value", [10**30, "1" + "0" * 30, "1e300", 10**400, 2**63])
@pytest.mark.parametrize("kind", ["enumeration", "configuration", "pigeonhole", "deals", "windows", "blend", "solver"])
def test_a_certificate_with_a_huge_number_is_a_fault(kind: str, value: object) -> None:
    loads = [[10, 9, 5, 4, 2, 1]]
    document = json.loads(placement.solve(PlacementInstance(loads, gpus=2, slots=6)).to_json())
    huge = {"value": value, "threshold": value, "sizes": [value], "prices": [value], "experts": [0], "nodes": [value]}
    document["certificate"]["layers"][0] = {"layer": 0, "kind": kind, **huge, "weights": [value], "windows": [value]}
    assert any("certificate" in fault or "bound" in fault for fault in document_faults(read_result(document), loads))


@pytest.mark.parametrize("memory", [{}, {"expert_bytes": 2.0, "memory_bytes": 6.0}])
def test_a_document_with_a_huge_number_of_slots_has_a_fault(memory: dict[str, float]) -> None:
    loads = [[10, 9, 5, 4, 2, 1]]
    document = json.loads(placement.solve(PlacementInstance(loads, gpus=2, slots=6, **memory)).to_json())
    document["instance"]["document"]["slots"][0] = 10**30
    found = document_faults(read_result(copy.deepcopy(document)), loads)
    assert any("slots[GPU 0]" in fault and "at most 16777216 in all" in fault for fault in found)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"shared": "hosted", "top_k": 10**29}, "top_k = 1"),
        ({"shared": "hosted", "top_k": 2, "num_shared": 9_999_999_999}, "num_shared = 9999999999"),
        ({"slots": None, "memory_bytes": 1e300, "expert_bytes": 1e-300, "distinct": False}, r"slots\[GPU 0\]"),
        ({"names": ["\ud800", "b"]}, r"names\[expert 0\] = .*ud800: must be text that UTF-8 can hold"),
        ({"phase": "\ud800"}, "phase"),
        ({"llm": {"name": "\ud800"}}, "llm"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(InstanceError, match=said):
        PlacementInstance([[1, 2]], **{**PAIR, **rules})


def test_memory_for_any_number_of_experts_is_enough() -> None:
    assert PlacementInstance([[1, 2]], gpus=2, memory_bytes=1e300, expert_bytes=1e-300).slots == (2, 2)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"steps_until_next": 2**70, "step_seconds": 0.03, "stall_seconds": 1.0}, "steps_until_next = "),
        ({"steps_until_next": 10**400, "step_seconds": 0.03, "stall_seconds": 1.0}, "steps_until_next = "),
        ({"steps_until_next": 9, "step_seconds": 1e-300, "stall_seconds": 1e308}, "must fit a double"),
        ({"steps_until_next": 9, "step_seconds": 1e308, "stall_seconds": 1.0}, "must fit a double"),
    ],
)
def test_a_decision_over_numbers_too_large_is_refused(numbers: dict[str, Any], said: str) -> None:
    with pytest.raises(InstanceError, match=said):
        placement.decide(**NEXT, **numbers)


def test_plans_as_lists_are_judged_like_placements() -> None:
    instance = PlacementInstance([[1, 2]], **PAIR)
    assert placement.faults(instance, [[0, 1]]) == []
    assert placement.faults(instance, [[0, 0]]) == ["layer 0: expert 1 has no replica"]
    assert placement.lost_if(instance, [[0, 1]]) == {0: {0: [0]}, 1: {0: [1]}}
    assert placement.survival(instance, [[0, 1]], by="gpu").tolist() == [[0, 0]]
    with pytest.raises(MoeoptError, match="not a table"):
        placement.faults(instance, [[0, 1], [0]])
