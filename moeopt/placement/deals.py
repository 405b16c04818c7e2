"""Deals: which groups go to which node. All of them are listed where that is feasible, and ordered by a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance

MOST_DEALS = 20_000
"""More deals than this are not listed."""
MOST_ENTRIES = 2_000_000
"""Nor are deals whose subsets of groups have more (layer, subset, expert) entries: half a second and 16 MB a table."""

Deal = tuple[tuple[int, ...], ...]
"""Per node the groups it gets."""


def num_deals(num_groups: int, num_nodes: int) -> int:
    """Ways to deal groups to nodes that are all alike.

    >>> num_deals(8, 4), num_deals(4, 2)
    (105, 3)
    """
    each = num_groups // num_nodes
    return math.factorial(num_groups) // int(math.factorial(each) ** num_nodes * math.factorial(num_nodes))


def alike(instance: PlacementInstance) -> bool:
    """Whether all nodes have the same slots and speeds, in any order of their GPUs."""
    kinds = set()
    for node in instance.node_ids:
        gpus = gpus_of_node(instance, node)
        kinds.add(tuple(sorted((instance.slots[gpu], instance.speed[gpu]) for gpu in gpus)))
    return len(kinds) == 1


def enumerable(instance: PlacementInstance) -> bool:
    """Whether all deals can be looked at."""
    if not instance.hierarchical or instance.groups is None or not alike(instance):
        return False
    num_groups, num_nodes = len(set(instance.groups)), len(instance.node_ids)
    if num_deals(num_groups, num_nodes) > MOST_DEALS:
        return False
    size = math.comb(num_groups, num_groups // num_nodes) * (instance.num_experts // num_nodes) * instance.num_layers
    return size <= MOST_ENTRIES


@cache
def all_deals(num_groups: int, num_nodes: int) -> tuple[Deal, ...]:
    """Every deal to nodes that are alike, each once."""

    def split(rest: tuple[int, ...]) -> Iterator[Deal]:
        if not rest:
            yield ()
            return
        first, others = rest[0], rest[1:]
        for mates in combinations(others, num_groups // num_nodes - 1):
            mine = (first, *mates)
            for tail in split(tuple(group for group in others if group not in mates)):
                yield (mine, *tail)

    return tuple(split(tuple(range(num_groups))))


def group_members(instance: PlacementInstance) -> NDArray[np.int64]:
    """(Q, E/Q) experts of each group, groups by ascending id."""
    groups = np.array(instance.groups)
    return np.array([np.flatnonzero(groups == group) for group in np.unique(groups)])


def gpus_of_node(instance: PlacementInstance, node: int) -> list[int]:
    """GPUs of a node, ascending."""
    return [gpu for gpu, home in enumerate(instance.node) if home == node]


def subsets(instance: PlacementInstance) -> list[tuple[int, ...]]:
    """Every set of groups that one node may get."""
    members = group_members(instance)
    return list(combinations(range(len(members)), len(members) // len(instance.node_ids)))


def on_one_node(instance: PlacementInstance, rows: list[int]) -> PlacementInstance:
    """A flat instance of one node: its layers are all subsets of groups, for each of some rows of the loads."""
    members = group_members(instance)
    experts = np.array([members[list(subset)].ravel() for subset in subsets(instance)])
    gpus = gpus_of_node(instance, instance.node_ids[0])
    return PlacementInstance(
        instance.loads[np.array(rows)][:, experts].reshape(-1, experts.shape[1]),
        slots=[instance.slots[gpu] for gpu in gpus],
        speed=[instance.speed[gpu] for gpu in gpus],
        steps=instance.steps,
        floor_tokens=instance.floor_tokens,
        floor_rule=instance.floor_rule,
        split=instance.split,
        fill=instance.fill,
        distinct=instance.distinct,
    )


def least_worst(instance: PlacementInstance, values: list[Fraction]) -> tuple[list[int], int]:
    """Order of all deals by their worst subset, exact, and the subset that decides the best one.

    Parameters
    ----------
    values
        One value for each of `subsets`.

    Returns
    -------
    (list, int)
        Deals by rising worst value, then by rising sum of squares; index of the deciding subset.
    """
    table = _deal_table(len(set(instance.groups or ())), len(instance.node_ids))
    ranks = {value: rank for rank, value in enumerate(sorted(set(values)))}
    rank = np.array([ranks[value] for value in values])
    size = np.array([float(value) for value in values])
    size /= size.max() or 1.0  # squares of huge loads would overflow
    worst = rank[table].max(axis=1)
    order = np.lexsort(((size[table] ** 2).sum(axis=1), worst))
    best = table[order[0]]
    return order.tolist(), int(best[rank[best].argmax()])


@cache
def _deal_table(num_groups: int, num_nodes: int) -> NDArray[np.int64]:
    """(deals, N) index into `subsets` of every node's share."""
    places = {subset: place for place, subset in enumerate(combinations(range(num_groups), num_groups // num_nodes))}
    return np.array([[places[subset] for subset in deal] for deal in all_deals(num_groups, num_nodes)])
