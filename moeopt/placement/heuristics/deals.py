"""Which groups go to which node: every deal of a layer, ordered by a bound that sees slots, not only sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.placement.heuristics.eplb import group_members
from moeopt.placement.instance import PlacementInstance

MOST_DEALS = 20_000
"""More deals than this are not enumerated."""

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
        gpus = [gpu for gpu, home in enumerate(instance.node) if home == node]
        kinds.add(tuple(sorted((instance.slots[gpu], instance.speed[gpu]) for gpu in gpus)))
    return len(kinds) == 1


def enumerable(instance: PlacementInstance) -> bool:
    """Whether all deals can be looked at."""
    if not instance.hierarchical or instance.groups is None or not alike(instance):
        return False
    return num_deals(len(set(instance.groups)), len(instance.node_ids)) <= MOST_DEALS


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


def subset_bounds(instance: PlacementInstance) -> dict[tuple[int, ...], NDArray[np.float64]]:
    """(L,) floor under the busiest GPU of a node that gets a set of groups: mean and largest replica, even split."""
    members = group_members(instance)
    each = len(members) // len(instance.node_ids)
    gpus = [gpu for gpu, home in enumerate(instance.node) if home == instance.node_ids[0]]
    slots = sum(instance.slots[gpu] for gpu in gpus)
    speed = sum(instance.speed[gpu] for gpu in gpus)
    fastest = max(instance.speed[gpu] for gpu in gpus)
    usable = sum(instance.slots[gpu] > 0 for gpu in gpus)
    found = {}
    for subset in combinations(range(len(members)), each):
        weights = instance.weights[:, members[list(subset)].ravel()]
        bound = weights.sum(axis=1) / speed
        if instance.split == "even":
            counts = greedy_counts(weights, slots, usable if instance.distinct else None)
            bound = np.maximum(bound, (weights / counts).max(axis=1) / fastest)
        found[subset] = bound
    return found


def ranked_deals(instance: PlacementInstance) -> list[list[tuple[float, Deal]]]:
    """Per layer the deals by rising bound; the first one's bound holds for every plan of that layer."""
    assert instance.groups is not None
    bounds = subset_bounds(instance)
    deals = all_deals(len(set(instance.groups)), len(instance.node_ids))
    places = {subset: place for place, subset in enumerate(bounds)}
    table = np.array(list(bounds.values()))  # (subsets, L)
    index = np.array([[places[subset] for subset in deal] for deal in deals])  # (deals, N)
    values = table[index]  # (deals, N, L)
    tops, squares = values.max(axis=1), (values**2).sum(axis=1)
    ranked = []
    for row in range(instance.num_layers):
        order = np.lexsort((squares[:, row], tops[:, row]))
        ranked.append([(float(tops[place, row]), deals[place]) for place in order])
    return ranked
