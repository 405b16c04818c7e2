"""The state of a search, what it costs, and the two kinds of move; all in the subset that numba compiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PINNED, FORBIDDEN = 1, 2

EPSILON = 1e-12


class Layer(NamedTuple):
    """What does not change: the loads of one layer and the GPUs.

    ``loads`` (E,) scaled, with empty slots allowed (E + 1,), the last one -1; ``floor`` least cost of a replica,
    scaled; ``gpu`` (S,) GPU of each slot; ``start`` (G + 1,) first slots; ``pace`` (G,) reciprocal speeds; ``rule``
    (E, G) 0, `PINNED` or `FORBIDDEN`, (0, 0) when there are none; ``distinct`` no doubles on a GPU; ``most`` replicas
    of an expert; ``empty`` id of the empty expert, or -1.
    """

    loads: Floats
    floor: float
    gpu: Ints
    start: Ints
    pace: Floats
    rule: NDArray[np.int8]
    distinct: bool
    most: int
    empty: int


class State(NamedTuple):
    """What the search changes, and its scratch space.

    ``held`` (S,) expert in each slot; ``counts`` (E,) replicas; ``unit`` (E,) cost of one replica; ``on`` (E, G)
    replicas on a GPU; ``where`` (E, most) slots of an expert; ``rank`` (S,) place of a slot in ``where``; ``total``
    (G,) loads.
    """

    held: Ints
    counts: Ints
    unit: Floats
    on: Ints
    where: Ints
    rank: Ints
    total: Floats
    shift: Floats
    height: Floats
    grown: Floats
    shrunk: Floats
    relief: Floats
    strain: Floats
    tried: NDArray[np.bool_]
    move: Ints


@jit
def piece(load: float, count: int, floor: float) -> float:
    """Cost of one replica out of `count`, at speed 1; nothing for the empty expert, whose load is negative."""
    if load < 0.0 or count < 1:
        return 0.0
    part = load / count
    return part if part > floor else floor


@jit
def draw(rng: Ints, below: int) -> int:
    """A number in ``0..below-1`` from a Lehmer generator that is the same in any interpreter."""
    rng[0] = (rng[0] * 48271) % 2147483647
    return int(rng[0] % below)


@jit
def over(load: float, pace: float, threshold: float) -> float:
    """Squared height above the threshold."""
    height = load * pace - threshold
    return height * height if height > 0.0 else 0.0


@jit
def least_gain(threshold: float) -> float:
    """Gains below this may be rounding: squared heights are exact to some 1e-16 of the square of the largest cost."""
    return EPSILON * max(1.0, threshold * threshold)


@jit
def cost_at(layer: Layer, state: State, threshold: float) -> float:
    """Cost of the state: squared heights of all GPUs above the threshold."""
    cost = 0.0
    for g in range(layer.pace.shape[0]):
        cost += over(state.total[g], layer.pace[g], threshold)
    return cost


@jit
def add(layer: Layer, state: State, expert: int, slot: int) -> None:
    """Put a replica of `expert` into an unoccupied slot; loads of GPUs are not touched."""
    state.held[slot] = expert
    state.on[expert, layer.gpu[slot]] += 1
    if expert != layer.empty:
        state.where[expert, state.counts[expert]] = slot
        state.rank[slot] = state.counts[expert]
    state.counts[expert] += 1
    state.unit[expert] = piece(layer.loads[expert], state.counts[expert], layer.floor)


@jit
def remove(layer: Layer, state: State, slot: int) -> None:
    """Take the replica out of a slot; loads of GPUs are not touched."""
    expert = state.held[slot]
    state.on[expert, layer.gpu[slot]] -= 1
    state.counts[expert] -= 1
    if expert != layer.empty:
        last = state.where[expert, state.counts[expert]]
        state.where[expert, state.rank[slot]] = last
        state.rank[last] = state.rank[slot]
    state.unit[expert] = piece(layer.loads[expert], state.counts[expert], layer.floor)


@jit
def weigh(layer: Layer, state: State) -> float:
    """Load of every GPU from scratch; the largest cost."""
    state.total[:] = 0.0
    for slot in range(state.held.shape[0]):
        state.total[layer.gpu[slot]] += state.unit[state.held[slot]]
    top = 0.0
    for g in range(layer.pace.shape[0]):
        top = max(top, state.total[g] * layer.pace[g])
    return top


@jit
def may_swap(layer: Layer, state: State, first: int, second: int) -> bool:
    """Whether two slots may exchange their replicas."""
    one = state.held[first]
    two = state.held[second]
    a = layer.gpu[first]
    b = layer.gpu[second]
    if a == b or one == two:
        return False
    if layer.distinct and (
        (state.on[one, b] > 0 and one != layer.empty) or (state.on[two, a] > 0 and two != layer.empty)
    ):
        return False
    if layer.rule.shape[0] > 0:
        if layer.rule[one, b] == FORBIDDEN or layer.rule[two, a] == FORBIDDEN:
            return False
        if layer.rule[one, a] == PINNED and state.on[one, a] == 1:
            return False
        if layer.rule[two, b] == PINNED and state.on[two, b] == 1:
            return False
    return True


@jit
def may_change(layer: Layer, state: State, slot: int, to: int) -> bool:
    """Whether `slot` may change over to expert `to`."""
    out = state.held[slot]
    home = layer.gpu[slot]
    if out == to or (out != layer.empty and state.counts[out] < 2):
        return False
    if to != layer.empty and (state.counts[to] >= layer.most or (layer.distinct and state.on[to, home] > 0)):
        return False
    if layer.rule.shape[0] > 0:
        if layer.rule[to, home] == FORBIDDEN:
            return False
        if layer.rule[out, home] == PINNED and state.on[out, home] == 1:
            return False
    return True


@jit
def swap(layer: Layer, state: State, first: int, second: int) -> None:
    """Exchange the replicas of two slots."""
    one = state.held[first]
    two = state.held[second]
    shift = state.unit[one] - state.unit[two]
    state.total[layer.gpu[first]] -= shift
    state.total[layer.gpu[second]] += shift
    remove(layer, state, first)
    remove(layer, state, second)
    add(layer, state, two, first)
    add(layer, state, one, second)


@jit
def change(layer: Layer, state: State, slot: int, to: int) -> None:
    """Change a slot over to expert `to`: its other replicas get lighter, those of the expert that leaves heavier."""
    out = state.held[slot]
    home = layer.gpu[slot]
    before = state.unit[out]
    remove(layer, state, slot)
    state.total[home] -= before
    if out != layer.empty:
        delta = state.unit[out] - before
        for copy in range(state.counts[out]):
            state.total[layer.gpu[state.where[out, copy]]] += delta
    before = state.unit[to]
    add(layer, state, to, slot)
    state.total[home] += state.unit[to]
    if to != layer.empty:
        delta = state.unit[to] - before
        for copy in range(state.counts[to] - 1):  # the last one is the new one
            state.total[layer.gpu[state.where[to, copy]]] += delta
