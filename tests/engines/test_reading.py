"""Maps of vLLM-Ascend, omni and EPLB, traces of vLLM, and files told apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.engines import read_dump, read_map, what_is
from moeopt.engines.recordings import recordings
from moeopt.errors import InstanceError
from tests.engines.files import (
    ascend_map,
    eplb_tensors,
    omni_counts,
    omni_pattern,
    sglang_stat,
    torch_file,
    trtllm_map,
    vllm_log,
)

MAP = np.array([[0, 1, 2, 3, 0, 2], [3, 2, 1, 0, 1, 3]])


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(InstanceError) as caught:
        call()
    return str(caught.value)


def test_ascend_map_is_read(tmp_path: Path) -> None:
    path = str(ascend_map(tmp_path / "map.json", MAP, 3))
    assert what_is(path) == ("vllm-ascend", "expert map")
    found = read_map(path)
    assert np.array_equal(found.slot_expert, MAP)
    assert (found.engine, found.layers, found.slots) == ("vllm-ascend", (0, 1), (2, 2, 2))
    assert "is a map of vllm-ascend (expert map), not loads" in refusal(lambda: read_dump([path]))


def test_layers_and_devices_of_an_ascend_map_may_stand_in_any_order(tmp_path: Path) -> None:
    path = ascend_map(tmp_path / "map.json", MAP, 3)
    document = json.loads(path.read_text())
    document["layer_list"].reverse()
    document["layer_list"][0]["device_list"].reverse()
    path.write_text("\ufeff" + json.dumps(document))
    assert np.array_equal(read_map(str(path)).slot_expert, MAP)


def test_faults_of_an_ascend_map_are_named(tmp_path: Path) -> None:
    path = ascend_map(tmp_path / "map.json", MAP, 3)
    whole = path.read_text()

    def said(change: Callable[[Any], None]) -> str:
        document = json.loads(whole)
        change(document)
        path.write_text(json.dumps(document))
        return refusal(lambda: read_map(str(path)))

    def first(document: Any) -> Any:
        return document["layer_list"][0]

    assert "moe_layer_count = 7: must be the length of layer_list, 2" in said(lambda d: d.update(moe_layer_count=7))
    assert "layer_id[layer_list 0] = '0': must be a whole number >= 0, not text in quotes" in said(
        lambda d: first(d).update(layer_id="0")
    )
    assert "the layer stands twice" in said(lambda d: first(d).update(layer_id=1))
    assert "device_count[layer_list 0] = 4: must be the length of device_list, 3" in said(
        lambda d: first(d).update(device_count=4)
    )
    assert "the device stands twice" in said(lambda d: first(d)["device_list"][0].update(device_id=1))
    assert "devices are numbered 0 to 2" in said(lambda d: first(d)["device_list"][0].update(device_id=9))
    assert "every device of every layer must have as many" in said(
        lambda d: first(d)["device_list"][0].update(device_expert=[0])
    )
    assert "not text in quotes" in said(lambda d: first(d)["device_list"][0].update(device_expert=["0", 1]))
    path.write_text(whole.replace('"moe_layer_count": 2,', '"moe_layer_count": 2, "moe_layer_count": 2,'))
    assert "the key stands twice" in refusal(lambda: read_map(str(path)))
    path.write_text(whole[:-40])
    assert "broken JSON" in refusal(lambda: read_map(str(path)))


def test_omni_pattern_is_read_with_empty_slots(tmp_path: Path) -> None:
    rows = np.array([[0, 1, 2, 3, 0, 2], [0, 1, 2, 3, 2, -1]])
    path = str(omni_pattern(tmp_path / "pattern.npy", rows, 3, 4))
    assert what_is(path) == ("omni", "placement pattern")
    found = read_map(path)
    assert found.slot_expert.tolist() == [[0, 1, 2, 3, 0, 2], [0, 1, 2, 3, 2, -1]]
    assert (found.slots, found.num_experts, found.layers) == ((2, 2, 2), 4, (0, 1))
    assert "1 layer has devices with fewer experts than others have there: slots left empty" in found.notes
    assert "is a map of omni" in refusal(lambda: read_dump([path]))


def test_omni_activation_counts_are_summed(tmp_path: Path) -> None:
    counts = np.arange(24).reshape(3, 2, 4)
    folder = omni_counts(tmp_path / "decode", counts, ranks=2)
    assert what_is(str(folder)) == ("omni", "activation counts")
    files = sorted(map(str, folder.iterdir()))
    for paths in ([str(folder)], files):
        dump = read_dump(paths)
        assert dump.table.loads.tolist() == counts.sum(axis=0).tolist()
        assert "ranks 0-1 stand side by side" in dump.notes
    assert recordings(files).groups == (tuple(files),)
    Path(files[-1]).unlink()
    assert "[step 3, rank 1] = absent: others have this rank" in refusal(lambda: read_dump([str(folder)]))
    Path(files[-1]).write_text("1\tx\n3\t4\t5\n")
    said = refusal(lambda: read_dump([str(folder)]))
    assert "[line 1, column 2] = x: counts are whole numbers" in said
    assert "[line 2] = 3 counts" in said


@pytest.mark.parametrize("how", ["tuple", "dict", "npz", "bare"])
def test_results_of_the_public_rule_are_read(tmp_path: Path, how: str) -> None:
    parts = eplb_tensors(MAP, 4)
    path = tmp_path / ("a.npz" if how == "npz" else "a.pt")
    named = dict(zip(("phy2log", "log2phy", "logcnt"), parts, strict=True))
    if how == "npz":
        np.savez(path, **named)
    else:
        torch_file(path, {"tuple": parts, "dict": named, "bare": parts[0]}[how])
    assert what_is(str(path)) == ("eplb", "placement")
    found = read_map(str(path))
    assert np.array_equal(found.slot_expert, MAP)
    assert found.known_experts == 4
    assert "is a map of eplb" in refusal(lambda: read_dump([str(path)]))


def test_results_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    rows, places, counts = eplb_tensors(MAP, 4)
    counts[1, 2] = 5
    path = str(torch_file(tmp_path / "a.pt", (rows, places, counts)))
    assert "logcnt[layer 1, expert 2] = 5: phy2log has 1 copy of the expert" in refusal(lambda: read_map(path))
    rows, places, counts = eplb_tensors(MAP, 4)
    places[0, 0, 0] = 1
    path = str(torch_file(tmp_path / "a.pt", (rows, places, counts)))
    assert "log2phy[layer 0, expert 0] = 1: phy2log has expert 1 there" in refusal(lambda: read_map(path))


def test_weights_are_loads(tmp_path: Path) -> None:
    weight = np.array([[1.5, 2, 3], [4, 5, 6]], dtype=np.float32)
    dump = read_dump([str(torch_file(tmp_path / "a.pt", {"weight": weight}))])
    assert dump.table.loads.tolist() == weight.tolist()
    dump = read_dump([str(torch_file(tmp_path / "b.pt", weight.astype(np.int64)))])
    assert dump.table.loads.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert dump.notes == ("a tensor without a name is taken as loads, layers x experts",)


def test_logs_of_different_layers_are_one_recording(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).permuted(np.tile(np.arange(6), (50, 1)), axis=1)[:, :2]
    paths = [str(vllm_log(tmp_path / f"moe_layer{layer}.jsonl", {layer: ids + layer})) for layer in (0, 8)]
    assert what_is(paths[0]) == ("vllm", "MoE logger")
    assert recordings(paths).groups == (tuple(paths),)
    dump = read_dump(paths)
    assert dump.table.layers == (0, 8)
    assert dump.table.loads.shape == (2, 14)
    assert dump.table.loads[1, 8:].tolist() == np.bincount(ids.reshape(-1)).tolist()
    assert dump.top_k == 2
    again = [paths[0], str(vllm_log(tmp_path / "other.jsonl", {0: ids}))]
    assert len(recordings(again).groups) == 2


def test_routed_experts_in_arrays_are_counted(tmp_path: Path) -> None:
    ids = np.array([[[0, 2], [1, 2], [3, 0]]])
    path = tmp_path / "a.npz"
    np.savez(path, topk_ids=ids, layers=np.array([5]), num_experts=4)
    assert what_is(str(path)) == ("vllm", "routed experts")
    dump = read_dump([str(path)])
    assert dump.table.loads.tolist() == [[2, 1, 2, 1]]
    assert dump.table.layers == (5,)


def test_files_of_nobody_are_not_claimed(tmp_path: Path) -> None:
    for name, content in (
        ("a.csv", b"1,2\n"),
        ("a.json", b"[[1, 2]]"),
        ("b.json", b'{"loads": [[1]]}'),
        ("c.json", b'{"schema": "moeopt/placement-instance/1", "logical_count": 3}'),
        ("d.json", b'{"logical_count": [[1]], "layers": [3]}'),
        ("e", b""),
        ("f.yaml", b"a: 1\n"),
        ("g.npz", b"PK\x03\x04"),
    ):
        (tmp_path / name).write_bytes(content)
        assert what_is(str(tmp_path / name)) is None
    np.save(tmp_path / "h.npy", np.arange(24).reshape(2, 3, 4))
    assert what_is(str(tmp_path / "h.npy")) is None
    assert what_is(str(tmp_path)) is None
    assert "is no recording of an engine" in refusal(lambda: read_dump([str(tmp_path / "a.csv")]))
    assert "is no map of an engine" in refusal(lambda: read_map(str(tmp_path / "a.csv")))
    assert read_map(str(tmp_path / "a.json")).slot_expert.tolist() == [[1, 2]]


def test_files_of_two_engines_are_named(tmp_path: Path) -> None:
    stat = str(sglang_stat(tmp_path / "a.pt", np.ones((1, 2, 4))))
    log = str(vllm_log(tmp_path / "b.jsonl", {0: np.array([[0, 1]])}))
    said = refusal(lambda: read_dump([stat, log]))
    assert "is of vllm (MoE logger), the first file of sglang (recorder stat)" in said
    config = str(trtllm_map(tmp_path / "c.yaml", MAP, [0, 1]))
    assert "is a map of trtllm" in refusal(lambda: read_dump([stat, config]))
