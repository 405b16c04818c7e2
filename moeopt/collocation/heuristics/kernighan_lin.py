"""Kernighan and Lin's bisection of the pair graph, by networkx, applied again to either half."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import fill, nets
from moeopt.collocation.heuristics.starts import rooms
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of, rows_of
from moeopt.limits import Deadline
from moeopt.registry import Context, Outcome

Ints = NDArray[np.int64]

TRIES = 3
"""Random bisections to begin from."""
PAIR_S = 3e-5
"""Seconds, about, of a try for each pair of experts that tokens select together."""


def kernighan_lin(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Recursive bisection of the graph whose weights are pairs of experts selected together."""
    held = []
    for row in range(instance.num_layers):
        unit, loads = halves(instance, row, context.seed, context.deadline), loads_of(instance, row)
        found = fill.into_slots(instance, unit, loads, nets.search_units(instance))
        held.append(fill.fill_spare(instance, found, loads))
    return Outcome(Collocation.of(np.stack(held)))


def least_s(instance: CollocationInstance, row: int) -> float:
    """Seconds, about, that `halves` takes: twice the first cut."""
    pairs = rows_of(instance, row).pairs(instance.num_experts)
    return 2 * TRIES * PAIR_S * float((pairs > 0).sum()) / 2


def halves(instance: CollocationInstance, row: int, seed: int, deadline: Deadline) -> Ints:
    """(E,) unit of each expert, by recursive bisection, the best of some tries at every cut.

    A try is not begun that cannot be expected to end in time: experts are then cut as the first try begins.
    """
    pairs = rows_of(instance, row).pairs(instance.num_experts)
    room = rooms(instance)
    share = np.floor(np.cumsum(room) * instance.num_experts / room.sum() + 1e-9).astype(np.int64)
    size = np.diff(np.concatenate([[0], share]))
    unit = np.zeros(instance.num_experts, dtype=np.int64)
    open_parts = [(np.arange(instance.num_experts), 0, len(room))]
    while open_parts:
        experts, first, end = open_parts.pop()
        if end - first == 1:
            unit[experts] = first
            continue
        middle = (first + end) // 2
        left = int(size[first:middle].sum())
        part = _bisect(pairs[np.ix_(experts, experts)], left, seed, deadline)
        open_parts += [(experts[part], first, middle), (experts[~part], middle, end)]
    return unit


def _bisect(pairs: Ints, left: int, seed: int, deadline: Deadline) -> NDArray[np.bool_]:
    """Which of the experts are in the first part, `left` of them; the least pairs apart of all tries."""
    size = len(pairs)
    graph: nx.Graph = nx.Graph()
    one, other = np.nonzero(np.triu(pairs, 1))
    if deadline.remaining_s() < PAIR_S * len(one):
        mine = np.zeros(size, dtype=bool)
        mine[np.random.default_rng([seed, 0, size]).permutation(size)[:left]] = True
        return mine
    graph.add_nodes_from(range(size))
    graph.add_weighted_edges_from(zip(one.tolist(), other.tolist(), pairs[one, other].tolist(), strict=True))
    best, least = np.zeros(size, dtype=bool), np.inf
    for turn in range(TRIES):
        if turn and deadline.remaining_s() < PAIR_S * len(one):
            break
        order = np.random.default_rng([seed, turn, size]).permutation(size).tolist()
        start = (set(order[:left]), set(order[left:]))
        found = start
        if 0 < left < size:
            found = nx.community.kernighan_lin_bisection(graph, partition=start, weight="weight", seed=turn + seed)
        mine = np.zeros(size, dtype=bool)
        mine[sorted(found[0])] = True
        if mine.sum() != left:
            mine = ~mine
        apart = float(pairs[np.ix_(mine, ~mine)].sum())
        if apart < least and mine.sum() == left:
            best, least = mine, apart
    return best
