"""Files of engines told apart by content and read: recordings as a `Dump`, maps as an `ExpertMap`."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.documents import read_bytes, read_json
from moeopt.engines import ascend, eplb_tensors, omni, parquet, sglang, trtllm, vllm
from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.counting import expert_map, uneven
from moeopt.engines.torch_files import LEGACY, TorchFile
from moeopt.errors import InstanceError, Violation, Violations

HEAD_BYTES = 65536
"""How much of a text is looked at to say what it is."""
MAPS = {
    ("sglang", sglang.INIT_MAP),
    ("trtllm", trtllm.CONFIG),
    ("vllm-ascend", ascend.FORM),
    ("omni", omni.PATTERN),
    ("eplb", eplb_tensors.MAP),
}
"""What is a map; everything else that is known is a recording."""
WITH_MAP = MAPS | {
    ("sglang", sglang.PER_PASS),
    ("sglang", sglang.PER_TOKEN),
    ("eplb", eplb_tensors.BARE),
}
"""What `read_map` takes: maps, recordings that say which map was loaded, and a tensor without a name."""


@dataclass(frozen=True)
class Recordings:
    """Files dealt to recordings: the files of each, and what was decided where it was not plain."""

    groups: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def what_is(path: str) -> tuple[str, str] | None:
    """Engine and form of a file or folder by its content; ``None`` where it is no engine's.

    Tables of numbers in CSV, JSON, `.npy` and `.npz` belong to nobody and give ``None``, as files that cannot be read
    do. Of a `.pt` the pickle is read and no storage, of a text its beginning.

    Raises
    ------
    InstanceError
        A `.pt` that is broken, hostile, of the old format or a program.

    Examples
    --------
    >>> what_is('{"physical_to_logical_map": [[0, 1]]}'), what_is("no such file")
    (('sglang', 'init-expert-location map'), None)
    """
    if _inline(path):
        return _json_kind(path)
    place = Path(path)
    try:
        if place.is_dir():
            return _folder_kind(path)
        if not place.is_file():
            return None
        with place.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if omni.is_activations(path):
        return omni.ENGINE, omni.ACTIVATIONS
    if trtllm.is_statistics(path):
        return trtllm.ENGINE, trtllm.STATISTICS
    if head.startswith(parquet.MAGIC):
        return parquet.ENGINE, parquet.FORM_COUNTS
    if head.startswith(b"\x93NUMPY"):
        return (omni.ENGINE, omni.PATTERN) if _is_cube(path) else None
    if place.suffix.lower() in (".pt", ".pth") or head.startswith(LEGACY):
        return _torch_kind(path)
    if head.startswith(b"PK"):
        return _zip_kind(path)
    return _text_kind(path, head)


def read_dump(paths: Sequence[str]) -> Dump:
    """One recording of an engine: a file, a file per rank or per layer, or a folder.

    Raises
    ------
    InstanceError
        It is a map or no file of an engine, files are of different kinds or of several recordings, or its content is
        broken; every violation at once.
    """
    kinds = [_kind(path) for path in paths]
    check = Violations()
    for path, kind in zip(paths, kinds, strict=True):
        if kind is None:
            check.add("input", path, rule="is no recording of an engine that is known", fix="See moeopt inspect --help")
        elif kind in MAPS:
            fix = "Give it as --current, and the loads as input"
            check.add("input", path, rule=f"is a map of {kind[0]} ({kind[1]}), not loads", fix=fix)
        elif kind != kinds[0] and kinds[0] is not None:
            rule = f"is of {kind[0]} ({kind[1]}), the first file of {kinds[0][0]} ({kinds[0][1]})"
            check.add("input", path, rule=rule, fix="Give one recording at a time")
    check.raise_if_any()
    kind = kinds[0]
    assert kind is not None
    if len(paths) > 1 and len(recordings(paths).groups) > 1:
        rule = "are several recordings"
        check.add("input", ", ".join(paths), rule=rule, fix="Read them one by one, as windows")
        check.raise_if_any()
    return _read(list(paths), kind)


def _read(paths: list[str], kind: tuple[str, str]) -> Dump:
    engine, form = kind
    if engine == omni.ENGINE:
        return omni.read_activations(paths)
    if engine == trtllm.ENGINE:
        return trtllm.read_statistics(paths)
    if engine == vllm.ENGINE:
        return vllm.read_routes(paths)
    if form in (sglang.PER_PASS, sglang.PER_TOKEN):
        return sglang.read_records(_files(paths))
    path = paths[0]
    if engine == parquet.ENGINE:
        return parquet.read_parquet(path)
    if _is_torch(path):
        with TorchFile(path) as file:
            if engine == sglang.ENGINE:
                return sglang.read_counts(path, file.value[sglang.COUNTS], form)
            return eplb_tensors.read_weights(path, eplb_tensors.parts_of(file.value) or {})
    if engine == eplb_tensors.ENGINE:
        return eplb_tensors.read_weights(path, _npz_parts(path))
    return sglang.read_counts(path, _document(path)[sglang.COUNTS], form)


def read_map(path: str) -> ExpertMap:
    """The map an engine loads or has loaded.

    Parameters
    ----------
    path
        A file of any engine, or the JSON text that ``--init-expert-location`` takes. Of a recording that says which map
        was loaded, that map; of JSON or `.npy`, also a bare table of experts in slots.

    Raises
    ------
    InstanceError
        It holds loads and no map (named as what it is), or its content is broken; every violation at once.
    """
    kind = _kind(path)
    check = Violations("" if _inline(path) else path)
    if kind is None:
        return _plain_map(path, check)
    engine, form = kind
    if form in (sglang.PER_PASS, sglang.PER_TOKEN):
        return sglang.read_loaded_map(_files([path])[0])
    if engine == eplb_tensors.ENGINE and form != eplb_tensors.WEIGHT:
        if not _is_torch(path):
            return eplb_tensors.read_map(path, _npz_parts(path))
        with TorchFile(path) as file:
            return eplb_tensors.read_map(path, eplb_tensors.parts_of(file.value) or {})
    if kind not in MAPS:
        rule = f"holds loads of {engine} ({form}), not a map of experts in slots"
        check.add("input", _short(path), rule=rule, fix="Give it as the input, and the map that is loaded here")
        check.raise_if_any()
    if engine == omni.ENGINE:
        return omni.read_pattern(path, np.load(path, allow_pickle=False))
    if engine == trtllm.ENGINE:
        return trtllm.read_config(path)
    if engine == ascend.ENGINE:
        return ascend.read_map(path, _document(path))
    if not _inline(path) and _is_torch(path):
        with TorchFile(path) as file:
            return sglang.read_init_map(path, file.value)
    return sglang.read_init_map(check.source, _document(path))


def _plain_map(path: str, check: Violations) -> ExpertMap:
    rows: Any = None
    data = read_bytes(path)
    if data.startswith(b"\x93NUMPY"):
        from moeopt.workload.numpy_loads import parse_npy

        content = parse_npy(data, check)
        rows = None if content is None else content.loads
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        rows = read_json(data, path)
    else:
        rule = "is no map of an engine that is known"
        check.add("input", path, rule=rule, fix="Known are maps of SGLang, vLLM-Ascend, TensorRT-LLM, omni and EPLB")
    check.raise_if_any()
    return expert_map("plain", rows, check, empty=True)


def recordings(paths: Sequence[str]) -> Recordings:
    """Deal files to recordings: files of other ranks or layers are one, files of the same are windows.

    Paths that are no recording of an engine stand alone.

    Raises
    ------
    InstanceError
        As `what_is`.
    """
    kinds = {path: None if path == "-" or _keyed(path) else _kind(path) for path in paths}
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
            facts[path] = sglang.facts_of(file)
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
        same = ranks[paths[0]].replace("ranks", "rank") if "-" not in ranks[paths[0]] else ranks[paths[0]]
        notes.append(f"{len(paths)} files of {same} are taken as windows, one each")
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


def _kind(path: str) -> tuple[str, str] | None:
    return what_is(path)


def _inline(path: str) -> bool:
    return path.lstrip()[:1] == "{" and not Path(path[:200]).exists()


def _keyed(path: str) -> bool:
    return re.fullmatch(r".+\.npz:.*", path, re.IGNORECASE | re.DOTALL) is not None and not Path(path).exists()


def _short(path: str) -> str:
    return path if len(path) <= 60 else path[:57] + "..."


def _document(path: str) -> Any:
    if _inline(path):
        return read_json(path, "the JSON text")
    return read_json(read_bytes(path), path)


def _files(paths: Sequence[str]) -> list[str]:
    """Recorder files, those of folders among them."""
    found = []
    for path in paths:
        found += [str(file) for file in sorted(Path(path).glob("*.pt"))] if Path(path).is_dir() else [path]
    return found


def _folder_kind(path: str) -> tuple[str, str] | None:
    if trtllm.is_statistics(path):
        return trtllm.ENGINE, trtllm.STATISTICS
    if omni.is_activations(path):
        return omni.ENGINE, omni.ACTIVATIONS
    files = sorted(Path(path).glob("*.pt"))
    if files:
        kind = _torch_kind(str(files[0]))
        return kind if kind is not None and kind[1] in (sglang.PER_PASS, sglang.PER_TOKEN) else None
    return None


def _torch_kind(path: str) -> tuple[str, str] | None:
    with TorchFile(path) as file:
        if file.mentions(sglang.RECORDS, sglang.LAST_MAP):  # maybe a gigabyte: it is read once, later
            return sglang.ENGINE, sglang.PER_TOKEN if file.mentions(sglang.PASS_IDS) else sglang.PER_PASS
        form = sglang.form_of(file.value)
        parts = eplb_tensors.parts_of(file.value)
        if parts is not None and (form is None or len(parts) > 1):
            return eplb_tensors.ENGINE, eplb_tensors.form_of(parts)
        if form is not None:
            return sglang.ENGINE, form
        seen = sorted(map(str, file.value))[:6] if isinstance(file.value, dict) else type(file.value).__name__
        rule = f"is a file of torch that no engine's recorder writes: {', '.join(seen) if seen else 'empty'}"
        fix = "Known are SGLang's recorder, its --init-expert-location, and tensors of EPLB"
        raise file.error(rule if isinstance(file.value, dict) else f"is a file of torch that holds a {seen}", fix)


def _zip_kind(path: str) -> tuple[str, str] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, ValueError):
        return None
    if any(name.endswith("data.pkl") for name in names):
        return _torch_kind(path)
    if "topk_ids" in names:
        return vllm.ENGINE, vllm.ARRAYS
    known = {eplb_tensors.NAMES[name] for name in names if name in eplb_tensors.NAMES}
    if "phy2log" in known:
        return eplb_tensors.ENGINE, eplb_tensors.MAP
    return (eplb_tensors.ENGINE, eplb_tensors.WEIGHT) if "weight" in known and len(names) == 1 else None


def _npz_parts(path: str) -> dict[str, Any]:
    from moeopt.workload.numpy_loads import parse_npz

    found: dict[str, Any] = {}
    check = Violations(path)
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    for name in names:
        if name in eplb_tensors.NAMES:
            content = parse_npz(read_bytes(path), name, check)
            check.raise_if_any()
            assert content is not None
            found[eplb_tensors.NAMES[name]] = content.loads
    return found


def _is_torch(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile, ValueError):
        return False


def _is_cube(path: str) -> bool:
    try:
        return omni.is_pattern(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception:  # bytes from anywhere: a broken header fails in numpy, ast, tokenize or malloc
        return False


def _json_kind(text: str) -> tuple[str, str] | None:
    """What a JSON object is, by the keys that its beginning has."""
    keys = set(re.findall(r'"([A-Za-z_]+)"\s*:', text))
    if "schema" in keys:
        return None
    if sglang.MAP in keys:
        return sglang.ENGINE, sglang.INIT_MAP
    if keys & {ascend.LAYERS, ascend.LAYER_COUNT}:
        return ascend.ENGINE, ascend.FORM
    if sglang.COUNTS in keys and not keys & {"layers", "steps", "names", "loads"}:
        return sglang.ENGINE, sglang.INIT_COUNTS
    return None


def _text_kind(path: str, head: bytes) -> tuple[str, str] | None:
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    if vllm.form_of(path) is not None and not text.startswith("["):
        return vllm.ENGINE, vllm.LOG
    if text.startswith("{"):
        return _json_kind(text)
    if Path(path).suffix.lower() in (".yaml", ".yml") and trtllm.is_config(text):
        return trtllm.ENGINE, trtllm.CONFIG
    return None


def refuse_map(path: str, kind: tuple[str, str]) -> InstanceError:
    """The error of a verb that needs loads and was given a map."""
    rule = f"is a map of {kind[0]} ({kind[1]}), not loads"
    return InstanceError([Violation("input", "", path, rule, "Give it as --current, and the loads as input")])


__all__ = ["MAPS", "WITH_MAP", "Recordings", "read_dump", "read_map", "recordings", "refuse_map", "what_is"]
