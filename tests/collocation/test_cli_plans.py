"""Plans of collocate in the verbs that take any plan: verify doubts every number, inspect describes, convert writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cli import main
from moeopt.collocation import CollocationInstance
from moeopt.collocation.document import with_trace
from moeopt.collocation.plan_faults import Trace, document_faults
from moeopt.collocation.result_document import read_result

IDS = np.array([[[0, 1, 4], [2, 3, 5], [0, 5, 1], [4, 2, 3], [1, 0, 2], [5, 4, 0], [3, 2, 5], [1, 4, 5]]] * 2)
IDS[1] = (IDS[1] + 2) % 6


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.npz"
    np.savez(path, topk_ids=IDS, layers=np.array([3, 4]), num_experts=6)
    return path


@pytest.fixture
def plan(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan.json"
    words = ("--cluster", "2x2-h100", "--slots", 8, "--held-out", 0.25, "--method", "load_only")
    assert run(capsys, "collocate", trace, *words, "-o", path)[0] == 0
    return path


def numbers(document: Any, path: tuple[Any, ...] = ()) -> Any:
    """Every place of a number in the parts of a document that say something of the plan."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from numbers(value, (*path, key))
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from numbers(value, (*path, place))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path


def changed(document: Any, path: tuple[Any, ...], add: float) -> Any:
    found = json.loads(json.dumps(document))
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] += add
    return found


def test_a_plan_is_accepted_with_and_without_its_trace(
    plan: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "verify", plan)
    assert code == 0 and out.endswith("ok (structure)\n")
    code, out, _ = run(capsys, "verify", plan, trace)
    assert code == 0 and out.endswith("ok (structure, numbers and bounds)\n")
    code, out, _ = run(capsys, "verify", plan, trace, "--json")
    assert code == 0 and json.loads(out) == {
        "ok": True, "checked": "structure, numbers and bounds", "unchecked": [], "faults": []
    }  # fmt: skip


def test_every_number_that_is_tampered_with_is_a_fault(plan: Path) -> None:
    """Each number of the answer, its bound and its instance, made larger by a thousandth or by one."""
    document = json.loads(plan.read_text())
    parts = {key: document[key] for key in ("objective", "lower_bound", "gap", "gap_worst_layer", "solution")}
    given = with_trace(document["instance"]["document"], IDS)
    assert document_faults(read_result(document), given) == []
    places = list(numbers(parts))
    assert len(places) > 100
    for path in places:
        at: Any = document
        for step in path:
            at = at[step]
        tampered = changed(document, path, 1 if isinstance(at, int) else max(abs(at) * 1e-3, 1e-6))
        assert document_faults(read_result(tampered), given), path


def test_a_bound_beyond_its_certificate_is_a_fault(plan: Path) -> None:
    document = json.loads(plan.read_text())
    for row, name in enumerate(("value", "touched")):
        tampered = json.loads(json.dumps(document))
        tampered["certificate"]["layers"][row][name] = "9999"
        faults = document_faults(read_result(tampered), Trace(IDS, [3, 4]))
        assert any("does not follow from its certificate" in fault for fault in faults)


