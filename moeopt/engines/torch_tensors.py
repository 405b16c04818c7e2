"""Tensors in a `.pt` file: where they lie, and their elements read when they are needed, large ones in pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE_BYTES = 8 * 1024**2
"""A large tensor is read in pieces of at most this size."""
VIEW_BYTES_MAX = 256 * 1024**2
"""A storage whose tensor is not contiguous is read whole, up to this size."""

DTYPES: dict[str, np.dtype[Any]] = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}
BFLOAT16 = "BFloat16Storage"


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor in a file, not read yet.

    >>> Tensor(None, "0", "LongStorage", 6, 0, (2, 3), (3, 1)).contiguous
    True
    """

    file: Any
    key: str
    kind: str
    count: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of one element in the file."""
        return 2 if self.kind == BFLOAT16 else DTYPES[self.kind].itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def whole_numbers(self) -> bool:
        """Whether the elements are integers (truth values are not)."""
        return self.kind != BFLOAT16 and DTYPES[self.kind].kind in "iu"

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie one behind the other, in order of rows."""
        step = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != step:
                return self.size == 0
            step *= length
        return True

    def read(self) -> NDArray[Any]:
        """The whole tensor as an array of its own; bfloat16 as float32."""
        if not self.contiguous:
            return self._strided()
        kind: np.dtype[Any] = np.dtype(np.float32) if self.kind == BFLOAT16 else DTYPES[self.kind]
        flat = np.empty(self.size, dtype=kind)
        at = 0
        for piece in self._flat(self.size):
            flat[at : at + len(piece)] = piece
            at += len(piece)
        return flat.reshape(self.shape)

    def pieces(self, limit: int = PIECE_BYTES) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows of the first axis in order, each in one or more parts ``(row, (n, *rest))`` cut on the second axis.

        Only one part is in memory at a time; needs at least two axes.
        """
        width = math.prod(self.shape[2:])
        if not self.contiguous:
            for row, part in enumerate(self._strided()):
                yield row, part
            return
        most = max(limit // max(width * self.itemsize, 1), 1)
        lengths = [min(most, self.shape[1] - start) for start in range(0, self.shape[1], most)]
        flat = self._flat(*(length * width for _ in range(self.shape[0]) for length in lengths))
        for row in range(self.shape[0]):
            for length in lengths:
                yield row, next(flat).reshape(length, *self.shape[2:])
        for _ in flat:  # to the end, where the checksum is
            pass

    def _flat(self, *counts: int) -> Iterator[NDArray[Any]]:
        """So many elements at a time, from the offset on."""
        try:
            with self.file.member(self.key) as stream:
                _skip(stream, self.offset * self.itemsize)
                for count in counts:
                    data = stream.read(count * self.itemsize)
                    if len(data) != count * self.itemsize:
                        raise EOFError(f"storage {self.key} ends early")
                    yield self._numbers(data)
                _skip(stream, -1)
        except Exception as error:  # zipfile and zlib on bytes from anywhere
            raise self.file.error(f"is not a whole zip ({error})", "Copy or record it again") from error

    def _numbers(self, data: bytes) -> NDArray[Any]:
        if self.kind == BFLOAT16:
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        return np.frombuffer(data, DTYPES[self.kind])

    def _strided(self) -> NDArray[Any]:
        if self.count * self.itemsize > VIEW_BYTES_MAX:
            rule = f"has a tensor that is a view of {self.count * self.itemsize:,} bytes"
            raise self.file.error(rule, "Save tensor.contiguous() instead")
        whole = Tensor(self.file, self.key, self.kind, self.count, 0, (self.count,), (1,)).read()
        steps = tuple(
            stride * whole.itemsize if length > 1 else 0
            for length, stride in zip(self.shape, self.strides, strict=True)
        )
        return np.lib.stride_tricks.as_strided(whole[self.offset :], self.shape, steps).copy()


def _skip(stream: Any, count: int) -> None:
    """Read past so many bytes, or to the end, where the checksum is compared."""
    while count:
        got = len(stream.read(PIECE_BYTES if count < 0 else min(count, PIECE_BYTES)))
        if not got:
            return
        count = count if count < 0 else count - got
