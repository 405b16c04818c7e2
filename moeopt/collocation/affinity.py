"""Layer-to-layer affinity: where tokens stay with their first expert, units of the next layer are named to be near.

Only for transports whose results do not return home. A token is then where the first expert it lists was, and going to
another unit for the first expert of the next layer is a hop. Which experts share a unit is left alone; which unit they
are is an assignment, exact for one cost between any two units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance

Ints = NDArray[np.int64]


def hops(transitions: Ints, now: Ints, after: Ints) -> int:
    """Tokens that change units.

    Parameters
    ----------
    transitions
        (E, E) tokens from a first expert of one layer to one of the next.
    now, after
        (E,) unit of each expert in the two layers.

    >>> stay = np.full((4, 4), 10) + 80 * np.eye(4, dtype=int)
    >>> hops(stay, np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
    80
    """
    return int(transitions[now[:, None] != after[None, :]].sum())


def aligned(transitions: Ints, now: Ints, after: Ints) -> Ints:
    """(U,) the unit that each unit of the next layer should be, for the fewest hops.

    >>> stay = np.zeros((4, 4), dtype=int)
    >>> stay[[0, 1, 2, 3], [0, 1, 2, 3]] = 100
    >>> aligned(stay, np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])).tolist()  # all 400 tokens would hop
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    units = int(max(now.max(), after.max())) + 1
    between = np.zeros((units, units), dtype=np.int64)  # group of the next layer x unit of this one
    np.add.at(between, (after[None, :].repeat(len(now), 0), now[:, None].repeat(len(after), 1)), transitions)
    _, target = linear_sum_assignment(between, maximize=True)
    found: Ints = target.astype(np.int64)
    return found


def transitions_of(instance: CollocationInstance, row: int) -> Ints:
    """(E, E) tokens from their first expert of a layer to that of the next."""
    first = instance.ids[row : row + 2, : instance.num_tokens, 0]
    known = (first >= 0).all(axis=0)
    found = np.zeros((instance.num_experts, instance.num_experts), dtype=np.int64)
    np.add.at(found, (first[0, known], first[1, known]), 1)
    return found


def chained(instance: CollocationInstance, held: Ints) -> tuple[Ints, dict[str, list[int]]]:
    """(L, S) the plan with units named layer after layer, and hops between layers before and after.

    Plans with replicas and units that differ in their slots come back as they are.
    """
    units = instance.unit[instance.gpu_of_slot]
    shape = [instance.slots[instance.unit == unit].tolist() for unit in range(instance.num_units)]
    if any(one != shape[0] for one in shape) or instance.num_slots > instance.num_experts:
        return held, {}
    found, before, after = held.copy(), [], []
    where = [_unit_of(instance, row, units) for row in held]
    now = where[0]
    for row in range(1, len(held)):
        table = transitions_of(instance, row - 1)
        before.append(hops(table, where[row - 1], where[row]))
        target = aligned(table, now, where[row])
        for unit, to in enumerate(target):
            found[row, units == to] = held[row, units == unit]
        now = _unit_of(instance, found[row], units)
        after.append(hops(table, _unit_of(instance, found[row - 1], units), now))
    return found, {"hops_before": before, "hops": after}


def _unit_of(instance: CollocationInstance, held: Ints, units: Ints) -> Ints:
    found = np.zeros(instance.num_experts, dtype=np.int64)
    found[held[held >= 0]] = units[held >= 0]
    return found
