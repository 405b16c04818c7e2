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
    base = np.array(weights, copy=True, order="C")
    base[~base.any(axis=1)] = 1.0
    each = base.copy()
    spare = num_slots - num_experts
    if least is not None:
        counts[:] = least
        each /= counts.astype(base.dtype)
        spare = num_slots - int(least.sum())
        if most is not None:
            each[counts >= most] = -1.0
    first = np.arange(num_layers) * num_experts
    flat_counts, flat_each, flat_base = counts.ravel(), each.ravel(), base.ravel()  # views
    soonest = 0 if most is None else most - int(counts.max())  # steps before any expert can be full
    for step in range(1, spare + 1):
        chosen = each.argmax(axis=1)
        chosen += first
        replicas = flat_counts.take(chosen)
        replicas += 1
        flat_counts[chosen] = replicas
        flat_each[chosen] = flat_base.take(chosen) / replicas.astype(base.dtype)
        if most is not None and step >= soonest:
            flat_each[chosen[replicas >= most]] = -1.0
    return counts
