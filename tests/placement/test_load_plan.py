"""Plans as documents: our own are accepted at the edge of the doubles, damaged ones are faults and never crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moeopt import placement
from moeopt.errors import InstanceError
from moeopt.placement import PlacementInstance, bounds
from moeopt.placement.load_plan import claimed_layers, document_faults, read_result


def document_of(instance: PlacementInstance, method: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(placement.solve(instance, method=method).to_json())
    return found


@pytest.mark.parametrize("method", ["contiguous", "lpt", "eplb", "search"])
def test_a_plan_for_loads_near_the_smallest_double_is_accepted(method: str) -> None:
    """max_load / ideal of the written doubles was held against the exact imbalance although they have few digits."""
    loads = [[4.5e-308, 3e-308, 0.0], [0.0, 2.5e-308, 2.5e-308]]
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


def claimed(value: object) -> dict[str, Any]:
    """A poor plan that calls itself optimal on a solver's word."""
    document = document_of(PlacementInstance([[10, 9, 8, 7, 6, 5, 4, 30]], gpus=4, slots=12), "contiguous")
    layer = document["solution"]["layers"][0]
    layer |= {"lower_bound": layer["max_load"], "gap": 0.0}
    document |= {"lower_bound": document["objective"], "gap": 0.0, "gap_worst_layer": 0.0, "status": "OPTIMAL"}
    document |= {"bound_kind": "solver", "certificate": {"layers": [{"layer": 0, "kind": "solver", "value": value}]}}
    return document


def test_a_solvers_false_claim_is_refuted_where_a_better_plan_can_be_found() -> None:
    found = document_faults(read_result(claimed(39.0)), [[10, 9, 8, 7, 6, 5, 4, 30]])
    assert found == ["layer 0: lower_bound says 39.0, a plan of 20.0 exists"]


@pytest.mark.parametrize("value", [None, "nonsense", -5, 38.0])
def test_a_solvers_claim_has_to_be_a_number_and_the_bound(value: object) -> None:
    found = document_faults(read_result(claimed(value)), [[10, 9, 8, 7, 6, 5, 4, 30]])
    assert any("the solver's certificate" in fault for fault in found)


def test_layers_with_a_solvers_claim_are_listed() -> None:
    assert claimed_layers(read_result(claimed(39.0))) == [0]


@pytest.mark.parametrize("number", ["1e30000000", "9" * 5000, "1/0", "0x1", " 1"])
def test_numbers_that_would_keep_verify_busy_prove_nothing(number: str) -> None:
    instance = PlacementInstance([[3, 3, 2, 2, 2, 0]], gpus=2, slots=6)
    for certificate in (
        {"kind": "enumeration", "value": number},
        {"kind": "pigeonhole", "threshold": number, "experts": []},
    ):
        with pytest.raises(ValueError, match="proves nothing"):
            bounds.check(instance, 0, certificate)
