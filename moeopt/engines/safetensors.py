"""`.safetensors` files: eight bytes of length, a JSON header, and the tensors behind it, each read when asked for."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.documents import read_json
from moeopt.engines.bounds import plain_shape
from moeopt.errors import Violations

HEADER_BYTES_MAX = 100_000_000
"""The limit of the format itself."""

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


@dataclass(frozen=True)
class SafeTensors:
    """The tensors of one file, by name, not read yet.

    Parameters
    ----------
    path
        The file.
    tensors
        Type, shape and first byte in the file of each, by name in the order of the file.
    """

    path: str
    tensors: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]

    def read(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Each tensor with its name, one in memory at a time."""
        with Path(self.path).open("rb") as file:
            for name, (kind, shape, start) in self.tensors.items():
                file.seek(start)
                data = file.read(math.prod(shape) * kind.itemsize)
                yield name, np.frombuffer(data, kind).reshape(shape)


def open_safetensors(path: str) -> SafeTensors:
    """The header of a file, checked against its size.

    Raises
    ------
    InstanceError
        It is no such file, was cut short, or has tensors that overlap, reach beyond its end or are of a type that is
        not a plain number.

    Notes
    -----
    The format is that of https://github.com/huggingface/safetensors: a little-endian length, then JSON with ``dtype``,
    ``shape`` and ``data_offsets`` (from the end of the header) of each tensor.
    """
    check = Violations(path)
    tensors: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]] = {}
    try:
        total = Path(path).stat().st_size
        with Path(path).open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
            text = file.read(length) if 2 <= length <= min(total - 8, HEADER_BYTES_MAX) else b""
    except OSError as error:
        check.add("input", path, rule=f"cannot be read ({error.strerror or error})", fix="Check the name")
        check.raise_if_any()
    if not text.startswith(b"{"):
        rule = "is not a whole file of safetensors"
        check.add("input", f"{total} bytes", rule=rule, fix="Copy or record it again")
        check.raise_if_any()
    header: Any = read_json(text, path)
    spans: list[tuple[int, int, str]] = []
    for name, facts in header.items():
        if name == "__metadata__":
            continue
        span = _span(name, facts, total - 8 - length, check)
        if span is not None:
            spans.append((*span, name))
            tensors[name] = DTYPES[facts["dtype"]], tuple(facts["shape"]), 8 + length + span[0]
    for (_, end, first), (begin, _, second) in zip(sorted(spans), sorted(spans)[1:], strict=False):
        if begin < end:
            check.add(second, begin, rule=f"lies over {first} in the file", fix="Write the file again")
        elif begin > end:
            check.add(second, begin, rule=f"{begin - end} bytes before it are no tensor's", fix="Write the file again")
    if spans and min(spans)[0]:
        rule = f"{min(spans)[0]} bytes before it are no tensor's"
        check.add(min(spans)[2], min(spans)[0], rule=rule, fix="Write the file again")
    end = max((end for _, end, _ in spans), default=0)
    if not check.found and end < total - 8 - length:
        rule = "follow the last tensor: are these several files one behind the other?"
        check.add("input", f"{total - 8 - length - end} bytes", rule=rule, fix="Give each file by itself")
    check.raise_if_any()
    return SafeTensors(path, tensors)


def _span(name: str, facts: Any, room: int, check: Violations) -> tuple[int, int] | None:
    if not isinstance(facts, dict) or not {"dtype", "shape", "data_offsets"} <= facts.keys():
        check.add(name, facts, rule="needs dtype, shape and data_offsets", fix="Write the file again")
        return None
    kind, shape, span = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        check.add(name, kind, rule="is not a type of plain numbers", fix="Record counts as integers")
        return None
    if not (_whole(shape) and _whole(span) and len(span) == 2 and plain_shape(shape)):
        check.add(name, shape, rule="has no plain shape and data_offsets", fix="Write the file again")
        return None
    size = math.prod(shape) * DTYPES[kind].itemsize
    if span[1] - span[0] != size:
        rule = f"has data_offsets {span}, and {kind} of shape {shape} takes {size} bytes"
        check.add(name, span[1] - span[0], rule=rule, fix="Write the file again")
        return None
    if span[1] > room:
        rule = f"ends beyond the file, which has {room} bytes of tensors"
        check.add(name, span[1], rule=rule, fix="The file was cut short: copy or record it again")
        return None
    return span[0], span[1]


def _whole(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
