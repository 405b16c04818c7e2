"""SGLang's detailed recordings, ``per_pass`` and ``per_token``: one file a rank, summed and folded with the map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.bounds import NUMBERS_MAX, RANKS_MAX, STEPS_MAX, gaps, within
from moeopt.engines.counting import Folding, Steps, be, dump, expert_map, uneven
from moeopt.engines.sglang import ENGINE, LAST_MAP, PASS_COUNTS, PASS_IDS, PER_PASS, PER_TOKEN, RECORDS, form_of
from moeopt.engines.torch_files import TorchFile
from moeopt.engines.torch_tensors import PIECE_BYTES, Tensor
from moeopt.errors import Violations
from moeopt.workload.sums import add_counts

LOOKED_AT = 8
"""Passes of a recording in which the ids of tokens are looked at one by one."""
TOKENS_LOOKED_AT = 64
SLOTS = ("layer", "slot")


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
                continue
            within(record["rank"], "rank", RANKS_MAX - 1, check, where=f"index {index}")
            within(record["forward_pass_id"], "forward_pass_id", NUMBERS_MAX - 1, check, where=f"index {index}")
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
        within(len(whole), "passes", STEPS_MAX, check)
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
                    add_counts(counts, mine, check, where=where, axes=SLOTS)
            check.raise_if_any()
            add_counts(seen, counts, check, where=f"pass {one}", axes=SLOTS)
            with check.within():
                steps.add(fold(counts), check)
            check.raise_if_any()
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
    missing = gaps(ranks)
    if missing:
        one = missing.isdigit()
        rule = f"{'is' if one else 'are'} missing: the recording has files of {uneven(ranks, 'ranks')}, one a rank"
        check.add("input", f"{'rank' if one else 'ranks'} {missing}", rule=rule, fix="Give the files of all ranks")
    elif files > 1:
        notes.append(f"{uneven(ranks, 'ranks')} of one recording in {files} files {be(ranks)} summed")
    else:
        notes.append(f"{'only rank 0 is' if ranks == [0] else uneven(ranks, 'ranks') + ' ' + be(ranks)} in this file; "
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
            check.add("input", uneven(ranks, "ranks"), rule=rule, fix="Give the files of all ranks together")
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
            experts = np.where(known, slot_expert[rows, np.where(known, few, 0)], -1 - np.arange(part.shape[-1]))
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
