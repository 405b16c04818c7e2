"""SGLang: dumps of its expert distribution recorder, and the files of ``--init-expert-location``.

Layouts: ``python/sglang/srt/eplb/expert_distribution.py`` and ``expert_location.py`` of SGLang 0.5. Rows are all layers
of the LLM, dense ones too, so the row is the layer id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.counting import Folding, Steps, dump, expert_map, uneven, whole_numbers
from moeopt.engines.torch_files import PIECE_BYTES, Tensor, TorchFile
from moeopt.errors import Violations

ENGINE = "sglang"
MAP, COUNTS, RECORDS, LAST_MAP = (
    "physical_to_logical_map",
    "logical_count",
    "records",
    "last_physical_to_logical_map",
)
PASS_COUNTS, PASS_IDS = "global_physical_count", "topk_ids_of_layer"
STAT, PER_PASS, PER_TOKEN, INIT_COUNTS, INIT_MAP = (
    "recorder stat",
    "recorder per_pass",
    "recorder per_token",
    "init-expert-location loads",
    "init-expert-location map",
)
LOOKED_AT = 8
"""Passes of a recording in which the ids of tokens are looked at one by one."""
TOKENS_LOOKED_AT = 64


def form_of(value: Any) -> str | None:
    """Which file of SGLang a value of torch or JSON is, or ``None``.

    >>> form_of({"rank": 0, "logical_count": []}), form_of({"physical_to_logical_map": []}), form_of({"a": 1})
    ('recorder stat', 'init-expert-location map', None)
    """
    if not isinstance(value, Mapping):
        return None
    if RECORDS in value and LAST_MAP in value:
        records = value[RECORDS]
        first = records[0] if isinstance(records, list) and records else {}
        return PER_TOKEN if isinstance(first, Mapping) and PASS_IDS in first else PER_PASS
    if MAP in value:
        return INIT_MAP
    if COUNTS in value:
        return STAT if "rank" in value else INIT_COUNTS
    return None


def read_counts(path: str, counts: Any, form: str) -> Dump:
    """Loads of mode `stat` or `stat_approx`, or of `logical_count`: (L, E), or (steps, L, E) of buffered steps.

    Steps without a count are places of the ring buffer that no pass has filled, and are left aside with a note.
    """
    check, notes = Violations(path), list[str]()
    if isinstance(counts, Tensor):
        if len(counts.shape) == 3 and counts.whole_numbers and 0 not in counts.shape:
            return _buffered(_steps(counts), counts.shape, form, check, notes)
        array: Any = counts.read()
    else:
        array = _lists(counts, check)
    check.raise_if_any()
    found = whole_numbers(np.asarray(array), COUNTS, check, notes)
    check.raise_if_any()
    assert found is not None
    if found.ndim == 3 and 0 not in found.shape:
        return _buffered(found, found.shape, form, check, notes)
    return dump(ENGINE, form, found, check, notes=notes)


def _lists(counts: Any, check: Violations) -> Any:
    """Nested lists as an array where they are even; a table of two axes is left to the check of loads."""
    flat = isinstance(counts, list) and counts and not isinstance(counts[0], list)
    try:
        array = np.array([counts] if flat else counts)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind in "iuf" and array.ndim in (2, 3):
        return array
    if isinstance(counts, list) and counts and isinstance(counts[0], list) and not isinstance(counts[0][:1], list):
        return np.array(None)
    from moeopt.workload.table import as_loads

    as_loads(counts, check)
    if not check.found:
        check.add(COUNTS, f"shape {array.shape}", rule="must be layers x experts, or steps before", fix="Record again")
    return array


def _steps(counts: Tensor) -> Iterable[NDArray[np.int64]]:
    """One (L, E) table a step."""
    parts: list[NDArray[Any]] = []
    at = 0
    for step, part in counts.pieces():
        if step != at:
            yield np.concatenate(parts).astype(np.int64)
            parts, at = [], step
        parts.append(part)
    yield np.concatenate(parts).astype(np.int64)


def _buffered(
    tables: Iterable[NDArray[Any]], shape: tuple[int, ...], form: str, check: Violations, notes: list[str]
) -> Dump:
    steps = Steps((shape[1], shape[2]), shape[0])
    for index, table in enumerate(tables):
        for layer, expert in np.argwhere(table < 0) if table.min(initial=0) < 0 else ():
            rule, where = "counts must be >= 0", f"step {index}, layer {layer}, expert {expert}"
            check.add(COUNTS, table[layer, expert].item(), rule=rule, fix="Did a counter wrap?", where=where)
        if table.any():
            steps.add(table)
    check.raise_if_any()
    if steps.count < shape[0]:
        notes.append(f"{steps.count} of {shape[0]} buffered steps have counts; the others are left aside")
    return dump(ENGINE, form, steps.total, check, per_step=steps.kept(), steps=steps.count or None, notes=notes)


def read_init_map(path: str, value: Mapping[str, Any]) -> ExpertMap:
    """``physical_to_logical_map``: (L, S) experts in slots, GPU-major; how many GPUs there are is not said."""
    check = Violations(path)
    for key in value:
        if key != MAP:
            rule = f"SGLang takes no other key beside {MAP}"
            check.add(str(key), "present", rule=rule, fix="Leave it out")
    rows = value[MAP]
    array = rows.read() if isinstance(rows, Tensor) else rows
    return expert_map(ENGINE, array, check, field=MAP)


@dataclass(frozen=True)
class Facts:
    """What a file of `per_pass` or `per_token` is part of."""

    ranks: frozenset[int]
    first: int
    last: int


def facts_of(file: TorchFile) -> Facts:
    """Ranks and passes of a detailed recording."""
    passes = [(record["rank"], record["forward_pass_id"]) for record in _records(file)]
    ids = [one for _, one in passes]
    return Facts(frozenset(rank for rank, _ in passes), min(ids), max(ids))


def _records(file: TorchFile) -> list[Mapping[str, Any]]:
    check = Violations(file.path)
    if form_of(file.value) not in (PER_PASS, PER_TOKEN):
        rule = f"has {RECORDS} and {LAST_MAP} in other places than SGLang's recorder"
        raise file.error(rule, "Give the file as the recorder wrote it")
    records = file.value[RECORDS]
    if not isinstance(records, list) or not records:
        check.add(
            RECORDS, "empty", rule="the recording has no passes", fix="Start it before the requests, stop it after"
        )
    else:
        for index, record in enumerate(records):
            whole = isinstance(record, Mapping) and all(
                type(record.get(key)) is int and record[key] >= 0 for key in ("rank", "forward_pass_id")
            )
            if not whole or not isinstance(record.get(PASS_COUNTS), Tensor):
                rule = f"needs rank, forward_pass_id and {PASS_COUNTS}"
                check.add(RECORDS, "...", rule=rule, fix="Record again", where=f"index {index}")
    check.raise_if_any()
    return list(records)


def read_loaded_map(path: str) -> ExpertMap:
    """The map that a recording of `per_pass` or `per_token` says was loaded when it ended; no count is read."""
    check = Violations(path)
    with TorchFile(path) as file:
        if form_of(file.value) not in (PER_PASS, PER_TOKEN):
            raise file.error(f"has no {LAST_MAP}", "Give the file as the recorder wrote it")
        found = _one_map([file], check)
    check.raise_if_any()
    assert found is not None
    return found


def read_records(paths: Sequence[str]) -> Dump:
    """The files of modes `per_pass` and `per_token`, one a rank, summed over ranks and folded with the map.

    Raises
    ------
    InstanceError
        Ranks are missing, a pass stands twice, files have different maps, or tokens that chose an expert twice show
        that the map changed inside of the recording.
    """
    check, notes = Violations(paths[0] if len(paths) == 1 else ""), list[str]()
    with ExitStack() as stack:
        files = [stack.enter_context(TorchFile(path)) for path in paths]
        by_pass = _passes(files, check)
        check.raise_if_any()
        form = form_of(files[0].value) or PER_PASS
        loaded = _one_map(files, check)
        check.raise_if_any()
        assert loaded is not None
        slot_expert = loaded.slot_expert
        ranks = sorted({rank for found in by_pass.values() for rank in found})
        _name_missing(ranks, len(paths), check, notes)
        check.raise_if_any()
        whole = {one: found for one, found in by_pass.items() if len(found) == len(ranks)}
        if len(whole) < len(by_pass):
            left = len(by_pass) - len(whole)
            notes.append(f"{left} of {len(by_pass)} passes are not in the files of all ranks and are left aside")
        if not whole:
            check.add("input", ", ".join(paths), rule="have no pass in common", fix="Give the ranks of one recording")
            check.raise_if_any()
        steps = Steps((len(slot_expert), loaded.known_experts), len(whole))
        looked = sorted(whole)[:: max(len(whole) // LOOKED_AT, 1)]
        fold = Folding(slot_expert, loaded.known_experts)
        top_k, unlike = 0, 0
        seen = np.zeros(slot_expert.shape, dtype=np.int64)
        for one in sorted(whole):
            counts = np.zeros(slot_expert.shape, dtype=np.int64)
            for rank, records in whole[one].items():
                for record in records:
                    where = f"pass {one}, rank {rank}"
                    mine = _pass_counts(record, slot_expert.shape, where, check)
                    if mine is None:
                        continue
                    ids = record.get(PASS_IDS)
                    if isinstance(ids, Tensor):
                        told, most = _count_ids(ids, slot_expert, one in looked, where, check)
                        top_k = max(top_k, most)
                        unlike += told is not None and not np.array_equal(told, mine)
                    counts += mine
            check.raise_if_any()
            seen += counts
            steps.add(fold(counts))
    _name_one_part(seen, ranks, check)
    check.raise_if_any()
    if unlike:
        notes.append(f"the counts of {unlike} passes are not those of their token ids; the counts are taken")
    notes.append(f"the map of the end of the recording is taken for all its {steps.count} passes")
    return dump(
        ENGINE,
        form,
        steps.total,
        check,
        per_step=steps.kept(),
        top_k=top_k or None,
        physical=loaded,
        steps=steps.count,
        notes=notes,
    )


def _one_map(files: Sequence[TorchFile], check: Violations) -> ExpertMap | None:
    """The map that all files name; another one in any of them means that it changed."""
    maps = []
    for file in files:
        rows = file.value[LAST_MAP]
        if not isinstance(rows, Tensor):
            check.add(LAST_MAP, "absent", rule="must be a tensor, layers x slots", fix="Record again", where=file.path)
            return None
        with check.within():
            maps.append(expert_map(ENGINE, rows.read(), Violations(), field=LAST_MAP))
    for file, found in zip(files[1:], maps[1:], strict=False):
        same = found.slot_expert.shape == maps[0].slot_expert.shape
        if not same or not np.array_equal(found.slot_expert, maps[0].slot_expert):
            rule = f"is another map than in {files[0].path}: the map changed inside of the recording"
            fix = "Record with the map fixed (no re-planning meanwhile), or take the ranks of one recording"
            check.add(LAST_MAP, Path(file.path).name, rule=rule, fix=fix)
    return maps[0] if maps else None


def _passes(files: Sequence[TorchFile], check: Violations) -> dict[int, dict[int, list[Mapping[str, Any]]]]:
    """Records by pass and rank."""
    found: dict[int, dict[int, list[Mapping[str, Any]]]] = {}
    home: dict[tuple[int, int, str], str] = {}
    for file in files:
        records: list[Mapping[str, Any]] = []
        with check.within():
            records = _records(file)
        for record in records:
            rank, one = record["rank"], record["forward_pass_id"]
            key = (one, rank, str(record.get("gatherer_key", "primary")))
            if key in home:
                rule = "the pass stands twice" + (f", also in {home[key]}" if home[key] != file.path else "")
                where = f"pass {one}, rank {rank}"
                check.add(RECORDS, file.path, rule=rule, fix="Give one recording at a time", where=where)
            home[key] = file.path
            found.setdefault(one, {}).setdefault(rank, []).append(record)
    return found


def _name_missing(ranks: Sequence[int], files: int, check: Violations, notes: list[str]) -> None:
    missing = sorted(set(range(max(ranks, default=0) + 1)) - set(ranks))
    if missing:
        rule = f"are missing: the recording has files of {uneven(ranks, 'ranks')}, one a rank"
        check.add("ranks", uneven(missing, "ranks"), rule=rule, fix="Give the files of all ranks")
    elif files > 1:
        notes.append(f"{uneven(ranks, 'ranks')} of one recording in {files} files are summed")
    else:
        notes.append(f"{'only rank 0 is' if ranks == [0] else uneven(ranks, 'ranks') + ' are'} in this file; "
                     "where the engine ran on more, give the files of all ranks together")  # fmt: skip


def _name_one_part(counts: NDArray[np.int64], ranks: Sequence[int], check: Violations) -> None:
    """Name a recording whose counts lie only in the slots of its own ranks: others recorded the rest."""
    used = np.flatnonzero(counts.any(axis=0))
    slots = counts.shape[1]
    if not len(used) or len(ranks) * 2 > slots:
        return
    first, last = int(used[0]), int(used[-1])
    for size in range(2, slots // (len(ranks) + 1) + 1):
        whole = len(used) == len(ranks) * size  # all of its own: a small sample leaves gaps
        if whole and slots % size == 0 and first == min(ranks) * size and last == (max(ranks) + 1) * size - 1:
            mine = uneven(list(range(min(ranks) * size, (max(ranks) + 1) * size)), "slots")
            rule = f"has counts in {mine} of {slots} only, those of its own GPU"
            check.add("ranks", uneven(ranks, "ranks"), rule=rule, fix="Give the files of all ranks together")
            return


def _pass_counts(
    record: Mapping[str, Any], shape: tuple[int, ...], where: str, check: Violations
) -> NDArray[np.int64] | None:
    counts: Tensor = record[PASS_COUNTS]
    if counts.shape != shape:
        rule = f"must have the shape of the map, {shape[0]} layers x {shape[1]} slots"
        check.add(PASS_COUNTS, f"shape {counts.shape}", rule=rule, fix="Record again", where=where)
        return None
    if not counts.whole_numbers:
        check.add(PASS_COUNTS, counts.kind, rule="must be whole numbers", fix="Record again", where=where)
        return None
    found = counts.read().astype(np.int64)
    for layer, slot in np.argwhere(found < 0) if found.min(initial=0) < 0 else ():
        place = f"{where}, layer {layer}, slot {slot}"
        check.add(PASS_COUNTS, found[layer, slot].item(), rule="must be >= 0", fix="Did a counter wrap?", where=place)
    return found


def _count_ids(
    ids: Tensor, slot_expert: NDArray[np.int32], look: bool, where: str, check: Violations
) -> tuple[NDArray[np.int64] | None, int]:
    """(L, S) counts of the ids of tokens, read in pieces, and the largest number of experts a token has."""
    layers, slots = slot_expert.shape
    if len(ids.shape) != 3 or ids.shape[0] != layers or not ids.whole_numbers:
        rule = f"must be whole numbers, {layers} layers x tokens x k"
        check.add(PASS_IDS, f"shape {ids.shape}", rule=rule, fix="Record again", where=where)
        return None, 0
    told, most = np.zeros((layers, slots), dtype=np.int64), 0
    for first, part in _blocks(ids):
        valid = part >= 0
        rows = np.arange(first, first + len(part))[:, None, None]
        chosen = (part + (rows - first) * np.int64(slots))[valid]
        if part.size and int(part.max()) >= slots:
            rule, place = f"the map has slots 0 to {slots - 1}", f"{where}, layer {_first_above(part, slots) + first}"
            check.add(PASS_IDS, int(part.max()), rule=rule, fix="Record again", where=place)
            return None, 0
        counted = np.bincount(chosen, minlength=len(part) * slots)
        told[first : first + len(part)] += counted.reshape(len(part), slots)
        if look and part.size:
            most = max(most, int(valid.sum(axis=-1).max()))
            few, known = part[:, :TOKENS_LOOKED_AT], valid[:, :TOKENS_LOOKED_AT]
            experts = np.where(known, slot_expert[rows, few], -1 - np.arange(part.shape[-1]))
            experts.sort(axis=-1)
            twice = (experts[..., 1:] == experts[..., :-1]).any(axis=(1, 2))
            if twice.any():
                rule = "tokens have one expert twice under the map of the end: the map changed inside of the recording"
                fix = "Record with the map fixed, no re-planning meanwhile"
                place = f"{where}, layer {first + int(twice.argmax())}"
                check.add(PASS_IDS, "...", rule=rule, fix=fix, where=place)
                return None, most
    return told, most


def _blocks(ids: Tensor) -> Iterable[tuple[int, NDArray[Any]]]:
    """First layer and ids (layers, tokens, k) of each block: all layers at once where that is little."""
    if ids.size * ids.itemsize <= PIECE_BYTES:
        yield 0, ids.read()
        return
    for layer, part in ids.pieces():
        yield layer, part[None]


def _first_above(part: NDArray[Any], slots: int) -> int:
    return int((part >= slots).any(axis=(1, 2)).argmax())
