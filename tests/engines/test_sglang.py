"""SGLang's recorder dumps and initial locations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.engines import read_dump, read_map, what_is
from moeopt.engines.recordings import recordings
from moeopt.errors import InstanceError
from tests.engines.files import View, physical_counts, sglang_records, sglang_stat, torch_file

MAP = np.array([[0, 1, 2, 3, 0, 2], [3, 2, 1, 0, 1, 3]])
"""Two layers, four experts in six slots."""


def refusal(*paths: Path | str) -> str:
    with pytest.raises(InstanceError) as caught:
        read_dump([str(path) for path in paths])
    return str(caught.value)


def physical(seed: int, steps: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(1, 50, (steps, 2, 6))


def folded(counts: np.ndarray[Any, Any]) -> list[list[int]]:
    """By hand: counts of slots summed over the slots of each expert."""
    return [[int(counts[row][MAP[row] == expert].sum()) for expert in range(4)] for row in range(2)]


def ids_of(seed: int, tokens: int = 40, columns: int = 3) -> np.ndarray[Any, Any]:
    """Slots of tokens that choose two different experts, the columns behind them padded."""
    rng = np.random.default_rng(seed)
    ids = np.full((2, tokens, columns), -1, dtype=np.int32)
    for layer in range(2):
        for token in range(tokens):
            for column, expert in enumerate(rng.choice(4, 2, replace=False)):
                ids[layer, token, column] = rng.choice(np.flatnonzero(MAP[layer] == expert))
    return ids


def test_stat_sums_steps_and_leaves_unfilled_ones_aside(tmp_path: Path) -> None:
    counts = np.zeros((5, 3, 4), dtype=np.int64)
    counts[1:3, 1:] = np.arange(16).reshape(2, 2, 4) + 2**30
    path = str(sglang_stat(tmp_path / "expert_distribution_recorder_17.5.pt", counts))
    assert what_is(path) == ("sglang", "recorder stat")
    dump = read_dump([path])
    assert (dump.engine, dump.form, dump.steps, dump.physical) == ("sglang", "recorder stat", 2, None)
    assert dump.table.loads.dtype == np.int64
    assert np.array_equal(dump.table.loads, counts.sum(axis=0))  # beyond 2**31
    assert dump.table.layers == (0, 1, 2)
    assert dump.per_step is not None
    assert np.array_equal(dump.per_step, counts[1:3])
    assert dump.notes == ("2 of 5 buffered steps have counts; the others are left aside",)


def test_stat_names_a_counter_that_wrapped(tmp_path: Path) -> None:
    counts = np.ones((2, 2, 4), dtype=np.int64)
    counts[1, 1, 2] = -5
    said = refusal(sglang_stat(tmp_path / "a.pt", counts))
    assert "logical_count[step 1, layer 1, expert 2] = -5: counts must be >= 0. Did a counter wrap?" in said


def test_per_pass_is_summed_over_ranks_and_folded(tmp_path: Path) -> None:
    parts = [physical(rank) for rank in range(3)]
    paths = [
        str(sglang_records(tmp_path / f"expert_distribution_recorder_1{rank}.5_{rank}.pt", part, MAP, rank=rank))
        for rank, part in enumerate(parts)
    ]
    assert what_is(paths[0]) == ("sglang", "recorder per_pass")
    assert recordings(paths).groups == (tuple(paths),)
    dump = read_dump(paths)
    assert dump.table.loads.tolist() == folded(sum(parts).sum(axis=0))
    assert dump.per_step is not None
    assert [step.tolist() for step in dump.per_step] == [folded(step) for step in sum(parts)]
    assert dump.steps == 3
    assert dump.physical is not None
    assert np.array_equal(dump.physical.slot_expert, MAP)
    assert "ranks 0-2 of one recording in 3 files are summed" in dump.notes


def test_one_rank_alone_says_so(tmp_path: Path) -> None:
    dump = read_dump([str(sglang_records(tmp_path / "a.pt", physical(0), MAP))])
    assert (
        "only rank 0 is in this file; where the engine ran on more, give the files of all ranks together" in dump.notes
    )


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    paths = [sglang_records(tmp_path / f"{rank}.pt", physical(rank), MAP, rank=rank) for rank in (1, 3)]
    assert "input = ranks 0,2: are missing: the recording has files of ranks 1,3" in refusal(*paths)


def test_counts_of_one_gpu_only_are_refused(tmp_path: Path) -> None:
    part = physical(0)
    part[:, :, 2:] = 0
    said = refusal(sglang_records(tmp_path / "a.pt", part, MAP))
    assert "has counts in slots 0-1 of 6 only, those of its own GPU" in said


def test_passes_that_not_all_ranks_have_are_left_aside(tmp_path: Path) -> None:
    first = sglang_records(tmp_path / "a.pt", physical(0, 4), MAP, rank=0)
    second = sglang_records(tmp_path / "b.pt", physical(1, 3), MAP, rank=1, first_pass=6)
    dump = read_dump([str(first), str(second)])
    assert dump.steps == 3
    assert dump.table.loads.tolist() == folded((physical(0, 4)[1:] + physical(1, 3)).sum(axis=0))
    assert "1 of 4 passes are not in the files of all ranks and are left aside" in dump.notes


def test_map_that_changed_between_ranks_is_refused(tmp_path: Path) -> None:
    first = sglang_records(tmp_path / "a.pt", physical(0), MAP, rank=0)
    second = sglang_records(tmp_path / "b.pt", physical(1), MAP[::-1], rank=1)
    assert "the map changed inside of the recording" in refusal(first, second)


def test_per_token_is_counted_by_its_ids(tmp_path: Path) -> None:
    ids = [ids_of(seed) for seed in range(3)]
    counts = np.stack([physical_counts(part, 6) for part in ids])
    path = str(sglang_records(tmp_path / "a.pt", counts, MAP, ids=ids))
    assert what_is(path) == ("sglang", "recorder per_token")
    dump = read_dump([path])
    assert dump.top_k == 2
    assert dump.table.loads.tolist() == folded(counts.sum(axis=0))
    assert not any("token ids" in note for note in dump.notes)
    other = sglang_records(tmp_path / "b.pt", counts + 1, MAP, ids=ids)
    assert (
        "the counts of 3 passes are not those of their token ids; the counts are taken" in read_dump([str(other)]).notes
    )


def test_map_that_changed_inside_of_a_recording_shows_in_its_tokens(tmp_path: Path) -> None:
    ids = [ids_of(0)]
    counts = np.stack([physical_counts(part, 6) for part in ids])
    later = MAP[:, [0, 0, 1, 2, 3, 1]]
    said = refusal(sglang_records(tmp_path / "a.pt", counts, later, ids=ids))
    assert "tokens have one expert twice under the map of the end" in said


def test_files_of_one_rank_are_windows(tmp_path: Path) -> None:
    paths = [
        str(
            sglang_records(
                tmp_path / f"expert_distribution_recorder_{10 * window}.{rank}_{rank}.pt",
                physical(rank),
                MAP,
                rank=rank,
                first_pass=100 * window,
            )
        )
        for rank in (0, 1)
        for window in (0, 1)
    ]
    found = recordings(paths)
    assert found.groups == ((paths[0], paths[2]), (paths[1], paths[3]))
    assert found.notes == ("4 files are taken as 2 recordings, by ranks and passes",)
    assert recordings(paths[:2]).notes == ("2 files of rank 0 are taken as windows, one each",)
    assert "are several recordings" in refusal(*paths)


def test_broken_records_are_named(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "a.pt", {"records": [], "last_physical_to_logical_map": MAP})
    assert "the recording has no passes" in refusal(path)
    record = {"forward_pass_id": 1, "rank": 0, "global_physical_count": np.ones((2, 5), dtype=np.int32)}
    torch_file(path, {"records": [record], "last_physical_to_logical_map": MAP})
    assert "global_physical_count[pass 1, rank 0] = shape (2, 5): must have the shape of the map" in refusal(path)
    torch_file(path, {"records": [{"rank": 0}], "last_physical_to_logical_map": MAP})
    assert "records[index 0]" in refusal(path)
    counts = View(np.ones(12, dtype=np.float32), 0, (2, 6), (6, 1))
    torch_file(path, {"records": [{**record, "global_physical_count": counts}], "last_physical_to_logical_map": MAP})
    assert "must be whole numbers" in refusal(path)
    torch_file(path, {"records": [record, record], "last_physical_to_logical_map": MAP})
    assert "the pass stands twice" in refusal(path)
    torch_file(path, {"state_dict": {}, "epoch": 3})
    assert "no engine's recorder writes: epoch, state_dict" in refusal(path)


@pytest.mark.parametrize("how", ["json", "pt", "inline"])
def test_initial_location_map_is_read(tmp_path: Path, how: str) -> None:
    text = json.dumps({"physical_to_logical_map": MAP.tolist()})
    path = str(tmp_path / "map ü.json")
    if how == "json":
        Path(path).write_bytes(b"\xef\xbb\xbf" + text.encode())
    elif how == "pt":
        path = str(torch_file(tmp_path / "map.pt", {"physical_to_logical_map": MAP}))
    else:
        path = text
    assert what_is(path) == ("sglang", "init-expert-location map")
    found = read_map(path)
    assert np.array_equal(found.slot_expert, MAP)
    assert (found.engine, found.layers, found.slots) == ("sglang", (0, 1), None)
    with pytest.raises(InstanceError, match="is a map of sglang"):
        read_dump([path])


@pytest.mark.parametrize("how", ["json", "pt"])
@pytest.mark.parametrize("axes", [2, 3])
def test_initial_location_loads_are_read(tmp_path: Path, how: str, axes: int) -> None:
    counts = np.arange(24).reshape(3, 2, 4) if axes == 3 else np.arange(8).reshape(2, 4)
    path = tmp_path / f"loads.{how}"
    if how == "json":
        path.write_text(json.dumps({"logical_count": counts.tolist()}))
    else:
        torch_file(path, {"logical_count": counts})
    dump = read_dump([str(path)])
    assert dump.form == "init-expert-location loads"
    assert dump.table.loads.tolist() == (counts.sum(axis=0) if axes == 3 else counts).tolist()
    with pytest.raises(InstanceError, match="holds loads of sglang"):
        read_map(str(path))


def test_broken_maps_name_the_place(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for rows, said in (
        (
            [[0, "1"], [1, 0]],
            "physical_to_logical_map[layer 0, slot 1] = '1': ids of experts are whole numbers, not text",
        ),
        ([[0, 1], [1]], "physical_to_logical_map[layer 1] = 1 slots: every layer must have as many slots"),
        ([[0, -1]], "physical_to_logical_map[layer 0, slot 1] = -1: ids of experts must be >= 0"),
        ([[0, 1.5]], "ids of experts are whole numbers"),
        ([], "must be rows of ids"),
    ):
        path.write_text(json.dumps({"physical_to_logical_map": rows}))
        with pytest.raises(InstanceError) as caught:
            read_map(str(path))
        assert said in str(caught.value)
    path.write_text('{"physical_to_logical_map": [[0]], "physical_to_logical_map": [[1]]}')
    with pytest.raises(InstanceError, match="stands twice"):
        read_map(str(path))
    path.write_text('{"physical_to_logical_map": [[0]], "num": 3}')
    with pytest.raises(InstanceError, match="SGLang takes no other key"):
        read_map(str(path))


def test_map_that_was_loaded_is_read_from_a_recording(tmp_path: Path) -> None:
    found = read_map(str(sglang_records(tmp_path / "a.pt", physical(0), MAP)))
    assert np.array_equal(found.slot_expert, MAP)
    assert found.known_experts == 4


def test_folder_of_recorder_files_is_one_recording(tmp_path: Path) -> None:
    for rank in range(2):
        sglang_records(tmp_path / f"{rank}.pt", physical(rank), MAP, rank=rank)
    assert what_is(str(tmp_path)) == ("sglang", "recorder per_pass")
    dump = read_dump([str(tmp_path)])
    assert dump.table.loads.tolist() == folded((physical(0) + physical(1)).sum(axis=0))
