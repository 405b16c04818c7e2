"""What is written for an engine is what that engine finds in the file, layer by layer and slot by slot."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import placement
from moeopt.engines.base import ExpertMap
from moeopt.engines.layers import LayerFacts
from moeopt.engines.own import read_own
from moeopt.engines.rules import RULES, TARGETS
from moeopt.engines.writing import OPTIONS_ENDING, missing, write_map
from moeopt.errors import InstanceError
from moeopt.placement.plan_document import read_result
from tests.engines import oracle_maps
from tests.strategies import instances, plans

LLM = {"layers": 4, "dense_layers": [0], "experts": 8, "mtp_layers": 0}
ROWS = [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [1, 0, 3, 2, 5, 4, 7, 6, 2, 0], [7, 6, 5, 4, 3, 2, 1, 0, 5, 6]]


def a_map(rows: Any = ROWS, layers: Any = (1, 2, 3), slots: Any = (5, 5), experts: Any = 8) -> ExpertMap:
    return ExpertMap("plain", np.array(rows, np.int32), tuple(layers), slots, experts)


def document(instance: placement.PlacementInstance, rows: Any) -> Any:
    """A plan document that holds these rows; its figures are another plan's, which no writer looks at."""
    found = json.loads(placement.solve(instance, method="lpt").to_json())
    for layer, row in zip(found["solution"]["layers"], rows, strict=True):
        layer["slot_expert"] = row
    return read_result(found)


@st.composite
def engine_cases(draw: st.DrawFn) -> tuple[Any, list[list[int]], LayerFacts, int]:
    """A plan document for GPUs that are alike, with the LLM it is for: dense layers anywhere."""
    instance = draw(instances(splits=("even",), fills=("all",), rules=False, distinct=True, kinds=("ints",)))
    rows = draw(plans(instance))
    total = instance.num_layers + draw(st.integers(0, 3))
    moe = sorted(draw(st.permutations(range(total)))[: instance.num_layers])
    dense = tuple(layer for layer in range(total) if layer not in moe)
    found = document(instance, rows)
    for layer, stated in zip(moe, found.solution.layers, strict=True):
        stated.layer = layer
    return found, rows, LayerFacts(total, dense, 0, instance.num_experts), instance.num_gpus


def written(plan: Any, to: str, **rest: Any) -> tuple[Path, Any]:
    folder = Path(tempfile.mkdtemp())
    path = folder / f"map{RULES[to].endings[0]}"
    return path, write_map(plan, to, path, **rest)


@given(engine_cases(), st.sampled_from(TARGETS))
def test_a_written_map_reads_back_as_the_plan(case: Any, to: str) -> None:
    plan, rows, facts, gpus = case
    slots = np.bincount(plan.solution.gpu_of_slot, minlength=gpus).tolist()
    if (len(set(slots)) > 1 and RULES[to].uniform) or (0 in slots and to != "moeopt"):
        with pytest.raises(InstanceError, match=r"gives every GPU as many|expects experts on every GPU"):
            written(plan, to, llm=facts)
        return
    path, what = written(plan, to, llm=facts)
    experts = facts.experts
    if to == "sglang":
        found = oracle_maps.sglang(path)
        assert len(found) == facts.layers
        assert [found[layer] for layer in facts.moe] == rows
        assert all(sorted(set(row)) == list(range(experts)) for row in found.values())
        assert f"--ep-num-redundant-experts {len(rows[0]) - experts} " in what.options[0]
    elif to == "vllm-ascend":
        devices = oracle_maps.ascend(path)
        assert [[e for device in devices[place] for e in device] for place in range(len(rows))] == rows
        assert all(len(layer) == gpus for layer in devices.values())
    elif to == "trtllm":
        total, layers, updates = oracle_maps.trtllm(path)
        assert (total, updates) == (len(rows[0]), 0)
        assert layers == dict(zip(facts.moe, rows, strict=True))
    elif to == "omni":
        cube = oracle_maps.omni(path)
        assert cube.shape == (gpus, len(rows), experts)
        start = np.cumsum([0, *slots])
        for place, row in enumerate(rows):
            held = [np.flatnonzero(cube[gpu, place]).tolist() for gpu in range(gpus)]
            assert held == [sorted(row[start[gpu] : start[gpu + 1]]) for gpu in range(gpus)]
    elif to == "eplb":
        tensors = oracle_maps.eplb(path)
        assert {name: value.dtype for name, value in tensors.items()} == dict.fromkeys(
            ("phy2log", "log2phy", "logcnt"), np.dtype(np.int64)
        )
        assert tensors["phy2log"].tolist() == rows
        counts = [[row.count(expert) for expert in range(experts)] for row in rows]
        assert tensors["logcnt"].tolist() == counts
        assert tensors["log2phy"].shape == (len(rows), experts, max(map(max, counts)))
        for layer, row in enumerate(rows):
            for expert in range(experts):
                places = [slot for slot, one in enumerate(row) if one == expert]
                padding = [-1] * (tensors["log2phy"].shape[2] - len(places))
                assert tensors["log2phy"][layer, expert].tolist() == places + padding
    else:
        again = read_result(json.loads(path.read_text()))
        assert again == plan
    assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize("to", [target for target in TARGETS if target != "moeopt"])
