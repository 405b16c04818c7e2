"""Maps of engines on the command line: dumps planned, plans converted, files of engines verified."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines import files

LLM = ("--layers-total", 4, "--dense", "0")
LAYERS, EXPERTS, GPUS, SLOTS = (1, 2, 3), 8, 2, 10
COUNTS = np.random.default_rng(7).integers(1, 1000, (2, 3, EXPERTS))
ENDINGS = {"sglang": "json", "vllm-ascend": "json", "trtllm": "yaml", "omni": "npy", "eplb": "npz", "moeopt": "json"}
SHAPE = ("--experts", EXPERTS, "--slots", SLOTS, "--gpus", GPUS)


@pytest.fixture
def planned(tmp_path: Path, moeopt: Callable[..., Any]) -> Path:
    """A plan of the MoE layers 1 to 3."""
    rows = [f"{layer},{','.join(map(str, row))}" for layer, row in zip(LAYERS, COUNTS.sum(axis=0), strict=True)]
    loads = tmp_path / "loads.csv"
    loads.write_text("layer," + ",".join(f"e{expert}" for expert in range(EXPERTS)) + "\n" + "\n".join(rows) + "\n")
    plan = tmp_path / "plan.json"
    assert moeopt("place", loads, "--gpus", GPUS, "--slots", SLOTS, "--method", "lpt", "-o", plan).code == 0
    return plan


def slots_of(plan: Path) -> list[list[int]]:
    return [layer["slot_expert"] for layer in json.loads(plan.read_text())["solution"]["layers"]]


def sorted_by_gpu(rows: list[list[int]]) -> list[list[int]]:
    each = SLOTS // GPUS
    return [[e for gpu in range(GPUS) for e in sorted(row[gpu * each : gpu * each + each])] for row in rows]


@pytest.mark.parametrize("to", list(ENDINGS))
def test_a_converted_plan_verifies_and_converts_back(
    to: str, planned: Path, tmp_path: Path, moeopt: Callable[..., Any]
) -> None:
    out = tmp_path / f"a map.{ENDINGS[to]}"
    run = moeopt("convert", planned, "--to", to, *LLM, "-o", out)
    assert run.code == 0, run.err
    if to != "moeopt":
        assert run.out.strip() and (tmp_path / f"{out.name}.options.txt").read_text().count("\n") > 1
        run = moeopt("verify", out, *SHAPE, *LLM)
        assert run.code == 0, run.out + run.err
        assert "ok (map of" in run.out
    again = tmp_path / "again.json"
    run = moeopt("convert", out, "--to", "sglang", *LLM, "--gpus", GPUS, "--experts", EXPERTS, "-o", again)
    assert run.code == 0, run.err
    rows = json.loads(again.read_text())["physical_to_logical_map"]
    wanted = slots_of(planned)
    assert rows[1:] == (sorted_by_gpu(wanted) if to == "omni" else wanted)


def test_a_map_becomes_a_running_plan(planned: Path, tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    for name, to in (("map.json", "sglang"), ("ascend.json", "vllm-ascend"), ("map.yaml", "trtllm")):
        assert moeopt("convert", planned, "--to", to, *LLM, "-o", tmp_path / name).code == 0
    run = moeopt("convert", tmp_path / "map.json", "--to", "moeopt", "--gpus", GPUS, "-o", tmp_path / "own.json")
    assert run.code == 0, run.err
    assert run.out == f"# the running plan: moeopt place LOADS ... --current {tmp_path / 'own.json'}\n"
    for name in ("own.json", "map.json", "ascend.json", "map.yaml"):
        shape = ("--gpus", GPUS, "--slots", SLOTS, "--current", tmp_path / name, "--max-moves", 0)
        run = moeopt("place", tmp_path / "loads.csv", *shape, "--json", "-q")
        assert run.code == 0, (name, run.err)
        assert run.document["solution"]["moves"] == 0
        assert [layer["slot_expert"] for layer in run.document["solution"]["layers"]] == slots_of(planned)


def test_verify_prices_a_map_under_loads(planned: Path, tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    plan = json.loads(planned.read_text())["solution"]
    for to, ending in ENDINGS.items():
        if to == "moeopt":
            continue
        out = tmp_path / f"map.{ending}"
        assert moeopt("convert", planned, "--to", to, *LLM, "-o", out, "--force").code == 0
        run = moeopt("verify", out, tmp_path / "loads.csv", *SHAPE, *LLM, "--json")
        assert run.code == 0, (to, run.out, run.err)
        assert run.document["imbalance_mean"] == pytest.approx(plan["imbalance_mean"], rel=1e-12)
        assert [layer["layer"] for layer in run.document["per_layer"]] == list(LAYERS)
        assert run.document["best_possible_mean"] <= run.document["imbalance_mean"]
    assert "no plan of this shape gets below" in moeopt("verify", out, tmp_path / "loads.csv", *SHAPE, *LLM).out


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda rows: rows.pop(), "layers 3: missing, SGLang reads a row for each of the 4 layers"),
        (lambda rows: rows.append(rows[0]), "layers 4: there are none with these ids"),
        (lambda rows: rows[2].__setitem__(3, 99), "layer 2: slot 3 holds expert 99, ids run from 0 to 7"),
        (lambda rows: rows[2].__setitem__(slice(0, 2), [4, 4]), "layer 2: expert 4 lies"),
        (lambda rows: rows[1].__setitem__(slice(0, 10), [0] * 10), "layer 1: expert 7 is in no slot"),
        (lambda rows: rows[3].pop(), "every layer must have as many slots as the first one"),
        (lambda rows: [row.extend([0, 1]) for row in rows], "slots: the map has 12, it has to have 10"),
        (lambda rows: rows[1].__setitem__(0, "3"), "not text in quotes"),
        (lambda rows: rows[1].__setitem__(0, -1), "-1"),
    ],
)
def test_every_fault_of_a_map_is_found(
    damage: Callable[[Any], Any], message: str, planned: Path, tmp_path: Path, moeopt: Callable[..., Any]
) -> None:
    out = tmp_path / "map.json"
    assert moeopt("convert", planned, "--to", "sglang", *LLM, "-o", out).code == 0
    content = json.loads(out.read_text())
    damage(content["physical_to_logical_map"])
    out.write_text(json.dumps(content))
    run = moeopt("verify", out, *SHAPE, *LLM)
    assert run.code == 5, run.out + run.err
    assert message in run.out
    assert moeopt("verify", out, *SHAPE, *LLM, "--json").document["ok"] is False


def test_layer_ids_are_held_against_the_llm(planned: Path, tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    out = tmp_path / "map.yaml"
    assert moeopt("convert", planned, "--to", "trtllm", *LLM, "-o", out).code == 0
    text = out.read_text()
    out.write_text(text.replace("  1: ", "  0: "))
    run = moeopt("verify", out, *SHAPE, *LLM)
    assert run.code == 5
    assert "layers 1: missing, TensorRT-LLM looks for the 3 MoE layers by their ids, 1-3" in run.out
    assert "layers 0: are dense and have no experts" in run.out
    out.write_text(text)
    run = moeopt("verify", out, "--gpus", GPUS)
    assert run.code == 0 and "layer ids were not checked" in run.err and "(--experts)" in run.err
    run = moeopt("verify", out, "--gpus", 3, "--experts", 9)
    assert run.code == 5 and "do not divide over 3 GPUs" in run.out and "expert 8 is in no slot" in run.out
    run = moeopt("verify", planned, "--layers-total", 5, "--dense", "0")
    assert run.code == 5 and "layers 4: missing" in run.out


def test_what_is_no_map_is_bad_input(tmp_path: Path, planned: Path, moeopt: Callable[..., Any]) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text('{"physical_to_logical_map": [[0, 1]')
    assert moeopt("verify", cut).code == 2
    assert moeopt("verify", tmp_path / "absent.json").code == 2
    dump = files.sglang_stat(tmp_path / "dump.pt", COUNTS)
    run = moeopt("verify", dump)
    assert run.code == 2 and "is a recording of sglang" in run.err
    assert moeopt("convert", planned, "--to", "sglang", *LLM, "-o", tmp_path / "map.json").code == 0
    for option in (("--failures",), ("--nodes", 2)):
        run = moeopt("verify", tmp_path / "map.json", *option)
        assert run.code == 2 and f"{option[0]} = " in run.err
    assert moeopt("verify", planned, "--split", "even").code == 2
    assert moeopt("verify", planned, "--allow-doubles").code == 2


def test_a_plan_may_come_by_a_pipe(planned: Path, tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    out = tmp_path / "map.npz"
    run = moeopt("convert", "-", "--to", "eplb", "-o", out, stdin=planned.read_text())
    assert run.code == 0, run.err
    with np.load(out) as file:
        assert file["phy2log"].tolist() == slots_of(planned)
    run = moeopt("convert", tmp_path / "loads.csv", "--to", "eplb", "-o", out, "--force")
    assert run.code == 2 and "is no map of an engine" in run.err


def test_convert_says_everything_that_is_missing(planned: Path, tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    run = moeopt("convert", planned, "--to", "sglang", "-o", tmp_path / "map.json")
    assert run.code == 2
    assert [line.split(" = ")[0] for line in run.err.splitlines()] == ["error: llm.layers", "error: llm.dense_layers"]
    assert not (tmp_path / "map.json").exists()
    run = moeopt("convert", planned, "--to", "vllm", "-o", tmp_path / "map.json")
    assert run.code == 2 and "loads no map from a file" in run.err
    run = moeopt("convert", planned, "--to", "sglang", *LLM, "-o", tmp_path / "map.txt")
    assert run.code == 2 and ".json" in run.err
    assert moeopt("convert", planned, "--to", "sglang", *LLM, "-o", tmp_path / "map.json", "--json").document["files"]
    run = moeopt("convert", planned, "--to", "sglang", *LLM, "-o", tmp_path / "map.json")
    assert run.code == 2 and "--force" in run.err


def test_facts_of_the_options_and_of_the_plan_may_not_contradict(
    planned: Path, tmp_path: Path, moeopt: Callable[..., Any]
) -> None:
    document = json.loads(planned.read_text())
    document["solution"]["llm"] = {"name": "tiny", "layers": 4, "dense_layers": [0], "experts": 8, "top_k": 2}
    planned.write_text(json.dumps(document))
    out = tmp_path / "map.json"
    assert moeopt("convert", planned, "--to", "sglang", "-o", out).code == 0
    run = moeopt("convert", planned, "--to", "sglang", "--layers-total", 5, "--dense", "0,1", "-o", out, "--force")
    assert run.code == 2
    assert "--layers-total = 5: contradicts the plan, which says 4" in run.err
    assert "--dense = (0, 1): contradicts the plan, which says 0" in run.err


# --- from a dump to a file the engine loads, by the command line alone ------------------------------------------------


def _stat(folder: Path) -> Path:
    dense = np.zeros((2, 1, EXPERTS), dtype=np.int64)
    return files.sglang_stat(folder / "expert_distribution_recorder_1.5.pt", np.concatenate([dense, COUNTS], axis=1))


def _per_pass(folder: Path) -> Path:
    rows = np.tile(np.arange(SLOTS) % EXPERTS, (4, 1))
    rng = np.random.default_rng(1)
    physical = rng.integers(1, 500, (2, 4, SLOTS))
    physical[:, 0] = 0
    return files.sglang_records(folder / "expert_distribution_recorder_1.5_0.pt", physical, rows)


def _init_json(folder: Path) -> Path:
    file = folder / "counts.json"
    file.write_text(json.dumps({"logical_count": [[0] * EXPERTS, *COUNTS.sum(axis=0).tolist()]}))
    return file


def _trtllm(folder: Path) -> Path:
    counts = {(step, layer): COUNTS[step, row] for step in range(2) for row, layer in enumerate(LAYERS)}
    return files.trtllm_statistics(folder / "statistics", counts, top_k=2)


def _omni(folder: Path) -> Path:
    return files.omni_counts(folder / "activations", COUNTS)


def _vllm(folder: Path) -> Path:
    rng = np.random.default_rng(3)
    ids = {layer: np.stack([rng.permutation(EXPERTS)[:2] for _ in range(200)]) for layer in LAYERS}
    return files.vllm_log(folder / "routes.jsonl", ids)


def _eplb(folder: Path) -> Path:
    file = folder / "weight.npz"
    np.savez(file, weight=COUNTS.sum(axis=0))
    return file


def _plain(folder: Path) -> Path:
    file = folder / "counts.npy"
    np.save(file, COUNTS.sum(axis=0))
    return file


DUMPS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "sglang stat": (_stat, "sglang"),
    "sglang per_pass": (_per_pass, "sglang"),
    "sglang logical_count": (_init_json, "sglang"),
    "trtllm statistics": (_trtllm, "trtllm"),
    "omni activations": (_omni, "omni"),
    "vllm log": (_vllm, "vllm-ascend"),
    "eplb weight": (_eplb, "eplb"),
    "plain counts": (_plain, "moeopt"),
}


@pytest.mark.parametrize("form", list(DUMPS))
def test_a_dump_becomes_a_file_the_engine_loads(form: str, tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    write, to = DUMPS[form]
    dump, plan, out = write(tmp_path), tmp_path / "plan.json", tmp_path / f"map.{ENDINGS[to]}"
    words = ("place", dump, "--gpus", GPUS, "--slots", SLOTS, "--method", "lpt", "-o", plan)
    run = moeopt(*words)
    if run.code == 2 and "--accept" in run.err:
        names = dict.fromkeys(re.findall(r"--accept ([a-z0-9-]+)", run.err))
        run = moeopt(*words, *(word for name in names for word in ("--accept", name)))
    assert run.code == 0, run.err
    run = moeopt("convert", plan, "--to", to, *LLM, "-o", out)
    assert run.code == 0, run.err
    run = moeopt("verify", out, *SHAPE, *(() if to == "moeopt" else LLM))
    assert run.code == 0, run.out + run.err
