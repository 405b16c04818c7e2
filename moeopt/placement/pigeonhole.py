"""The slot-aware pigeonhole bound with free replica counts; ``models/placement.md`` has the proof.

At a threshold T expert e needs ``m_e = ceil(w_e / T)`` replicas, which leaves ``spare = S - sum m_e`` slots. Take a
set H of experts whose replicas lie on u GPUs. Their other slots hold the lightest pieces of other experts, of which
at most `spare` slots weigh nothing. If ``w(H)`` and those pieces exceed ``u T`` for every possible u, no plan has
``max_g C_g <= T``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

STEPS = 40
"""Halvings of the interval; it shrinks to 1e-12 of its length."""


def search(
    weights: NDArray[np.float64], num_gpus: int, slots: int, lower: float, upper: float
) -> tuple[float, list[int]] | None:
    """Largest refuted threshold in ``(lower, upper)`` and the set of experts that refutes it, or ``None``.

    Heuristic in floating point: `proves` decides.

    >>> threshold, experts = search(np.array([10.0, 4.0, 4.0, 4.0, 4.0, 4.0]), 2, 3, 15.0, 19.0)
    >>> round(threshold, 4), experts
    (18.0, [0])
    """
    first = lower + (upper - lower) * 1e-3
    if not lower < first < upper or _refuting_set(weights, num_gpus, slots, first) is None:
        return None  # one cheap test spares the halvings where the bound has nothing to give
    nearly = upper * (1 - 1e-10)  # what proves a plan optimal
    if nearly > first and (found := _refuting_set(weights, num_gpus, slots, nearly)) is not None:
        return nearly, found
    best, low, high = None, first, upper
    for _ in range(STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        found = _refuting_set(weights, num_gpus, slots, middle)
        if found is None:
            high = middle
        else:
            best, low = (middle, found), middle
        if high - low < 1e-7 * high:
            break
    if best is None:
        found = _refuting_set(weights, num_gpus, slots, first)
        assert found is not None
        best = (first, found)
    return best


def _refuting_set(weights: NDArray[np.float64], num_gpus: int, slots: int, threshold: float) -> list[int] | None:
    """Try every prefix of the experts in order of piece size."""
    least = np.maximum(np.ceil(weights / threshold * (1 - 1e-12)), 1.0).astype(np.int64)
    spare = num_gpus * slots - int(least.sum())
    if spare < 0:
        return []
    pieces = weights / least
    order = np.argsort(-pieces, kind="stable")
    heavy = np.cumsum(weights[order])
    replicas = np.cumsum(least[order])
    light = np.concatenate([[0.0], np.cumsum(np.repeat(pieces[order][::-1], least[order][::-1]))])
    widest = np.minimum(replicas + spare, num_gpus)
    others = np.clip(widest * slots - spare - replicas, 0, len(light) - 1)
    hopeful = np.flatnonzero(heavy + light[others] > widest * threshold * (1 + 1e-11))  # the widest spread fails
    if not len(hopeful):
        return None
    heavy, replicas = heavy[hopeful, None], replicas[hopeful, None]
    gpus = np.arange(1, num_gpus + 1)[None, :]
    others = np.clip(gpus * slots - spare - replicas, 0, len(light) - 1)  # other pieces that must lie on u GPUs
    fits = heavy + light[others] <= gpus * threshold * (1 + 1e-11)
    possible = (gpus * slots >= replicas) & (gpus <= replicas + spare)
    refuted = ~(fits & possible).any(axis=1)
    if not refuted.any():
        return None
    return sorted(int(expert) for expert in order[: int(hopeful[refuted.argmax()]) + 1])


def proves(weights: Sequence[int], num_gpus: int, slots: int, threshold: Fraction, experts: Sequence[int]) -> bool:
    """Whether no plan has every GPU at or below `threshold`, by the set `experts`; exact, fast enough to re-check.

    >>> proves([10, 4, 4, 4, 4, 4], 2, 3, Fraction(17), [0])
    True
    >>> proves([10, 4, 4, 4, 4, 4], 2, 3, Fraction(18), [0])
    False
    """
    if threshold <= 0:
        return False
    chosen = set(experts)
    if not chosen <= set(range(len(weights))):
        return False
    least = [max(-(-weight * threshold.denominator // threshold.numerator), 1) for weight in weights]
    spare = num_gpus * slots - sum(least)
    if spare < 0:
        return True
    if not chosen:
        return False
    heavy = sum(weights[expert] for expert in chosen)
    replicas = sum(least[expert] for expert in chosen)
    others = [(Fraction(weights[e], least[e]), least[e]) for e in range(len(weights)) if e not in chosen]
    pieces = [size for size, count in sorted(others) for _ in range(count)]
    light = list(accumulate(pieces, initial=Fraction(0)))
    for used in range(-(-replicas // slots), min(num_gpus, replicas + spare) + 1):
        must = min(max(used * slots - spare - replicas, 0), len(pieces))
        if heavy + light[must] <= used * threshold:
            return False
    return True
