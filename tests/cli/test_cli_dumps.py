"""Dumps and maps of engines at the command line: told by content, ranks summed, maps as the running plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.engines.files import (
    ascend_map,
    eplb_tensors,
    omni_counts,
    omni_pattern,
    sglang_records,
    sglang_stat,
    torch_file,
    trtllm_map,
    trtllm_statistics,
)

EXPERTS, GPUS, LAYERS, STEPS = 8, 2, 2, 4
MAP = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [7, 6, 5, 4, 3, 2, 1, 0, 7, 6]])
SHAPE = ("--gpus", GPUS, "--slots", 10)


def counts() -> np.ndarray[Any, Any]:
    """(T, L, E), far more than a short sample, with the same sum in every layer."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(EXPERTS, 20.0), LAYERS)
    return np.stack([[rng.multinomial(300_000, row) for row in shares] for _ in range(STEPS)])


def slots_of(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(T, L, S): the counts of an expert on its first slot."""
    found = np.zeros((len(table), *MAP.shape), dtype=np.int64)
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            found[:, layer, np.flatnonzero(MAP[layer] == expert)[0]] = table[:, layer, expert]
    return found


def dumps(folder: Path) -> dict[str, list[Path]]:
    """The same counts as each engine would leave them."""
    table = counts()
    half = slots_of(table) // 2
    return {
        "stat": [sglang_stat(folder / "expert_distribution_recorder_1.5.pt", table)],
        "per_pass": [
            sglang_records(folder / "a_0.pt", half, MAP, rank=0),
            sglang_records(folder / "a_1.pt", slots_of(table) - half, MAP, rank=1),
        ],
        "statistics": [
            trtllm_statistics(
                folder / "stats",
                {(step, layer): table[step, layer] for step in range(STEPS) for layer in range(LAYERS)},
                top_k=2,
            )
        ],
        "omni": [omni_counts(folder / "omni", table)],
        "weight": [torch_file(folder / "weight.pt", {"weight": table.sum(axis=0)})],
    }


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    file = tmp_path / "plain.json"
    file.write_text(json.dumps(counts().sum(axis=0).tolist()))
    return file


@pytest.mark.parametrize("kind", ["stat", "per_pass", "statistics", "omni", "weight"])
def test_dump_gives_the_plan_of_its_counts(moeopt: Callable[..., Run], tmp_path: Path, plain: Path, kind: str) -> None:
    words = (*SHAPE, "--method", "lpt", "--json")
    wanted = moeopt("place", plain, *words).document["solution"]["layers"]
    run = moeopt("place", *dumps(tmp_path)[kind], *words)
    assert run.code == 0, run.err
    assert [layer["slot_expert"] for layer in run.document["solution"]["layers"]] == [
        layer["slot_expert"] for layer in wanted
    ]


def test_ranks_are_one_recording_in_every_verb(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    files = dumps(tmp_path)["per_pass"]
    said = "2 files of other ranks and the same passes are taken as one recording"
    plan = tmp_path / "plan.json"
    for words in (
        ("inspect", *files),
        ("place", *files, *SHAPE, "--method", "lpt", "-o", plan),
        ("compare", *files, *SHAPE, "--methods", "lpt"),
        ("verify", plan, *files),
    ):
        run = moeopt(*words)
        assert run.code == 0, run.err
        assert said in run.err
    assert "input = rank 0: is missing" in moeopt("inspect", files[1]).err


def test_windows_of_one_rank_are_windows(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    files = [
        sglang_records(tmp_path / f"{number}.pt", slots_of(counts()) + number, MAP, first_pass=100 * number)
        for number in (1, 2)
    ]
    run = moeopt("inspect", *files, *SHAPE, "--json")
    assert "2 files of rank 0 are taken as windows, one each" in run.err
    assert run.document["together"]["windows"] == 2


@pytest.mark.parametrize("kind", ["sglang", "inline", "ascend", "omni", "trtllm", "eplb", "recording"])
def test_map_of_an_engine_is_the_running_plan(
    moeopt: Callable[..., Run], tmp_path: Path, plain: Path, kind: str
) -> None:
    text = json.dumps({"physical_to_logical_map": MAP.tolist()})
    (tmp_path / "map.json").write_text(text)
    current = {
        "sglang": lambda: tmp_path / "map.json",
        "inline": lambda: text,
        "ascend": lambda: ascend_map(tmp_path / "ascend.json", MAP, GPUS),
        "omni": lambda: omni_pattern(tmp_path / "omni.npy", MAP, GPUS, EXPERTS),
        "trtllm": lambda: trtllm_map(tmp_path / "map.yaml", MAP, range(LAYERS)),
        "eplb": lambda: torch_file(tmp_path / "eplb.pt", eplb_tensors(MAP, EXPERTS)),
        "recording": lambda: dumps(tmp_path)["per_pass"][1],
    }[kind]()
    words = (*SHAPE, "--max-moves", 0, "--json")
    run = moeopt("place", plain, *words, "--current", current)
    assert run.code == 0, run.err
    for layer, row in zip(run.document["solution"]["layers"], MAP, strict=True):
        for part, wanted in zip(np.split(np.array(layer["slot_expert"]), GPUS), np.split(row, GPUS), strict=True):
            assert sorted(part.tolist()) == sorted(wanted.tolist())


def test_map_is_inspected_and_compared(moeopt: Callable[..., Run], tmp_path: Path, plain: Path) -> None:
    file = ascend_map(tmp_path / "ascend.json", MAP, GPUS)
    run = moeopt("inspect", file)
    assert run.code == 0, run.err
    assert "map of vllm-ascend (expert map)" in run.out
    assert "2 layers, 8 experts (the largest id and one), 10 slots, 2 GPUs; layer ids 0-1" in run.out
    assert "at most 2 of an expert" in run.out
    run = moeopt("compare", plain, *SHAPE, "--methods", "lpt", "--plans", file, "--json")
    assert run.code == 0, run.err
    rows = {row["method"]: row for row in run.document["blocks"][0]["rows"]}
    assert rows["ascend.json"]["imbalance_mean"] >= rows["lpt"]["imbalance_mean"] >= 1


def test_map_in_place_of_loads_is_named(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    run = moeopt("place", ascend_map(tmp_path / "a b ü.json", MAP, GPUS), *SHAPE)
    assert run.code == 2
    assert "is a map of vllm-ascend (expert map), not loads. Give it as --current" in run.err


def test_single_passes_of_a_recording_measure_a_plan(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    file = dumps(tmp_path)["stat"][0]
    run = moeopt("place", file, *SHAPE, "--method", "lpt", "--per-step", file, "--json")
    assert run.code == 0, run.err
    assert run.document["solution"]["per_step"]["steps"] == STEPS


def test_hostile_file_is_refused(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    from tests.engines.files import Raw

    hostile = Raw(b"cposix\nsystem\nX\x0b\x00\x00\x00touch ownedR\x85R")
    file = torch_file(tmp_path / "a.pt", {"rank": 0, "logical_count": hostile})
    for verb in ("inspect", "place", "compare", "verify", "convert"):
        run = moeopt(verb, file, *(SHAPE if verb in ("place", "compare") else ()),
                     *(("--to", "sglang", "-o", tmp_path / "x.json") if verb == "convert" else ()))  # fmt: skip
        assert run.code == 2, run.out + run.err
        assert "names posix.system, which is not read: nothing in it was run" in run.err
    assert not Path("owned").exists()


@pytest.mark.parametrize("form", ["stat", "weight", "arrays", "lines"])
def test_recordings_come_by_a_pipe(moeopt: Callable[..., Run], tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(1)
    ids = np.stack([rng.permuted(np.tile(np.arange(EXPERTS), (600, 1)), axis=1)[:, :2] for _ in range(LAYERS)])
    if form == "arrays":
        file = tmp_path / "trace.npz"
        np.savez(file, topk_ids=ids, layers=np.array([3, 4]), num_experts=EXPERTS)
    elif form == "lines":
        file = tmp_path / "trace.jsonl"
        rows = [
            {"type": "route", "layer": layer, "token_idx": token, "topk_ids": row}
            for layer, table in zip((3, 4), ids.tolist(), strict=True)
            for token, row in enumerate(table)
        ]
        file.write_text("\n".join(json.dumps(row) for row in [{"type": "meta", "top_k": 2}, *rows]))
    else:
        file = dumps(tmp_path)[form][0]
    named, piped = moeopt("inspect", file, "--json"), moeopt("inspect", "-", "--json", stdin=file.read_bytes())
    assert piped.code == named.code == 0, piped.err
    differ = ("file", "name")
    mine, other = ({k: v for k, v in run.document["files"][0].items() if k not in differ} for run in (named, piped))
    assert mine == other and "read as" in other["notes"][0]
    assert piped.document["files"][0]["name"] == "-"


def test_broken_recordings_by_a_pipe_are_named_as_such(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    whole = dumps(tmp_path)["stat"][0].read_bytes()
    run = moeopt("inspect", "-", stdin=whole[: len(whole) // 2])
    assert run.code == 2 and "error: -: " in run.err and "moeopt-" not in run.err
    run = moeopt("place", "-", *SHAPE, stdin=json.dumps({"physical_to_logical_map": MAP.tolist()}))
    assert run.code == 2 and "input = -: is a map of sglang" in run.err


def test_a_map_of_ours_is_taken_wherever_maps_are(moeopt: Callable[..., Run], tmp_path: Path, plain: Path) -> None:
    theirs, ours = ascend_map(tmp_path / "ascend.json", MAP, GPUS), tmp_path / "ours.json"
    assert moeopt("convert", theirs, "--to", "moeopt", "-o", ours).code == 0
    said = moeopt("inspect", ours)
    assert said.code == 0 and "map of vllm-ascend (expert map)" in said.out and "2 GPUs" in said.out
    assert moeopt("verify", ours, plain).code == 0
    run = moeopt("compare", plain, *SHAPE, "--methods", "lpt", "--plans", f"{ours},{theirs}", "--json")
    rows = {row["method"]: row for row in run.document["blocks"][0]["rows"]}
    assert rows["ours.json"]["objective"] == rows["ascend.json"]["objective"]
    refused = moeopt("place", ours, *SHAPE)
    assert refused.code == 2 and "is a map of moeopt (expert map), not loads" in refused.err
    ours.write_text(ours.read_text().replace('"layers": [', '"layers": [7, '))
    run = moeopt("verify", ours)
    assert run.code == 5 and "must be different ids, one for each of the 2 rows" in run.out + run.err


def test_layers_without_loads_are_left_out_of_plans_and_means(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    """Dense rows of an engine's dump counted as perfectly balanced layers, and moves of theirs as moves."""
    table = np.concatenate([np.zeros((STEPS, 1, EXPERTS), dtype=np.int64), counts()], axis=1)
    file, plan = sglang_stat(tmp_path / "dump.pt", table), tmp_path / "plan.json"
    run = moeopt("place", file, *SHAPE, "--method", "lpt", "-o", plan)
    assert run.code == 0 and "layer 0 has no load and is left out; --layers takes them in" in run.err
    assert "layers       2:" in run.out and moeopt("verify", plan, file).code == 0
    whole = moeopt("place", file, *SHAPE, "--method", "lpt", "--layers", "0-2", "--json").document["solution"]
    busy = json.loads(plan.read_text())["solution"]
    assert [layer["layer"] for layer in whole["layers"]] == [0, 1, 2]
    assert busy["imbalance_mean"] > whole["imbalance_mean"]
    facts = moeopt("inspect", file, *SHAPE, "--json").document["files"][0]
    assert facts["layers"] == 3 and [row["layer"] for row in facts["per_layer"]] == [1, 2]
    assert moeopt("inspect", file, *SHAPE).code == 0
