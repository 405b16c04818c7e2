"""Every number a plan states beside its value is held against the plan, or named as not re-checked."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from moeopt import placement
from moeopt.placement import PlacementInstance
from moeopt.placement.load_plan import document_faults, read_result, unchecked

LOADS = [[40, 9, 7, 5, 3, 2, 2, 1], [9, 9, 8, 8, 7, 7, 6, 6]]
RUNNING = [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]] * 2
SHAPE: dict[str, Any] = {"gpus": 4, "slots": 12}


def planned(**rules: Any) -> tuple[PlacementInstance, dict[str, Any]]:
    method = rules.pop("method", "search")
    instance = PlacementInstance(LOADS, **{**SHAPE, **rules})
    document = json.loads(placement.solve(instance, method=method).to_json())
    assert faults(instance, document) == []
    return instance, document


def faults(instance: PlacementInstance, document: dict[str, Any]) -> list[str]:
    return document_faults(read_result(copy.deepcopy(document)), instance.given_loads, instance.layers)


PRICED = {"c_slot": 1e-6, "c_tok": 1e-7, "current": RUNNING, "expert_bytes": 2.0, "max_moves": 6}
UNDER_FLOOR = {"c_slot": 1e-6, "c_tok": 1e-7, "current": RUNNING, "floor_tokens": 100}
EQUAL = {"split": "free", "fill": "at_most", "method": "equal_split"}


@pytest.mark.parametrize(
    ("rules", "path", "said"),
    [
        (PRICED, ("solution", "seconds", "now"), "solution.seconds.now says"),
        (PRICED, ("solution", "seconds", "after"), "solution.seconds.after says"),
        (PRICED, ("solution", "seconds", "ideal"), "solution.seconds.ideal says"),
        (PRICED, ("solution", "layers", 1, "seconds"), "layer 1: seconds says"),
        (PRICED, ("solution", "layers", 1, "seconds_now"), "layer 1: seconds_now says"),
        (PRICED, ("solution", "moved_bytes"), "moved_bytes says"),
        (PRICED, ("solution", "frontier", 0, 1), "imbalance_now"),
        ({"split": "random"}, ("solution", "layers", 0, "draw_deviation"), "layer 0: draw_deviation says"),
        ({"split": "sglang-static"}, ("solution", "imbalance_even_mean"), "imbalance_even_mean says"),
        ({"top_k": 2, "batch_tokens": 8}, ("solution", "layers", 0, "per_step_imbalance"), "per_step_imbalance says"),
        (EQUAL, ("solution", "equal_split", "extra_copies_fewest", 0), "extra_copies_fewest says"),
    ],
)
def test_a_number_that_is_changed_is_a_fault(rules: dict[str, Any], path: tuple[Any, ...], said: str) -> None:
    instance, document = planned(**rules)
    place = document
    for step in path[:-1]:
        place = place[step]
    for wrong in (place[path[-1]] * 2 + 1, -1 if isinstance(place[path[-1]], int) else -1.0):
        place[path[-1]] = wrong
        assert any(said in fault for fault in faults(instance, document)), wrong


@pytest.mark.parametrize(
    ("rules", "field", "said"),
    [
        (PRICED, "seconds", "solution.seconds is missing"),
        (PRICED, "moved_bytes", "moved_bytes says None"),
        ({"split": "random"}, "imbalance_even_mean", "imbalance_even_mean is missing"),
        ({"current": RUNNING, "lost": [1], "method": "repair"}, "repair", "solution.repair is missing"),
    ],
)
def test_a_number_that_is_left_out_is_a_fault(rules: dict[str, Any], field: str, said: str) -> None:
    instance, document = planned(**rules)
    del document["solution"][field]
    assert any(said in fault for fault in faults(instance, document))


def test_a_copy_that_a_gpu_could_give_does_not_come_from_storage() -> None:
    instance, document = planned(current=RUNNING, max_moves=4)
    layer = next(layer for layer in document["solution"]["layers"] if layer["moved"])
    layer["moved"][0][1] = -1
    assert any("comes from storage" in fault or "come from storage" in fault for fault in faults(instance, document))


def test_advice_that_the_loads_do_not_give_is_a_fault() -> None:
    instance, document = planned(**UNDER_FLOOR)
    assert document["solution"]["advice"]["action"] == "keep"
    document["solution"]["advice"]["action"] = "move"
    assert any(fault.startswith("solution.advice says move") for fault in faults(instance, document))
    other, plain = planned()
    plain["solution"]["advice"] = {"action": "keep", "reason": "it is late"}
    assert any("these loads give none" in fault for fault in faults(other, plain))


def test_a_repair_that_skips_a_layer_and_a_wrong_unit_are_faults() -> None:
    instance, document = planned(current=RUNNING, lost=[1], method="repair")
    document["solution"]["repair"]["layers"].pop()
    document["unit"] = "seconds"
    document["instance"]["name"] = "another"
    said = "\n".join(faults(instance, document))
    for what in ("solution.repair: covers layers [0]", "unit says 'seconds'", "instance.name says"):
        assert what in said


def test_what_is_not_checked_again_is_named() -> None:
    _, document = planned(**PRICED, method="replan")
    assert any("frontier" in what for what in unchecked(read_result(document)))
    _, plain = planned()
    assert unchecked(read_result(plain)) == []


def test_a_plan_over_the_budget_of_all_layers_is_a_fault_and_no_crash() -> None:
    instance, document = planned(**PRICED, method="replan")
    document["instance"]["document"]["max_moves"] = 0
    said = faults(instance, document)
    assert any("allowed 0 in all" in fault for fault in said)
