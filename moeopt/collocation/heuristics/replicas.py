"""Replicas: put where they spare most, then random swaps and changes of slots, priced under the replica rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import fill, nets
from moeopt.collocation.heuristics.pace import SLICE, paced
from moeopt.collocation.instance import RULES, CollocationInstance
from moeopt.collocation.rows import Rows, loads_of
from moeopt.collocation.rules import dispatch_table
from moeopt.kernels import connectivity
from moeopt.kernels import replicas as kernel
from moeopt.kernels.connectivity import Hosting, Net
from moeopt.kernels.replicas import BITS, Field
from moeopt.limits import Deadline

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_CELLS = 1 << 26
"""Rows x classes x units beyond which counters would fill the memory."""
SLACKS = (0.0, 0.3, 0.1, 0.03)
"""Share of the score that a change may be worse by at first, slice by slice."""
MOST_WORK = 1 << 30
"""Empty slots x experts x units x classes beyond which looking for the best replica takes too long."""


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


def _of_class(instance: CollocationInstance, rows: Rows, units: Ints, gpu: int) -> NDArray[np.bool_]:
    """(M,) rows of the class that a GPU stands for."""
    if instance.source is None:
        return np.ones(len(rows.sets), dtype=bool)
    found: NDArray[np.bool_] = (
        rows.source == gpu if instance.replica_rule == "even" else units[rows.source] == units[gpu]
    )
    return found


def shares(instance: CollocationInstance, row: int, units: Ints) -> Floats:
    """(C, E) tokens of each class of sources for each expert."""
    gpus, size = classes(instance, units)
    if instance.source is None:
        return loads_of(instance, row) * size[:, None] / instance.num_gpus
    rows, found = nets.search_rows(instance, row), np.zeros((len(gpus), instance.num_experts))
    for place, gpu in enumerate(gpus):
        mine = _of_class(instance, rows, units, int(gpu))
        found[place] = Rows(rows.sets[mine], rows.weight[mine], rows.source[mine]).loads(instance.num_experts)
    return found


def class_net(instance: CollocationInstance, row: int, rate: Floats, *, capped: bool = False) -> Net:
    """The net whose members are (class, expert) pairs: every class with rows of its own."""
    units, loads = nets.search_units(instance), loads_of(instance, row)
    gpus, size = classes(instance, units)
    rows, experts = nets.search_rows(instance, row), instance.num_experts
    sets, weight, source, share = [], [], [], shares(instance, row, units)
    for place, gpu in enumerate(gpus):
        mine, times = _of_class(instance, rows, units, int(gpu)), int(size[place]) if instance.source is None else 1
        part = rows.sets[mine]
        sets.append(np.where(part >= 0, part + place * experts, -1))
        weight.append(rows.weight[mine] * times)
        source.append(np.full(int(mine.sum()), gpu))
    every = Rows(np.concatenate(sets), np.concatenate(weight), np.concatenate(source))
    if instance.objective == "tokens":  # what a GPU gets from itself is work too
        every = Rows(every.sets, every.weight, np.full(len(every.weight), -1))
    return nets.net(
        every, share.reshape(-1), units, len(gpus) * experts, _price(instance, units), rate,
        nets.caps(instance, units, loads),
        nets.seats(instance, units, loads, capped=capped),
    )  # fmt: skip


def class_of(instance: CollocationInstance, units: Ints) -> Ints:
    """(G,) the class of sources that each GPU is in, by its place among `classes`."""
    gpus, _ = classes(instance, units)
    return np.arange(instance.num_gpus) if len(gpus) == instance.num_gpus else np.unique(units, return_inverse=True)[1]


def words(table: NDArray[np.bool_]) -> Ints:
    """(..., W) the bits of a table (..., C).

    >>> words(np.array([[True, False, True], [False, False, True]])).tolist()
    [[5], [4]]
    """
    count = -(-table.shape[-1] // BITS)
    found = np.zeros((*table.shape[:-1], count * BITS), dtype=np.int64)
    found[..., : table.shape[-1]] = table
    bits: Ints = (found.reshape(*table.shape[:-1], count, BITS) << np.arange(BITS)).sum(axis=-1)
    return bits


def field_of(instance: CollocationInstance, row: int, rate: Floats, *, capped: bool = False) -> Field:
    """The layer's own rows, with what tells the classes of sources apart."""
    units, loads = nets.search_units(instance), loads_of(instance, row)
    gpus, size = classes(instance, units)
    rows, share = nets.search_rows(instance, row), shares(instance, row, units)
    one = nets.net(
        rows, loads, units, instance.num_experts, _price(instance, units), rate, nets.caps(instance, units, loads),
        nets.seats(instance, units, loads, capped=capped),
    )  # fmt: skip
    if instance.source is None:
        of, sizes = np.full(len(rows.weight), -1), size
    else:
        of, sizes = class_of(instance, units)[rows.source], np.ones_like(size)
    away = np.arange(len(one.price))[:, None] != units[gpus]
    if instance.objective == "tokens":  # what a GPU gets from itself is work too
        away[:] = True
    distinct = np.unique(sizes)
    return Field(
        one.start, one.member, one.weight, of.astype(np.int64), one.first, one.rows, share, words(away),
        words(sizes == distinct[:, None]), distinct, one.price, one.rate, one.cap, one.room, one.seat, one.top,
    )  # fmt: skip


def _price(instance: CollocationInstance, units: Ints) -> Floats:
    """(U,) what a copy from one source costs; nothing where tokens are counted."""
    each = 0.0 if instance.objective == "tokens" else 1.0 / instance.num_gpus if instance.source is None else 1.0
    return np.full(len(np.unique(units)), each)


