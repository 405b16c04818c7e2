"""Tokens that stay on the node they come from: counted for any split, and made most for an optimal one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.mincost import cheapest
from moeopt.kernels.splitting import Pairs
from moeopt.routing.fractional import settled
from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.plan import Routing


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


def _staying(
    instance: RoutingInstance, row: int, expert: int, supply: int, unit: int, node: list[int], alike: list[int]
) -> list[int]:
    """Units of one expert by the node they come from, rounded down; they weigh what the expert's tokens weigh.

    ``alike``: how many GPUs each node has.
    """
    count = len(alike)
    if not instance.loads[row, expert]:
        return [0] * count
    if instance.sources is None:
        return [supply * here // len(node) for here in alike]
    load = exact(instance.loads[row, expert].item())
    found = [Fraction(0)] * count
    for place, tokens in zip(node, instance.sources[row, expert].tolist(), strict=True):
        found[place] += exact(tokens)
    if instance.whole:
        return [int(tokens // 1) * unit for tokens in found]
    return [int(tokens * supply / load // 1) for tokens in found]


def most_local(instance: RoutingInstance, row: int, value: Fraction, *, compiled: bool = True) -> list[int]:
    """What each (P,) pair of a shared expert gets so that no GPU costs more than `value` and fewest tokens cross.

    A min-cost flow in whole numbers of a unit that makes all of them whole; with whole tokens that is one token. Under
    a floor of the whole expert tokens count as they weigh.
    """
    hosting, task = instance.hostings[row], instance.tasks[row]
    per, limit = task.unit.denominator, value / task.worth  # the task's unit is a part of a token
    unit = 1 if instance.whole else per * math.lcm(limit.denominator, *_bottoms(instance, row))
    base = settled(hosting, task).tolist()
    top, bottom = limit.numerator, limit.denominator * per
    costs = zip(task.speed.tolist(), base, strict=True)
    room = [(int(pace) * top - int(more) * limit.denominator) * unit // bottom for pace, more in costs]
    amounts = [int(amount) * unit // per for amount in task.amount[hosting.shared].tolist()]
    return _flow(instance, row, amounts, room, task.floor * unit // per, unit, hosting.pairs, compiled)


def _bottoms(instance: RoutingInstance, row: int) -> list[int]:
    """Denominators that make tokens from each node whole."""
    if instance.sources is None:
        return [instance.num_gpus]
    if instance.sources.dtype.kind == "i" and (instance.floor_rule == "per_replica" or not instance.floor):
        return [1]
    task, found = instance.tasks[row], {1}
    for expert in instance.hostings[row].shared.tolist():
        load = exact(instance.loads[row, expert].item())
        if load:
            heavier = task.amount[expert] * task.unit / load
            found |= {(exact(tokens) * heavier).denominator for tokens in instance.sources[row, expert].tolist()}
    return list(found)


def _flow(
    instance: RoutingInstance,
    row: int,
    amounts: list[int],
    room: list[int],
    floor: int,
    unit: int,
    pairs: Pairs,
    compiled: bool,
) -> list[int]:
    """The flow on each pair; see *Locality* in ``models/routing.md``."""
    hosting, (nodes, node) = instance.hostings[row], nodes_of(instance)
    alike = np.bincount(node, minlength=nodes).tolist()
    gpus = len(room)
    source, sink, count = gpus, gpus + 1, gpus + 2
    copies, shared = hosting.copies[hosting.on_shared].tolist(), hosting.shared.tolist()
    first, on = pairs.first.tolist(), pairs.gpu.tolist()
    edges = [(gpu, sink, max(one, 0), 0) for gpu, one in enumerate(room)]
    out: list[list[int]] = []  # the edges of each pair: to its GPU, and to what its floor pays for
    for expert, supply in enumerate(amounts):
        start, count = count, count + 1
        edges.append((source, start, supply, 0))
        stay = _staying(instance, row, shared[expert], supply, unit, node, alike)
        at: dict[int, int] = {}
        for place in range(first[expert], first[expert + 1]):
            gpu = on[place]
            home = node[gpu]
            if home not in at:
                at[home] = here = count
                count += 1
                edges += [(start, here, min(stay[home], supply), 0), (start, here, supply, 1)]
            out.append([len(edges)])
            edges.append((at[home], gpu, supply, 0))
            if floor:
                out[-1].append(len(edges))
                edges.append((at[home], sink, floor * copies[place], 0))
    total, flow = cheapest(count, edges, source, sink, compiled=compiled)
    assert total == sum(amounts), "the value lets all tokens through"
    return [sum(flow[one] for one in those) for those in out]
