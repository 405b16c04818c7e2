"""TensorRT-LLM's statistics and balancer configuration, and the small readers under them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from moeopt.engines import read_dump, read_map, what_is
from moeopt.engines.safetensors import open_safetensors
from moeopt.engines.yaml_subset import read_yaml
from moeopt.errors import InstanceError
from tests.engines.files import safetensors_file, trtllm_map, trtllm_statistics

COUNTS = {
    (step, layer): np.arange(8) * (step + 1) + layer for step in (50, 51, 52) for layer in (3, 4)
}  # fmt: skip
MAP = np.array([[0, 1, 2, 3, 0, 2], [3, 2, 1, 0, 1, 3]])


def refusal(path: Path) -> str:
    with pytest.raises(InstanceError) as caught:
        read_dump([str(path)])
    return str(caught.value)


@pytest.mark.parametrize("given", ["", "meta_info.json", "rank0.safetensors"])
def test_statistics_are_summed_over_ranks_and_iterations(tmp_path: Path, given: str) -> None:
    path = str(trtllm_statistics(tmp_path / "expert statistic ü", COUNTS, top_k=2, ranks=3) / given)
    assert what_is(path) == ("trtllm", "expert statistics")
    dump = read_dump([path])
    assert dump.table.layers == (3, 4)
    assert dump.table.loads.tolist() == [
        sum(COUNTS[step, layer] for step in (50, 51, 52)).tolist() for layer in (3, 4)
    ]  # fmt: skip
    assert (dump.steps, dump.top_k, dump.form) == (3, 2, "expert statistics")
    assert dump.per_step is not None
    assert dump.per_step[1, 0].tolist() == COUNTS[51, 3].tolist()
    assert dump.notes == ("ranks 0-2 are summed over iterations 50 to 52",)


def test_raw_ids_are_counted(tmp_path: Path) -> None:
    (tmp_path / "meta_info.json").write_text('{"num_experts": 4, "num_experts_per_token": 2}')
    for rank in range(2):
        ids = np.array([[0, 1], [1, 3]]) if rank else np.array([[2, 1]])
        safetensors_file(tmp_path / f"rank{rank}_raw.safetensors", {"7_3": ids.astype(np.int32)})
    dump = read_dump([str(tmp_path)])
    assert dump.form == "raw expert ids"
    assert dump.table.loads.tolist() == [[1, 3, 1, 1]]


def test_faults_of_statistics_are_named(tmp_path: Path) -> None:
    folder = trtllm_statistics(tmp_path / "a", COUNTS, top_k=2, ranks=3)
    (folder / "rank1.safetensors").unlink()
    assert "input = rank 1: is missing: the folder has ranks 0,2" in refusal(folder)
    folder = trtllm_statistics(tmp_path / "b", COUNTS, top_k=2)
    safetensors_file(folder / "rank1.safetensors", {"50_3": np.arange(8)})
    assert "rank 1 = 50_4: has no tensor of an iteration and layer that others have" in refusal(folder)
    safetensors_file(
        folder / "rank1.safetensors", {"50_3": np.arange(7), "51_3": np.ones(8, dtype=np.float32), "x": np.ones(1)}
    )
    said = refusal(folder)
    assert "must be one count for each of 8 experts" in said
    assert "float32: must be whole numbers" in said
    assert "tensors are named <iteration>_<layer>" in said
    (folder / "meta_info.json").write_text('{"num_experts": "8"}')
    assert "meta_info.json: num_experts = '8': must be a whole number >= 1" in refusal(folder)
    (folder / "meta_info.json").write_text(json.dumps({"num_experts": 8, "ep_size": 4}))
    assert "ranks 2-3: are missing" in refusal(folder)


def test_safetensors_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    path = safetensors_file(tmp_path / "a.safetensors", {"x": np.arange(10), "y": np.ones((2, 3), dtype=np.float32)})
    found = dict(open_safetensors(str(path)).read())
    assert found["x"].tolist() == list(range(10))
    assert found["y"].shape == (2, 3)
    whole = path.read_bytes()

    def said(content: bytes) -> str:
        path.write_bytes(content)
        with pytest.raises(InstanceError) as caught:
            open_safetensors(str(path))
        return str(caught.value)

    def header(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode() + bytes(80)

    assert "ends beyond the file" in said(whole[:-4])
    assert "not a whole file of safetensors" in said(whole[:20])
    assert "not a whole file of safetensors" in said(b"")
    assert "not a whole file of safetensors" in said(struct.pack("<Q", 2**60) + b"{}")
    assert "is not a type of plain numbers" in said(
        header('{"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}')
    )
    assert "takes 8 bytes" in said(header('{"x": {"dtype": "I64", "shape": [1], "data_offsets": [0, 9]}}'))
    two = '"x": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}, '
    two += '"%s": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]}'
    assert "y = 8: lies over x in the file" in said(header("{" + two % "y" + "}"))
    assert "the key stands twice" in said(header("{" + two % "x" + "}"))


def test_configuration_is_read(tmp_path: Path) -> None:
    path = trtllm_map(tmp_path / "moe load balancer ü.yaml", MAP, [3, 4])
    assert what_is(str(path)) == ("trtllm", "load balancer configuration")
    found = read_map(str(path))
    assert np.array_equal(found.slot_expert, MAP)
    assert (found.engine, found.layers, found.slots) == ("trtllm", (3, 4), None)
    with pytest.raises(InstanceError, match="is a map of trtllm"):
        read_dump([str(path)])


def test_configuration_inside_of_a_larger_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "extra.yml"
    path.write_text(
        "\ufeff---\nenable_attention_dp: true  # yes\nmoe_config:\n    backend: 'CUTLASS'\n    load_balancer:\n"
        "        num_slots: 3\n        initial_global_assignments:\n            '5':\n            - 0\n"
        "            - 1\n            - 1\n            3: [1, 0,\n              1,]\n"
        "        layer_updates_per_iter: 0\nprint_iter_log: true\n"
    )
    found = read_map(str(path))
    assert found.layers == (3, 5)
    assert found.slot_expert.tolist() == [[1, 0, 1], [0, 1, 1]]
    assert "layer ids in quotes are taken as numbers" in found.notes


def test_faults_of_a_configuration_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    for text, said in (
        ("num_slots: 2\ninitial_global_assignments:\n  3: [0]\n", "[layer 3] = 1 ids: must have num_slots = 2 ids"),
        ("num_slots: 2\ninitial_global_assignments:\n  3: [0, '1']\n", "not text in quotes"),
        ("num_slots: 2\nlayer_updates_per_iter: 1\n", "without them the engine deals them itself"),
        ("num_slots: 2\nnum_slots: 2\n", "yaml[line 2] = num_slots: the key stands twice"),
        ("num_slots: 2\ninitial_global_assignments:\n  3: [0, 1\n", "the row is not closed"),
        ("num_slots: 2\nslots: 3\ninitial_global_assignments:\n  3: [0, 1]\n", "is a key that TensorRT-LLM refuses"),
        ("num_slots: 02\n", "numbers do not begin with 0"),
        ("num_slots: &x 2\n", "anchors of YAML are not read"),
        ("num_slots: !!python/object:os.system x\n", "tags of YAML are not read"),
        ("num_slots: 2\n\tx: 3\n", "lines are indented with blanks"),
        ("num_slots: 2\n  x: 3\n", "lined up"),
        ("num_slots: 2\ninitial_global_assignments: {3: [0, 1]}\n", "braces of YAML are not read"),
    ):
        path.write_text(text)
        with pytest.raises(InstanceError) as caught:
            read_map(str(path))
        assert said in str(caught.value)


def test_yaml_scalars_are_read() -> None:
    text = b'a: 1_000\nb: -2.5\nc: Yes\nd: ~\ne:\nf: "x # y"  # z\ng:\n  - [1, 2]\n  - [3]\nh: 1e5\n'
    assert read_yaml(text, "x") == {
        "a": 1000, "b": -2.5, "c": "Yes", "d": None, "e": None, "f": "x # y", "g": [[1, 2], [3]], "h": "1e5",
    }  # fmt: skip
