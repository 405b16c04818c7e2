"""Files of engines read: recordings as a `Dump`, maps as an `ExpertMap`."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from moeopt.documents import exists, read_bytes, read_json
from moeopt.engines import ascend, eplb_tensors, omni, parquet, sglang, sglang_records, trtllm, vllm
from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.counting import expert_map
from moeopt.engines.kinds import MAPS, OWN, is_text, is_torch, what_is
from moeopt.engines.recordings import recordings
from moeopt.engines.torch_files import TorchFile
from moeopt.errors import InstanceError, Violation, Violations
from moeopt.workload.readers import split_key


def read_dump(paths: str | Path | Sequence[str | Path], *, experts: int | None = None) -> Dump:
    """One recording of an engine: a file, a file per rank or per layer, or a folder.

    Parameters
    ----------
    paths
        A path, or several.
    experts
        E, for tables in `.parquet` and traces, where the file does not say it.

    Raises
    ------
    InstanceError
        It is a map or no file of an engine, files are of different kinds or of several recordings, or its content is
        broken; every violation at once.

    >>> read_dump("missing.pt")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: input = missing.pt: does not exist. Check the name.
    """
    files = [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]
    check = Violations()
    if not files:
        check.add("input", "none", rule="there is no file to read", fix="Give a path")
        check.raise_if_any()
    kinds = [what_is(path) for path in files]
    for path, kind in zip(files, kinds, strict=True):
        if kind is None and not is_text(path) and not exists(path):
            check.add("input", path, rule="does not exist", fix="Check the name")
        elif kind is None:
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
    if len(files) > 1 and len(recordings(files).groups) > 1:
        rule = "are several recordings"
        check.add("input", ", ".join(files), rule=rule, fix="Read them one by one, as windows")
        check.raise_if_any()
    return _read(files, kind, experts)


def _read(paths: list[str], kind: tuple[str, str], experts: int | None) -> Dump:
    engine, form = kind
    if engine == omni.ENGINE:
        return omni.read_activations(paths)
    if engine == trtllm.ENGINE:
        return trtllm.read_statistics(paths)
    if engine == vllm.ENGINE:
        return vllm.read_routes([split_key(path)[0] for path in paths], experts)
    if form in (sglang.PER_PASS, sglang.PER_TOKEN):
        return sglang_records.read_records(_files(paths))
    path = paths[0]
    if engine == parquet.ENGINE:
        return parquet.read_parquet(path, experts)
    if is_torch(path):
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
        was loaded, that map; of JSON, `.npy` or `.npz` (``FILE:KEY``), also a bare table of experts in slots.

    Raises
    ------
    InstanceError
        It holds loads and no map (named as what it is), or its content is broken; every violation at once.

    >>> read_map('{"physical_to_logical_map": [[0, 1, 1]]}').slot_expert.tolist()
    [[0, 1, 1]]
    """
    kind = what_is(path)
    check = Violations("" if is_text(path) else path)
    if kind is None:
        return _plain_map(path, check)
    engine, form = kind
    if form in (sglang.PER_PASS, sglang.PER_TOKEN):
        return sglang_records.read_loaded_map(_files([path])[0])
    if engine == eplb_tensors.ENGINE and form != eplb_tensors.WEIGHT:
        if not is_torch(path):
            return eplb_tensors.read_map(path, _npz_parts(path))
        with TorchFile(path) as file:
            return eplb_tensors.read_map(path, eplb_tensors.parts_of(file.value) or {})
    if kind not in MAPS:
        rule = f"holds loads of {engine} ({form}), not a map of experts in slots"
        check.add("input", _short(path), rule=rule, fix="Give it as the input, and the map that is loaded here")
        check.raise_if_any()
    if kind == OWN:
        from moeopt.engines.own import read_own

        return read_own(_document(path), check.source)
    if engine == omni.ENGINE:
        return omni.read_pattern(path, _array(path))
    if engine == trtllm.ENGINE:
        return trtllm.read_config(path)
    if engine == ascend.ENGINE:
        return ascend.read_map(path, _document(path))
    if not is_text(path) and is_torch(path):
        with TorchFile(path) as file:
            return sglang.read_init_map(path, file.value)
    return sglang.read_init_map(check.source, _document(path))


def _plain_map(path: str, check: Violations) -> ExpertMap:
    rows: Any = None
    data = read_bytes(split_key(path)[0])
    if data.startswith((b"\x93NUMPY", b"PK")):
        rows = _array(path)
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        rows = read_json(data, path)
    else:
        rule = "is no map of an engine that is known"
        check.add("input", path, rule=rule, fix="Known are maps of SGLang, vLLM-Ascend, TensorRT-LLM, omni and EPLB")
    check.raise_if_any()
    return expert_map("plain", rows, check, empty=True)


def _array(path: str) -> NDArray[Any]:
    """The array of a `.npy`, or of an `.npz` the one that is asked for or is its table."""
    from moeopt.workload.numpy_loads import parse_npy, parse_npz

    check = Violations(path)
    file, key = split_key(path)
    data = read_bytes(file)
    content = parse_npz(data, key, check) if data.startswith(b"PK") else parse_npy(data, check)
    check.raise_if_any()
    assert content is not None
    found: NDArray[Any] = content.loads
    return found


def _short(path: str) -> str:
    return path if len(path) <= 60 else path[:57] + "..."


def _document(path: str) -> Any:
    if is_text(path):
        return read_json(path, "the JSON text")
    return read_json(read_bytes(path), path)


def _files(paths: Sequence[str]) -> list[str]:
    """Recorder files, those of folders among them."""
    found = []
    for path in paths:
        found += [str(file) for file in sorted(Path(path).glob("*.pt"))] if Path(path).is_dir() else [path]
    return found


def _npz_parts(path: str) -> dict[str, Any]:
    from moeopt.workload.numpy_loads import parse_npz

    found: list[tuple[str, Any]] = []
    check = Violations(path)
    file, key = split_key(path)
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    for name in names if key is None else [key]:
        if name in eplb_tensors.NAMES:
            content = parse_npz(read_bytes(file), name, check)
            check.raise_if_any()
            assert content is not None
            found.append((name, content.loads))
    return eplb_tensors.agreed(found)


def refuse_map(path: str, kind: tuple[str, str]) -> InstanceError:
    """The error of a verb that needs loads and was given a map."""
    rule = f"is a map of {kind[0]} ({kind[1]}), not loads"
    return InstanceError([Violation("input", "", path, rule, "Give it as --current, and the loads as input")])
