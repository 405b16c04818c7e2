"""Tables of whole numbers as JSON text, in a few passes over all digits: some four times faster than one by one."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

FEW = 64
"""For so few numbers one by one is faster."""


def json_rows(table: NDArray[np.integer]) -> str:
    """(R, C) whole numbers as `json.dumps` writes them without spaces.

    >>> json_rows(np.array([[0, -1, 20], [305, 7, 9]]))
    '[[0,-1,20],[305,7,9]]'
    """
    top = max(int(table.max()), -int(table.min())) if table.size else 0
    if table.ndim != 2 or table.size < FEW or top >= 2**62:
        return json.dumps(table.tolist(), separators=(",", ":"))
    digits = len(str(top))
    flat = table.reshape(-1)
    kind = np.dtype(np.uint32 if top < 2**31 else np.uint64)
    left, ten = np.abs(flat).astype(kind), kind.type(10)
    text = np.zeros((flat.size, 4 + digits), np.uint8)  # what is left out stays 0
    text[:: table.shape[1], 0], text[:, 1], text[:: table.shape[1], 2] = ord("]"), ord(","), ord("[")
    text[flat < 0, 3] = ord("-")
    for place in range(3 + digits, 3, -1):
        rest = left // ten
        text[:, place] = (left - rest * ten + kind.type(ord("0"))) * (left > 0)
        left = rest
    text[flat == 0, -1] = ord("0")
    return "[" + text.tobytes().translate(None, b"\0")[2:].decode() + "]]"
