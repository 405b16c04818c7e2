"""The slot-aware pigeonhole bound with free replica counts; ``models/placement.md`` has the proof.

At a threshold T expert e needs ``m_e = ceil(w_e / T)`` replicas, which leaves ``spare = S - sum m_e`` slots. Take a
set H of experts whose replicas lie on u GPUs. Their other slots hold the lightest pieces of other experts, of which
at most `spare` slots weigh nothing. If ``w(H)`` and those pieces exceed ``u T`` for every possible u, no plan has
``max_g C_g <= T``. Where the replicas of an expert lie on different GPUs, ``u = r_e`` for one expert alone, so that a
count may be refuted by itself: the expert then needs one replica more, which leaves one spare slot less (lifting).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

STEPS = 40
"""Halvings of the interval, which end at a part of 1e-5 of the threshold."""
MOST_LIFTS = 400
"""Rounds of lifting."""
FIRSTS = 6
"""Intervals of experts by piece size begin at so many of the largest pieces."""

Lifts = list[list[int]]
"""Rounds of experts that need one replica more, each round by what is known after the one before."""


def search(
    weights: NDArray[np.float64], num_gpus: int, slots: int, lower: float, upper: float, distinct: bool = False
) -> tuple[float, list[int], Lifts] | None:
    """Largest refuted threshold in ``(lower, upper)``, the set of experts and the lifts that refute it, or ``None``.

    Heuristic in floating point: `proves` decides.

    >>> threshold, experts, lifts = search(np.array([10.0, 4.0, 4.0, 4.0, 4.0, 4.0]), 2, 3, 15.0, 19.0)
    >>> round(threshold, 3), experts, lifts
    (18.0, [0], [])
    """

    def test(threshold: float) -> tuple[list[int], Lifts] | None:
        return _refuting_set(weights, num_gpus, slots, threshold, distinct)

    first = lower + (upper - lower) * 1e-2
    if not lower < first < upper or (found := test(first)) is None:
        return None  # one cheap test spares the halvings where the bound has nothing to give
    best, low, high = (first, *found), first, upper
    nearly = upper * (1 - 1e-10)  # what proves a plan optimal
    if nearly > first and (found := test(nearly)) is not None:
        return (nearly, *found)
    for _ in range(STEPS):
        middle = (low + high) / 2
        if not low < middle < high or high - low < 1e-5 * high:
            break
        found = test(middle)
        if found is None:
            high = middle
        else:
            best, low = (middle, *found), middle
    return best


def _refuting_set(
    weights: NDArray[np.float64], num_gpus: int, slots: int, threshold: float, distinct: bool
) -> tuple[list[int], Lifts] | None:
    """Lift where replicas are distinct, then try intervals of the experts in order of piece size."""
    least = np.maximum(np.ceil(weights / threshold * (1 - 1e-12)), 1.0).astype(np.int64)
    spare = num_gpus * slots - int(least.sum())
    lifts: Lifts = []
    while True:
        if spare < 0:
            return [], lifts
        pieces = weights / least
        order = np.argsort(-pieces, kind="stable")
        light = np.concatenate([[0.0], np.cumsum(np.repeat(pieces[order][::-1], least[order][::-1]))])
        if not distinct or len(lifts) == MOST_LIFTS:
            break
        others = np.clip(least * (slots - 1) - spare, 0, len(light) - 1)
        short = np.flatnonzero(weights + light[others] > least * threshold * (1 + 1e-11))
        if not len(short):
            break
        lifts.append(short.tolist())
        least[short] += 1
        spare -= len(short)
    for start in range(min(FIRSTS, len(weights))):
        last = _refuted_until(weights[order[start:]], least[order[start:]], light, num_gpus, slots, spare, threshold)
        if last is not None:
            return sorted(int(expert) for expert in order[start : start + last + 1]), lifts
    return None


def _refuted_until(
    weights: NDArray[np.float64],
    least: NDArray[np.int64],
    light: NDArray[np.float64],
    num_gpus: int,
    slots: int,
    spare: int,
    threshold: float,
) -> int | None:
    """The first of these experts with which, and all before it, the threshold is refuted."""
    heavy = np.cumsum(weights)
    replicas = np.cumsum(least)
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
    return int(hopeful[refuted.argmax()]) if refuted.any() else None


def proves(
    weights: Sequence[int],
    num_gpus: int,
    slots: int,
    threshold: Fraction,
    experts: Sequence[int],
    lifts: Sequence[Sequence[int]] = (),
) -> bool:
    """Whether no plan has every GPU at or below `threshold`, by the set `experts`; exact, fast enough to re-check.

    With `lifts`: no plan without two replicas of an expert on one GPU.

    >>> proves([10, 4, 4, 4, 4, 4], 2, 3, Fraction(17), [0])
    True
    >>> proves([10, 4, 4, 4, 4, 4], 2, 3, Fraction(18), [0])
    False
    """
    if threshold <= 0:
        return False
    chosen = set(experts)
    if not chosen <= set(range(len(weights))) or len(lifts) > MOST_LIFTS:
        return False
    least = [max(-(-weight * threshold.denominator // threshold.numerator), 1) for weight in weights]
    spare = num_gpus * slots - sum(least)
    for lifted in lifts:
        if spare < 0:
            return True
        if not _need_more(weights, least, slots, spare, threshold, lifted):
            return False
        for expert in set(lifted):
            least[expert] += 1
            spare -= 1
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


def _need_more(
    weights: Sequence[int], least: list[int], slots: int, spare: int, threshold: Fraction, lifted: Sequence[int]
) -> bool:
    """Whether each of these experts, on as many GPUs as it has replicas at least, makes them cost too much."""
    pieces = sorted(
        (Fraction(weight, count), expert) for expert, (weight, count) in enumerate(zip(weights, least, strict=True))
    )
    for expert in lifted:
        if not 0 <= expert < len(weights):
            return False
        must = least[expert] * (slots - 1) - spare  # other pieces beside its own, at least
        total = Fraction(weights[expert])
        for size, other in pieces:
            if must <= 0:
                break
            if other != expert:
                total += size * min(must, least[other])
                must -= least[other]
        if total <= least[expert] * threshold:
            return False
    return True
