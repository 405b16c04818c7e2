"""Routing traces: the experts that every token selected, read in bounded memory and folded to counts.

Read are arrays of numpy (`.npz` with ``topk_ids``) and the JSON lines of loggers in vLLM's MoE layers. Whatever a trace
holds besides ids, such as weights, is left aside.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, Violations
from moeopt.workload.table import LoadTable
from moeopt.workload.trace_fold import CHUNK_ROWS, NAMED, Folding

ARRAY = "topk_ids"
WHOLE_BYTES_MAX = 2**30
"""Arrays that cannot be read piece by piece, or that stand beside the ids, are read up to this size."""
LINE_BYTES_MAX = 2**20
NAMES_OF_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


def is_trace(path: str | Path) -> bool:
    """Whether a file is a routing trace, by its first bytes or the names of its arrays; never raises.

    >>> is_trace("loads.csv")
    False
    """
    try:
        if str(path).lower().endswith(".npz"):
            with zipfile.ZipFile(path) as archive:
                return f"{ARRAY}.npy" in archive.namelist()
        if str(path).lower().endswith((".jsonl", ".ndjson")):
            return True
        with Path(path).open("rb") as file:
            return _is_logged(file.read(4096))
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _is_logged(head: bytes) -> bool:
    """Whether a file begins with a JSON object on a line of its own that a logger of routes wrote."""
    line = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    if not line.startswith(b"{"):
        return False
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and entry.get("type") in ("meta", "route")


def read_trace(
    path: str | Path | Sequence[str | Path],
    *,
    experts: int | None = None,
    top_k: int | None = None,
    layers: Sequence[int] | None = None,
) -> LoadTable:
    """Read a routing trace, of one file or of a file for each of its layers, and count its selections.

    Parameters
    ----------
    path
        An `.npz` with ``topk_ids`` (L, T, k) or (T, L, k), or (T, k) of one layer, whole numbers, -1 for padding;
        beside it optional ``layers`` (L), ``token_idx`` (T), ``num_experts``. Or JSON lines: objects of type ``meta``
        with optional ``top_k`` and ``num_experts``, and of type ``route`` with ``layer``, ``topk_ids`` and optional
        ``token_idx``. Several files are of different layers of one recording.
    experts, top_k
        Experts of a layer, and of a token, where they are known.
    layers
        Ids of the layers of an array, where the file has none.

    Returns
    -------
    LoadTable
        Counts of all rows, dummy rows among them; ``top_k``; ``per_step`` and ``steps`` where ``token_idx`` is known,
        as a step begins where it is 0; ``dummies`` where there are dummy rows. See `dummies.without_dummies`.

    Raises
    ------
    InstanceError
        The file is missing, broken or ambiguous, ids are out of range, an expert stands twice in a token, or tokens
        have different numbers of experts; all violations in one message.

    Notes
    -----
    A row whose ids are all 0, in a layer where no row is different, is an unfilled buffer: the layer is idle. Memory
    stays that of some thousand rows and of the counts.

    Examples
    --------
    >>> import tempfile
    >>> lines = ['{"type": "meta", "top_k": 2}', '{"type": "route", "token_idx": 0, "layer": 3, "topk_ids": [4, 1]}']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "log.jsonl")
    ...     _ = file.write_text("\\n".join(lines))
    ...     table = read_trace(file)
    >>> table.loads.tolist(), table.layers, table.steps
    ([[0, 1, 0, 0, 1]], (3,), 1)
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    folding = Folding(Violations(), experts=experts, top_k=top_k)
    order: list[int] | None = None
    for one in paths:
        check = Violations(str(one))
        folding.check = check
        order = _read_file(one, folding, check, layers)
        if len(paths) > 1:
            check.raise_if_any()
        folding.close()
    folding.check.source = ", ".join(map(str, paths))
    return folding.table(order if len(paths) == 1 else None, folding.check.source)


