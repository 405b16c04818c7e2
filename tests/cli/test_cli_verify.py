"""`verify` doubts every number of a plan."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from moeopt import placement
from moeopt.errors import InstanceError
from moeopt.placement.load_plan import document_faults, read_result

LOADS = np.array([[8, 4, 2, 2], [5, 0, 1, 9]])


def _document(**rules):
    arguments = {"gpus": 3, "slots": 6, "layers": [3, 7]} | rules
    instance = placement.PlacementInstance(LOADS, **arguments)
    return json.loads(placement.solve(instance, method=rules.pop("method", "lpt")).to_json())


def _faults(document, loads=LOADS, layers=(3, 7)):
    return document_faults(read_result(document), loads, layers)


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"split": "free"},
        {"floor_tokens": 3.0, "floor_rule": "per_replica"},
        {"speed": [1, 1, 0.5]},
        {"fill": "at_most"},
        {"groups": 2, "nodes": 2, "gpus": 4, "slots": 8},
    ],
)
def test_verify_accepts_what_the_solver_wrote(rules):
    document = _document(**rules)
    assert _faults(document) == []
    assert document_faults(read_result(document)) == []
    table = np.vstack([[9, 9, 9, 9], LOADS[::-1]]).astype(float)
    assert _faults(document, table, (1, 7, 3)) == []  # another order, more layers, floats


def _set(path, value):
    def damage(document):
        *way, last = path
        for key in way:
            document = document[key]
        document[last] = value(document[last]) if callable(value) else value

    return damage


LAYER = ("solution", "layers", 1)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_set((*LAYER, "slot_expert", 0), 4), "layer 7: slot 0 (GPU 0) holds expert 4, ids run from 0 to 3"),
        (_set((*LAYER, "slot_expert", 0), -1), "is empty, but fill is 'all'"),
        (_set((*LAYER, "slot_expert"), [0, 1, 0, 3, 0, 2]), "layer 7: replicas say 2 of expert 3, the slots hold 1"),
        (_set((*LAYER, "slot_expert"), [0, 0, 1, 2, 3, 3]), "layer 7: GPU 0 holds expert 0 twice"),
        (_set((*LAYER, "slot_expert"), lambda row: row[:-1]), "layer 7: slot_expert has 5 entries"),
        (_set((*LAYER, "replicas"), [2, 1, 1, 3]), "layer 7: replicas say 3 of expert 3"),
        (_set((*LAYER, "replicas"), [2, 1, 1]), "layer 7: replicas has 3 entries for 4 experts"),
        (_set((*LAYER, "max_load"), lambda old: old + 1), "layer 7: max_load says"),
        (_set((*LAYER, "ideal"), lambda old: old * 1.001), "layer 7: ideal says"),
        (_set((*LAYER, "imbalance"), 1.0), "layer 7: imbalance says 1.0"),
        (_set((*LAYER, "lower_bound"), lambda old: old * 1.01), "layer 7: lower_bound says"),
        (_set((*LAYER, "lower_bound"), 100.0), "lies above max_load"),
        (_set((*LAYER, "gap"), 0.5), "layer 7: gap says 0.5"),
        (_set((*LAYER, "layer"), 8), "layer 8: is in the plan and not in its instance"),
        (_set((*LAYER, "layer"), 3), "layer 3: stands 2 times"),
        (_set(("objective",), 1.0), "objective says 1.0"),
        (_set(("lower_bound",), 1.0), "lower_bound says 1.0"),
        (_set(("gap",), 0.25), "gap says 0.25"),
        (_set(("gap_worst_layer",), 0.25), "gap_worst_layer says 0.25"),
        (_set(("status",), "INFEASIBLE"), "status INFEASIBLE with objective"),
        (_set(("solution", "imbalance_mean"), 1.0), "solution.imbalance_mean says 1.0"),
        (_set(("solution", "excess"), 1.0), "solution.excess says 1.0"),
        (_set(("solution", "ep_size"), 4), "solution.ep_size says 4"),
        (_set(("solution", "gpu_of_slot", 0), 1), "solution.gpu_of_slot"),
        (_set(("solution", "split"), "free"), "solution.split says free"),
        (_set(("solution", "phase"), "decode"), "solution.phase says 'decode'"),
        (_set(("certificate", "layers", 1, "kind"), "nonsense"), "certificate proves nothing"),
        (_set(("certificate", "layers"), []), "certificate covers layers []"),
        (_set(("instance", "sha256"), "0" * 64), "instance.sha256 says 000"),
        (_set(("instance", "document", "floor_tokens"), 1.0), "instance.sha256 says"),
        (_set(("instance", "document", "slots"), [2, 2, 3]), "layer 3: slot_expert has 6 entries"),
        (_set(("instance", "document", "speed"), [1.0]), "instance.document: "),
    ],
)
def test_verify_names_every_damage(damage, said):
    document = _document()
    damage(document)
    faults = _faults(document)
    assert any(said in fault for fault in faults), faults


def test_verify_reads_on_after_a_broken_layer():
    document = _document()
    layers = document["solution"]["layers"]
    layers[0]["slot_expert"][0] = layers[0]["slot_expert"][1]
    layers[1]["ideal"] *= 1.001
    faults = _faults(document)
    assert any(fault.startswith("layer 3: GPU 0 holds") for fault in faults)
    assert any(fault.startswith("layer 7: ideal says") and "recomputed" in fault for fault in faults)


def test_verify_names_shares_that_do_not_add_up():
    document = _document(split="free")
    assert _faults(document) == []
    document["solution"]["shares"][0][0][2] = 0.123
    assert any("layer 3: shares of expert" in fault for fault in _faults(document))


def test_verify_knows_other_loads():
    document = _document()
    assert any("instance.sha256" in fault for fault in _faults(document, LOADS + 1))
    assert _faults(document, LOADS[:1], (3,)) == ["the loads have no layer 7, the plan has"]
    assert _faults(document, LOADS[:, :3]) == ["the loads have 3 experts, the plan 4"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_set(("schema",), "moeopt/placement-result/2"), "is not a placement plan this version knows"),
        (_set(("extra",), 1), "extra = 1: is not a field of this document"),
        (_set(("objective",), "3"), "objective = '3'"),
        (_set(("solution", "layers", 0, "slot_expert", 0), 1.5), "solution[layers, 0, slot_expert, 0] = 1.5"),
        (_set(("instance", "document", "schema"), "x"), "instance[document, schema] = 'x'"),
    ],
)
def test_a_document_of_another_form_is_bad_input(damage, said):
    document = _document()
    damage(document)
    with pytest.raises(InstanceError) as error:
        read_result(document, "plan.json")
    assert str(error.value).startswith("plan.json: ") and said in str(error.value)


def test_every_missing_field_is_named():
    document = _document()
    del document["objective"], document["solution"]["layers"][0]["gap"]
    with pytest.raises(InstanceError) as error:
        read_result(document)
    assert "objective = missing: is needed" in str(error.value)
    assert "solution[layers, 0, gap] = missing" in str(error.value)


def test_reading_leaves_the_document_alone():
    document = _document(split="free")
    before = copy.deepcopy(document)
    _faults(document)
    assert document == before


def test_exit_codes_of_verify(moeopt, plan, tiny):
    assert moeopt("verify", plan, tiny, "--experts", 4, "--slots", 6, "--gpus", 3, "--nodes", 1).out.endswith(
        "ok (structure, numbers and bounds)\n"
    )
    assert moeopt("verify", plan, "-q").out == ""
    assert moeopt("verify", "-", tiny, stdin=plan.read_text()).code == 0
    wrong = moeopt("verify", plan, "--gpus", 4, "--experts", 5)
    assert (wrong.code, wrong.out.splitlines()) == (
        5,
        ["experts: the plan has 4, --experts says 5", "gpus: the plan has 3, --gpus says 4"],
    )
    document = json.loads(plan.read_text())
    document["solution"]["layers"][0]["max_load"] += 1
    told = moeopt("verify", "-", tiny, "--json", stdin=json.dumps(document))
    assert told.code == 5 and not told.document["ok"]
    assert any("layer 3: max_load says" in fault and "recomputed" in fault for fault in told.document["faults"])
    cut = moeopt("verify", "-", stdin=plan.read_text()[:-20])
    assert (cut.code, cut.out) == (2, "") and "broken JSON" in cut.err
    assert moeopt("verify", tiny).code == 2
    assert moeopt("verify", plan, plan).code == 2


def test_other_loads_lead_and_the_wall_behind_them_is_cut(moeopt, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("mine", "other"):
        np.savetxt(tmp_path / f"{name}.csv", rng.integers(1, 99, (12, 8)), fmt="%d", delimiter=",")
    plan = tmp_path / "plan.json"
    words = ("place", tmp_path / "mine.csv", "--gpus", 4, "--slots", 8, "--method", "lpt", "-o", plan)
    assert moeopt(*words).code == 0
    run = moeopt("verify", plan, tmp_path / "other.csv")
    said, *lines = run.out.splitlines()
    assert run.code == 5 and len(lines) == 2 and said.startswith(f"{tmp_path / 'other.csv'}: not the loads")
    assert lines[0].startswith("instance.sha256 says ") and "not the loads" in lines[0]
    whole = moeopt("verify", plan, tmp_path / "other.csv", "-v").out.splitlines()[1:]
    assert lines[-1] == f"... {len(whole) - 1} more, which may follow from that; -v shows them"
    assert moeopt("verify", plan, tmp_path / "other.csv", "--json").document["faults"] == whole
