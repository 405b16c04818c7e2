"""The instance: its document is itself again, and whatever is malformed is named."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt import placement
from moeopt.documents import to_json
from moeopt.errors import InstanceError
from moeopt.placement import METHODS, PlacementInstance
from tests import strategies

FULL: dict[str, Any] = {
    "loads": [[4, 3, 2, 1]],
    "slots": [2, 2],
    "nodes": [0, 0],
    "groups": [0, 0, 1, 1],
    "names": ["a", "b", "c", "d"],
    "pin": [[0, 1]],
    "forbid": [[None, 0], [2, 1]],
    "expert_bytes": 10.0,
    "memory_bytes": [25.0, 20.0],
    "llm": {"name": "tiny", "experts": 4},
    "phase": "decode",
    "engine": "sglang",
    "layers": [3],
    "name": "everything",
}


# --- round trip -------------------------------------------------------------------------------------------------------


@given(strategies.instances())
def test_writing_and_reading_an_instance_is_the_identity(instance: PlacementInstance) -> None:
    document = json.loads(to_json(instance.to_dict()))
    again = PlacementInstance.from_dict(document)
    assert again.to_dict() == instance.to_dict()
    assert again.sha256 == instance.sha256
    assert again.loads.dtype == instance.loads.dtype


def test_every_field_survives_the_document() -> None:
    instance = PlacementInstance(**FULL)
    document = json.loads(to_json(instance.to_dict()))
    assert {key: document[key] for key in FULL} == FULL
    assert PlacementInstance.from_dict(document).sha256 == instance.sha256


def test_digest_is_that_of_the_meaning_not_of_the_spelling() -> None:
    spellings = [
        PlacementInstance([[4, 3, 2, 1]], gpus=2, slots=4),
        PlacementInstance([[4.0, 3.0, 2.0, 1.0]], gpus=2, slots=4, name="another name"),
        PlacementInstance(np.array([[4, 3, 2, 1]], dtype=np.int8), slots=[2, 2]),
        PlacementInstance(np.array([4, 3, 2, 1], dtype=np.float32), slots=np.array([2, 2]), speed=[1, 1]),
        PlacementInstance.from_dict(
            {"schema": "moeopt/placement-instance/1", "loads": [[4.0, 3, 2, 1]], "gpus": 2, "slots": 4}
        ),
    ]
    assert len({instance.sha256 for instance in spellings}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"loads": [[4, 3, 2, 2]]},
        {"slots": [3, 2]},
        {"speed": [1.0, 2.0]},
        {"split": "free"},
        {"fill": "at_most"},
        {"distinct": False},
        {"floor_tokens": 1.0},
        {"floor_rule": "per_replica"},
        {"steps": 2},
        {"groups": 2},
        {"pin": [[0, 0]]},
        {"forbid": [[None, 0]]},
        {"layers": [1]},
        {"names": ["a", "b", "c", "d"]},
        {"llm": {"name": "x"}},
    ],
)
def test_digest_changes_with_every_field(change: dict[str, Any]) -> None:
    base = {"loads": [[4, 3, 2, 1]], "slots": [2, 2]}
    assert PlacementInstance(**(base | change)).sha256 != PlacementInstance(**base).sha256


# --- refused ----------------------------------------------------------------------------------------------------------


def document(**change: Any) -> dict[str, Any]:
    return {"schema": "moeopt/placement-instance/1", "loads": [[4, 3, 2, 1]], "slots": [2, 2]} | change


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (document(slotz=3), ["slotz", "is not a field", "Did you mean slots?"]),
        (document(schema="moeopt/placement-instance/2"), ["moeopt/placement-instance/2", "this version"]),
        (document(schema="moeopt/routing-instance/1"), ["moeopt/routing-instance/1"]),
        ({"loads": [[1]]}, ["schema", "None"]),
        ([1, 2], ["document", "JSON object"]),
        (document(slots=[2, "2"]), ["slots", "'2'"]),
        (document(steps=1.5), ["steps", "1.5"]),
        (document(split="even_odd"), ["split", "even"]),
        (document(pin=[[0]]), ["pin"]),
        (document(loads=[[4, True, 2, 1]]), ["loads", "True"]),
        (document(loads=[[4, None, 2, 1]]), ["loads"]),
    ],
)
def test_a_document_with_an_unknown_field_or_version_is_refused_by_name(raw: Any, words: list[str]) -> None:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance.from_dict(raw, "plan.json")
    text = str(caught.value)
    assert text.startswith("plan.json: ")
    assert all(word in text for word in words), text


ODD: list[Any] = [None, "x", "", -1, 0, 1.5, float("nan"), float("inf"), True, [], [[]], {}, [None, None], ["1", "1"]]


@pytest.mark.parametrize(
    "field", [*FULL, "speed", "gpus", "steps", "floor_tokens", "floor_rule", "split", "fill", "distinct", "group_rule"]
)
def test_odd_values_are_taken_or_named_and_never_another_error(field: str) -> None:
    """TypeErrors from inside once told the caller nothing about the field."""
    for value in [*ODD, object(), 10**400, [float("nan"), 1.0], (1, 2, 3), np.array([1.5, 2.5]), np.array(3)]:
        try:
            instance = PlacementInstance(**{"loads": [[4, 3, 2, 1]], "slots": [2, 2], field: value})
        except InstanceError as error:
            assert any(violation.field for violation in error.violations)
        else:
            assert PlacementInstance.from_dict(json.loads(to_json(instance.to_dict()))).sha256 == instance.sha256


@pytest.mark.parametrize(
    "fields",
    [
        {"floor_tokens": 1e308, "steps": 100},
        {"floor_tokens": 1e307, "loads": [[1] * 100], "slots": [50, 50]},
        {"loads": [[1e200, 1.0]], "slots": [1, 1], "speed": [1e-200, 1.0]},
        {"loads": [[1e308, 0.0], [1e308, 0.0]], "slots": [1, 1]},
    ],
)
def test_costs_beyond_a_double_are_refused_at_birth(fields: dict[str, Any]) -> None:
    with pytest.raises(InstanceError, match="double"):
        PlacementInstance(**({"loads": [[4, 3, 2, 1]], "slots": [2, 2]} | fields))


def test_all_violations_come_in_one_message() -> None:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance([[1, -2, float("nan")]], gpus=2, slots=4, split="odd", steps=0, floor_tokens=-1)
    assert {violation.field for violation in caught.value.violations} == {"loads", "split", "steps", "floor_tokens"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpus": 3, "slots": 4}, ["slots = 4", "gpus = 3"]),
        ({"gpus": 2, "slots": [2, 2, 2]}, ["slots", "3 entries", "2"]),
        ({"slots": [2, 2], "speed": [1.0, 1.0, 1.0]}, ["2 in slots, 3 in speed"]),
        ({"gpus": 2, "slots": 10}, ["5", "experts = 4", "GPU 0", "Use 4 or fewer"]),
        ({"gpus": 4, "slots": 8, "nodes": 3}, ["nodes = 3", "gpus = 4", "Use 2"]),
        ({"gpus": 2, "slots": 4, "groups": [0, 0, 0, 1]}, ["3 experts in group 0, 1 experts in group 1"]),
        ({"gpus": 2, "slots": 4, "pin": [[4, 0]]}, ["pin[0] = 4", "0 to 3"]),
        ({"gpus": 2, "slots": 4, "pin": [[0, 2]]}, ["pin[0] = 2", "GPU ids run from 0 to 1"]),
        ({"gpus": 2, "slots": 4, "pin": [[None, 1]]}, ["pin[0] = None"]),
        ({"gpus": 2, "slots": 4, "layers": [1, 2]}, ["layers", "2 ids"]),
        ({"gpus": 2, "slots": 4, "speed": [1.0, 0.0]}, ["speed[GPU 1] = 0.0", "> 0"]),
        ({"gpus": 2}, ["slots", "is needed"]),
        ({"slots": 4}, ["gpus", "is needed"]),
        ({"gpus": 2, "memory_bytes": 10}, ["expert_bytes", "memory_bytes"]),
        ({"slots": [2, 3], "expert_bytes": 10, "memory_bytes": [25, 20]}, ["slots[GPU 1] = 3", "30 bytes of 20"]),
    ],
)
def test_a_refused_shape_names_field_value_and_next_step(fields: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance([[4, 3, 2, 1]], **fields)
    assert all(word in str(caught.value) for word in words), str(caught.value)


# --- derived ----------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(strategies.instances())
def test_ideal_is_the_exact_mean_cost(instance: PlacementInstance) -> None:
    floor = Fraction(instance.floor_tokens) * instance.steps
    speed = sum(map(Fraction, instance.speed))
    for row, ideal in zip(instance.loads.tolist(), instance.ideal, strict=True):
        assert ideal == sum(max(Fraction(value), floor) for value in row) / speed


def test_memory_gives_slots_and_groups_bound_them() -> None:
    """Slots from memory were refused as too many for a node's experts, though nobody had asked for that many."""
    flat = PlacementInstance([[1] * 8], expert_bytes=1.0, memory_bytes=[100.0, 4.5])
    assert flat.slots == (8, 4)
    grouped = PlacementInstance([[1] * 8], expert_bytes=1.0, memory_bytes=[100.0, 4.5], nodes=[0, 1], groups=2)
    assert grouped.slots == (4, 4)
    result = placement.solve(grouped, method="lpt")
    assert placement.faults(grouped, result.plan) == []


