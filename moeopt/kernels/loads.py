"""Load of every GPU of every layer, for whole numbers and for floats alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def gpu_loads(pieces: NDArray[Any], slot_expert: NDArray[np.integer], slot_start: NDArray[np.int64]) -> NDArray[Any]:
    """(L, G) sum of the pieces in the slots of each GPU, in the type of `pieces`; -1 is an empty slot.

    Parameters
    ----------
    pieces
        (L, E) load of one replica: floats, whole numbers, or Python integers of any size.
    slot_expert, slot_start
        (L, S) expert in each slot, GPU-major; (G + 1,) first slot of each GPU, and S.

    >>> gpu_loads(np.array([[5, 2]]), np.array([[0, 1, -1, 1]]), np.array([0, 2, 4])).tolist()
    [[7, 2]]
    """
    nothing = np.zeros((len(pieces), 1), dtype=pieces.dtype)
    if (slot_expert < 0).any():  # -1 takes the last
        pieces = np.concatenate([pieces, nothing], axis=1)
        slot_expert = np.where(slot_expert < 0, pieces.shape[1] - 1, slot_expert)
    in_slot = np.take_along_axis(pieces, slot_expert, axis=1)
    sums = np.concatenate([nothing, np.cumsum(in_slot, axis=1, dtype=pieces.dtype)], axis=1)
    totals: NDArray[Any] = sums[:, slot_start[1:]] - sums[:, slot_start[:-1]]
    return totals
