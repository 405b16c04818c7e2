"""Files dealt to recordings: those of the ranks or layers of one belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moeopt.engines import omni, sglang, sglang_records, trtllm, vllm
from moeopt.engines.counting import uneven
from moeopt.engines.kinds import what_is
from moeopt.engines.torch_files import TorchFile


@dataclass(frozen=True)
class Recordings:
    """Files dealt to recordings: the files of each, and what was decided where it was not plain."""

    groups: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def recordings(paths: Sequence[str]) -> Recordings:
    """Deal files to recordings: files of other ranks or layers are one, files of the same are windows.

    Paths that are no recording of an engine stand alone.

    Raises
    ------
    InstanceError
        As `what_is`.
    """
    kinds = {path: None if path == "-" else what_is(path) for path in paths}
    groups: list[list[str]] = []
    notes: list[str] = []
    detailed = [path for path in paths if _form(kinds[path]) in (sglang.PER_PASS, sglang.PER_TOKEN)]
    for members in (
        _by_rank([path for path in detailed if not Path(path).is_dir()], notes),
        _by_layer([path for path in paths if _form(kinds[path]) == vllm.LOG], notes),
        _by_folder([path for path in paths if _form(kinds[path]) == omni.ACTIVATIONS]),
        _by_folder([path for path in paths if kinds[path] == (trtllm.ENGINE, trtllm.STATISTICS)]),
    ):
        groups += members
    home = {path: group for group in groups for path in group}
    found: list[tuple[str, ...]] = []
    for path in paths:
        group = tuple(home.get(path, [path]))
        if group not in found or len(group) == 1:
            found.append(group)
    return Recordings(tuple(found), tuple(notes))


def _form(kind: tuple[str, str] | None) -> str | None:
    return None if kind is None else kind[1]


def _by_rank(paths: Sequence[str], notes: list[str]) -> list[list[str]]:
    """Files whose passes overlap and whose ranks differ are one recording."""
    if len(paths) < 2:
        return [[path] for path in paths]
    facts = {}
    for path in paths:
        with TorchFile(path) as file:
            facts[path] = sglang_records.facts_of(file)
    groups: list[list[str]] = []
    for path in sorted(paths, key=_recorded):
        mine = facts[path]
        for group in groups:
            others = [facts[other] for other in group]
            apart = all(not other.ranks & mine.ranks for other in others)
            meet = any(other.first <= mine.last and mine.first <= other.last for other in others)
            if apart and meet:
                group.append(path)
                break
        else:
            groups.append([path])
    ranks = {path: uneven(sorted(facts[path].ranks), "ranks") for path in paths}
    if len(groups) == 1:
        notes.append(f"{len(paths)} files of other ranks and the same passes are taken as one recording")
    elif all(len(group) == 1 for group in groups):
        notes.append(f"{len(paths)} files of {ranks[paths[0]]} are taken as windows, one each")
    else:
        notes.append(f"{len(paths)} files are taken as {len(groups)} recordings, by ranks and passes")
    return groups


def _recorded(path: str) -> tuple[float, str]:
    """When a recorder wrote a file, by its name, which has the time in it."""
    match = re.search(r"recorder_(\d+(?:\.\d+)?)", Path(path).name)
    return (float(match[1]) if match else 0.0), path


def _by_layer(paths: Sequence[str], notes: list[str]) -> list[list[str]]:
    """Logs of one LLM that name different layers are one recording."""
    groups: list[tuple[Any, set[int], list[str]]] = []
    for path in paths:
        llm, layers = vllm.layers_logged(path)
        for said, taken, group in groups:
            if layers and said == llm and not taken & set(layers):
                taken.update(layers)
                group.append(path)
                break
        else:
            groups.append((llm, set(layers or ()), [path]))
    if len(paths) > 1:
        one = len(groups) == 1
        what = "of different layers are taken as one recording" if one else f"are taken as {len(groups)} recordings"
        notes.append(f"{len(paths)} logs {what}")
    return [group for _, _, group in groups]


def _by_folder(paths: Sequence[str]) -> list[list[str]]:
    """Files of one folder are one recording; a folder is one by itself."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        key = str(Path(path)) if Path(path).is_dir() else str(Path(path).parent) + "/*"
        groups.setdefault(key, []).append(path)
    return list(groups.values())
