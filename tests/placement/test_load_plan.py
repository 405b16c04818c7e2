"""Plans as documents: our own are accepted at the edge of the doubles, damaged ones are faults and never crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moeopt import placement
from moeopt.errors import InstanceError
from moeopt.placement import PlacementInstance
from moeopt.placement.load_plan import document_faults, read_result


def document_of(instance: PlacementInstance, method: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(placement.solve(instance, method=method).to_json())
    return found


@pytest.mark.parametrize("method", ["contiguous", "lpt", "eplb", "search"])
def test_a_plan_for_loads_near_the_smallest_double_is_accepted(method: str) -> None:
    """max_load / ideal of the written doubles was held against the exact imbalance although they have few digits."""
    loads = [[1.5e-323, 1e-323, 0.0], [0.0, 2e-308, 2e-308]]
    instance = PlacementInstance(loads, slots=[2, 2, 1], speed=[0.1, 0.1, 0.1])
    assert document_faults(read_result(document_of(instance, method)), loads) == []


def test_a_wrong_imbalance_is_still_named_at_ordinary_loads() -> None:
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4)
    document = document_of(instance, "lpt")
    document["solution"]["layers"][0]["imbalance"] += 1e-6
    assert any("imbalance says" in fault for fault in document_faults(read_result(document)))


@pytest.mark.parametrize("keep", [0, 1])
def test_shares_that_do_not_cover_the_layers_are_a_fault(keep: int) -> None:
    loads = [[8, 4, 2, 2], [1, 2, 3, 4]]
    document = document_of(PlacementInstance(loads, gpus=2, slots=6, split="free"), "lpt")
    document["solution"]["shares"] = document["solution"]["shares"][:keep]
    assert f"shares cover {keep} layers of 2" in document_faults(read_result(document), loads)


@pytest.mark.parametrize("odd", [[], {}, "x", 1.5, True, None, -1])
@pytest.mark.parametrize("field", ["nodes", "slots", "speed", "groups", "pin"])
def test_odd_values_in_the_embedded_instance_are_faults_or_named_errors(field: str, odd: object) -> None:
    document = document_of(PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4), "lpt")
    document["instance"]["document"][field] = [odd, odd]
    try:
        assert document_faults(read_result(document), [[8, 4, 2, 2]])
    except InstanceError as error:
        assert field in str(error)
