"""Greedy growth: the next expert goes where it adds fewest copies, most selected first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import fill, nets
from moeopt.collocation.heuristics.starts import rooms
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of
from moeopt.registry import Context, Outcome

Ints = NDArray[np.int64]


def greedy(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Experts by falling load, each to the unit with room where it adds fewest copies; then to the emptier one."""
    held = []
    for row in range(instance.num_layers):
        loads = loads_of(instance, row)
        found = fill.into_slots(instance, grown(instance, row), loads, nets.search_units(instance))
        held.append(fill.fill_spare(instance, found, loads))
    return Outcome(Collocation.of(np.stack(held)))


def grown(instance: CollocationInstance, row: int) -> Ints:
    """(E,) unit of each expert."""
    net, room = nets.layer_net(instance, row), rooms(instance)
    unit, filled = np.full(instance.num_experts, -1, dtype=np.int64), np.zeros(len(room), dtype=np.int64)
    total = np.zeros(len(room))
    touched = np.zeros((len(net.weight), len(room)), dtype=bool)
    away = np.flatnonzero(net.home >= 0)
    touched[away, net.home[away]] = True  # a copy to the home costs nothing
    for expert in np.argsort(-net.load[: instance.num_experts], kind="stable"):
        rows = net.rows[net.first[expert] : net.first[expert + 1]]
        added = (net.weight[rows] @ ~touched[rows]) * net.price
        over = total + net.load[expert] > net.cap
        order = np.lexsort((np.arange(len(room)), filled / np.maximum(room, 1), added, over, filled >= room))
        best = int(order[0])
        unit[expert] = best
        filled[best] += 1
        total[best] += net.load[expert]
        touched[rows, best] = True
    return unit