def test_a_node_with_too_little_memory_is_infeasible_not_malformed() -> None:
    instance = PlacementInstance([[1] * 8], expert_bytes=1.0, memory_bytes=[8.0, 3.0], nodes=[0, 1], groups=2)
    for method in METHODS:
        result = placement.solve(instance, method=method)
        assert str(result.status) == "INFEASIBLE"
        assert "node 1" in result.conflicts[0]["message"] and "3" in result.conflicts[0]["message"]


def test_instances_with_equal_data_are_equal_whatever_their_names() -> None:
    one = PlacementInstance([[3, 1]], gpus=2, slots=2, name="a")
    same = PlacementInstance([[3.0, 1.0]], gpus=2, slots=[1, 1], name="b")
    other = PlacementInstance([[3, 1]], gpus=2, slots=4)
    assert one == same and hash(one) == hash(same)
    assert one != other and one != "a"


def test_too_many_slots_on_every_gpu_are_one_violation_and_not_one_a_gpu() -> None:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance([[3, 1, 2]], gpus=16, slots=64)
    assert len(caught.value.violations) == 1
    assert "16 GPUs, the first is GPU 0" in str(caught.value)


@pytest.mark.parametrize(
    "field", ["c_slot", "c_tok", "move_cost", "floor_tokens", "expert_bytes", "memory_bytes", "survive_nodes", "alpha"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, True, "x"])
