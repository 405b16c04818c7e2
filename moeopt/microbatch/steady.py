"""The steady state of a listed order: what one more layer costs if every resource goes on as it does in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from moeopt.microbatch.cycle_ratio import Edge, largest_ratio
from moeopt.microbatch.graph import StageGraph

FEWEST_LAYERS = 4
"""Layers from which on the middle of an order can be told from its first and its last lap."""


def steady_cycle(graph: StageGraph, sequences: Sequence[Sequence[int]]) -> Fraction | None:
    """The cycle time of an order that repeats itself, in the unit of the durations; ``None`` where it does not.

    Between its first and its last lap every resource has to serve the same items, one layer on each time. An edge from
    an item to the next one on its resource then has the difference of their layers as its tokens, which may be
    negative; around every cycle of an order that can happen they add up to more than 0.

    Parameters
    ----------
    graph
        Layers that are all alike, whole durations.

    >>> from moeopt.microbatch.builders import ping_pong
    >>> graph = StageGraph(ping_pong.lap([4] * 2, [3] * 2, [5] * 2, [3] * 2), 6)
    >>> steady_cycle(graph, graph.turns)
    Fraction(15, 1)
    """
    lap, size = graph.lap, len(graph.lap.items)
    if graph.scale is not None or graph.layers < FEWEST_LAYERS:
        return None
    weights = [int(time) for time in lap.durations]
    edges: list[Edge] = [(one, other, weights[one], tokens) for one, other, tokens in lap.edges]
    value = Fraction(0)
    for row, mine in zip(sequences, lap.turns, strict=True):
        num = len(mine)
        repeats = all(row[place + num] == row[place] + size for place in range(num, len(row) - 2 * num))
        window = [divmod(item, size) for item in row[num : 2 * num + 1]]
        if not repeats or {item for _, item in window[:num]} != set(mine):
            return None
        for (layer, item), (later, other) in pairwise(window):
            edges.append((item, other, weights[item], later - layer))
        value = max(value, Fraction(sum(weights[item] for item in mine)))
    return largest_ratio(sorted(edges), size, value, ()).value
