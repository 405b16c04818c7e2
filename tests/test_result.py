"""A result refuses every contradiction, and its canonical bytes hold nothing of the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from moeopt import placement, replay
from moeopt.placement import PlacementInstance
from moeopt.result import MACHINE_NOTE, Contradiction, Result, Status, Stop, relative_gap
from tests.test_functions import ROOMS

PLAN: dict[str, Any] = {
    "problem": "placement",
    "instance": {"name": "", "sha256": "0" * 64},
    "method": "lpt",
    "status": Status.FEASIBLE,
    "stop": Stop.FINISHED,
    "objective": 4.0,
    "lower_bound": 3.0,
    "bound_kind": "certified",
    "solution": {"layers": []},
    "gap_worst_layer": 0.25,
    "unit": "tokens",
}
NONE: dict[str, Any] = PLAN | {
    "status": Status.UNKNOWN,
    "objective": None,
    "lower_bound": None,
    "bound_kind": None,
    "solution": None,
    "gap_worst_layer": None,
}


def test_results_without_contradiction_are_built() -> None:
    assert Result(**PLAN).gap == 0.25
    assert Result(**NONE).gap is None
    assert Result(**NONE | {"lower_bound": 3.0, "bound_kind": "solver"}).gap is None
    assert Result(**NONE | {"status": Status.INFEASIBLE, "conflicts": ({"rule": "pin"},)}).gap is None
    assert Result(**PLAN | {"objective": 0.0, "lower_bound": 0.0, "gap_worst_layer": 0.0}).gap == 0
    assert Result(**PLAN | {"status": Status.OPTIMAL, "lower_bound": 4.0, "gap_worst_layer": 0.0}).gap == 0
    claimed = {"status": Status.OPTIMAL, "lower_bound": 4.0 - 1e-6, "gap_worst_layer": 5e-7, "bound_kind": "solver"}
    assert Result(**PLAN | claimed).gap == pytest.approx(2.5e-7)


@pytest.mark.parametrize(
    ("base", "change", "words"),
    [
        (PLAN, {"status": Status.OPTIMAL}, "OPTIMAL with a gap of 0.25"),
        (PLAN, {"status": Status.OPTIMAL, "gap_worst_layer": 0.0}, "OPTIMAL with a gap of 0.25"),
        (PLAN, {"status": Status.OPTIMAL, "lower_bound": 4.0, "gap_worst_layer": 0.1}, "OPTIMAL with a gap of 0.1"),
        (PLAN, {"status": Status.OPTIMAL, "lower_bound": 4 - 1e-7, "gap_worst_layer": None}, "allowed 1e-09"),
        (PLAN, {"status": Status.OPTIMAL, "lower_bound": None, "bound_kind": None, "gap_worst_layer": None}, "None"),
        (PLAN, {"lower_bound": 5.0}, "above objective 4.0"),
        (PLAN, {"objective": 0.0}, "above objective 0.0"),
        (PLAN, {"gap_worst_layer": 0.1}, "worst layer"),
        (PLAN, {"gap_worst_layer": -0.1}, "gap_worst_layer = -0.1"),
        (PLAN, {"runtime_s": -1.0}, "runtime_s = -1.0"),
        (PLAN, {"runtime_s": float("nan")}, "runtime_s = nan"),
        (PLAN, {"objective": float("nan")}, "objective = nan"),
        (PLAN, {"objective": float("inf")}, "objective = inf"),
        (PLAN, {"objective": -4.0}, "objective = -4.0"),
        (PLAN, {"lower_bound": float("-inf")}, "lower_bound = -inf"),
        (PLAN, {"iterations": -1}, "iterations = -1"),
        (PLAN, {"bound_kind": None}, "bound_kind None"),
        (PLAN, {"lower_bound": None}, "bound_kind certified"),
        (PLAN, {"objective": None}, "FEASIBLE with objective None"),
        (PLAN, {"solution": None}, "without a solution"),
        (PLAN, {"status": Status.UNKNOWN}, "UNKNOWN with objective 4.0"),
        (PLAN, {"conflicts": ({"rule": "pin"},)}, "conflict"),
        (NONE, {"solution": {}}, "UNKNOWN with a solution"),
        (NONE, {"objective": 1.0}, "UNKNOWN with objective 1.0"),
        (NONE, {"status": Status.INFEASIBLE}, "without naming the rules"),
        (NONE, {"status": Status.FEASIBLE}, "FEASIBLE with objective None"),
        (NONE, {"gap_worst_layer": 0.5}, "gap_worst_layer"),
    ],
)
def test_a_contradiction_is_refused_by_name(base: dict[str, Any], change: dict[str, Any], words: str) -> None:
    with pytest.raises(Contradiction) as caught:
        Result(**base | change)
    assert words in str(caught.value)


def test_relative_gap_of_known_pairs() -> None:
    assert [relative_gap(4.0, 3.0), relative_gap(0.0, 0.0), relative_gap(2.0, 2.0)] == [0.25, 0.0, 0.0]


def test_canonical_leaves_out_times_versions_and_machine() -> None:
    instance = PlacementInstance([[5, 3, 2, 2]], gpus=2, slots=6)
    result = placement.solve(instance, method="search")
    document = json.loads(result.canonical())
    assert "runtime_s" not in document and "versions" not in document
    assert all(isinstance(value, int | float) for value in document["incumbents"])
    slow = Result(**{name: getattr(result, name) for name in Result.__dataclass_fields__} | _elsewhere(result))
    assert slow.canonical() == result.canonical()
    assert slow.to_json() != result.to_json()


def _elsewhere(result: Result) -> dict[str, Any]:
    return {
        "runtime_s": 99.0,
        "versions": {"python": "9"},
        "notes": (*result.notes, MACHINE_NOTE + "it is slow"),
        "incumbents": tuple((seconds + 1, value) for seconds, value in result.incumbents),
    }


def test_the_document_is_strict_json_that_says_the_same() -> None:
    instance = PlacementInstance([[5, 3, 2, 2]], gpus=2, slots=6, name="tiny")
    result = placement.solve(instance, method="lpt")
    document = json.loads(result.to_json())
    assert document["schema"] == "moeopt/placement-result/1"
    assert document["objective"] == result.objective and document["gap"] == result.gap
    assert document["instance"]["sha256"] == instance.sha256
    assert document["solution"]["layers"][0]["slot_expert"] == result.plan.slot_expert[0].tolist()


# --- printed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["placement", "routing", "collocation", "microbatch", "mesh"])
def test_a_printed_result_is_a_few_lines_in_every_problem(name: str) -> None:
    """It was its whole document, 11,000 characters and more."""
    room, instance, method = ROOMS[name]
    result = room.solve(instance, method=method)
    lines = str(result).splitlines()
    assert 3 <= len(lines) <= 5 and all(len(line) < 300 for line in lines)
    assert lines[0].startswith(f"{name} by {method}: {result.status} (stop {result.stop}), objective ")
    assert "lower bound" in lines[0] and "gap" in lines[0] and result.unit in lines[0]
    assert lines[1].startswith("plan: ") and lines[2].startswith("time: ")
    assert repr(result) == f"<Result: {lines[0]}>"
    assert [result] != [] and str([result]) == f"[{result!r}]"
    compared = room.compare(instance, [method])
    assert len(repr(compared)) < 200


def test_a_printed_result_without_a_plan_says_the_conflict_and_a_long_note_is_cut() -> None:
    loads = [[1, 1, 1, 1]]
    result = placement.solve(placement.PlacementInstance(loads, gpus=2, slots=4, pin=[(0, 0), (1, 0), (2, 0)]))
    assert str(result).splitlines()[0] == "placement by auto: INFEASIBLE (stop FINISHED)"
    assert "conflict: " in str(result)
    noted = replace(placement.solve(placement.PlacementInstance(loads, gpus=2, slots=4)), notes=("x" * 999, "y"))
    assert max(map(len, str(noted).splitlines())) < 200 and str(noted).endswith("... (and 1 more)")


def test_a_large_result_and_a_replay_are_printed_short() -> None:
    loads = np.arange(12 * 64).reshape(12, 64) + 1
    result = placement.solve(placement.PlacementInstance(loads, gpus=8, slots=72), method="eplb")
    assert len(str(result)) < 500 and len(repr(result)) < 200
    history = placement.PlacementInstance(np.stack([loads, loads[::-1]]), gpus=8, slots=72)
    played = replay.replay(history, ["keep", "eplb"], first="eplb")
    assert len(str(played)) < 1000 and len(repr(played)) < 200
    assert [line.split()[0] for line in str(played).splitlines()] == [
        "replay", "policy", "keep", "eplb", "bound", "time:"
    ]  # fmt: skip