def _read_file(path: str | Path, folding: Folding, check: Violations, layers: Sequence[int] | None) -> list[int] | None:
    """Fold one file; the order of its layers, where it has one."""
    if not Path(path).is_file():
        what = "is a folder" if Path(path).is_dir() else "does not exist"
        check.add("input", str(path), rule=f"the file {what}", fix="Check the path")
        check.raise_if_any()
    try:
        if str(path).lower().endswith(".npz"):
            return _read_npz(path, check, folding, layers)
        with Path(path).open("rb") as file:
            _read_lines(file, check, folding)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError) as error:
        if isinstance(error, InstanceError):
            raise
        check.add("input", "...", rule=f"the file is not whole ({error})", fix="Was it cut short?")
        check.raise_if_any()
    return None


def fold_ids(
    ids: NDArray[Any],
    *,
    layers: Sequence[int] | None = None,
    experts: int | None = None,
    token_idx: NDArray[Any] | None = None,
    source: str = "",
) -> LoadTable:
    """The same for an array in memory.

    Parameters
    ----------
    ids
        (L, T, k) whole numbers; -1 is padding.
    layers
        L ids of layers, 0 to L-1 by default.
    experts
        Experts of a layer, where known.
    token_idx
        (T,) place of a token in its step.

    >>> fold_ids(np.array([[[0, 2], [1, 2]]]), token_idx=np.array([0, 0])).per_step.tolist()
    [[[1, 0, 1]], [[0, 1, 1]]]
    """
    check = Violations(source)
    if ids.ndim != 3 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        seen = f"{ids.dtype} of shape {ids.shape}"
        check.add(ARRAY, seen, rule="must be whole numbers, layers x tokens x top_k", fix="Check the array")
        check.raise_if_any()
    names = list(range(len(ids))) if layers is None else list(layers)
    first = None if token_idx is None else _first(token_idx, ids.shape[1], check)
    if len(names) != len(ids):
        check.add(
            "layers", f"{len(names)} ids", rule=f"must be as many as layers, {len(ids)}", fix="Give one per layer"
        )
        check.raise_if_any()
    folding = Folding(check, experts=experts)
    for layer, rows in zip(names, ids, strict=True):
        folding.add(layer, rows, first)
    return folding.table(names, source)


def _first(token_idx: NDArray[Any], tokens: int, check: Violations) -> NDArray[np.bool_] | None:
    if token_idx.shape != (tokens,) or token_idx.dtype.kind not in "iu":
        seen = f"{token_idx.dtype} of shape {token_idx.shape}"
        check.add(
            "token_idx", seen, rule=f"must be {tokens} whole numbers, one a token", fix="Leave it out, or repair it"
        )
        return None
    found: NDArray[np.bool_] = token_idx == 0
    return found


def _read_npz(path: str | Path, check: Violations, folding: Folding, given: Sequence[int] | None) -> list[int]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if f"{ARRAY}.npy" not in names:
            check.add("npz", ", ".join(names), rule=f"the file holds no array {ARRAY}", fix=f"Store the ids as {ARRAY}")
            check.raise_if_any()
        beside = {
            name: _small(archive, name, check) for name in ("layers", "token_idx", *NAMES_OF_EXPERTS)
            if f"{name}.npy" in names
        }  # fmt: skip
        for name in NAMES_OF_EXPERTS:
            said = beside.get(name)
            if folding.experts is None and said is not None and said.size == 1 and said.dtype.kind in "iu":
                folding.experts = int(said.item())
        ids = given if given is not None else _ids(beside.get("layers"), check)
        with archive.open(f"{ARRAY}.npy") as stream:
            shape, fortran, dtype = _header(stream, check)
            turned, ids, first = _axes(shape, ids, beside.get("token_idx"), check)
            check.raise_if_any()
            full = shape if len(shape) == 3 else (1, *shape)
            if fortran:
                _whole(stream, full, dtype, turned, ids, first, folding)
            else:
                _pieces(stream, full, dtype, turned, ids, first, folding)
            if stream.read(1):
                check.add(ARRAY, "more bytes", rule="follow the end of the array", fix="Write it with numpy.savez")
    return ids


