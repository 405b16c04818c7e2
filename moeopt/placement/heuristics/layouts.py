"""Starts for a search under an engine's dispatch rule: replica counts and nodes that share the sources equally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """`per_node` replicas on each of `nodes` nodes; `lump` is what the busiest of them gets too much, relatively.

    `turns` tells whether the engine's own order matters: not where a node holds one replica, all, or one a GPU.
    """

    nodes: int
    per_node: int
    lump: float
    turns: bool


def layouts(count: int, sources: Sequence[int]) -> list[Layout]:
    """Ways to put `count` replicas on equally many GPUs of some nodes, the most equal ones.

    >>> [(way.nodes, way.per_node, way.lump) for way in layouts(8, (8, 8, 8, 8))]
    [(1, 8, 0.0), (4, 2, 0.0), (2, 4, 0.0)]
    >>> [(way.nodes, way.per_node, round(way.lump, 3)) for way in layouts(3, (32,))]
    [(1, 3, 0.031)]
    """
    sizes = [size for size in sources if size]
    size, num_nodes, everyone = min(sizes), len(sizes), sum(sizes)
    found = []
    for nodes in range(1, min(count, num_nodes) + 1):
        per_node, rest = divmod(count, nodes)
        if rest or per_node > size:
            continue
        away = everyone - nodes * size
        most = 1 + -(-(size - per_node) // per_node) + -(-away // count)
        turns = nodes > 1 and 1 < per_node < size
        found.append(Layout(nodes, per_node, max(most * count / everyone - 1.0, 0.0), turns))
    least = min((way.lump for way in found), default=0.0)
    return sorted((way for way in found if way.lump <= least + 1e-12), key=lambda way: (way.turns, -way.nodes))


def lumps(most: int, sources: Sequence[int]) -> Floats:
    """(most + 1,) least lump of each count, infinite for counts that no layout has.

    >>> lumps(4, (4,)).round(3).tolist()
    [inf, 0.0, 0.0, 0.5, 0.0]
    """
    least = np.full(most + 1, np.inf)
    for count in range(1, most + 1):
        ways = layouts(count, sources)
        if ways:
            least[count] = ways[0].lump
    return least


def nice_counts(loads: Floats, num_slots: int, allowed: Ints, fill: bool) -> Ints | None:
    """(E,) counts out of `allowed` (ascending, from 1) with the least largest piece; ``None`` if slots are left over.

    >>> nice_counts(np.array([9.0, 5.0, 1.0]), 7, np.array([1, 2, 4]), True).tolist()
    [4, 2, 1]
    """
    place = np.zeros(len(loads), dtype=np.int64)
    spare = num_slots - len(loads)
    pieces = loads.copy()
    while spare > 0:  # the largest piece is divided further, while it can be; then whatever still can
        expert = int(pieces.argmax())
        if pieces[expert] < 0:
            break
        following = place[expert] + 1
        step = int(allowed[following] - allowed[place[expert]]) if following < len(allowed) else spare + 1
        if step > spare:
            pieces[expert] = -1.0
            continue
        place[expert] += 1
        spare -= step
        pieces[expert] = loads[expert] / allowed[place[expert]]
    counts = allowed[place]
    return None if spare and fill else counts


def placed(
    loads: Floats, counts: Ints, slots: Ints, pace: Floats, base: Floats, node: Ints, sources: Sequence[int]
) -> Ints | None:
    """(S,) experts in slots: pieces largest first, each on its layout's cheapest GPUs; ``None`` if one finds no room.

    Parameters
    ----------
    loads, counts
        (E,) load and replicas of each expert.
    slots, pace, base, node
        (G,) slots, reciprocal speed, constant load and node 0..N-1 of each GPU.
    sources
        N source GPUs of each node.
    """
    total, free = base.copy(), slots.copy()
    held: list[list[int]] = [[] for _ in slots]
    ways = {int(count): layouts(int(count), sources) for count in np.unique(counts)}
    by_node = [np.flatnonzero(node == place) for place in range(len(sources))]
    for expert in np.argsort(-loads / counts, kind="stable").tolist():
        count = int(counts[expert])
        piece = loads[expert] / count
        cost = np.where(free > 0, (total + piece) * pace, np.inf)
        chosen = [int(cost.argmin())] if count == 1 else _cheapest(cost, ways[count], by_node)
        if not chosen or not np.isfinite(cost[chosen]).all():
            return None
        for gpu in chosen:
            total[gpu] += piece
            free[gpu] -= 1
            held[gpu].append(expert)
    return np.concatenate([[*row, *[-1] * int(left)] for row, left in zip(held, free, strict=True)]).astype(np.int64)


def _cheapest(cost: Floats, ways: list[Layout], by_node: list[Ints]) -> list[int]:
    """GPUs of the layout whose dearest GPU costs least."""
    ranked = [gpus[np.argsort(cost[gpus], kind="stable")] for gpus in by_node]
    best, chosen = np.inf, []
    for way in ways:
        last = np.array([cost[gpus[way.per_node - 1]] if len(gpus) >= way.per_node else np.inf for gpus in ranked])
        nodes = np.argsort(last, kind="stable")[: way.nodes]
        if last[nodes[-1]] < best:
            best = float(last[nodes[-1]])
            chosen = [int(gpu) for place in nodes for gpu in ranked[place][: way.per_node]]
    return chosen
