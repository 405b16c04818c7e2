"""How many replicas each expert gets, by the greedy rule, batched over layers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def greedy_counts(
    weights: NDArray[np.floating], num_slots: int, most: int | None = None, least: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Give each spare slot to the expert with the largest load per replica, at most `most` replicas each.

    Smallest possible largest piece among all counts with that sum and cap; ties go to the lower id. A layer
    without load deals its spare slots evenly.

    Parameters
    ----------
    weights
        (L, E) loads >= 0.
    num_slots
        Sum of the counts, between E and ``E * most``.
    most
        Largest count of an expert; ``None``: no cap.
    least
        (E,) smallest counts >= 1, together at most `num_slots`; ``None``: one each.

    >>> greedy_counts(np.array([[12.0, 4.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]]), 6, 4).tolist()
    [[3, 1, 1, 1], [2, 2, 1, 1]]
    """
    num_layers, num_experts = weights.shape
    counts = np.ones((num_layers, num_experts), dtype=np.int64)
    base = np.array(weights, copy=True)
    base[~base.any(axis=1)] = 1.0
    each = base.copy()
    spare = num_slots - num_experts
    if least is not None:
        counts[:] = least
        each /= counts.astype(base.dtype)
        spare = num_slots - int(least.sum())
        if most is not None:
            each[counts >= most] = -1.0
    rows = np.arange(num_layers)
    for _ in range(spare):
        chosen = each.argmax(axis=1)
        replicas = counts[rows, chosen] + 1
        counts[rows, chosen] = replicas
        each[rows, chosen] = base[rows, chosen] / replicas.astype(base.dtype)
        if most is not None:
            full = replicas >= most
            each[rows[full], chosen[full]] = -1.0
    return counts