def _header(stream: IO[bytes], check: Violations) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "iu":
        rule = "holds Python objects, which are not read" if dtype.hasobject else "must be whole numbers"
        check.add(ARRAY, f"dtype {dtype}", rule=rule, fix="Store the ids as integers")
    if len(shape) not in (2, 3) or 0 in shape:
        rule = "must be layers x tokens x top_k, or tokens x layers x top_k, none empty"
        check.add(ARRAY, f"shape {shape}", rule=rule, fix="Check the array")
    check.raise_if_any()
    return shape, fortran, dtype


def _small(archive: zipfile.ZipFile, name: str, check: Violations) -> NDArray[Any] | None:
    """An array beside the ids."""
    size = archive.getinfo(f"{name}.npy").file_size
    if size > WHOLE_BYTES_MAX:
        check.add(name, f"{size} bytes", rule=f"would unpack to more than {WHOLE_BYTES_MAX} bytes", fix="Cut the trace")
        return None
    with archive.open(f"{name}.npy") as stream:
        found: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


def _ids(found: NDArray[Any] | None, check: Violations) -> list[int] | None:
    if found is None:
        return None
    if found.ndim != 1 or found.dtype.kind not in "iu" or len(set(found.tolist())) < len(found) or found.min() < 0:
        rule = "must be different whole numbers >= 0"
        check.add("layers", f"{found.dtype} of shape {found.shape}", rule=rule, fix="Give one id per layer")
        return None
    return [int(layer) for layer in found]


def _axes(
    shape: tuple[int, ...], ids: Sequence[int] | None, token_idx: NDArray[Any] | None, check: Violations
) -> tuple[bool, list[int], NDArray[np.bool_] | None]:
    """Whether tokens come before layers, the ids of the layers, and where steps begin."""
    if len(shape) == 2:
        sizes, turned = [1, shape[0]], False
    else:
        fits = [
            (ids is None or len(ids) == shape[axis])
            and (token_idx is None or token_idx.shape[:1] == (shape[1 - axis],))
            for axis in (0, 1)
        ]
        if fits[0] == fits[1]:
            said = ids is not None or token_idx is not None
            rule = f"of axes of {shape[0]} and {shape[1]}, " + (
                "which are layers cannot be told" if fits[0] or not said else "none has one row a layer and a token"
            )
            fix = "Store the ids of the layers as `layers` and the place in the step as `token_idx` beside it"
            check.add(ARRAY, f"shape {shape}", rule=rule, fix=fix)
        turned = fits[1]
        sizes = [shape[1], shape[0]] if turned else [shape[0], shape[1]]
    names = list(range(sizes[0])) if ids is None else list(ids)
    if len(names) != sizes[0] and not check.found:
        check.add(
            "layers", f"{len(names)} ids", rule=f"must be as many as layers, {sizes[0]}", fix="Give one per layer"
        )
    first = None if token_idx is None or check.found else _first(token_idx, sizes[1], check)
    return turned, names, first


