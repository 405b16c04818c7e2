"""Replicas: random swaps and changes of slots, priced under the replica rule; and experts put into slots of GPUs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import nets
from moeopt.collocation.heuristics.pace import paced
from moeopt.collocation.instance import RULES, CollocationInstance
from moeopt.collocation.rows import Rows, loads_of
from moeopt.kernels import connectivity
from moeopt.kernels.connectivity import Hosting, Net
from moeopt.limits import Deadline

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_CELLS = 1 << 26
"""Rows x classes x units beyond which counters would fill the memory."""


def classes(instance: CollocationInstance, units: Ints) -> tuple[Ints, Ints]:
    """One GPU of every class of sources that are alike, and how many GPUs it stands for."""
    if instance.replica_rule == "even" or len(np.unique(units)) == instance.num_gpus:
        return np.arange(instance.num_gpus), np.ones(instance.num_gpus, dtype=np.int64)
    _, first, count = np.unique(units, return_index=True, return_counts=True)
    return first.astype(np.int64), count.astype(np.int64)


def hosting(instance: CollocationInstance, units: Ints) -> Hosting:
    """The kernel's view of slots and sources."""
    gpus, _ = classes(instance, units)
    _, first = np.unique(units, return_index=True)
    group = instance.landing
    return Hosting(
        units[instance.gpu_of_slot].astype(np.int64),
        group[first].astype(np.int64),
        units[gpus].astype(np.int64),
        group[gpus].astype(np.int64),
        instance.place_in_node[gpus].astype(np.int64),
        RULES.index(instance.replica_rule),
        instance.fill == "at_most",
    )


def class_net(instance: CollocationInstance, row: int, rate: Floats) -> Net:
    """The net whose members are (class, expert) pairs: every class with rows of its own."""
    units, loads = nets.search_units(instance), loads_of(instance, row)
    gpus, size = classes(instance, units)
    rows, experts = nets.search_rows(instance, row), instance.num_experts
    sets, weight, source, share = [], [], [], np.zeros((len(gpus), experts))
    for place, gpu in enumerate(gpus):
        if instance.source is None:
            mine, times = np.ones(len(rows.sets), dtype=bool), int(size[place])
            share[place] = loads * times / instance.num_gpus
        else:
            mine, times = units[rows.source] == units[gpu], 1
            if instance.replica_rule == "even":
                mine = rows.source == gpu
            share[place] = Rows(rows.sets[mine], rows.weight[mine], rows.source[mine]).loads(experts)
        part = rows.sets[mine]
        sets.append(np.where(part >= 0, part + place * experts, -1))
        weight.append(rows.weight[mine] * times)
        source.append(np.full(int(mine.sum()), gpu))
    every = Rows(np.concatenate(sets), np.concatenate(weight), np.concatenate(source))
    inside = np.bincount(units)
    price = np.full(len(inside), 1.0 / instance.num_gpus if instance.source is None else 1.0)
    if instance.objective == "tokens":  # what a GPU gets from itself is work too
        every = Rows(every.sets, every.weight, np.full(len(every.weight), -1))
        price = np.zeros(len(inside))
    return nets.net(
        every, share.reshape(-1), units, len(gpus) * experts, price, rate, nets.caps(instance, units, loads)
    )


def improved(
    instance: CollocationInstance,
    row: int,
    held: Ints,
    rate: Floats,
    rounds: int,
    rng: Ints,
    fast: bool,
    deadline: Deadline,
) -> Ints:
    """(S,) experts in slots after `rounds` tries, no expert twice in a unit where that was so before.

    A deadline ends the tries; none is begun that there is no time for.
    """
    units = nets.search_units(instance)
    gpus, _ = classes(instance, units)
    if len(gpus) * len(nets.search_rows(instance, row).weight) * len(np.unique(units)) > MOST_CELLS:
        return held
    slot_unit = units[instance.gpu_of_slot]
    key = slot_unit * (instance.num_experts + 1) + held
    if len(np.unique(key[held >= 0])) < (held >= 0).sum():
        return held
    found = held.copy()
    net, where = class_net(instance, row, rate), hosting(instance, units)
    call = connectivity.replicate if fast else connectivity.replicate.plain()
    timed = bool(rate.any())
    paced(lambda now: call(net, where, found, instance.num_experts, timed, now, rng), rounds, net, fast, deadline)
    return seated(instance, found, loads_of(instance, row), units)


def seated(instance: CollocationInstance, held: Ints, loads: Ints, units: Ints) -> Ints:
    """The same experts in the same units, heaviest replica first to the GPU of the unit that has least."""
    counts = np.bincount(held[held >= 0], minlength=instance.num_experts)
    each = loads / np.maximum(counts, 1)
    found = np.full_like(held, -1)
    slot_unit = units[instance.gpu_of_slot]
    start = np.concatenate([[0], np.cumsum(instance.slots)])
    for unit in np.unique(units):
        experts = held[(slot_unit == unit) & (held >= 0)]
        gpus = np.flatnonzero(units == unit)
        filled, total = np.zeros(len(gpus), np.int64), np.zeros(len(gpus))
        for expert in experts[np.lexsort((experts, -each[experts]))]:
            lacks = [int(expert) not in found[start[g] : start[g] + n] for g, n in zip(gpus, filled, strict=True)]
            open_gpus = np.flatnonzero((filled < instance.slots[gpus]) & np.array(lacks))
            if not len(open_gpus):
                return held
            best = open_gpus[np.lexsort((open_gpus, filled[open_gpus], total[open_gpus]))[0]]
            found[start[gpus[best]] + filled[best]] = expert
            filled[best] += 1
            total[best] += each[expert]
    return found