def test_options_and_warnings_lie_beside_the_map(to: str) -> None:
    path, what = written(a_map(), to, llm=LLM)
    assert what.files == (str(path), str(path) + OPTIONS_ENDING)
    text = Path(what.files[1]).read_text()
    assert all(f"{line}\n" in text for line in what.options)
    assert all(f"# - {warning}\n" in text for warning in what.warnings)
    assert what.options
    for line in what.options:
        assert not any(line.endswith(end) for end in ("\n", " "))


@pytest.mark.parametrize("to", ["sglang", "vllm-ascend", "trtllm", "omni"])
def test_everything_missing_is_said_at_once(to: str) -> None:
    unknown = a_map(slots=None)
    names = [line.partition(":")[0] for line in missing(unknown, to)]
    assert names == ["llm.layers", "llm.dense_layers", "gpus"]
    with pytest.raises(InstanceError) as caught:
        written(unknown, to)
    assert [violation.field for violation in caught.value.violations] == names
    assert "--hf-config" in str(caught.value) and "--gpus" in str(caught.value)
    assert missing(unknown, to, LLM, gpus=2) == []
    assert missing(unknown, "eplb") == missing(unknown, "moeopt") == []


def test_facts_in_the_plan_are_enough() -> None:
    instance = placement.PlacementInstance(np.ones((3, 8)), gpus=2, slots=10, layers=[1, 2, 3], llm=LLM)
    plan = document(instance, ROWS)
    assert missing(plan, "sglang") == []
    assert [oracle_maps.sglang(written(plan, "sglang")[0])[layer] for layer in (1, 2, 3)] == ROWS


@pytest.mark.parametrize(
    ("rows", "layers", "slots", "experts", "to", "message"),
    [
        (ROWS, (1, 2, 4), (5, 5), 8, "trtllm", r"layers = 3: missing.*\n.*layers = 4: not of this LLM"),
        (ROWS[:2], (1, 2), (5, 5), 8, "sglang", "layers = 3: missing"),
        (ROWS, (1, 2, 3), (5, 5), 9, "eplb", "expert 8 is in no slot"),
        (ROWS, (1, 2, 3), (4, 6), 8, "vllm-ascend", "gives every GPU as many"),
        (ROWS, (1, 2, 3), (5, 0, 5), 8, "sglang", "GPU 1: has no slots.*2 GPUs that are left"),
        (
            [[*row[:9], -1] for row in ROWS],
            (1, 2, 3),
            (5, 5),
            8,
            "trtllm",
            "layer 1, slot 9 the first. = 3 empty slots: .*--fill all",
        ),
        ([[0, 0, *row[2:]] for row in ROWS], (1, 2, 3), (5, 5), 8, "vllm-ascend", "expert 0 lies twice on GPU 0"),
        ([[0, 0, *row[2:]] for row in ROWS], (1, 2, 3), (5, 5), 8, "omni", "expert 0 lies twice on GPU 0"),
        ([[9, *row[1:]] for row in ROWS], (1, 2, 3), (5, 5), 8, "sglang", "slot 0 holds expert 9|holds expert 9"),
        (ROWS, (1, 2, 3), (5, 5), 16, "sglang", "are not the 8 of"),
    ],
)
def test_what_an_engine_cannot_load_is_refused(
    rows: Any, layers: Any, slots: Any, experts: int, to: str, message: str
) -> None:
    llm = LLM if experts == 16 else {key: value for key, value in LLM.items() if key != "experts"}
    folder = Path(tempfile.mkdtemp())
    with pytest.raises(InstanceError, match=f"(?s){message}"):
        write_map(a_map(rows, layers, slots, experts), to, folder / f"map{RULES[to].endings[0]}", llm=llm)
    assert list(folder.iterdir()) == []


def test_doubles_are_warned_of_where_they_only_waste_memory() -> None:
    doubled = [[6, 6, 2, 3, 4, 5, 7, 0, 1, 6]] * 3
    for to in ("sglang", "trtllm"):
        _, what = written(a_map(doubled), to, llm=LLM)
        assert any("3 times an expert lies more than once on one GPU" in line for line in what.warnings)


