"""Cheapest maximum flow in whole numbers: shortest paths of one length after another, all of a length at once.

Costs are whole and small, so there are few lengths; for each, Dinic's blocking flows go along shortest paths only.
int64 when compiled, Python integers of any size when interpreted. L. R. Ford, D. R. Fulkerson, Flows in Networks, 1962.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

FAR = 2**62


@jit
def min_cost_flow(first, arcs, head, cost, left, source, sink):  # type: ignore[no-untyped-def]
    """Push all that can flow from `source` to `sink`, as cheaply as can be; what flowed.

    Parameters
    ----------
    first, arcs
        (N + 1,) and (A,) the arcs that leave each node.
    head, cost
        (A,) where an arc ends and its cost; arc ``k ^ 1`` is arc `k` backwards, at the opposite cost. No circle may
        cost less than 0.
    left
        (A,) what may still flow along an arc; updated.
    """
    nodes = len(first) - 1
    far = np.zeros(nodes, np.int64)
    level = np.zeros(nodes, np.int64)
    queue = np.zeros(nodes, np.int64)
    waits = np.zeros(nodes, np.bool_)
    place = np.zeros(nodes, np.int64)
    path = np.zeros(nodes, np.int64)
    total = 0 * left[0]
    while True:
        for node in range(nodes):
            far[node] = FAR
        far[source] = 0
        queue[0] = source
        start, count = 0, 1
        while count > 0:  # shortest paths, by a queue
            tail = queue[start]
            start = (start + 1) % nodes
            count -= 1
            waits[tail] = False
            for k in range(first[tail], first[tail + 1]):
                arc = arcs[k]
                to = head[arc]
                if left[arc] > 0 and far[tail] + cost[arc] < far[to]:
                    far[to] = far[tail] + cost[arc]
                    if not waits[to]:
                        waits[to] = True
                        queue[(start + count) % nodes] = to
                        count += 1
        if far[sink] >= FAR:
            return total
        while True:
            for node in range(nodes):
                level[node] = -1
                place[node] = first[node]
            level[source] = 0
            queue[0] = source
            start, count = 0, 1
            while start < count and level[sink] < 0:
                tail = queue[start]
                start += 1
                for k in range(first[tail], first[tail + 1]):
                    arc = arcs[k]
                    to = head[arc]
                    if left[arc] > 0 and level[to] < 0 and far[to] == far[tail] + cost[arc]:
                        level[to] = level[tail] + 1
                        queue[count] = to
                        count += 1
            if level[sink] < 0:
                break
            length, at = 0, source
            while True:
                if at == sink:  # a path: push what fits, and go on from its first full arc
                    amount = left[path[0]]
                    for step in range(1, length):
                        amount = min(amount, left[path[step]])
                    kept = length
                    for step in range(length - 1, -1, -1):
                        left[path[step]] -= amount
                        left[path[step] ^ 1] += amount
                        if left[path[step]] == 0:
                            kept = step
                    total += amount
                    length = kept
                    at = head[path[length] ^ 1]
                    continue
                moved = False
                while place[at] < first[at + 1]:
                    arc = arcs[place[at]]
                    to = head[arc]
                    if left[arc] > 0 and level[to] == level[at] + 1 and far[to] == far[at] + cost[arc]:
                        path[length] = arc
                        length += 1
                        at = to
                        moved = True
                        break
                    place[at] += 1
                if moved:
                    continue
                if length == 0:
                    break
                length -= 1  # a dead end: back, and not here again
                at = head[path[length] ^ 1]
                place[at] += 1


def cheapest(
    nodes: int, edges: Sequence[tuple[int, int, int, int]], source: int, sink: int, *, compiled: bool = True
) -> tuple[int, list[int]]:
    """What can flow at most, and what flows along each edge (from, to, capacity, cost) where that is cheapest.

    >>> cheapest(4, [(0, 1, 3, 0), (0, 2, 3, 0), (1, 3, 2, 1), (2, 3, 4, 0), (1, 2, 1, 0)], 0, 3)
    (6, [3, 3, 2, 4, 1])
    """
    if not edges:
        return 0, []
    tails, heads, room, prices = zip(*edges, strict=True)
    fits = sum(room) < FAR
    left: NDArray[Any] = np.zeros(2 * len(edges), dtype=np.int64 if fits else object)
    left[::2] = room
    tail, head = np.array([tails, heads]).T.reshape(-1), np.array([heads, tails]).T.reshape(-1)
    cost = np.multiply.outer(np.array(prices, dtype=np.int64), np.array([1, -1])).reshape(-1)
    arcs = np.argsort(tail, kind="stable")
    first = np.searchsorted(tail[arcs], np.arange(nodes + 1)).astype(np.int64)
    run = min_cost_flow if fits and compiled else min_cost_flow.plain()
    total = run(first, arcs, head, cost, left, source, sink)
    return int(total), left[1::2].tolist()
