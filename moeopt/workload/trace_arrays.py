"""Routing traces as arrays of numpy, read piece by piece."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.archives import SEVERAL, joined
from moeopt.errors import Violations
from moeopt.workload.trace_fold import CHUNK_ROWS, EXPERTS_MAX, Folding
from moeopt.workload.trace_lines import NAMES_OF_EXPERTS

ARRAY = "topk_ids"
WHOLE_BYTES_MAX = 2**30
"""Arrays that cannot be read piece by piece, or that stand beside the ids, are read up to this size."""


def first_of(token_idx: NDArray[Any], tokens: int, check: Violations) -> NDArray[np.bool_] | None:
    """(T,) where a step begins: at the tokens that are its first."""
    if token_idx.shape != (tokens,) or token_idx.dtype.kind not in "iu":
        seen = f"{token_idx.dtype} of shape {token_idx.shape}"
        check.add(
            "token_idx", seen, rule=f"must be {tokens} whole numbers, one a token", fix="Leave it out, or repair it"
        )
        return None
    found: NDArray[np.bool_] = token_idx == 0
    return found


def read_npz(path: str | Path, check: Violations, folding: Folding, given: Sequence[int] | None) -> list[int]:
    """Fold the array of a file; the ids of its layers."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if several := joined(archive):
            check.add("npz", Path(path).name, rule=several, fix=SEVERAL)
            check.raise_if_any()
        if f"{ARRAY}.npy" not in names:
            check.add("npz", ", ".join(names), rule=f"the file holds no array {ARRAY}", fix=f"Store the ids as {ARRAY}")
            check.raise_if_any()
        beside = {
            name: _small(archive, name, check) for name in ("layers", "token_idx", *NAMES_OF_EXPERTS)
            if f"{name}.npy" in names
        }  # fmt: skip
        for name in NAMES_OF_EXPERTS:
            said = beside.get(name)
            if said is None or said.size != 1 or said.dtype.kind not in "iu":
                continue
            if folding.experts not in (None, int(said.item())):
                rule = f"is what the file says, and {folding.experts} what was said before"
                check.add(name, int(said.item()), rule=rule, fix="Is it a recording of another LLM?")
            if not 1 <= int(said.item()) <= EXPERTS_MAX:
                rule = f"must be a whole number from 1 to {EXPERTS_MAX:,}"
                check.add(name, int(said.item()), rule=rule, fix="Repair the file")
                continue
            folding.experts = int(said.item())
        ids = given if given is not None else _ids(beside.get("layers"), check)
        with archive.open(f"{ARRAY}.npy") as stream:
            shape, fortran, dtype = _header(stream, check)
            size = archive.getinfo(f"{ARRAY}.npy").file_size
            if shape[-1] > EXPERTS_MAX or math.prod(shape) * dtype.itemsize > size:
                rule = f"is more than the file has, or than {EXPERTS_MAX:,} experts of a token"
                check.add(ARRAY, f"shape {shape}", rule=rule, fix="Was the file cut short?")
                check.raise_if_any()
            turned, ids, first = _axes(shape, ids, beside.get("token_idx"), check)
            check.raise_if_any()
            lie = _Array(shape if len(shape) == 3 else (1, *shape), dtype, turned, ids, first)
            (lie.fold_whole if fortran else lie.fold_pieces)(stream, folding)
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
    if (
        found.ndim != 1
        or found.dtype.kind not in "iu"
        or len(set(found.tolist())) < len(found)
        or found.min(initial=0) < 0
    ):
        rule = "must be different whole numbers >= 0"
        check.add("layers", f"{found.dtype} of shape {found.shape}", rule=rule, fix="Give one id per layer")
        return None
    if int(found.max(initial=0)) >= EXPERTS_MAX:
        rule = f"ids must be below {EXPERTS_MAX:,}"
        check.add("layers", int(found.max()), rule=rule, fix="Use the LLM's own ids")
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
        if fits[0] and shape[:2] == (1, 1):
            fits[1] = False  # one token of one layer, in either order
        if fits[0] == fits[1]:
            rule, fix = _untold(shape, ids, token_idx, square=fits[0])
            check.add(ARRAY, f"shape {shape}", rule=rule, fix=fix)
        turned = fits[1]
        sizes = [shape[1], shape[0]] if turned else [shape[0], shape[1]]
    names = list(range(sizes[0])) if ids is None else list(ids)
    if len(names) != sizes[0] and not check.found:
        check.add(
            "layers", f"{len(names)} ids", rule=f"must be as many as layers, {sizes[0]}", fix="Give one per layer"
        )
    first = None if token_idx is None or check.found else first_of(token_idx, sizes[1], check)
    return turned, names, first


def _untold(
    shape: tuple[int, ...], ids: Sequence[int] | None, token_idx: NDArray[Any] | None, *, square: bool
) -> tuple[str, str]:
    """Why the axes cannot be told, and the least that tells them."""
    axes = f"of axes of {shape[0]} and {shape[1]}, "
    if square and ids is None and token_idx is None:
        fix = "Store `layers` beside it, the id of each layer: it tells, and nothing else is needed"
        return f"{axes}which are layers cannot be told", fix
    if square:
        return f"{axes}which are layers cannot be told", "Leave out one token, so that the axes differ"
    held = [
        *([] if ids is None else [f"`layers` has {len(ids)}"]),
        *([] if token_idx is None else [f"`token_idx` {'x'.join(map(str, token_idx.shape))}"]),
    ]
    fix = "Store as `layers` one id per layer; `token_idx`, one number per token, may be left out"
    return f"{axes}none has one row a layer and a token: {', '.join(held)}", fix


@dataclass(frozen=True, eq=False)
class _Array:
    """How the ids lie in the file.

    Parameters
    ----------
    shape
        Three sizes: layers, tokens and top-k, or with `turned` tokens, layers and top-k.
    layers
        Ids of the layers.
    first
        (T,) where a step begins, where it is known.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    turned: bool
    layers: list[int]
    first: NDArray[np.bool_] | None

    def fold_pieces(self, stream: IO[bytes], folding: Folding) -> None:
        """Some thousand rows at a time."""
        across = self.shape[1] if self.turned else 1  # layers that lie beside each other
        outer, inner = (1, self.shape[0]) if self.turned else self.shape[:2]
        chunk = max(1, CHUNK_ROWS // across)
        for place in range(outer):
            for start in range(0, inner, chunk):
                count = min(chunk, inner - start)
                data = _exactly(stream, count * self.dtype.itemsize * self.shape[2] * across)
                piece = np.frombuffer(data, dtype=self.dtype).reshape(count, across, self.shape[2])
                steps = None if self.first is None else self.first[start : start + count]
                for index, layer in enumerate(self.layers if self.turned else self.layers[place : place + 1]):
                    folding.add(layer, piece[:, index], steps)

    def fold_whole(self, stream: IO[bytes], folding: Folding) -> None:
        """An array in Fortran order, whose rows do not lie together."""
        size = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        if size > WHOLE_BYTES_MAX:
            rule = f"in Fortran order is read up to {WHOLE_BYTES_MAX} bytes"
            folding.check.add(ARRAY, f"{size} bytes", rule=rule, fix="Store it with numpy.ascontiguousarray")
            folding.check.raise_if_any()
        array = np.frombuffer(_exactly(stream, size), dtype=self.dtype).reshape(self.shape, order="F")
        for index, layer in enumerate(self.layers):
            folding.add(layer, array[:, index] if self.turned else array[index], self.first)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the array ends early")
    return data
