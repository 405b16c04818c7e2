"""Splits of a layer as triples: even parts, what an optimum says, and whole tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.routing.instance import RoutingInstance
from moeopt.routing.layer import Hosting, Task
from moeopt.routing.plan import Routing


def even(hosting: Hosting) -> NDArray[np.float64]:
    """(Q,) the same part for every replica."""
    shares: NDArray[np.float64] = hosting.copies / hosting.replicas[hosting.expert]
    return shares


def from_parts(hosting: Hosting, task: Task, part: NDArray[Any], of: int) -> NDArray[np.float64]:
    """(Q,) shares from the (P,) load that each pair of a shared expert has, in units of ``1 / of``.

    With a floor a replica has its floor's tokens first; an expert that has no more than them is split evenly.
    """
    shares = even(hosting)
    place = hosting.on_shared
    expert = hosting.expert[place]
    loaded = np.flatnonzero((task.weight[expert] > 0).astype(bool))
    if not len(loaded):
        return shares
    place, expert, part = place[loaded], expert[loaded], part[loaded]
    if task.floor:
        paid = [task.floor * count * of for count in hosting.copies[place].tolist()]
        whole = [amount * of for amount in task.amount[expert].tolist()]
        tops = zip(paid, part.tolist(), whole, strict=True)
        shares[place] = [(more + one) / total for more, one, total in tops]
    elif part.dtype == object or int(task.weight.max()) >= 2**62 // max(of, 1):
        wholes = task.weight[expert].tolist()
        shares[place] = [int(one) / (int(total) * of) for one, total in zip(part.tolist(), wholes, strict=True)]
    else:
        shares[place] = part / (task.weight[expert] * of)
    return shares


def from_loads(hosting: Hosting, task: Task, load: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same from (P,) loads as floats, in the unit of the task."""
    shares = even(hosting)
    place = hosting.on_shared
    expert = hosting.expert[place]
    weight, amount = task.weight[expert].astype(np.float64), task.amount[expert].astype(np.float64)
    loaded = weight > 0
    paid = float(task.floor) * hosting.copies[place[loaded]]
    shares[place[loaded]] = (load[loaded] + paid) / amount[loaded]
    return shares


def plan_of(instance: RoutingInstance, shares: Sequence[NDArray[np.float64]]) -> Routing:
    """The plan; whole tokens where the instance wants them, which stay as close to the shares as they can."""
    if instance.whole:
        shares = [whole_tokens(instance, row, parts) for row, parts in enumerate(shares)]
    return listed(instance, shares)


def listed(instance: RoutingInstance, parts: Sequence[NDArray[Any]]) -> Routing:
    """The plan of (Q,) shares or whole tokens a layer."""
    pairs = zip(instance.hostings, parts, strict=True)
    return Routing.of_columns([(hosting.expert, hosting.gpu, part) for hosting, part in pairs], instance.whole)


def whole_parts(hosting: Hosting, task: Task, part: NDArray[Any]) -> NDArray[Any]:
    """(Q,) whole tokens, from the (P,) that each pair of a shared expert has beyond its floor."""
    unit, floor = task.unit.denominator, task.floor // task.unit.denominator
    tokens: NDArray[Any] = task.amount[hosting.expert] // unit  # right for experts on one GPU
    tokens[hosting.on_shared] = part + floor * hosting.copies[hosting.on_shared]
    for expert in hosting.shared.tolist() if floor else ():
        low, high = int(hosting.first[expert]), int(hosting.first[expert + 1])
        left = int(task.amount[expert]) // unit
        if task.weight[expert] > 0:
            continue
        for place in range(low, high):  # all of it under the floors, which are paid for anyway
            tokens[place] = min(tokens[place], left)
            left -= tokens[place]
    return tokens


def whole_tokens(instance: RoutingInstance, row: int, shares: NDArray[np.float64]) -> NDArray[Any]:
    """(Q,) whole tokens: shares rounded down, and what is left to the largest remainders, lower GPU first."""
    hosting = instance.hostings[row]
    tokens = [0] * len(shares)
    for expert, load in enumerate(instance.loads[row].tolist()):
        low, high = int(hosting.first[expert]), int(hosting.first[expert + 1])
        if high == low:
            continue
        if high - low == 1:
            tokens[low] = int(load)
            continue
        wanted = [share * load for share in shares[low:high].tolist()]
        found = [int(value) for value in wanted]
        order = sorted(range(high - low), key=lambda place: (found[place] - wanted[place], place))
        left = int(load) - sum(found)
        for place in order * (left // (high - low) + 1) if left > 0 else ():
            if left == 0:
                break
            found[place] += 1
            left -= 1
        for place in reversed(order):  # rounding may give a token too many for loads beyond 2**53
            taken = min(max(-left, 0), found[place])
            found[place] -= taken
            left += taken
        tokens[low:high] = found
    return np.array(tokens, dtype=np.int64 if max(tokens, default=0) < 2**63 else object)