def _pieces(
    stream: IO[bytes],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    turned: bool,
    ids: list[int],
    first: NDArray[np.bool_] | None,
    folding: Folding,
) -> None:
    outer = 1 if turned else shape[0]
    inner = shape[0] if turned else shape[1]
    row = dtype.itemsize * shape[2] * (shape[1] if turned else 1)
    chunk = max(1, CHUNK_ROWS // (shape[1] if turned else 1))
    for place in range(outer):
        for start in range(0, inner, chunk):
            count = min(chunk, inner - start)
            data = _exactly(stream, count * row)
            steps = None if first is None else first[start : start + count]
            if turned:
                piece = np.frombuffer(data, dtype=dtype).reshape(count, shape[1], shape[2])
                for index, layer in enumerate(ids):
                    folding.add(layer, piece[:, index], steps)
            else:
                folding.add(ids[place], np.frombuffer(data, dtype=dtype).reshape(count, shape[2]), steps)


def _whole(
    stream: IO[bytes],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    turned: bool,
    ids: list[int],
    first: NDArray[np.bool_] | None,
    folding: Folding,
) -> None:
    """An array in Fortran order, whose rows do not lie together."""
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size > WHOLE_BYTES_MAX:
        rule = f"in Fortran order is read up to {WHOLE_BYTES_MAX} bytes"
        folding.check.add(ARRAY, f"{size} bytes", rule=rule, fix="Store it with numpy.ascontiguousarray")
        folding.check.raise_if_any()
    array = np.frombuffer(_exactly(stream, size), dtype=dtype).reshape(shape, order="F")
    for index, layer in enumerate(ids):
        folding.add(layer, array[:, index] if turned else array[index], first)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the array ends early")
    return data


def _read_lines(file: IO[bytes], check: Violations, folding: Folding) -> None:
    logged = _Logged(check, folding)
    for number, line in _lines(file):
        logged.take(number, line)
        if len(check.found) > NAMED:
            break
    logged.flush()


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


class _Logged:
    """Takes the lines of a logger, some thousand at a time."""

    def __init__(self, check: Violations, folding: Folding) -> None:
        self.check = check
        self.folding = folding
        self._rows: dict[int, list[tuple[list[int], bool | None, int]]] = {}
        self._count = 0

    def take(self, number: int, line: bytes) -> None:
        if not line.strip():
            return
        try:
            entry = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            rule = f"is not JSON ({error})"
            self.check.add("line", line[:40].decode("utf-8", "replace"), rule=rule, fix="Was the file cut short?",
                           where=str(number))  # fmt: skip
            return
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind == "meta":
            self._meta(entry, number)
        elif kind == "route":
            self._route(entry, number)
        else:
            shown = kind if isinstance(entry, dict) else type(entry).__name__
            rule = "must be an object of type meta or route"
            self.check.add("type", shown, rule=rule, fix="Give the log of the MoE layers", where=f"line {number}")

    def _meta(self, entry: dict[str, Any], number: int) -> None:
        for key in ("top_k", *NAMES_OF_EXPERTS):
            value = entry.get(key)
            if value is None:
                continue
            if type(value) is not int or value < 1:
                rule = "must be a whole number >= 1"
                self.check.add(key, value, rule=rule, fix="Repair the line", where=f"line {number}")
            elif key == "top_k":
                self._agree("top_k", value, number)
            else:
                self._agree("experts", value, number)

    def _agree(self, name: str, value: int, number: int) -> None:
        known = getattr(self.folding, name)
        if known is not None and known != value:
            rule = f"was {known} before"
            self.check.add(name, value, rule=rule, fix="Give one recording a file", where=f"line {number}")
        setattr(self.folding, name, value)

    def _route(self, entry: dict[str, Any], number: int) -> None:
        layer, ids, token = entry.get("layer"), entry.get("topk_ids"), entry.get("token_idx")
        where = f"line {number}"
        if type(layer) is not int or layer < 0:
            rule = "must be a whole number >= 0"
            self.check.add("layer", layer, rule=rule, fix="Log the id of the layer", where=where)
        elif not isinstance(ids, list) or not ids or not all(type(i) is int and abs(i) < 2**31 for i in ids):
            self.check.add("topk_ids", ids, rule="must be whole numbers", fix="Log ids as numbers", where=where)
        elif token is not None and (type(token) is not int or token < 0):
            self.check.add("token_idx", token, rule="must be a whole number >= 0", fix="Leave it out", where=where)
        else:
            self._rows.setdefault(layer, []).append((ids, None if token is None else token == 0, number))
            self._count += 1
            if self._count >= CHUNK_ROWS:
                self.flush()

    def flush(self) -> None:
        """Fold what has been kept."""
        for layer, rows in self._rows.items():
            width = max(len(ids) for ids, _, _ in rows)
            if self.folding.top_k is not None:
                width = max(width, self.folding.top_k)
            table = np.array([ids + [-1] * (width - len(ids)) for ids, _, _ in rows], dtype=np.int64)
            lines = np.array([number for _, _, number in rows], dtype=np.int64)
            known = all(first is not None for _, first, _ in rows)
            first = np.array([bool(first) for _, first, _ in rows]) if known else None
            self.folding.add(layer, table, first, lines)
        self._rows, self._count = {}, 0


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return found
