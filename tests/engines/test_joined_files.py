"""Files one behind the other, of which a reader would see one and say nothing, and cubes of 0 and 1 in an `.npz`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.engines import read_dump, what_is
from moeopt.engines.reading import read_map
from moeopt.errors import InstanceError
from moeopt.workload import read_loads
from moeopt.workload.traces import read_trace
from tests.engines.files import omni_pattern, safetensors_file, torch_file, trtllm_statistics

MAP = np.array([[0, 1, 2, 0], [2, 1, 0, 1]])


@pytest.fixture(params=["pt", "npz", "trace", "eplb", "npy"])
def joined(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """Two files put one behind the other, and the reader that takes such files."""
    data = b""
    for number in (1, 2):
        file = tmp_path / f"{number}.npz"
        if request.param == "pt":
            torch_file(file, {"rank": 0, "logical_count": np.full((1, 2, 4), 1000 * number)})
        elif request.param == "npz":
            np.savez(file, loads=np.full((2, 4), number))
        elif request.param == "trace":
            np.savez(file, topk_ids=np.arange(12).reshape(1, 6, 2) % 4, num_experts=4 * number)
        elif request.param == "eplb":
            np.savez(file, phy2log=MAP)
        else:
            file = Path(omni_pattern(tmp_path / f"{number}.npy", MAP, 2, 3))
        data += file.read_bytes()
    ending = {"pt": ".pt", "npy": ".npy"}.get(request.param, ".npz")
    path = tmp_path / f"joined{ending}"
    path.write_bytes(data)
    readers: dict[str, Any] = {"pt": read_dump, "npz": read_loads, "trace": read_trace}
    return str(path), readers.get(request.param, read_map)


def test_files_one_behind_the_other_are_refused(joined: tuple[str, Any]) -> None:
    path, reader = joined
    with pytest.raises(InstanceError, match=r"several files one behind the other|follow the end of the array"):
        reader(path)


def test_what_follows_a_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, loads=np.ones((2, 4), int))
    path.write_bytes(path.read_bytes() + b"1,2,3\n")
    with pytest.raises(InstanceError, match="something follows the end of its zip"):
        read_loads(path)


def test_safetensors_one_behind_the_other_are_refused(tmp_path: Path) -> None:
    folder = trtllm_statistics(tmp_path / "stats", {(0, 3): np.array([5, 6])}, top_k=1)
    rank = folder / "rank0.safetensors"
    other = safetensors_file(tmp_path / "b.safetensors", {"0_3": np.array([1, 1])})
    rank.write_bytes(rank.read_bytes() + other.read_bytes())
    with pytest.raises(InstanceError, match="follow the last tensor: are these several files"):
        read_dump(folder)


@pytest.mark.parametrize("kind", ["int32", "uint8", "bool", "float32", "int64"])
@pytest.mark.parametrize("beside", [False, True])
def test_cube_is_a_map_in_an_npz_as_it_is_in_an_npy(tmp_path: Path, kind: str, beside: bool) -> None:
    alone = str(omni_pattern(tmp_path / "a.npy", MAP, 2, 3))
    cube = np.load(alone).astype(kind)
    np.save(alone, cube)
    more = {"weights": np.ones((2, 3))} if beside else {}
    np.savez(tmp_path / "a.npz", cube=cube, **more)
    path = str(tmp_path / "a.npz") + (":cube" if beside else "")
    assert what_is(alone) == what_is(path) == ("omni", "placement pattern")
    assert read_map(path).slot_expert.tolist() == read_map(alone).slot_expert.tolist()
    assert what_is(str(tmp_path / "a.npz") + ":weights") is None


def test_windows_in_an_npz_are_loads(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", loads=np.arange(24).reshape(2, 3, 4))
    assert what_is(str(tmp_path / "a.npz")) is None
    late = np.ones((4, 300, 300), int)
    late[-1, -1, -1] = 7
    np.savez(tmp_path / "b.npz", loads=late)
    assert what_is(str(tmp_path / "b.npz")) is None


def test_named_arrays_of_an_npz_are_what_their_names_say(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    np.savez(path, phy2log=MAP, topk_ids=np.zeros((1, 4, 2), int))
    assert what_is(path + ":phy2log") == ("eplb", "placement")
    assert read_map(path + ":phy2log").slot_expert.tolist() == MAP.tolist()
    assert what_is(path + ":topk_ids") == ("vllm", "routed experts")


@pytest.mark.parametrize("ending", ["csv", "pt", "pth", "parquet", "safetensors", "yaml", "npz", "json", "xyz"])
def test_missing_file_is_said_to_be_missing(ending: str) -> None:
    with pytest.raises(InstanceError, match="No such file or directory"):
        read_loads(f"no such.{ending}")
    with pytest.raises(InstanceError, match=r"No such file or directory.*A pattern is for the shell"):
        read_loads(f"rank*.{ending}")


def test_bare_tensor_that_can_only_be_a_map_is_one(tmp_path: Path) -> None:
    assert what_is(str(torch_file(tmp_path / "a.pt", MAP))) == ("eplb", "placement")
    assert what_is(str(torch_file(tmp_path / "b.pt", MAP * 1000))) == ("eplb", "one tensor")
