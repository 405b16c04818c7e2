"""Tokens that stay on the node they come from: counted for any split, and made most for an optimal one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.plan import Routing

Pair = tuple[int, int]


def nodes_of(instance: RoutingInstance) -> tuple[int, list[int]]:
    """N, and the node of each GPU as a number below it."""
    ids, node = np.unique(instance.node, return_inverse=True)
    return len(ids), node.tolist()


def spread_of(instance: RoutingInstance, row: int) -> NDArray[np.float64]:
    """(E, N) tokens of each expert by the node they come from, rounded."""
    count, node = nodes_of(instance)
    if instance.sources is None:
        return np.outer(instance.loads[row], np.bincount(node, minlength=count) / len(node))
    found = np.zeros((instance.num_experts, count))
    np.add.at(found.T, node, instance.sources[row].astype(np.float64).T)
    return found


def local_tokens(instance: RoutingInstance, row: int, plan: Routing) -> float:
    """Most tokens of a layer that can stay on their node under a split."""
    if not plan.shares[row]:
        return 0.0
    node = np.array(nodes_of(instance)[1])
    expert, gpu, part = plan.columns(row)
    spread = spread_of(instance, row)
    there = np.zeros(spread.shape)
    tokens = part.astype(np.float64)
    if not plan.in_tokens:
        tokens = tokens * instance.loads[row][expert]
    np.add.at(there, (expert, node[gpu]), tokens)
    return float(np.minimum(there, spread).sum())


def _sources(instance: RoutingInstance, row: int, expert: int) -> list[Fraction]:
    """Tokens of one expert by the node they come from, exact; whole where tokens are, rounded down."""
    count, node = nodes_of(instance)
    found = [Fraction(0)] * count
    if instance.sources is None:
        load = exact(instance.loads[row, expert].item())
        found = [load * node.count(place) / len(node) for place in range(count)]
    else:
        for place, tokens in zip(node, instance.sources[row, expert].tolist(), strict=True):
            found[place] += exact(tokens)
    return [Fraction(tokens // 1) for tokens in found] if instance.whole else found


def most_local(instance: RoutingInstance, row: int, value: Fraction) -> dict[Pair, int]:
    """What each (expert, GPU) of a shared expert gets so that no GPU costs more than `value` and fewest tokens cross.

    A min-cost flow in whole numbers of a unit that makes all of them whole; with whole tokens that is one token. Under
    a floor of the whole expert tokens count as they weigh.
    """
    hosting, task = instance.hostings[row], instance.tasks[row]
    per_replica = instance.floor_rule == "per_replica"
    floor = instance.floor if per_replica else Fraction(0)
    room = [value * exact(pace) - exact(more) for pace, more in zip(instance.speed, instance.base[row], strict=True)]
    hosts: dict[int, list[Pair]] = {}
    for place, (expert, gpu) in enumerate(zip(hosting.expert.tolist(), hosting.gpu.tolist(), strict=True)):
        copies = int(hosting.copies[place])
        room[gpu] -= floor * copies
        if hosting.hosts[expert] == 1:
            room[gpu] -= int(task.weight[expert]) * task.unit
        elif instance.loads[row, expert] > 0 or task.weight[expert] > 0:
            hosts.setdefault(expert, []).append((gpu, copies))
    weights, stay = {}, {}
    for expert in hosts:
        load = exact(instance.loads[row, expert].item())
        weights[expert] = load if per_replica else max(load, instance.floor)
        heavier = weights[expert] / load if load else Fraction(0)
        stay[expert] = [tokens * heavier for tokens in _sources(instance, row, expert)]
    numbers = [*room, floor, *weights.values(), *(tokens for row_ in stay.values() for tokens in row_)]
    unit = 1 if instance.whole else math.lcm(*{number.denominator for number in numbers})
    return _flow(instance, hosts, weights, stay, room, floor, unit)


def _flow(
    instance: RoutingInstance,
    hosts: dict[int, list[Pair]],
    weights: dict[int, Fraction],
    stay: dict[int, list[Fraction]],
    room: list[Fraction],
    floor: Fraction,
    unit: int,
) -> dict[Pair, int]:
    """The flow on each pair; see *Locality* in ``models/routing.md``."""
    import networkx

    _, node = nodes_of(instance)
    graph: Any = networkx.DiGraph()
    for gpu, one in enumerate(room):
        graph.add_edge(("gpu", gpu), "sink", capacity=max(int(one * unit // 1), 0), weight=0)
    total = 0
    for expert, placed in hosts.items():
        supply = int(weights[expert] * unit)
        total += supply
        graph.add_node(("expert", expert), demand=-supply)
        for home in sorted({node[gpu] for gpu, _ in placed}):
            here, away = ("at", expert, home), ("away", expert, home)
            graph.add_edge(("expert", expert), here, capacity=int(stay[expert][home] * unit // 1), weight=0)
            graph.add_edge(("expert", expert), away, capacity=supply, weight=1)
            graph.add_edge(away, here, capacity=supply, weight=0)
        for gpu, copies in placed:
            pair = ("pair", expert, gpu)
            graph.add_edge(("at", expert, node[gpu]), pair, capacity=supply, weight=0)
            graph.add_edge(pair, ("gpu", gpu), capacity=supply, weight=0)
            if floor:
                graph.add_edge(pair, "sink", capacity=int(floor * copies * unit // 1), weight=0)
    graph.add_node("sink", demand=total)
    _, flow = networkx.network_simplex(graph)
    return {(e, g): sum(flow["pair", e, g].values()) for e, placed in hosts.items() for g, _ in placed}