def test_every_refused_number_comes_with_a_next_step(field: str, value: object) -> None:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance([[1, 1]], gpus=2, slots=2, **{field: value})
    assert all(violation.fix for violation in caught.value.violations)


def test_the_tail_of_one_window_leaves_no_trace_in_the_document() -> None:
    instance = PlacementInstance([[1, 1]], gpus=2, slots=2, combine="cvar", alpha=0.5)
    assert PlacementInstance.from_dict(instance.to_dict()) == instance
    assert instance.to_dict() == PlacementInstance([[1, 1]], gpus=2, slots=2).to_dict()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"recv_bytes_per_s": [1, 2, 3]}, "recv_bytes_per_s = 3 numbers"),
        ({"recv_bytes_per_s": []}, "recv_bytes_per_s = 0 numbers"),
        ({"token_bytes": 1e308, "recv_bytes_per_s": 1e-308}, "token_bytes = 1e+308"),
        ({"c_tok": 1e-300, "token_bytes": 1e300}, "token_bytes = 1e+300"),
        ({"c_tok": 1e308}, "c_tok = 1e+308"),
        ({"c_slot": 1e308}, "c_slot = 1e+308"),
        ({"move_cost": 1e308}, "move_cost = 1e+308"),
        ({"expert_bytes": 1e308}, "expert_bytes = 1e+308"),
    ],
)
def test_prices_of_another_length_or_beyond_a_double_are_refused(fields: dict[str, Any], said: str) -> None:
    rules = {"c_tok": 1e-6, "token_bytes": 1.0, "recv_bytes_per_s": 1.0, "current": [[0, 1, 2, 3]], **fields}
    with pytest.raises(InstanceError, match=re.escape(said)) as caught:
        PlacementInstance([[3, 3, 2, 1]], gpus=2, slots=4, **rules)
    assert all(violation.fix for violation in caught.value.violations)
