"""Sums of counts that never wrap: one adder for all that is summed over steps, ranks, replicas and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations

COUNT_MAX = 2**63 - 1
"""The largest count."""


def add_counts(
    total: NDArray[np.int64],
    more: NDArray[Any],
    check: Violations,
    *,
    where: str = "",
    axes: Sequence[str] = ("layer", "expert"),
    layers: Sequence[int] | None = None,
) -> None:
    """Add whole numbers to a total >= 0 in place, or raise with the place of the first sum beyond `COUNT_MAX`.

    Parameters
    ----------
    where
        What is added, such as ``step 3``, for the message.
    axes
        What the axes of the total are called.
    layers
        Ids of layers, for the first axis.

    >>> total = np.array([[2**62, 1]])
    >>> add_counts(total, np.array([[2**62, 1]]), Violations(), where="step 1", layers=[3])
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: counts[step 1, layer 3, expert 0] = 9223372036854775808: the sum must be below 2**63. \
Did a counter wrap?
    """
    over = more > np.uint64(COUNT_MAX) if more.dtype.kind == "u" else np.zeros(total.shape, dtype=bool)
    added = np.where(over, 0, more).astype(np.int64)
    over |= added > COUNT_MAX - total
    if over.any():
        place = tuple(int(one) for one in np.argwhere(over)[0])
        names = [
            f"{axis} {layers[one] if axis == 'layer' and layers is not None else one}"
            for axis, one in zip(axes, place, strict=False)
        ]
        sum_ = int(total[place]) + int(more[place])
        spot = ", ".join([where, *names] if where else names)
        check.add("counts", sum_, rule="the sum must be below 2**63", fix="Did a counter wrap?", where=spot)
        check.raise_if_any()
    total += added
