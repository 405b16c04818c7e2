"""Collocation plans as maps: every way in which a document of one can be no plan is said."""

from __future__ import annotations

from typing import Any

import pytest

from moeopt.engines.collocated import SCHEMA, read_collocated
from moeopt.errors import InstanceError

ROW = {"layer": 3, "slot_expert": [1, 0, -1], "replicas": [1, 1]}
SOUND: dict[str, Any] = {"layers": [ROW], "gpu_of_slot": [0, 0, 1], "ep_size": 2}


def document(**changes: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "solution": {**SOUND, **changes}}


def test_a_plan_is_read_with_its_layers_and_slots() -> None:
    found = read_collocated(document())
    assert (found.layers, found.slots, found.slot_expert.tolist()) == ((3,), (2, 1), [[1, 0, -1]])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schema": "moeopt/other/1", "solution": SOUND}, "schema = moeopt/other/1: must be "),
        ({"schema": SCHEMA, "status": "INFEASIBLE"}, "plan = INFEASIBLE: is the status of a document without a plan"),
        (document(layers=[{"layer": 1}]), "is not whole (KeyError: 'slot_expert')"),
        (document(layers=[]), "is not whole (IndexError"),
        (document(ep_size="two"), "is not whole (ValueError"),
        (document(layers=[ROW, ROW]), "layers = [3, 3]: must differ"),
        (document(layers=[{**ROW, "slot_expert": [1, 0]}]), "slot_expert[layer 3] = 2 slots: must be as many as"),
        (document(layers=[{**ROW, "slot_expert": [1, 0, 2]}]), "ids run from -1 to 1"),
        (document(gpu_of_slot=[0, 1, 0]), "must be GPUs from 0 to 1 in ascending order"),
        (document(gpu_of_slot=[0, 1, 2]), "must be GPUs from 0 to 1 in ascending order"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InstanceError) as caught:
        read_collocated(wrong)
    assert said in str(caught.value)


def test_all_faults_are_said_at_once() -> None:
    rows = [{**ROW, "slot_expert": [1]}, {**ROW, "slot_expert": [9, 0, 0]}]
    with pytest.raises(InstanceError) as caught:
        read_collocated(document(layers=rows, gpu_of_slot=[1, 0, 0]))
    assert [fault.field for fault in caught.value.violations] == ["layers", "slot_expert", "slot_expert", "gpu_of_slot"]
