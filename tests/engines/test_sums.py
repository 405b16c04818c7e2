"""Counts that are summed over steps, ranks, replicas and files: a sum that does not fit is refused, with its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moeopt.engines import read_dump
from moeopt.errors import InstanceError
from tests.engines.files import omni_counts, safetensors_file, torch_file, trtllm_statistics

HALF = 2**62
MAP = np.array([[0, 1, 1]])


def refusal(path: Path) -> str:
    with pytest.raises(InstanceError) as caught:
        read_dump(str(path))
    return str(caught.value)


def records(path: Path, counts: list[list[int]]) -> Path:
    listed = [
        {"forward_pass_id": step, "rank": 0, "gatherer_key": "primary", "global_physical_count": np.array([row])}
        for step, row in enumerate(counts)
    ]
    return torch_file(path, {"records": listed, "last_physical_to_logical_map": MAP})


def test_buffered_steps(tmp_path: Path) -> None:
    for steps in (2, 4):
        value = {"rank": 0, "logical_count": np.full((steps, 1, 2), HALF)}
        said = refusal(torch_file(tmp_path / "a.pt", value))
        assert f"counts[step 1, layer 0, expert 0] = {2**63}: the sum must be below 2**63" in said
    value = {"rank": 0, "logical_count": np.array([[[HALF]], [[HALF - 1]]])}
    assert read_dump(str(torch_file(tmp_path / "b.pt", value))).table.loads.tolist() == [[2**63 - 1]]


def test_passes_and_replicas(tmp_path: Path) -> None:
    assert "pass 1, layer 0, slot 0" in refusal(records(tmp_path / "a.pt", [[HALF, 1, 1], [HALF, 1, 1]]))
    assert "row 0, expert 1" in refusal(records(tmp_path / "b.pt", [[1, HALF, HALF]]))
    found = read_dump(str(records(tmp_path / "c.pt", [[1, HALF, HALF - 1]])))
    assert found.table.loads.tolist() == [[1, 2**63 - 1]]


def test_ranks_and_iterations(tmp_path: Path) -> None:
    folder = trtllm_statistics(tmp_path / "ranks", {(1, 3): np.arange(2)}, top_k=1)
    for rank in (0, 1):
        safetensors_file(folder / f"rank{rank}.safetensors", {"1_3": np.array([1, HALF])})
    assert "rank1.safetensors, 1_3, expert 1" in refusal(folder)
    folder = trtllm_statistics(tmp_path / "steps", {(1, 3): np.arange(2)}, top_k=1, ranks=1)
    safetensors_file(folder / "rank0.safetensors", {"1_3": np.array([1, HALF]), "2_3": np.array([1, HALF])})
    assert "step 1, layer 0, expert 1" in refusal(folder)


def test_files_of_omni(tmp_path: Path) -> None:
    folder = omni_counts(tmp_path / "omni", np.full((10, 1, 2), 10**18 - 1))
    assert "step 10, layer 0, position 0" in refusal(folder)
