"""The longest path: with the order of service known, the time of a step is a longest path in an acyclic graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from moeopt.errors import PlanError
from moeopt.microbatch.graph import Number, StageGraph


@dataclass(frozen=True)
class LongestPath:
    """Its length, the start of every item, and the items on one longest path, the first of equals."""

    length: Number
    start: tuple[Number, ...]
    path: tuple[int, ...]


def longest_path(graph: StageGraph, sequences: Sequence[Sequence[int]] | None = None) -> LongestPath:
    """Draw every item with an edge to what follows it in its micro-batch and on its resource; take the longest way.

    Parameters
    ----------
    sequences
        The order on each resource. ``None``: layer after layer in the order of the lap, which is what first come,
        first served gives where ``graph.lap.in_turn`` says so.

    Raises
    ------
    PlanError
        The sequences wait for one another.

    >>> from moeopt.microbatch.builders import ping_pong
    >>> found = longest_path(StageGraph(ping_pong.lap([10] * 3, [4] * 3, [10] * 3, [4] * 3), 32))
    >>> found.length, len(found.path)
    (978, 99)
    """
    import networkx as nx

    drawn = nx.DiGraph()
    drawn.add_nodes_from(range(graph.num_items))
    drawn.add_edges_from((one, other) for one, row in enumerate(graph.after) for other in row)
    for row in graph.turns if sequences is None else sequences:
        drawn.add_edges_from(pairwise(row))
    start: list[Number] = [0] * graph.num_items
    before = [-1] * graph.num_items
    durations, follows = graph.durations, drawn.adj
    try:
        for item in nx.topological_sort(drawn):
            end = start[item] + durations[item]
            for other in follows[item]:
                if end > start[other] or before[other] < 0:
                    start[other], before[other] = end, item
    except nx.NetworkXUnfeasible as error:
        raise PlanError(["the sequences wait for one another"]) from error
    last = max(range(graph.num_items), key=lambda item: start[item] + durations[item])
    path = [last]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return LongestPath(start[last] + durations[last], tuple(start), tuple(reversed(path)))
