"""The equal split of one layer: sets of experts and GPUs with equal sums, and each set cut along its sorted pieces.

All in whole numbers: loads in their greatest common unit times what makes every GPU's part whole. See
``models/placement.md``, *Equal split*, for why a set of n experts on k GPUs of B slots works if n + k - 1 <= B k.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from moeopt.kernels.subset_sum import subset
from moeopt.limits import Deadline

Piece = tuple[int, int, int]
"""(expert, GPU, whole amount > 0; or 0 for the one replica of an expert without load)."""

ALL_SUBSETS = 12
"""Up to so many experts with load the most trees are found by looking at all subsets."""
TRIES = 6
"""Experts in vain tried as the heaviest of a tree before the rest is left as one tree."""
WIDER = 3
"""Numbers of GPUs tried for the tree of one expert."""


@dataclass(frozen=True)
class Trees:
    """Disjoint sets of experts, each with how many GPUs it fills; whether no more trees are possible."""

    experts: tuple[tuple[int, ...], ...]
    gpus: tuple[int, ...]
    most: bool


def fewest_extra(loads: Sequence[int], num_gpus: int) -> int:
    """A floor under the copies beyond one an expert, on GPUs that are alike.

    >>> fewest_extra([5, 1, 1, 1], 2), fewest_extra([4, 4], 2), fewest_extra([4, 3], 2)
    (1, 0, 1)
    """
    total = sum(loads)
    if not total:
        return 0
    unit = math.gcd(*loads)
    by_sums = num_gpus - math.gcd(num_gpus, total // unit)
    by_experts = sum(-(-load * num_gpus // total) - 1 for load in loads if load)
    return max(by_sums, by_experts)


def partition(loads: Sequence[int], num_gpus: int, slots: int, deadline: Deadline, seed: int = 0) -> Trees | None:
    """As many trees as are found, each of which `cut` can serve; ``None`` where the slots do not do.

    With at most `ALL_SUBSETS` experts that have load ``None`` is a proof, and so is `Trees.most`.
    """
    unit = math.gcd(*loads) or 1
    whole = [load // unit for load in loads]
    busy = [expert for expert in sorted(range(len(whole)), key=lambda e: (-whole[e], e)) if whole[expert]]
    idle = [expert for expert in range(len(whole)) if not whole[expert]]
    if not busy:
        sets: list[tuple[list[int], int]] | None = [([], 1) for _ in range(num_gpus)]
        proved = True
    elif len(busy) <= ALL_SUBSETS:
        sets, proved = _every_subset([whole[e] for e in busy], num_gpus, slots), True
    else:
        sets, proved = _peel([whole[e] for e in busy], num_gpus, slots, deadline, seed), False
    if sets is None:
        return None
    named = [([busy[place] for place in members], gpus) for members, gpus in sets]
    for members, gpus in named:  # experts without load go wherever there is room
        while idle and len(members) < (slots - 1) * gpus + 1:
            members.append(idle.pop(0))
    if idle or any(len(members) > (slots - 1) * gpus + 1 for members, gpus in named):
        return None
    proved = proved or num_gpus - len(named) == fewest_extra(loads, num_gpus)
    return Trees(tuple(tuple(sorted(members)) for members, _ in named), tuple(gpus for _, gpus in named), proved)


def _every_subset(loads: list[int], num_gpus: int, slots: int) -> list[tuple[list[int], int]] | None:
    total = sum(loads)
    by_lowest: dict[int, list[tuple[int, int]]] = {bit: [] for bit in range(len(loads))}
    sums = [0] * (1 << len(loads))
    for mask in range(1, 1 << len(loads)):
        low = (mask & -mask).bit_length() - 1
        sums[mask] = sums[mask & (mask - 1)] + loads[low]
        gpus, rest = divmod(sums[mask] * num_gpus, total)
        if not rest and mask.bit_count() <= (slots - 1) * gpus + 1:
            by_lowest[low].append((mask, gpus))

    @cache
    def best(left: int) -> tuple[tuple[int, int], ...] | None:
        if not left:
            return ()
        found: tuple[tuple[int, int], ...] | None = None
        most = min(left.bit_count(), sums[left] * num_gpus // total)
        for mask, gpus in by_lowest[(left & -left).bit_length() - 1]:
            if mask & left == mask:
                after = best(left ^ mask)
                if after is not None and (found is None or len(after) + 1 > len(found)):
                    found = ((mask, gpus), *after)
                    if len(found) == most:
                        break
        return found

    answer = best((1 << len(loads)) - 1)
    if answer is None:
        return None
    return [([bit for bit in range(len(loads)) if mask >> bit & 1], gpus) for mask, gpus in answer]


def _peel(
    loads: list[int], num_gpus: int, slots: int, deadline: Deadline, seed: int
) -> list[tuple[list[int], int]] | None:
    """Trees by exact subset sums, the heaviest expert first; what is left is the last tree."""
    total = sum(loads)
    step = num_gpus // math.gcd(num_gpus, total)
    left = list(range(len(loads)))
    aside: list[int] = []
    gpus = num_gpus
    found: list[tuple[list[int], int]] = []
    fits = total * 2 * num_gpus < 2**62
    while gpus > step and left and fits and len(aside) < TRIES and not deadline.passed():
        need = -(-loads[left[0]] * num_gpus // total)
        picked, mine = None, 0
        for wider in range(WIDER):
            mine = (-(-need // step) + wider) * step
            if mine >= gpus:
                break
            sizes = _sizes(len(left) + len(aside), mine, gpus, slots, step)
            picked = subset(np.array([loads[e] for e in left]), mine * total // num_gpus, sizes, seed)
            if picked is not None:
                break
        if picked is None:
            aside.append(left.pop(0))
            continue
        members = {left[place] for place in picked}
        found.append((sorted(members), mine))
        left = [expert for expert in left if expert not in members]
        gpus -= mine
    rest = left + aside
    return [*found, (rest, gpus)] if rest else found


def _sizes(many: int, mine: int, gpus: int, slots: int, step: int) -> tuple[int, int]:
    """Least and most experts of a tree of `mine` GPUs, so that slots do here and for the others."""
    low = many - (slots - 1) * (gpus - mine) - 1
    high = (slots - 1) * mine + 1
    if low > high:  # the rest must fall into several trees
        low = many - (slots - 1) * (gpus - mine) - (gpus - mine) // step
    return max(low, 1), high


def cut(loads: Sequence[int], parts: Sequence[int], slots: Sequence[int]) -> list[Piece] | None:
    """Pieces that fill GPU after GPU exactly, the first run of sorted pieces that reaches its part, the last one cut.

    Parameters
    ----------
    loads
        (n,) whole loads, their sum that of `parts`.
    parts, slots
        (k,) what each GPU gets, > 0, and its slots.

    Returns
    -------
    list or None
        (expert, GPU, amount) with places in `loads` and `parts`; ``None`` where the slots did not do in this order,
        which cannot happen on GPUs that are alike with n + k - 1 <= B k.

    >>> cut([6, 3, 3], [6, 6], [2, 2])
    [(1, 0, 3), (2, 0, 3), (0, 1, 6)]
    """
    pool = sorted((load, expert) for expert, load in enumerate(loads))
    found: list[Piece] = []
    for gpu, (part, room) in enumerate(zip(parts, slots, strict=True)):
        if gpu == len(parts) - 1:
            if len(pool) > room:
                return None
            found.extend((expert, gpu, load) for load, expert in pool)
            break
        width = min(room, len(pool))
        low, high = 0, len(pool) - width  # window sums rise with their place
        if not width or sum(load for load, _ in pool[high:]) < part:
            return None
        while low < high:
            middle = (low + high) // 2
            if sum(load for load, _ in pool[middle : middle + width]) >= part:
                high = middle
            else:
                low = middle + 1
        window = pool[low : low + width]
        reached, used = 0, 0
        while reached < part:
            reached += window[used][0]
            used += 1
        last_load, last = window[used - 1]
        found.extend((expert, gpu, load) for load, expert in window[: used - 1])
        found.append((last, gpu, last_load - (reached - part)))
        del pool[low : low + used]
        if reached > part:
            bisect.insort(pool, (reached - part, last))
    return found
