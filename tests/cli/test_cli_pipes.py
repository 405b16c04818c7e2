"""Maps by standard input and to standard output, wherever a verb takes or writes one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import ROOT, Run
from tests.engines.files import (
    ascend_map,
    eplb_tensors,
    omni_pattern,
    safetensors_file,
    sglang_records,
    torch_file,
    trtllm_map,
)

EXPERTS, GPUS = 8, 2
MAP = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [7, 6, 5, 4, 3, 2, 1, 0, 7, 6]])
LOADS = np.random.default_rng(5).integers(1000, 90_000, (2, EXPERTS))
SHAPE = ("--gpus", GPUS, "--slots", 10)
KINDS = ("sglang", "ascend", "trtllm", "omni", "omni-npz", "eplb", "eplb-npz", "bare", "moeopt", "table", "npy")


def written(folder: Path, kind: str) -> Path:
    """The same map as each engine would write it."""
    if kind == "sglang":
        (folder / "a.json").write_text(json.dumps({"physical_to_logical_map": MAP.tolist()}))
        return folder / "a.json"
    if kind == "ascend":
        return ascend_map(folder / "a.json", MAP, GPUS)
    if kind == "trtllm":
        return trtllm_map(folder / "a.yaml", MAP, range(2))
    if kind.startswith("omni"):
        path = omni_pattern(folder / "a.npy", MAP, GPUS, EXPERTS)
        if kind == "omni-npz":
            np.savez(folder / "a.npz", cube=np.load(path))
            return folder / "a.npz"
        return path
    if kind == "eplb-npz":
        np.savez(folder / "a.npz", phy2log=MAP)
        return folder / "a.npz"
    if kind in ("eplb", "bare"):
        return torch_file(folder / "a.pt", eplb_tensors(MAP, EXPERTS) if kind == "eplb" else MAP)
    if kind == "npy":
        np.save(folder / "a.npy", MAP)
        return folder / "a.npy"
    (folder / "a.json").write_text(json.dumps(MAP.tolist()))
    return folder / "a.json"


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    file = tmp_path / "loads.csv"
    file.write_text("\n".join(",".join(map(str, row)) for row in LOADS.tolist()))
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_map_comes_by_a_pipe_as_from_a_file(moeopt: Callable[..., Run], tmp_path: Path, loads: Path, kind: str) -> None:
    file = written(tmp_path, kind)
    if kind == "moeopt":
        assert moeopt("convert", file, "--to", "moeopt", "--gpus", GPUS, "-o", tmp_path / "own.json").code == 0
        file = tmp_path / "own.json"
    data = file.read_bytes()

    def alike(*words: object) -> Run:
        place = words.index("-")
        named, piped = moeopt(*words[:place], file, *words[place + 1 :]), moeopt(*words, stdin=data)
        assert named.code == piped.code == 0, named.err + piped.err
        same = (named.out + named.err).replace(str(file), "-")
        strip = [line for line in (piped.out + piped.err).splitlines() if not line.startswith("time")]
        assert strip == [line for line in same.splitlines() if not line.startswith("time")]
        return piped

    assert "-: ok (map of" in alike("verify", "-", "--gpus", GPUS, "--experts", EXPERTS, loads).out
    if kind not in ("table", "npy"):
        assert "-: map of" in alike("inspect", "-").out
    alike("place", loads, *SHAPE, "--current", "-", "--max-moves", 0)
    alike("convert", "-", "--to", "moeopt", "--gpus", GPUS, "-o", "-")
    if kind not in ("table", "npy"):
        refused = moeopt("place", "-", *SHAPE, stdin=data)
        assert refused.code == 2 and "error: -: input = -: is a map of" in refused.err
        assert moeopt("compare", loads, *SHAPE, "--plans", "-", "--methods", "lpt", stdin=data).code == 0


@pytest.mark.parametrize(("to", "ending"), [("sglang", "json"), ("trtllm", "yaml"), ("omni", "npy"), ("eplb", "npz")])
def test_convert_writes_the_map_to_standard_output(tmp_path: Path, to: str, ending: str) -> None:
    file = written(tmp_path, "sglang")
    words = ("convert", str(file), "--to", to, "--layers-total", "2", "--dense", "none", "--gpus", "2")
    made = {}
    for output in ("-", str(tmp_path / f"out.{ending}")):
        made[output] = subprocess.run(
            [sys.executable, "-m", "moeopt", *words, "-o", output], capture_output=True, cwd=ROOT, check=True
        )
    if ending != "npz":
        assert made["-"].stdout == (tmp_path / f"out.{ending}").read_bytes()
    else:
        assert np.array_equal(np.load(io.BytesIO(made["-"].stdout))["phy2log"], MAP)
    for line in (tmp_path / f"out.{ending}.options.txt").read_text().splitlines()[1:]:
        told = line.removeprefix("# - ").replace(str(tmp_path / f"out.{ending}"), f"map.{ending}")
        assert told == "# warnings:" or told in made["-"].stderr.decode()


def test_standard_input_is_given_once(moeopt: Callable[..., Run], loads: Path) -> None:
    for words, said in (
        (("place", "-", *SHAPE, "--current", "-"), "standard input = INPUT and --current: are both -"),
        (("inspect", "-", "-"), "standard input = FILE and FILE: are both -"),
        (("inspect", "--", "-:a", "-:b"), "standard input = FILE and FILE: are both -"),
        (("verify", "-", "-"), "standard input = PLAN_OR_MAP and LOADS_OR_INSTANCE: are both -"),
        (("compare", "-", *SHAPE, "--plans", "a.json,-"), "standard input = INPUT and --plans: are both -"),
    ):
        run = moeopt(*words, stdin=loads.read_bytes())
        assert run.code == 2 and said in run.err and "Give files for all but one" in run.err, run.err


def test_what_cannot_come_by_a_pipe_is_said(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    rank = safetensors_file(tmp_path / "rank0.safetensors", {"0_3": np.array([5, 6])})
    for verb in ("inspect", "verify"):
        run = moeopt(verb, "-", stdin=rank.read_bytes())
        assert run.code == 2 and "the file of one rank of TensorRT-LLM's statistics, which are a folder" in run.err
        assert "it cannot come by a pipe" in run.err
    counts = np.full((2, *MAP.shape), 7)
    run = moeopt("inspect", "-", stdin=sglang_records(tmp_path / "a.pt", counts, MAP, rank=1).read_bytes())
    assert run.code == 2 and "rank 0: is missing" in run.err and "Give the files of all ranks" in run.err


def test_arrays_of_a_pipe_go_by_their_keys(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    cube = np.load(omni_pattern(tmp_path / "a.npy", MAP, GPUS, EXPERTS))
    np.savez(tmp_path / "a.npz", cube=cube, decode=LOADS)
    data = (tmp_path / "a.npz").read_bytes()
    run = moeopt("inspect", "--json", "--", "-:decode", stdin=data)
    assert run.code == 0 and run.document["files"][0]["experts"] == EXPERTS, run.err
    assert "-:cube: map of omni" in moeopt("inspect", "--", "-:cube", stdin=data).out
    assert "-:cube: ok (map of omni-infer" in moeopt("verify", "--", "-:cube", stdin=data).out
    assert "Give FILE:KEY, such as :cube" in moeopt("inspect", "-", stdin=data).err


def test_broken_map_by_a_pipe_is_named_as_such(moeopt: Callable[..., Run]) -> None:
    for words in (("verify", "-"), ("convert", "-", "--to", "moeopt", "-o", "-"), ("inspect", "-")):
        run = moeopt(*words, stdin='{"physical_to_logical_map": [[0, 1], ["x", 1]')
        assert run.code == 2 and "-" in run.err and "stdin" not in run.err and "moeopt-" not in run.err


def test_json_and_a_map_cannot_both_be_on_standard_output(moeopt: Callable[..., Run], tmp_path: Path) -> None:
    run = moeopt("convert", written(tmp_path, "sglang"), "--to", "moeopt", "-o", "-", "--json")
    assert run.code == 2 and "-o - writes the map there" in run.err
