"""The maximum cycle ratio of one lap: what a further layer costs once the pipeline has filled, exact in fractions.

An edge leads from an item to what waits for it, with the item's duration as its weight and the tokens of the lap. The
cycle time is the largest weight over tokens of any cycle (Reiter, J. ACM 15, 1968): found here by asking Bellman and
Ford for a cycle above a ratio, and taking that cycle's own ratio next, until there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import lcm

from moeopt.microbatch.graph import Lap, StageGraph
from moeopt.microbatch.longest_path import longest_path

Edge = tuple[int, int, int, int]
"""From, to, weight, tokens."""


@dataclass(frozen=True)
class CycleRatio:
    """The largest ratio, and the items of a cycle that has it."""

    value: Fraction
    cycle: tuple[int, ...]


def cycle_ratio(lap: Lap, *, ordered: bool = True) -> CycleRatio:
    """The cycle time of a lap, in the unit of its durations.

    Parameters
    ----------
    ordered
        Whether the order of service on each resource, and its wrap into the next lap, counts. Without it the value
        is the longest way of a micro-batch through a lap, in any order; a resource's load is then a second bound.

    >>> from moeopt.microbatch.builders import ping_pong
    >>> found = cycle_ratio(ping_pong.lap([4] * 2, [3] * 2, [5] * 2, [3] * 2))
    >>> found.value, len(found.cycle)
    (Fraction(15, 1), 4)
    """
    durations = [Fraction(time) for time in lap.durations]
    fine = lcm(*(time.denominator for time in durations))
    weights = [int(time * fine) for time in durations]
    edges = [(one, other, weights[one], tokens) for one, other, tokens in lap.edges]
    if ordered:
        for row in lap.turns:
            edges += [(one, other, weights[one], 0) for one, other in pairwise(row)]
            edges.append((row[-1], row[0], weights[row[-1]], 1))
    edges.sort()  # items are numbered along the lap: one sweep goes through all of it
    value: Fraction = Fraction(0)
    items: tuple[int, ...] = ()
    if ordered:
        loads = [Fraction(sum(weights[item] for item in row)) for row in lap.turns]
        value, items = max(zip(loads, lap.turns, strict=True), key=lambda found: found[0])
    found = largest_ratio(edges, len(lap.items), value, items)
    return CycleRatio(found.value / fine, found.cycle)


def largest_ratio(edges: list[Edge], size: int, value: Fraction, items: tuple[int, ...]) -> CycleRatio:
    """From the ratio of one cycle, or one that none is below, to the largest: cycles above it until there is none."""
    while True:
        above = _above(edges, size, value)
        if above is None:
            return CycleRatio(value, items)
        value, items = _ratio(edges, above), above


def _above(edges: list[Edge], size: int, ratio: Fraction) -> tuple[int, ...] | None:
    """A cycle with more weight than `ratio` a token, or none."""
    top, bottom = ratio.numerator, ratio.denominator
    priced = [(one, other, weight * bottom - tokens * top) for one, other, weight, tokens in edges]
    length, before = [0] * size, [-1] * size
    while True:
        changed = False
        for one, other, gain in priced:
            if length[one] + gain > length[other]:
                length[other], before[other] = length[one] + gain, one
                changed = True
        if not changed:
            return None
        found = _closed(before)
        if found:
            return found


def _closed(before: list[int]) -> tuple[int, ...]:
    """A cycle among the pointers, in the direction of the edges; empty if there is none."""
    seen = [0] * len(before)
    for first in range(len(before)):
        item = first
        while item >= 0 and not seen[item]:
            seen[item] = first + 1
            item = before[item]
        if item >= 0 and seen[item] == first + 1:
            cycle = [item]
            while before[cycle[-1]] != item:
                cycle.append(before[cycle[-1]])
            return tuple(reversed(cycle))
    return ()


def _ratio(edges: list[Edge], cycle: tuple[int, ...]) -> Fraction:
    """The best weight over tokens along a cycle."""
    chosen: dict[tuple[int, int], tuple[int, int]] = {}
    for one, other, weight, tokens in edges:
        known = chosen.get((one, other))
        if known is None or tokens < known[1]:
            chosen[one, other] = weight, tokens
    pairs = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
    taken = [chosen[pair] for pair in pairs]
    return Fraction(sum(weight for weight, _ in taken), sum(tokens for _, tokens in taken))


def time_by_cycle(lap: Lap, layers: int) -> Fraction:
    """``T = T_1 + (L - 1) C``: the first lap by its longest path, every further one by the cycle time.

    Valid for laps that are served in turn and whose micro-batches are alike; ``T_1 = R + (m - 1) M`` for ping-pong.

    >>> from moeopt.microbatch.builders import ping_pong
    >>> time_by_cycle(ping_pong.lap([10] * 3, [4] * 3, [10] * 3, [4] * 3), 32)
    Fraction(978, 1)
    """
    exact = replace(lap, durations=tuple(Fraction(time) for time in lap.durations))
    return Fraction(longest_path(StageGraph(exact, 1)).length) + (layers - 1) * cycle_ratio(lap).value
