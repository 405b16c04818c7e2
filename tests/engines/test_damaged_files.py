"""Whatever bytes a file of an engine holds, looking at it and reading it end in a value or in an `InstanceError`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.engines import Dump, ExpertMap, read_dump, read_map, what_is
from moeopt.errors import BackendUnavailable, InstanceError
from tests.engines.files import (
    ascend_map,
    eplb_tensors,
    omni_counts,
    omni_pattern,
    physical_counts,
    sglang_records,
    sglang_stat,
    torch_file,
    trtllm_map,
    trtllm_statistics,
    vllm_log,
)

MAP = np.array([[0, 1, 2, 3, 0, 2], [3, 2, 1, 0, 1, 3]])
IDS = np.array([[[0, 2], [1, 3], [3, 4]]] * 2)


def _trtllm(folder: Path) -> Path:
    counts = {(step, 3): np.arange(4) for step in (1, 2)}
    return trtllm_statistics(folder / "statistics", counts, top_k=2) / "rank0.safetensors"


def _npz(folder: Path) -> Path:
    np.savez(folder / "a.npz", topk_ids=IDS, layers=np.array([3, 4]))
    return folder / "a.npz"


def _eplb(folder: Path) -> Path:
    np.savez(folder / "b.npz", **dict(zip(("phy2log", "log2phy", "logcnt"), eplb_tensors(MAP, 4), strict=True)))
    return folder / "b.npz"


def _records(folder: Path) -> Path:
    counts = np.stack([physical_counts(IDS, 6)])
    return sglang_records(folder / "records.pt", counts, MAP, ids=[IDS])


WRITERS: dict[str, Callable[[Path], Path]] = {
    "ascend": lambda folder: ascend_map(folder / "ascend.json", MAP, 3),
    "eplb npz": _eplb,
    "eplb pt": lambda folder: torch_file(folder / "eplb.pt", eplb_tensors(MAP, 4)),
    "logger": lambda folder: vllm_log(folder / "log.jsonl", {0: IDS[0], 1: IDS[1]}),
    "omni counts": lambda folder: next(omni_counts(folder / "omni", np.arange(8).reshape(1, 2, 4)).iterdir()),
    "omni pattern": lambda folder: omni_pattern(folder / "pattern.npy", MAP[:, :4], 2, 4),
    "records": _records,
    "routes npz": _npz,
    "stat": lambda folder: sglang_stat(folder / "stat.pt", np.arange(16).reshape(2, 2, 4)),
    "trtllm map": lambda folder: trtllm_map(folder / "map.yaml", MAP, [3, 4]),
    "trtllm statistics": _trtllm,
}


@pytest.mark.filterwarnings("default")  # what numpy and zipfile warn of on such bytes is theirs
@pytest.mark.parametrize("kind", sorted(WRITERS))
@settings(max_examples=80)
@given(data=st.data())
def test_damaged_file_is_read_or_refused(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / kind.replace(" ", "_")
    folder.mkdir(exist_ok=True)
    path = WRITERS[kind](folder)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        if data.draw(st.booleans()):
            content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        else:
            del content[at : at + data.draw(st.integers(0, 40))]
    path.write_bytes(bytes(content))
    for call in (lambda: what_is(str(path)), lambda: read_dump([str(path)]), lambda: read_map(str(path))):
        try:
            found = call()
        except (InstanceError, BackendUnavailable):
            continue
        assert found is None or isinstance(found, Dump | ExpertMap | tuple)


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_whole_file_is_what_it_is_under_any_name(kind: str, tmp_path: Path) -> None:
    (tmp_path / "ein Ordner ü").mkdir()
    path = WRITERS[kind](tmp_path / "ein Ordner ü")
    known = what_is(str(path))
    assert known is not None
    if kind not in ("omni counts", "trtllm statistics"):  # their names say the step and the rank
        other = path.with_name(f"x y é{path.suffix}")
        path.rename(other)
        assert what_is(str(other)) == known
