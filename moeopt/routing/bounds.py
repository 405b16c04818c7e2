"""Lower bounds: a set of GPUs that has more to do than it can, whatever the split. Exact; see ``models/routing.md``."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.fractions import total
from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.layer import exact_sum


@dataclass(frozen=True)
class Cut:
    """GPUs `gpus` have load that can go nowhere else; so the busiest of them costs at least `value`, tokens.

    `kind` is ``cut``, or ``whole-cut`` where tokens cannot be cut and the last one decides.
    """

    gpus: tuple[int, ...]
    value: Fraction
    kind: Literal["cut", "whole-cut"] = "cut"


def confined(instance: RoutingInstance, row: int, gpus: Sequence[int]) -> tuple[Fraction, int]:
    """Tokens that the GPUs must do: of experts only they host, with floors and base; and how many such experts."""
    return _confined(instance, row, gpus)[0], int(_only(instance, row, gpus)[0].sum())


def _confined(instance: RoutingInstance, row: int, inside: Sequence[int]) -> tuple[Fraction, Fraction]:
    """Tokens that the GPUs must do, of experts only they host, with floors and base; and those that count beyond."""
    hosting, floor = instance.hostings[row], instance.floor
    only, within = _only(instance, row, inside)
    loads = instance.loads[row]
    if not floor:
        movable = _total(loads[only])
        amount = movable
    elif instance.floor_rule == "per_expert":
        movable = total(max(exact(load), floor) for load in loads[only].tolist())
        amount = movable
    else:  # a replica inside costs its floor; what an expert has beyond all its floors must be done besides
        beyond = zip(loads[only].tolist(), hosting.replicas[only].tolist(), strict=True)
        movable = total(max(exact(load) - floor * count, Fraction(0)) for load, count in beyond)
        amount = movable + floor * int(hosting.copies[within].sum())
    if any(instance.base[row]):
        amount += total(instance.exact_base[row][gpu] for gpu in inside)
    return amount, movable


def _only(instance: RoutingInstance, row: int, inside: Iterable[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(E,) experts that lie on these GPUs only, and (Q,) pairs on them."""
    hosting = instance.hostings[row]
    mask = np.zeros(instance.num_gpus, dtype=np.bool_)
    mask[list(inside)] = True
    within = mask[hosting.gpu]
    count = np.bincount(hosting.expert[within], minlength=instance.num_experts)
    return (count == hosting.hosts) & (hosting.hosts > 0), within


def _total(loads: NDArray[Any]) -> Fraction:
    if loads.dtype.kind == "i":
        return Fraction(exact_sum(loads))
    return total(exact(load) for load in loads.tolist())


@dataclass(frozen=True)
class Prices:
    """The dual prices of a cut: what one token more costs, tokens at speed 1.

    `price` for base load on a GPU of the cut, and for tokens of `experts`; nothing for all others. `confined` counts
    the experts that lie in the cut only, those below their floors too.
    """

    price: Fraction
    experts: tuple[int, ...]
    confined: int


def prices(instance: RoutingInstance, row: int, gpus: Sequence[int]) -> Prices:
    """The optimal dual solution, where the cut is that of the optimum; see *Dual prices* in ``models/routing.md``.

    >>> instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    >>> prices(instance, 0, [0, 1])
    Prices(price=Fraction(1, 2), experts=(0, 1, 2), confined=3)
    """
    hosting, floor = instance.hostings[row], instance.floor
    only, _ = _only(instance, row, gpus)
    above = only
    if floor:  # a token below the floors costs nothing
        floors = hosting.replicas.tolist() if instance.floor_rule == "per_replica" else [1] * instance.num_experts
        counts = zip(instance.loads[row].tolist(), floors, strict=True)
        above = only & np.array([exact(load) >= floor * count for load, count in counts])
    pace = _speed(instance, gpus)
    return Prices(1 / pace, tuple(np.flatnonzero(above).tolist()), int(only.sum()))


def _speed(instance: RoutingInstance, gpus: Sequence[int]) -> Fraction:
    if len(set(instance.speed)) == 1:
        return instance.exact_speed[0] * len(gpus)
    return total(instance.exact_speed[gpu] for gpu in gpus)


def cut_value(instance: RoutingInstance, row: int, gpus: Iterable[int], *, whole: bool = False) -> Fraction:
    """What a set of GPUs proves: its load over its speed; with `whole`, the least cost that lets whole tokens fit.

    >>> instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    >>> cut_value(instance, 0, [0, 1]), cut_value(instance, 0, [0])
    (Fraction(15, 2), Fraction(4, 1))
    >>> cut_value(instance, 0, [0, 1], whole=True)
    Fraction(8, 1)
    """
    inside = sorted(set(gpus))
    amount, movable = _confined(instance, row, inside)
    value = amount / _speed(instance, inside)
    if not whole:
        return value
    speeds, fixed = [instance.exact_speed[gpu] for gpu in inside], _fixed(instance, row)
    return least_level(value, [fixed[gpu] for gpu in inside], speeds, int(movable))


def _fixed(instance: RoutingInstance, row: int) -> list[Fraction]:
    """(G,) what each GPU costs before any token that counts."""
    floors = instance.floor if instance.floor_rule == "per_replica" else Fraction(0)
    filled = instance.hostings[row].filled.tolist()
    return [more + floors * count for more, count in zip(instance.exact_base[row], filled, strict=True)]


def least_level(start: Fraction, fixed: list[Fraction], speeds: list[Fraction], tokens: int) -> Fraction:
    """The least cost >= `start` at which GPUs with a `fixed` amount each have room for so many whole tokens.

    >>> least_level(Fraction(15, 2), [Fraction(0), Fraction(0)], [Fraction(1), Fraction(1)], 15)
    Fraction(8, 1)
    """
    room = [(start * pace - more) // 1 for more, pace in zip(fixed, speeds, strict=True)]
    # a GPU that is full before its first token counts as having no room, not less
    missing = tokens - sum(max(one, 0) for one in room)
    level = max([start, *(more / pace for more, pace in zip(fixed, speeds, strict=True))])
    if level > start:
        return least_level(level, fixed, speeds, tokens)
    if missing <= 0:
        return start
    steps = [((one + 1 + more) / pace, g) for g, (one, more, pace) in enumerate(zip(room, fixed, speeds, strict=True))]
    heapq.heapify(steps)
    while True:
        level, g = heapq.heappop(steps)
        missing -= 1
        if missing <= 0:
            return level
        heapq.heappush(steps, (level + 1 / speeds[g], g))


def carriers(instance: RoutingInstance, row: int) -> tuple[int, ...]:
    """GPUs that have anything to do with a layer: a replica or a base load; all of them where none has."""
    busy = np.array(instance.base[row]) > 0
    busy[instance.hostings[row].gpu] = True
    return tuple(np.flatnonzero(busy).tolist()) or tuple(range(instance.num_gpus))


def mean(instance: RoutingInstance, row: int) -> Cut:
    """The set of all GPUs that carry anything: perfect balance, the bound that needs no search."""
    everyone = carriers(instance, row)
    return Cut(everyone, cut_value(instance, row, everyone))