def test_ids_that_count_moe_layers_find_their_layers() -> None:
    path, what = written(a_map(layers=(0, 1, 2)), "trtllm", llm=LLM)
    assert list(oracle_maps.trtllm(path)[1]) == [1, 2, 3]
    assert "layers 0-2 are taken as the 3 MoE layers 1-3" in what.warnings
    ascend = ExpertMap("vllm-ascend", np.array(ROWS[:2], np.int32), (0, 1), (5, 5), 8)
    with pytest.raises(InstanceError, match="layers = 3: missing"):
        written(ascend, "trtllm", llm=LLM)


def test_dense_rows_of_a_plan_go_only_where_there_is_a_row() -> None:
    four = a_map([ROWS[2], *ROWS], (0, 1, 2, 3))
    assert oracle_maps.sglang(written(four, "sglang", llm=LLM)[0])[0] == ROWS[2]
    assert list(oracle_maps.trtllm(written(four, "trtllm", llm=LLM)[0])[1]) == [1, 2, 3]
    assert oracle_maps.omni(written(four, "omni", llm=LLM)[0]).shape == (2, 3, 8)


def test_draft_layers_go_where_each_engine_looks_for_them() -> None:
    llm = {**LLM, "mtp_layers": 1}
    planned = a_map([*ROWS, ROWS[0][::-1]], (1, 2, 3, 4))
    path, what = written(planned, "sglang", llm=llm)
    assert oracle_maps.sglang(path)[0] == ROWS[0][::-1] and len(oracle_maps.sglang(path)) == 4
    assert any("row 0 holds the plan of draft layer 4" in line for line in what.warnings)
    idle = a_map([ROWS[2], *ROWS, ROWS[0][::-1]], (0, 1, 2, 3, 4))
    assert oracle_maps.sglang(written(idle, "sglang", llm=llm)[0])[0] == ROWS[0][::-1]
    assert oracle_maps.trtllm(written(planned, "trtllm", llm=llm)[0])[1][4] == ROWS[0][::-1]
    path, what = written(a_map(), "trtllm", llm=llm)
    assert oracle_maps.trtllm(path)[1][4] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert any("the engine stops where they have no row" in line for line in what.warnings)
    for to in ("vllm-ascend", "omni"):
        _, what = written(planned, to, llm=llm)
        assert any("its plan is left out" in line for line in what.warnings)


@pytest.mark.parametrize(
    ("split", "dispatch"), [("even", "dynamic"), ("random", "dynamic"), ("sglang-static", "static"), ("free", "lp")]
)
def test_the_dispatch_rule_is_the_one_planned_for(split: str, dispatch: str) -> None:
    instance = placement.PlacementInstance(np.ones((3, 8)), gpus=2, slots=10, layers=[1, 2, 3], split=split)
    _, what = written(document(instance, ROWS), "sglang", llm=LLM)
    assert what.options[0].endswith(f"--ep-dispatch-algorithm {dispatch}")


def test_a_map_is_never_overwritten_unasked_and_never_half_written(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    beside = tmp_path / "map.json.options.txt"
    beside.write_text("mine")
    with pytest.raises(InstanceError, match=r"options\.txt: exists and is never overwritten unasked"):
        write_map(a_map(), "sglang", path, llm=LLM)
    assert not path.exists() and beside.read_text() == "mine"
    write_map(a_map(), "sglang", path, llm=LLM, force=True)
    assert beside.read_text() != "mine"
    with pytest.raises(InstanceError, match="never overwritten"):
        write_map(a_map(), "sglang", path, llm=LLM)


def test_targets_and_endings_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match=r"loads no map from a file.*--enable-eplb"):
        write_map(a_map(), "vllm", tmp_path / "map.json")
    with pytest.raises(InstanceError, match="known are sglang, vllm-ascend, trtllm, omni, eplb, moeopt"):
        write_map(a_map(), "tgi", tmp_path / "map.json")
    with pytest.raises(InstanceError, match=r"must end in \.yaml or \.yml"):
        write_map(a_map(), "trtllm", tmp_path / "map.json", llm=LLM)


def test_our_own_map_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "own map.json"
    found = a_map(slots=None)
    assert write_map(found, "moeopt", path, gpus=2).files == (str(path),)
    again = read_own(json.loads(path.read_text()))
    assert again.slot_expert.tolist() == ROWS
    assert (again.layers, again.slots, again.num_experts, again.engine) == ((1, 2, 3), (5, 5), 8, "plain")
    broken = {**json.loads(path.read_text()), "slots": [5, 4], "layers": [1, 1, 2]}
    with pytest.raises(InstanceError, match=r"(?s)layers = .*slots = \[5, 4\]"):
        read_own(broken)