def apart(instance: CollocationInstance, held: Ints) -> Ints:
    """(S,) the same without second replicas in a unit: their slots are empty.

    >>> two = CollocationInstance([[0, 1]], experts=2, nodes=1, gpus=2, slots=4)
    >>> apart(two, np.array([0, 1, 1, 0])).tolist()
    [0, 1, -1, -1]
    """
    key = nets.search_units(instance)[instance.gpu_of_slot] * (instance.num_experts + 1) + held
    _, first = np.unique(key, return_index=True)
    found = np.full_like(held, -1)
    found[first] = held[first]
    return found


@dataclass(frozen=True, eq=False)
class Spare:
    """A layer with slots to spare, ready for the kernels.

    Parameters
    ----------
    rate
        (U,) time that a copy adds to a unit; all 0 where only copies count.
    capped
        Whether no GPU may come above the load cap, and not only no unit.
    """

    instance: CollocationInstance
    row: int
    rate: Floats
    fast: bool
    deadline: Deadline
    capped: bool = False

    @cached_property
    def units(self) -> Ints:
        """(G,) units that replicas are put into."""
        return nets.search_units(self.instance)

    @cached_property
    def net(self) -> Net:
        """The layer seen from every class of sources."""
        return class_net(self.instance, self.row, self.rate, capped=self.capped)

    @cached_property
    def field(self) -> Field:
        """The layer with its classes as bits."""
        return field_of(self.instance, self.row, self.rate, capped=self.capped)

    @cached_property
    def hosting(self) -> Hosting:
        """Its slots."""
        return hosting(self.instance, self.units)

    def fits(self) -> bool:
        """Whether the counters fit into memory."""
        num_classes, num_units = len(classes(self.instance, self.units)[0]), len(np.unique(self.units))
        return num_classes * len(nets.search_rows(self.instance, self.row).weight) * num_units <= MOST_CELLS

    def grown(self, held: Ints, part: float) -> Ints:
        """(S,) empty slots given to the replicas that spare most, with `part` of what they spare together.

        Slots stay empty where nothing is spared and they may, or every expert is in the unit.
        """
        found, must = apart(self.instance, held), self.instance.fill == "all"
        empty = int((found < 0).sum())
        work = empty * self.instance.num_experts * len(self.net.price) * len(self.hosting.class_unit)
        if empty and work <= (MOST_WORK if self.fast else MOST_WORK // 200):
            call = connectivity.grow if self.fast else connectivity.grow.plain()
            experts, timed = self.instance.num_experts, bool(self.rate.any())
            self._paced(
                lambda most: call(self.net, self.hosting, found, experts, timed, part, must, most), empty, self.net
            )
        return self.seated(found)

    def changed(self, held: Ints, tries: int, rng: Ints) -> Ints:
        """(S,) experts in slots after so many tries, or fewer where a deadline ends them; no worse by the net's score.

        Every slice begins with the best plan so far and other slack.
        """
        found, timed = apart(self.instance, held), bool(self.rate.any())
        call, slack = kernel.replicate if self.fast else kernel.replicate.plain(), cycle(SLACKS)
        for first in range(0, tries, SLICE):
            if self.deadline.passed():
                break
            self._paced(
                lambda now: call(self.field, self.hosting, found, timed, now, next(slack), rng),
                min(SLICE, tries - first),
                self.field,
            )
        return self.seated(found)

    def _paced(self, run: Callable[[int], object], rounds: int, net: Net | Field) -> None:
        paced(run, rounds, net, self.fast, self.deadline)

    def seated(self, held: Ints) -> Ints:
        """(S,) experts of a unit on its GPUs by load, and slots filled that must be."""
        loads = loads_of(self.instance, self.row)
        return fill.fill_spare(self.instance, seated(self.instance, self.row, held, self.units), loads)


def sent(instance: CollocationInstance, row: int, held: Ints, units: Ints) -> Floats:
    """(U, E) tokens that each unit gets for each expert; every expert at most once in a unit."""
    gpus, _ = classes(instance, units)
    unit_of = units[instance.gpu_of_slot[dispatch_table(instance, held)[gpus]]]
    found, experts = np.zeros((len(np.unique(units)), instance.num_experts)), np.arange(instance.num_experts)
    for place, share in enumerate(shares(instance, row, units)):
        np.add.at(found, (unit_of[place], experts), share)
    return found


def seated(instance: CollocationInstance, row: int, held: Ints, units: Ints) -> Ints:
    """The same experts in the same units, heaviest replica first to the GPU of the unit that has least."""
    each = sent(instance, row, held, units)
    found = np.full_like(held, -1)
    slot_unit = units[instance.gpu_of_slot]
    start = np.concatenate([[0], np.cumsum(instance.slots)])
    for unit in np.unique(units):
        experts = held[(slot_unit == unit) & (held >= 0)]
        gpus = np.flatnonzero(units == unit)
        filled, total = np.zeros(len(gpus), np.int64), np.zeros(len(gpus))
        for expert in experts[np.lexsort((experts, -each[unit, experts]))]:
            open_gpus = np.flatnonzero(filled < instance.slots[gpus])
            best = open_gpus[np.lexsort((open_gpus, filled[open_gpus], total[open_gpus]))[0]]
            found[start[gpus[best]] + filled[best]] = expert
            filled[best] += 1
            total[best] += each[unit, expert]
    return found
