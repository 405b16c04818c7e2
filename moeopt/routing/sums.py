"""The referee's sums for a split that lists every pair once, in order: exact, all pairs of a layer in few passes.

A part is a double, so a whole multiple of ``2**-90`` unless it is tiny: a few digits of `bits` bits, each times a load
below ``2**63``. What does not fit is judged pair by pair, in `verify`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.routing.bounds import carriers
from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.layer import Hosting, exact_sum, whole_numbers
from moeopt.routing.plan import Routing

Ints = NDArray[np.int64]
Judged = tuple[Fraction, Fraction, tuple[float, ...]]
"""The busiest GPU of a layer, perfect balance, and the cost of each GPU."""
DIGITS = ((30, 3), (18, 5))
"""How 90 bits are cut: (bits, digits); few bits leave room for large loads."""


def units(instance: RoutingInstance, row: int) -> tuple[NDArray[Any], list[int], int, Fraction]:
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


def judged(instance: RoutingInstance, row: int, plan: Routing) -> Judged | None:
    """Judge one layer; ``None`` where speeds differ, a replica has a floor, or the numbers are too large or small."""
    loads, base, floor, unit = units(instance, row)
    per_expert = instance.floor_rule == "per_expert"
    if loads.dtype == object or len(set(instance.speed)) > 1 or (floor and (plan.in_tokens or not per_expert)):
        return None
    hosting = instance.hostings[row]
    amounts = np.maximum(loads, floor) if floor else loads
    held = amounts[hosting.hosts > 0] if floor else amounts  # what lies nowhere has no tokens
    everything = exact_sum(held) + sum(base)
    settled = np.array(base, dtype=np.int64)
    np.add.at(settled, hosting.gpu[hosting.alone], amounts[hosting.expert[hosting.alone]])
    pace, size = instance.exact_speed[0], len(carriers(instance, row))
    part = plan.columns(row)[2][hosting.on_shared]
    if plan.in_tokens:
        token = unit.denominator  # loads are whole tokens, the unit is a part of one
        np.add.at(settled, hosting.pairs.gpu, part * token)
        top, cost, fine = int(settled.max()), settled.astype(np.float64), 1
    else:
        found = _digits(hosting, amounts[hosting.expert[hosting.on_shared]], part, settled, everything)
        if found is None:
            return None
        top, cost = found
        fine = 2**90
    busiest = Fraction(top * unit.numerator * pace.denominator, fine * unit.denominator * pace.numerator)
    return busiest, everything * unit / (size * pace), tuple((cost * float(unit / pace)).tolist())


def _digits(
    hosting: Hosting, amount: Ints, part: NDArray[np.float64], settled: Ints, everything: int
) -> tuple[int, NDArray[np.float64]] | None:
    """The largest cost of a GPU, in ``2**-90`` units, and (G,) all of them, in units, rounded."""
    pairs = hosting.pairs
    most = int(hosting.hosts.max(initial=1))
    bits, count = next(((b, n) for b, n in DIGITS if 2 * everything * most < 2 ** (62 - b)), (0, 0))
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
        last = pairs.first[1:] - 1
        left = digit[:, last] - np.add.reduceat(digit, pairs.first[:-1], axis=1)
        left[0] += 2**bits
        _carry(left, bits)
        digit[:, last] = np.where(left[0] < 0, 0, left)
    sums = np.zeros((count, len(part) + 1), np.int64)
    np.cumsum((digit * amount)[:, pairs.pair], axis=1, out=sums[:, 1:])
    totals = sums[:, pairs.start[1:]] - sums[:, pairs.start[:-1]]
    totals[0] += settled << bits
    _carry(totals, bits)
    cost = np.zeros(len(settled))
    for place in range(count - 1, -1, -1):
        cost = (cost + totals[place]) / 2.0**bits
    busiest, among = 0, totals
    for place in range(count):  # the largest first digit, among these the largest second one, ...
        busiest = (busiest << bits) + int(among[place].max())
        among = among[:, among[place] == among[place].max()]
    return busiest, cost


def _carry(digit: Ints, bits: int) -> None:
    """Bring all digits but the first into ``0 ... 2**bits - 1``, in place."""
    for place in range(len(digit) - 1, 0, -1):
        digit[place - 1] += digit[place] >> bits
        digit[place] &= 2**bits - 1
