"""What the command line says of maps that do not fit: another LLM's, with empty slots, of fewer layers than loads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.engines.files import ascend_map, omni_pattern, torch_file, trtllm_map

EXPERTS, GPUS, LAYERS = 8, 2, 5
MAP = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [7, 6, 5, 4, 3, 2, 1, 0, 7, 6], [1, 0, 3, 2, 5, 4, 7, 6, 1, 0]])
SHAPE = ("--gpus", GPUS, "--slots", 10)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """An LLM of five layers, the first two of them dense."""
    facts = {
        "model_type": "qwen2_moe", "num_hidden_layers": LAYERS, "num_experts": EXPERTS, "num_experts_per_tok": 2,
        "hidden_size": 64, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "intermediate_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100, "mlp_only_layers": [0, 1],
        "decoder_sparse_step": 1,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(facts))
    return tmp_path / "config.json"


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    """Loads of all five layers; the dense ones are idle."""
    table = np.random.default_rng(2).multinomial(3_000_000, np.full(EXPERTS, 1 / EXPERTS), size=LAYERS)
    table[:2] = 0
    (tmp_path / "loads.json").write_text(json.dumps(table.tolist()))
    return tmp_path / "loads.json"


@pytest.mark.parametrize("kind", ["ascend", "omni", "trtllm"])
def test_map_of_the_moe_layers_runs_under_loads_of_all_layers(
    moeopt: Callable[..., Run], tmp_path: Path, loads: Path, config: Path, kind: str
) -> None:
    current = {
        "ascend": lambda: ascend_map(tmp_path / "map.json", MAP, GPUS),
        "omni": lambda: omni_pattern(tmp_path / "map.npy", MAP, GPUS, EXPERTS),
        "trtllm": lambda: trtllm_map(tmp_path / "map.yaml", MAP, (2, 3, 4)),
    }[kind]()
    words = ("place", loads, *SHAPE, "--layers", "0-4", "--current", current, "--max-moves", 0, "--json")
    run = moeopt(*words, "--hf-config", config)
    assert run.code == 0, run.err
    assert "layers 0-1 are dense, have no loads and no row in --current: left out" in run.err
    found = run.document["solution"]["layers"]
    assert [layer["layer"] for layer in found] == [2, 3, 4]
    for layer, row in zip(found, MAP, strict=True):
        for mine, other in zip(np.split(np.array(layer["slot_expert"]), GPUS), np.split(row, GPUS), strict=True):
            assert sorted(mine.tolist()) == sorted(other.tolist())
    plan = tmp_path / "plan.json"
    assert moeopt(*words[:-1], "--hf-config", config, "-o", plan).code == 0
    words_again = [plan if word is current else word for word in words]
    again = moeopt(*words_again, "--hf-config", config)
    assert again.code == 0 and again.document["solution"]["layers"][0]["layer"] == 2, again.err
    unknown = moeopt(*words)
    assert unknown.code == 2 and "--layers 2-4" in unknown.err
    assert "dense" in unknown.err or kind == "trtllm"
    assert moeopt(*words[:6], *words[8:]).code == 0  # layers without loads are left out unasked


def test_map_with_empty_slots_is_refused_once_with_their_number(
    moeopt: Callable[..., Run], tmp_path: Path, config: Path
) -> None:
    hollow = np.tile(MAP, (1, 40))[:, :100].copy()
    hollow[:, 30:] = -1
    path = tmp_path / "map.json"
    rows = {"schema": "moeopt/expert-map/1", "engine": "omni", "layers": [0, 1, 2], "slots": [50, 50],
            "num_experts": EXPERTS, "slot_expert": hollow.tolist()}  # fmt: skip
    path.write_text(json.dumps(rows))
    run = moeopt("convert", path, "--to", "sglang", "--hf-config", config, "-o", tmp_path / "out.json")
    errors = run.err.splitlines()
    assert run.code == 2 and len(errors) == 1
    assert "slot_expert[layer 0, slot 30 the first] = 210 empty slots: SGLang loads an expert into each." in errors[0]
    assert "--current MAP --fill all" in errors[0] and "more of this kind" not in run.err


def test_running_plan_that_cannot_stay_says_why(moeopt: Callable[..., Run], tmp_path: Path, loads: Path) -> None:
    hollow = MAP.copy()
    hollow[:, -1] = -1
    current = omni_pattern(tmp_path / "map.npy", np.where(hollow < 0, 2, hollow), GPUS, EXPERTS)
    cube = np.load(current)
    cube[1, 0, 2] = 0  # a device with an expert less in one layer
    np.save(current, cube)
    run = moeopt("place", loads, "--layers", "2-4", *SHAPE, "--current", current)
    assert run.code == 0, run.err
    said = "running plan cannot stay: it leaves 2 slots empty; fill = all (--fill all) wants an expert in each"
    assert said in run.out, run.out
    assert "devices with fewer experts" in moeopt("inspect", current).out


def test_map_of_another_llm_is_said_in_one_line_first(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    small = np.tile(np.arange(32), (LAYERS, 2))
    path.write_text(json.dumps({"physical_to_logical_map": small.tolist()}))
    run = moeopt("verify", path, "--experts", 96)
    lines = run.out.splitlines()
    assert run.code == 5
    assert lines[0] == "experts: the map has ids up to 31, the LLM has 96 experts in each layer: is it another LLM's?"
    assert lines[-1] == "... and 313 more experts that are in no slot of a layer: 320 in all" and len(lines) == 9
    everything = moeopt("verify", path, "--experts", 96, "-v").out.splitlines()
    assert everything[-1] == "... and 120 more experts that are in no slot of a layer: 320 in all"
    run = moeopt("verify", path, "--experts", 16)
    assert run.out.startswith("experts: the map has ids up to 31, the LLM has 16 experts in each layer")
    assert "slots with such an id: 160 in all" in run.out
    small[2, 5] = 300
    path.write_text(json.dumps({"physical_to_logical_map": small.tolist()}))
    assert "another LLM" not in moeopt("verify", path, "--experts", 32).out  # one slip


def test_tensor_without_a_name_is_a_map_for_every_verb(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    path = torch_file(tmp_path / "a.pt", MAP)
    assert "map of eplb (placement)" in moeopt("inspect", path).out
    assert "ok (map of EPLB" in moeopt("verify", path, "--gpus", GPUS).out
    assert moeopt("convert", path, "--to", "moeopt", "-o", tmp_path / "own.json").code == 0
    refused = moeopt("place", path, *SHAPE)
    assert refused.code == 2 and "is a map of eplb (placement), not loads. Give it as --current" in refused.err


def test_layers_without_loads_have_no_hottest_experts(moeopt: Callable[..., Run], loads: Path) -> None:
    run = moeopt("inspect", loads)
    assert [line.split()[1:] for line in run.out.splitlines() if line.split()[:1] in (["0"], ["1"])] == [
        ["no", "loads"],
        ["no", "loads"],
    ]
    hottest = moeopt("inspect", loads, "--json").document["files"][0]["hottest"]
    assert hottest[0] == {"layer": 0, "experts": [], "times_mean": []} and len(hottest[2]["experts"]) == 3


def test_experts_of_a_trace_that_does_not_say_them(moeopt: Callable[..., Run], tmp_path: Path, config: Path) -> None:
    ids = np.random.default_rng(0).permuted(np.tile(np.arange(6), (2, 900, 1)), axis=2)[:, :, :2]
    path = tmp_path / "trace.npz"
    np.savez(path, topk_ids=ids, layers=[2, 3])
    assert moeopt("inspect", path, "--json").document["files"][0]["experts"] == 6
    for words in (("--experts", 8), ("--hf-config", config), ("--experts", 8, "--hf-config", config)):
        assert moeopt("inspect", path, *words, "--json").document["files"][0]["experts"] == 8
    run = moeopt("place", path, *SHAPE, "--experts", 8, "--accept", "short-sample", "--method", "lpt", "--json")
    assert run.code == 0 and len(run.document["solution"]["layers"][0]["replicas"]) == 8, run.err
    plan = tmp_path / "plan.json"
    plan.write_text(run.out)
    assert moeopt("verify", plan, path, "--experts", 8).code == 0
    (tmp_path / "map.json").write_text(json.dumps({"physical_to_logical_map": MAP[:2].tolist()}))
    assert moeopt("verify", tmp_path / "map.json", path, "--gpus", GPUS).code == 0
    assert moeopt("inspect", path, "--experts", 5).code == 2
    both = moeopt("inspect", path, "--experts", 9, "--hf-config", config)
    assert both.code == 2 and "--experts = 9: contradicts" in both.err
    np.savez(path, topk_ids=ids, layers=[2, 3], num_experts=6)
    other = moeopt("inspect", path, "--experts", 8)
    assert other.code == 2 and "num_experts = 6: is what the file says, and 8 what was said before" in other.err


def test_experts_of_a_table_must_be_those_it_has(moeopt: Callable[..., Run], loads: Path) -> None:
    for verb in (("inspect",), ("place", *SHAPE, "--method", "lpt")):
        assert moeopt(verb[0], loads, *verb[1:], "--experts", EXPERTS).code == 0
        run = moeopt(verb[0], loads, *verb[1:], "--experts", 9)
        assert run.code == 2 and "--experts = 9: contradicts the loads, which have 8" in run.err


def test_trace_of_dummy_rows_alone_stays_refused(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "warm.npz"
    np.savez(path, topk_ids=np.tile(np.array([1, 2], np.int16), (1, 300, 1)), layers=[0])
    for words in ((), ("--accept", "dummy-rows")):
        run = moeopt("place", path, "--gpus", 1, "--slots", 4, *words)
        assert run.code == 2 and "nothing is left without them" in run.err
        assert "--accept" not in run.err and "Record real requests" in run.err
