"""Numbers that are too large, and content of the wrong form, are refused by name wherever a file says them."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.engines import read_dump, read_map, read_source, what_is
from moeopt.errors import InstanceError
from tests.engines.files import View, omni_counts, safetensors_file, torch_bytes, torch_file, trtllm_statistics

OWN = {"schema": "moeopt/expert-map/1", "engine": "sglang", "layers": [0], "slots": None, "num_experts": 2,
       "slot_expert": [[0, 1]]}  # fmt: skip


def said_of(path: Path | str, read: Any = None) -> str:
    with pytest.raises(InstanceError) as caught:
        (read or read_map)(str(path))
    return str(caught.value)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("num_experts", -1, "num_experts = -1: must be a whole number from 1 to 65,536"),
        ("num_experts", 10**18, "num_experts = 1000000000000000000"),
        ("layers", [-1], "layers[index 0] = -1"),
        ("layers", [2**70], "layers[index 0] = "),
        ("slot_expert", [[0, 2**31 - 1]], "slot_expert[layer 0, slot 1] = 2147483647"),
        ("engine", "\ud800", "json = \\ud800: \\ud800 is half of a character"),
        ("engine", "\x1b[31mred", "engine = '\\x1b[31mred': known are"),
        ("schema", "moeopt/expert-map/9", "is not a form that this version of moeopt reads"),
    ],
)
def test_own_map(field: str, value: Any, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "own.json", json.dumps({**OWN, field: value}))
    for read in (read_map, read_source):
        assert said in said_of(path, read)
    without = json.dumps({**OWN, "num_experts": None, "slot_expert": [[0, 2**31 - 1]]})
    assert "2147483647" in said_of(written(tmp_path / "own.json", without))


def test_meta_of_trtllm(tmp_path: Path) -> None:
    folder = trtllm_statistics(tmp_path / "s", {(1, 3): np.arange(4)}, top_k=2)
    for key, value in (("num_experts", 10**10), ("num_experts_per_token", 2**70), ("ep_size", 10**7)):
        meta = {"num_experts": 4, "num_experts_per_token": 2, key: value}
        (folder / "meta_info.json").write_text(json.dumps(meta))
        assert f"meta_info.json: {key} = {value}: must be a whole number from 1" in said_of(folder, read_dump)


def test_names_of_ranks_and_steps(tmp_path: Path) -> None:
    folder = trtllm_statistics(tmp_path / "a", {(1, 3): np.arange(4)}, top_k=2)
    (folder / "rank00.safetensors").write_bytes((folder / "rank0.safetensors").read_bytes())
    assert "has two files" in said_of(folder, read_dump)
    (folder / "rank00.safetensors").rename(folder / "rank99999999.safetensors")
    assert "rank[rank99999999.safetensors] = 99999999" in said_of(folder, read_dump)
    (folder / "rank99999999.safetensors").rename(folder / "rank999999.safetensors")
    assert "ranks 2-999998: are missing" in said_of(folder, read_dump)
    (folder / "rank999999.safetensors").unlink()
    for key, said in (("00_3", "stand twice"), ("9" * 5000 + "_3", "iteration["), ("0_70000", "layer[")):
        safetensors_file(folder / "rank0.safetensors", {"0_3": np.arange(4), key: np.arange(4)})
        assert said in said_of(folder, read_dump)
    counts = omni_counts(tmp_path / "o", np.ones((1, 1, 2), dtype=int))
    one = counts / "activation_counts_recordstep_1_rank_0.txt"
    other = counts / "activation_counts_recordstep_01_rank_0.txt"
    other.write_bytes(one.read_bytes())
    assert "the step and rank have two files" in said_of(counts, read_dump)
    other.rename(counts / "activation_counts_recordstep_1_rank_99999999.txt")
    assert "rank[" in said_of(counts, read_dump)


def test_traces(tmp_path: Path) -> None:
    ids = np.array([[[0, 1]]])
    np.savez(tmp_path / "a.npz", topk_ids=ids, num_experts=np.array(10**12))
    assert "num_experts = 1000000000000" in said_of(tmp_path / "a.npz", read_dump)
    for key, value in (("num_experts", 10**12), ("top_k", 2**70)):
        lines = [{"type": "meta", key: value}, {"type": "route", "layer": 3, "topk_ids": [0, 1]}]
        path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
        assert f"{key}[line 1] = {value}" in said_of(path, read_dump)
    path = written(tmp_path / "b.jsonl", json.dumps({"type": "route", "layer": 2**70, "topk_ids": [0, 1]}))
    assert "must be below 65,536" in said_of(path, read_dump)


@pytest.mark.parametrize("count", [2**63, 2**64, 1e300, 1e30, True])
def test_counts_in_json(count: float, tmp_path: Path) -> None:
    for rows in ([[count, 1]], [[[count, 1]]], [[[1, 2]], [[count, 1]]]):
        path = written(tmp_path / "a.json", json.dumps({"logical_count": rows}))
        assert "logical_count" in said_of(path, read_dump) or "loads" in said_of(path, read_dump)


def test_doubles_beyond_whole_numbers(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "a.pt", {"rank": 0, "logical_count": np.array([[[1.0, 1e300]]])})
    assert "logical_count[0, 0, 1] = 1e+300: counts must be below 2**63" in said_of(path, read_dump)


@pytest.mark.parametrize("shape", [(2**40, 2**40, 0), (1,) * 103])
def test_shapes(shape: tuple[int, ...], tmp_path: Path) -> None:
    view = View(np.zeros(1, dtype=np.int64), 0, shape, (1,) * len(shape))
    assert "whose shape is not plain" in said_of(torch_file(tmp_path / "a.pt", {"logical_count": view}), read_dump)
    folder = trtllm_statistics(tmp_path / "s", {(1, 3): np.arange(4)}, top_k=2, ranks=1)
    size = 8 if 0 not in shape else 0
    for facts in ({"dtype": "I64", "shape": shape}, {"dtype": ["I64"], "shape": [1]}):
        text = json.dumps({"1_3": {**facts, "data_offsets": [0, size]}}).encode()
        (folder / "rank0.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))
        assert "1_3 = " in said_of(folder, read_dump)


def test_gaps_and_doubles_in_files(tmp_path: Path) -> None:
    folder = trtllm_statistics(tmp_path / "s", {(1, 3): np.arange(1)}, top_k=1, ranks=1)
    for spans in ([[8, 16]], [[0, 8], [16, 24]]):
        header = {f"1_{n}": {"dtype": "I64", "shape": [1], "data_offsets": span} for n, span in enumerate(spans)}
        text = json.dumps(header).encode()
        content = struct.pack("<Q", len(text)) + text + bytes(spans[-1][1])
        (folder / "rank0.safetensors").write_bytes(content)
        assert "8 bytes before it are no tensor's" in said_of(folder, read_dump)
    file = io.BytesIO(torch_bytes({"logical_count": np.array([[1]])}))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr("archive/data/0", bytes(8))
    (tmp_path / "a.pt").write_bytes(file.getvalue())
    assert "has archive/data/0 twice" in said_of(tmp_path / "a.pt", read_dump)


def test_nesting(tmp_path: Path) -> None:
    for text in ("[" * 20_000, '{"a":' * 20_000, '{"logical_count":' + "[" * 800 + "]" * 800 + "}"):
        path = written(tmp_path / "a.json", text)
        said_of(path)
        said_of(path, read_dump)
        said_of(path, read_source)
    deep = "".join(f"{' ' * depth}k:\n" for depth in range(2000))
    assert "mappings" in said_of(written(tmp_path / "a.yaml", f"num_slots: 1\n{deep}"))
    assert "digits" in said_of(written(tmp_path / "a.yaml", f"num_slots: {'9' * 5000}\n"))


def test_keys_of_objects_inside_say_nothing(tmp_path: Path) -> None:
    for key in ("physical_to_logical_map", "logical_count", "layer_list"):
        text = json.dumps({"x": {key: [[0, 1]]}})
        path = written(tmp_path / "a.json", text)
        assert what_is(text) is None
        assert what_is(str(path)) is None
        said_of(path)
        said_of(path, read_dump)


@pytest.mark.parametrize("count", [np.array(1), np.array([1, 1]), np.ones((1, 2, 1), dtype=int), np.ones((1, 0))])
def test_axes_of_logcnt(count: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", phy2log=np.array([[0, 1]]), logcnt=count)
    said_of(tmp_path / "a.npz")


def test_tensors_of_eplb_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    rows = np.array([[0, 1, 1, 2]])
    good = np.array([[[0, -1], [2, 1], [3, -1]]])
    np.savez(path, phy2log=rows, log2phy=good)
    assert read_map(str(path)).slot_expert.tolist() == rows.tolist()
    for bad, said in (
        ([[[0, -1], [1, -1], [3, -1]]], "log2phy[layer 0, expert 1] = absent: must have slot 2 once"),
        ([[[0, 0], [1, 2], [3, -1]]], "log2phy[layer 0, expert 0] = 2 times: must have slot 0 once"),
        ([[[0, -1]]], "log2phy[layer 0, expert 2] = absent"),
    ):
        np.savez(path, phy2log=rows, log2phy=np.array(bad))
        assert said in said_of(path)
    np.savez(path, phy2log=rows, physical_to_logical_map=rows[:, ::-1])
    assert "is another tensor than phy2log" in said_of(path)


def test_configuration_under_other_keys(tmp_path: Path) -> None:
    inner = "    num_slots: 2\n    initial_global_assignments:\n      3: [0, 1]\n"
    text = f"moe_config:\n  load_balancer:\n{inner}"
    assert read_map(str(written(tmp_path / "a.yaml", text))).layers == (3,)
    assert "is a key that TensorRT-LLM refuses" in said_of(written(tmp_path / "a.yaml", text + "    extra: 1\n"))
    updates = text + "    layer_updates_per_iter: -5\n"
    assert "layer_updates_per_iter = -5" in said_of(written(tmp_path / "a.yaml", updates))