def test_another_trace_and_other_rules_are_named(
    plan: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.npz"
    np.savez(other, topk_ids=IDS[:, ::-1], layers=np.array([3, 4]), num_experts=6)
    code, out, _ = run(capsys, "verify", plan, other)
    assert code == 5 and "it was made for another trace" in out
    np.savez(other, topk_ids=IDS, layers=np.array([3, 7]), num_experts=6)
    assert "the trace has no layer 4" in run(capsys, "verify", plan, other)[1]
    np.savez(other, topk_ids=IDS + 3 * (IDS >= 0), layers=np.array([3, 4]))
    code, out, _ = run(capsys, "verify", plan, other)
    assert code == 5 and "the trace is not the one" in out
    document = json.loads(plan.read_text())
    document["instance"]["document"]["replica_rule"] = "even"
    plan.write_text(json.dumps(document))
    code, out, _ = run(capsys, "verify", plan)
    assert code == 5 and out.startswith("instance.sha256 says")


@pytest.mark.parametrize("shape", [[2, 10**12, 4], [10**12, 3, 4], [2, 3, 10**12]])
def test_a_trace_too_large_to_be_one_is_a_fault(
    plan: Path, shape: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its stand-in was asked of memory."""
    document = json.loads(plan.read_text())
    document["instance"]["document"]["trace"]["shape"] = shape
    plan.write_text(json.dumps(document))
    code, out, err = run(capsys, "verify", plan, "-v")
    assert code == 5, err
    assert f"trace.shape = {shape}: a trace has at most" in out
    assert run(capsys, "inspect", plan)[0] == 0


@pytest.mark.parametrize(("damage", "text"), [
    (lambda one: one["slot_expert"].pop(), "slot_expert has 7 entries, the instance 8"),
    (lambda one: one.update(slot_expert=[0, 1, 2, 3, 4, 4, 4, 4]), "expert 5 is missing"),
    (lambda one: one.update(slot_expert=[0, 0, 1, 2, 3, 4, 5, 1]), "expert 0 stands twice on GPU 0"),
    (lambda one: one.update(slot_expert=[0, 1, 2, 3, 4, 5, 6, 0]), "6 is no expert of 0 to 5"),
    (lambda one: one.update(replicas=[1] * 6), "replicas disagree"),
    (lambda one: one.update(layer=9), "layers: the plan has"),
])  # fmt: skip
def test_structure_is_checked_without_the_trace(
    plan: Path, damage: Any, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(plan.read_text())
    damage(document["solution"]["layers"][0])
    plan.write_text(json.dumps(document))
    code, out, _ = run(capsys, "verify", plan)
    assert code == 5 and text in out


def test_what_is_no_plan_is_bad_input(plan: Path, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(plan.read_text())
    for change in ({"schema": "moeopt/collocation-result/9"}, {"objective": "3"}, {"more": 1}):
        plan.write_text(json.dumps({**document, **change}))
        assert run(capsys, "verify", plan, trace)[0] == 2
    plan.write_text(json.dumps(document))
    code, _, err = run(capsys, "verify", plan, plan)
    assert code == 2 and "Give the plan first, then the trace" in err
    assert run(capsys, "verify", plan, trace, trace)[0] == 2
    assert run(capsys, "verify", plan, trace, "--experts", 6)[0] == 2


@pytest.mark.parametrize("fields", [
    {"nodes": 2, "gpus": 4, "transport": "deepep-ll"},
    {"nodes": 2, "gpus": 4, "transport": "nvl-domain", "source": [0, 1, 2, 3, 0, 1, 2, 3]},
    {"nodes": 2, "gpus": 2, "slots": 8, "fill": "at_most", "replica_rule": "even", "max_imbalance": 2.0},
])  # fmt: skip
@pytest.mark.parametrize("method", ["load_only", "search", "exact"])
def test_results_of_every_kind_stand_up_to_verify(fields: Any, method: str) -> None:
    instance = CollocationInstance(IDS, experts=6, held_out=0.25, **fields)
    if collocation.METHODS[method].applies(instance) is None:
        document = read_result(json.loads(collocation.solve(instance, method=method).to_json()))
        assert document_faults(document) == document_faults(document, instance) == []
        assert document_faults(document, Trace(IDS, [0, 1])) == []


def test_pair_counts_stand_up_to_verify() -> None:
    pairs = np.array([[3, 2, 0, 1], [2, 4, 1, 0], [0, 1, 2, 2], [1, 0, 2, 3]])
    instance = CollocationInstance(pairs=pairs, nodes=2, gpus=2)
    document = read_result(json.loads(collocation.solve(instance, method="greedy").to_json()))
    assert document_faults(document, Trace(pairs[None], [0])) == []
    assert "another trace" in document_faults(document, Trace(pairs[None] * 2, [0]))[0]


def test_inspect_describes_plans_and_instances(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", plan)
    assert code == 0 and "2 layers, 6 experts, 8 slots, 4 GPUs" in out and "structure  ok" in out
    found = json.loads(run(capsys, "inspect", plan, "--json")[1])["files"][0]
    assert found["what"] == "collocation" and found["lambda"] >= found["lambda_lower_bound"]
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(CollocationInstance(IDS, experts=6, nodes=2, gpus=4).to_dict()))
    code, out, _ = run(capsys, "inspect", path)
    assert code == 0 and "8 tokens, top-3; every GPU has as many" in out


@pytest.mark.parametrize(("engine", "name"), [
    ("sglang", "m.json"), ("vllm-ascend", "m.json"), ("trtllm", "m.yaml"), ("omni", "m.npy"), ("eplb", "m.npz"),
    ("moeopt", "m.json"),
])  # fmt: skip
def test_convert_writes_a_map_for_every_engine(
    plan: Path, tmp_path: Path, engine: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from moeopt.engines.reading import read_map

    words = ("--to", engine, "--layers-total", 5, "--dense", "0,1,2", "-o", tmp_path / name)
    code, _, err = run(capsys, "convert", plan, *words)
    assert code == 0, err
    held = np.array([layer["slot_expert"] for layer in json.loads(plan.read_text())["solution"]["layers"]])
    found = read_map(str(tmp_path / name)).slot_expert[-2:]
    if engine == "omni":  # a device of it has its experts by ascending id
        found, held = (np.sort(table.reshape(2, 4, 2), axis=2) for table in (found, held))
    assert found.tolist() == held.tolist()
