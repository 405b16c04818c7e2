"""Prices that prove a bound: no filling of a GPU is worth enough; ``models/placement.md`` has the argument.

Give every piece a price by its size. At a threshold T let V be the largest total price of pieces that one GPU can hold
at a cost of at most T, and U the least total price that all pieces together can have, over all counts. If U exceeds
the sum of V over the GPUs, no plan costs at most T. Both are found here exactly, in whole numbers, by two knapsacks;
where the prices come from does not matter.

Holds for: even split, both floor rules, any slots, speeds and constant loads of GPUs, ``distinct`` or not, both fills.
Rules that only take plans away (groups, pins, prohibitions, least replicas, nodes to survive) keep it valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FULL = 2**40
"""Whole-number size of a piece as large as the largest limit; sizes are rounded down to this grid, which is valid."""
NEVER = 2**60
"""Size or price of what is not possible."""
MOST_SIZES = 4_000_000
"""Layers with more (expert, count) pairs are not looked at: 32 MB a table."""
MOST_STEPS, MOST_ENTRIES = 5_000, 20_000_000
"""Steps of the prices, and entries of the knapsack over them, of certificates that are looked at."""
MOST_DEPTH = 40
"""Cases within cases of a certificate."""
MOST_PRICE = 200_000
"""Dearest price of a certificate, which may come from a file: the knapsack has a row of so many entries."""


@dataclass(frozen=True)
class Kind:
    """GPUs that are alike: how many, their slots, their speed, and the load that they carry anyhow, tokens."""

    count: int
    slots: int
    speed: Fraction = Fraction(1)
    base: Fraction = Fraction(0)

    def limit(self, threshold: Fraction) -> Fraction:
        """Tokens that the replicas of one such GPU may have at a cost of `threshold`."""
        return threshold * self.speed - self.base


@dataclass(frozen=True)
class Layer:
    """One layer in exact numbers: tokens of each expert, least tokens of a replica, the GPUs, and the rules.

    ``most``: replicas of one expert at most; ``distinct``: no two of them on one GPU.
    """

    loads: Sequence[int]
    floor: int
    denominator: int
    kinds: Sequence[Kind]
    distinct: bool
    most: int


Ranges = Mapping[int, tuple[int, int]]
"""Least and most replicas of some experts, where only such plans are looked at."""


def proves(
    layer: Layer, threshold: Fraction, sizes: Sequence[int], prices: Sequence[int], ranges: Ranges | None = None
) -> bool:
    """Whether no plan of the layer costs at most `threshold`, by the prices; exact.

    Parameters
    ----------
    sizes, prices
        A piece of size x, in units of the largest limit over `FULL` rounded down, costs the price that belongs to the
        last of the rising `sizes` that is not above x; nothing below the first.
    ranges
        Only plans with these numbers of replicas are refuted.

    >>> layer = Layer([10, 4, 4, 4, 4, 4], 0, 1, [Kind(2, 3)], True, 1)
    >>> proves(layer, Fraction(17), [FULL * 4 // 17, FULL * 10 // 17], [1, 2])
    True
    >>> proves(layer, Fraction(18), [FULL * 4 // 18, FULL * 10 // 18], [1, 2])
    False
    """
    limits = [kind.limit(threshold) for kind in layer.kinds]
    top = max(limits)
    if min(limits) < 0:
        return True  # what lies on a GPU anyhow is too much
    if top <= 0 or not _well_formed(sizes, prices):
        return False
    table = Table.of(layer, top, ranges or {})
    if table is None:
        return True  # the pieces that fit are more than there are slots
    if table.size.size > MOST_SIZES or not len(sizes):
        return False
    breaks = np.array(sizes, dtype=np.int64)
    step = np.searchsorted(breaks, table.size, side="right") - 1
    price = np.where(step >= 0, np.array(prices, dtype=np.int64)[np.maximum(step, 0)], 0)
    least = least_total(np.where(table.valid, price * table.count, NEVER), table.spare)
    if least == 0:
        return False
    total = sum(kind.count for kind in layer.kinds)
    cap = (least - 1) // total + 1 if len(layer.kinds) == 1 else least  # one kind: any filling worth so much is enough
    widest = max(kind.slots for kind in layer.kinds)
    cap = min(cap, widest * max(prices) + 1)
    if (widest + 1) * (cap + 1) > MOST_ENTRIES:
        return False
    lightest = np.minimum.accumulate(_lightest(table, step, prices, widest, cap, layer.distinct), axis=0)
    worth = 0
    for kind, limit in zip(layer.kinds, limits, strict=True):
        room = limit * FULL // top
        best = int(np.flatnonzero(lightest[min(kind.slots, len(lightest) - 1)] <= room).max())
        worth += kind.count * best
    return least > worth


def proves_tree(layer: Layer, threshold: Fraction, tree: Any, ranges: Ranges | None = None, depth: int = 0) -> bool:
    """Whether prices, which may differ between cases, refute a threshold; exact.

    A tree, which may come from a file, has ``sizes`` and ``prices``, or ``expert`` and ``count`` and two trees: ``few``
    for at most so many replicas of the expert, ``many`` for more.
    """
    ranges = ranges or {}
    if not isinstance(tree, Mapping) or depth > MOST_DEPTH:
        return False
    if "expert" not in tree:
        sizes, prices = tree.get("sizes"), tree.get("prices")
        if not isinstance(sizes, Sequence) or not isinstance(prices, Sequence):
            return False
        return proves(layer, threshold, sizes, prices, ranges)
    expert, count = tree["expert"], tree.get("count")
    if type(expert) is not int or type(count) is not int or not 0 <= expert < len(layer.loads) or count < 1:
        return False
    low, high = ranges.get(expert, (1, layer.most))
    few = {**ranges, expert: (low, min(high, count))}
    many = {**ranges, expert: (max(low, count + 1), high)}
    return proves_tree(layer, threshold, tree.get("few"), few, depth + 1) and proves_tree(
        layer, threshold, tree.get("many"), many, depth + 1
    )


def _well_formed(sizes: Sequence[int], prices: Sequence[int]) -> bool:
    """Rising whole sizes and as many prices, none below 0, none too large for 64 bits."""
    if len(sizes) > MOST_STEPS or len(sizes) != len(prices):
        return False
    if any(type(number) is not int or number < 0 for number in (*sizes, *prices)):
        return False
    rising = all(low < high for low, high in pairwise(sizes))
    return rising and (not len(sizes) or (sizes[-1] <= FULL and max(prices) <= MOST_PRICE))


@dataclass(frozen=True)
class Table:
    """(E, spare + 1) counts from the least on, sizes of a piece at these counts, and which an expert may have."""

    count: Ints
    size: Ints
    valid: NDArray[np.bool_]
    spare: int

    @classmethod
    def of(cls, layer: Layer, top: Fraction, ranges: Ranges) -> Table | None:
        """The pieces not larger than `top`, tokens; ``None`` when there must be more of them than slots."""
        most = np.full(len(layer.loads), layer.most, dtype=np.int64)
        unit = top * layer.denominator
        bottom, over = unit.numerator, unit.denominator
        least = [max(-(-load * over // bottom), 1) for load in layer.loads]
        for expert, (low, high) in ranges.items():
            least[expert], most[expert] = max(least[expert], low), min(layer.most, high)
        num_slots = sum(kind.count * kind.slots for kind in layer.kinds)
        spare = num_slots - sum(least)
        if spare < 0 or (np.array(least) > most).any() or layer.floor > unit:
            return None
        width = min(spare, layer.most - 1) + 1
        counts = np.array(least, dtype=np.int64)[:, None] + np.arange(width)[None, :]
        # floor(floor(w FULL / top) / r) = floor(w FULL / (top r)), so sizes need no large numbers from here on
        over *= FULL
        whole = np.array([load * over // bottom for load in layer.loads], dtype=np.int64)
        floor = layer.floor * over // bottom
        return cls(counts, np.maximum(whole[:, None] // counts, floor), counts <= most[:, None], spare)


def least_total(cost: Ints, spare: int) -> int:
    """Least ``sum_e cost[e, d_e]`` with ``sum_e d_e <= spare``: a knapsack over the spare slots.

    >>> least_total(np.array([[5, 4, 0], [3, 1, 1]]), 2), least_total(np.array([[5, 4, 0], [3, 1, 1]]), 1)
    (3, 6)
    """
    before = np.minimum.accumulate(cost, axis=1)
    useful = np.zeros(cost.shape, dtype=bool)
    useful[:, 1:] = cost[:, 1:] < before[:, :-1]  # a further replica that lowers the cost
    useful[_never_needed(cost, useful, spare)] = False
    best = np.zeros(spare + 1, dtype=np.int64)
    for expert in np.flatnonzero(useful.any(axis=1)):
        row = best + cost[expert, 0]
        for more in np.flatnonzero(useful[expert]):
            np.minimum(row[more:], best[: spare + 1 - more] + cost[expert, more], out=row[more:])
        best = row
    return int(best.min()) + int(cost[~useful.any(axis=1), 0].sum())


def _never_needed(cost: Ints, useful: NDArray[np.bool_], spare: int) -> Ints:
    """Experts whose one useful number of further replicas no slot is left for, as others save as much for fewer."""
    single = np.flatnonzero(useful.sum(axis=1) == 1)
    more = useful[single].argmax(axis=1)
    saved = cost[single, 0] - cost[single, more]
    order = np.lexsort((more, saved))
    slots = np.cumsum(more[order])
    first = np.searchsorted(saved[order], saved[order])  # where those that save as much begin
    return np.asarray(single[order[slots - (slots - more[order])[first] > spare]])


def _lightest(table: Table, step: Ints, prices: Sequence[int], slots: int, cap: int, distinct: bool) -> Ints:
    """(slots + 1, cap + 1) least size of so many pieces worth so much; the last column is `cap` and more."""
    best = np.full((slots + 1, cap + 1), NEVER, dtype=np.int64)
    best[0, 0] = 0
    for place, price in enumerate(prices):
        here = (step == place) & table.valid
        if price == 0 or not here.any():
            continue
        sizes = np.where(here, table.size, NEVER).min(axis=1)  # the smallest piece of each expert in this step
        sizes = np.sort(sizes[sizes < NEVER])[:slots] if distinct else np.repeat(sizes.min(), slots)
        weight = np.cumsum(sizes)
        old = best.copy()
        for copies in range(1, len(weight) + 1):
            if weight[copies - 1] > FULL:
                break
            worth = copies * price
            fewer = old[: slots + 1 - copies] + weight[copies - 1]
            if worth < cap:
                np.minimum(best[copies:, worth:cap], fewer[:, : cap - worth], out=best[copies:, worth:cap])
            over = fewer[:, max(cap - worth, 0) :].min(axis=1)
            np.minimum(best[copies:, cap], over, out=best[copies:, cap])
    return best
