"""The referee's sums for a split that lists every pair once, in order: exact, all layers in few passes.

A part is a double, so a whole multiple of ``2**-90`` unless it is tiny: a few digits of `bits` bits, each times a load
below ``2**63``. What does not fit is judged pair by pair, in `verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.layer import exact_sum, whole_numbers
from moeopt.routing.plan import Routing

Ints = NDArray[np.int64]
Judged = tuple[Fraction, Fraction, tuple[float, ...]]
"""The busiest GPU of a layer, perfect balance, and the cost of each GPU."""
Units = tuple[NDArray[Any], list[int], int, Fraction]
"""Loads, base and floor of a layer in whole numbers, and what their unit is worth in tokens."""
DIGITS = ((30, 3), (18, 5))
"""How 90 bits are cut: (bits, digits); few bits leave room for large loads."""


def units(instance: RoutingInstance, row: int) -> Units:
    """Loads, base and floor of a layer in whole numbers, and what their unit is worth in tokens."""
    loads, base, floor = instance.loads[row], instance.exact_base[row], instance.floor
    plain = loads.dtype.kind == "i" and floor.denominator == 1
    if plain and all(more.is_integer() for more in set(instance.base[row])):
        found, unit = [*map(int, instance.base[row]), int(floor)], Fraction(1)
        kept: NDArray[Any] = loads
    else:
        values = [*(exact(load) for load in loads.tolist()), *base, floor]
        scaled, unit = whole_numbers(values)
        kept, found = np.array(scaled[: len(loads)], dtype=object), scaled[len(loads) :]
    slots = len(instance.gpu_of_slot) + 1
    fits = exact_sum(kept) + sum(found) + found[-1] * slots < 2**62
    return kept.astype(np.int64 if fits else object, copy=False), found[:-1], found[-1], unit


def judged(instance: RoutingInstance, rows: Sequence[int], plan: Routing) -> dict[int, Judged]:
    """Judge layers, all in one go; left out is what has to be judged pair by pair.

    That is every layer where speeds differ or a replica has a floor, and each whose numbers are too large or too small.
    """
    per_expert = instance.floor_rule == "per_expert"
    if len(set(instance.speed)) > 1 or (instance.floor and (plan.in_tokens or not per_expert)):
        return {}
    given = {row: units(instance, row) for row in rows}
    kept = [row for row in rows if given[row][0].dtype != object]
    if not kept:
        return {}
    layers = _layers(instance, kept, [given[row] for row in kept])
    parts = np.concatenate([plan.columns(row)[2] for row in kept])[layers.shared]
    if plan.in_tokens:
        tokens = [given[row][3].denominator for row in kept]  # loads are whole tokens, the unit is a part of one
        np.add.at(layers.settled.reshape(-1), layers.gpu, parts * np.array(tokens)[layers.gpu // instance.num_gpus])
        tops, costs, fine = layers.settled.max(axis=1).tolist(), layers.settled.astype(np.float64), 1
    else:
        found = _digits(layers, parts)
        if found is None:  # one layer may be to blame
            return {row: one for row in kept for one in judged(instance, [row], plan).values()} if kept[1:] else {}
        (tops, costs), fine = found, 2**90
    pace, result = instance.exact_speed[0], {}
    for place, row in enumerate(kept):
        unit = given[row][3]
        top, bottom = tops[place] * unit.numerator * pace.denominator, fine * unit.denominator * pace.numerator
        ideal = Fraction(layers.everything[place]) * unit / (layers.carriers[place] * pace)
        result[row] = Fraction(top, bottom), ideal, tuple((costs[place] * float(unit / pace)).tolist())
    return result


@dataclass(frozen=True, eq=False)
class _Layers:
    """Some layers, one after another.

    ``everything`` (L,) what there is to do, and ``carriers`` (L,) the GPUs that take part; ``settled`` (L, G) what lies
    on one GPU only; ``shared`` the places of the other pairs among all, and ``gpu``, ``amount`` and ``last`` of these.
    """

    everything: list[int]
    carriers: list[int]
    settled: Ints
    shared: Ints
    gpu: Ints
    amount: Ints
    last: Ints
    most: int


def _layers(instance: RoutingInstance, rows: list[int], given: list[Units]) -> _Layers:
    held = [instance.hostings[row] for row in rows]
    gpus, experts = instance.num_gpus, instance.num_experts
    hosts = np.concatenate([hosting.hosts for hosting in held])
    amounts = np.concatenate([np.maximum(one[0], one[2]) if one[2] else one[0] for one in given])
    counted = np.where(hosts > 0, amounts, 0).reshape(-1, experts)  # an expert that lies nowhere costs no floor
    base = np.array([one[1] for one in given], dtype=np.int64)
    everything = [exact_sum(row) + sum(one[1]) for row, one in zip(counted, given, strict=True)]
    expert = np.concatenate([hosting.expert + place * experts for place, hosting in enumerate(held)])
    gpu = np.concatenate([hosting.gpu + place * gpus for place, hosting in enumerate(held)])
    several = hosts[expert] > 1
    np.add.at(settled := base.copy().reshape(-1), gpu[~several], amounts[expert[~several]])
    busy = base.reshape(-1) > 0
    busy[gpu] = True
    carriers = [count or gpus for count in busy.reshape(-1, gpus).sum(axis=1).tolist()]
    shared = np.flatnonzero(several)
    whose = expert[shared]
    last = np.flatnonzero(np.append(whose[1:] != whose[:-1], True)) if len(whose) else shared
    most = int(hosts.max(initial=1))
    table = settled.reshape(-1, gpus)
    return _Layers(everything, carriers, table, shared, gpu[shared], amounts[whose], last, most)


def _digits(layers: _Layers, part: NDArray[np.float64]) -> tuple[list[int], NDArray[np.float64]] | None:
    """(L,) the largest cost of a GPU, in ``2**-90`` units, and (L, G) all of them, in units, rounded."""
    large = 2 * max(layers.everything) * layers.most
    bits, count = next(((b, n) for b, n in DIGITS if large < 2 ** (62 - b)), (0, 0))
    if not bits:
        return None
    digit, rest = np.zeros((count, len(part)), np.int64), part
    for place in range(count):
        rest = rest * 2.0**bits  # exact: only the exponent changes
        whole = np.floor(rest)
        digit[place] = whole
        rest = rest - whole  # exact: bits that the double has
    if rest.any():
        return None
    if len(part):  # the last host takes what the others leave, if anything
        starts = np.append(0, layers.last[:-1] + 1)
        left = digit[:, layers.last] - np.add.reduceat(digit, starts, axis=1)
        left[0] += 2**bits
        _carry(left, bits)
        digit[:, layers.last] = np.where(left[0] < 0, 0, left)
    totals = np.zeros((count, layers.settled.size), np.int64)
    totals[0] = layers.settled.reshape(-1) << bits
    for place in range(count):
        np.add.at(totals[place], layers.gpu, digit[place] * layers.amount)
    _carry(totals, bits)
    costs = np.zeros(layers.settled.size)
    for place in range(count - 1, -1, -1):
        costs = (costs + totals[place]) / 2.0**bits
    tops, among = [0] * len(layers.settled), np.ones(layers.settled.shape, np.bool_)
    for row in totals.reshape(count, *layers.settled.shape):  # largest first digit, among these largest second, ...
        most = np.where(among, row, -1).max(axis=1)
        among &= row == most[:, None]
        tops = [(top << bits) + one for top, one in zip(tops, most.tolist(), strict=True)]
    return tops, costs.reshape(layers.settled.shape)


def _carry(digit: Ints, bits: int) -> None:
    """Bring all digits but the first into ``0 ... 2**bits - 1``, in place."""
    for place in range(len(digit) - 1, 0, -1):
        digit[place - 1] += digit[place] >> bits
        digit[place] &= 2**bits - 1
