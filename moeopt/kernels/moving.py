"""The search of a re-planning: one layer, from the plan that runs now, with a price on every replica that is new.

A state is the expert in each slot. Its energy at a threshold T is the number of moves (pairs of expert and GPU that
the running plan lacks) plus ``sum_wg (sharpness * max(0, C_wg - T))^2`` over windows and GPUs. A sweep lets T fall
from the value of the running plan towards its bound, or rise again, and proposes swaps and transfers (a slot changes
over to another expert); what raises the energy is taken with a probability that falls with the rise. A move back
costs less, so two swaps that share a slot become a cycle of three. On its way the sweep keeps, for every number of
moves, the best value it has met: the frontier.

Everything here is in the subset that numba compiles; interpreted, it does the same steps and gives the same bytes: no
transcendental function is called, chances come from a table. One file on purpose, as with `packing`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit
from moeopt.kernels.common import copy_into, piece

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Small = NDArray[np.int32]
"""The large tables: half the size, as they should stay in the processor's nearest cache."""

PINNED, FORBIDDEN = 1, 2
WORST, MEAN, TAIL = 0, 1, 2
"""How the values of several windows become one: the largest, the mean, or the mean of the largest part."""

ILLEGAL = 1 << 20
"""Change in moves of a proposal that breaks a rule."""
EPSILON = 1e-12


class Layer(NamedTuple):
    """What does not change: the loads of one layer, the GPUs, and the plan that runs now.

    ``loads`` (W, E) in units of each window's ideal, with empty slots allowed (W, E + 1), the last one -1; ``floor``
    (W,) least cost of a replica; ``base`` (W, G) load that is there anyhow; ``gpu`` (S,), ``start`` (G + 1,),
    ``pace`` (G,) reciprocal speeds; ``rule`` (E, G) 0, `PINNED` or `FORBIDDEN`, (0, 0) when there are none; ``least``
    (E,) replicas an expert must keep, ``most`` it may have; ``node`` (G,) from 0; ``spread`` nodes an expert must lie
    on; ``distinct``; ``empty`` id of the empty expert or -1; ``old`` (E, G) pairs of the running plan; ``home`` (S,)
    its expert in each slot, -1 for none; ``order`` (E,) experts by size of a replica and ``place`` (E,) in that
    order; ``reach`` how far apart in that order swaps are sought; ``combine`` `WORST`, `MEAN` or `TAIL`, ``tail``
    (W,) weights of the windows' values in falling order; ``chance`` (1024,) quantiles of the exponential law.
    """

    loads: Floats
    floor: Floats
    base: Floats
    gpu: Ints
    start: Ints
    pace: Floats
    rule: NDArray[np.int8]
    least: Ints
    most: int
    node: Ints
    spread: int
    distinct: bool
    empty: int
    old: Flags
    home: Ints
    order: Ints
    place: Ints
    reach: int
    combine: int
    tail: Floats
    chance: Floats


class State(NamedTuple):
    """What a sweep changes.

    ``held`` (S,); ``counts`` (E,) replicas; ``unit`` (W, E) cost of one; ``on`` (E, G) replicas on a GPU; ``where``
    (E, most) slots of an expert; ``rank`` (S,) place of a slot in ``where``; ``near`` (E, N) replicas on a node;
    ``total`` (W, G) loads; ``shift`` (G,) scratch; ``tops`` (W,) scratch; ``moves`` (1,) pairs that are new.
    """

    held: Ints
    counts: Ints
    unit: Floats
    on: Small
    where: Small
    rank: Ints
    near: Small
    total: Floats
    shift: Floats
    tops: Floats
    moves: Ints


class Sweep(NamedTuple):
    """How one sweep runs.

    ``high``, ``low`` thresholds it begins and ends with; ``goal`` value below which nothing is sought; ``sharp`` the
    largest sharpness, ``soft`` sharpness times height over the goal where that is less; ``heat`` of the chances, in
    moves; ``most_moves`` that any state may have; ``steps`` of the whole sweep.
    """

    high: float
    low: float
    goal: float
    sharp: float
    soft: float
    heat: float
    most_moves: int
    steps: int


@jit
def draw(rng: Ints, below: int) -> int:
    """A number in ``0..below-1`` by the high bits of a Lehmer generator that is the same in any interpreter."""
    rng[0] = (rng[0] * 48271) % 2147483647
    return int((rng[0] * below) >> 31)


@jit
def steep(height: float, sharp: float) -> float:
    """Energy of a cost that stands `height` above the threshold."""
    if height <= 0.0:
        return 0.0
    scaled = height * sharp
    return scaled * scaled


@jit
def enter(layer: Layer, state: State, expert: int, slot: int) -> None:
    """Put a replica of `expert` into an unoccupied slot; loads of GPUs are not touched."""
    at = layer.gpu[slot]
    state.held[slot] = expert
    if state.on[expert, at] == 0 and not layer.old[expert, at]:
        state.moves[0] += 1
    state.on[expert, at] += 1
    state.near[expert, layer.node[at]] += 1
    if expert != layer.empty:
        state.where[expert, state.counts[expert]] = slot
        state.rank[slot] = state.counts[expert]
    state.counts[expert] += 1
    for w in range(layer.loads.shape[0]):
        state.unit[w, expert] = piece(layer.loads[w, expert], state.counts[expert], layer.floor[w])


@jit
def leave(layer: Layer, state: State, slot: int) -> None:
    """Take the replica out of a slot; loads of GPUs are not touched."""
    expert = state.held[slot]
    at = layer.gpu[slot]
    state.on[expert, at] -= 1
    if state.on[expert, at] == 0 and not layer.old[expert, at]:
        state.moves[0] -= 1
    state.near[expert, layer.node[at]] -= 1
    state.counts[expert] -= 1
    if expert != layer.empty:
        last = state.where[expert, state.counts[expert]]
        state.where[expert, state.rank[slot]] = last
        state.rank[last] = state.rank[slot]
    for w in range(layer.loads.shape[0]):
        state.unit[w, expert] = piece(layer.loads[w, expert], state.counts[expert], layer.floor[w])


@jit
def begin(layer: Layer, state: State, held: Ints) -> None:
    """Set the state, all zeros so far or left by an earlier sweep, to the experts in `held`."""
    state.counts[:] = 0
    state.on[:] = 0
    state.near[:] = 0
    state.moves[0] = 0
    for slot in range(held.shape[0]):
        enter(layer, state, held[slot], slot)
    for w in range(layer.loads.shape[0]):
        copy_into(state.total[w], layer.base[w])
        for slot in range(held.shape[0]):
            state.total[w, layer.gpu[slot]] += state.unit[w, held[slot]]


@jit
def value(layer: Layer, state: State) -> float:
    """The busiest GPU of every window, combined."""
    windows = layer.loads.shape[0]
    worst = 0.0
    for w in range(windows):
        top = 0.0
        for g in range(layer.pace.shape[0]):
            cost = state.total[w, g] * layer.pace[g]
            if cost > top:
                top = cost
        state.tops[w] = top
        if top > worst:
            worst = top
    if layer.combine == WORST:
        return worst
    if layer.combine == TAIL:  # falling order by insertion: there are few windows
        for w in range(1, windows):
            top = state.tops[w]
            at = w
            while at > 0 and state.tops[at - 1] < top:
                state.tops[at] = state.tops[at - 1]
                at -= 1
            state.tops[at] = top
    together = 0.0
    for w in range(windows):
        together += layer.tail[w] * state.tops[w]
    return together


@jit
def tied(layer: Layer, state: State, expert: int, at: int) -> bool:
    """Whether a pin holds the only replica of `expert` on a GPU there."""
    return bool(layer.rule.shape[0] > 0 and layer.rule[expert, at] == PINNED and state.on[expert, at] == 1)


@jit
def barred(layer: Layer, expert: int, at: int) -> bool:
    """Whether `expert` is forbidden on a GPU."""
    return bool(layer.rule.shape[0] > 0 and layer.rule[expert, at] == FORBIDDEN)


@jit
def narrows(layer: Layer, state: State, expert: int, away: int, to: int) -> bool:
    """Whether `expert` would lie on too few nodes if a replica left GPU `away` and, unless -1, came to GPU `to`."""
    if layer.spread < 2 or expert == layer.empty or state.near[expert, layer.node[away]] > 1:
        return False
    if to >= 0 and (layer.node[to] == layer.node[away] or state.near[expert, layer.node[to]] == 0):
        return False
    nodes = 0
    for n in range(state.near.shape[1]):
        if state.near[expert, n] > 0:
            nodes += 1
    return nodes - 1 < layer.spread


@jit
def may_swap(layer: Layer, state: State, one: int, two: int, a: int, b: int) -> bool:
    """Whether pins, prohibitions and nodes let `one` go from GPU `a` to `b` and `two` the other way."""
    if tied(layer, state, one, a) or tied(layer, state, two, b) or barred(layer, one, b) or barred(layer, two, a):
        return False
    return not (narrows(layer, state, one, a, b) or narrows(layer, state, two, b, a))


@jit
def may_change(layer: Layer, state: State, out: int, to: int, at: int) -> bool:
    """Whether pins, prohibitions and nodes let a slot of a GPU change over from expert `out` to `to`."""
    return not (tied(layer, state, out, at) or barred(layer, to, at) or narrows(layer, state, out, at, -1))


@jit
def take_swap(layer: Layer, state: State, first: int, second: int) -> None:
    """Exchange the replicas of two slots."""
    one = state.held[first]
    two = state.held[second]
    for w in range(layer.loads.shape[0]):
        shift = state.unit[w, one] - state.unit[w, two]
        state.total[w, layer.gpu[first]] -= shift
        state.total[w, layer.gpu[second]] += shift
    leave(layer, state, first)
    leave(layer, state, second)
    enter(layer, state, two, first)
    enter(layer, state, one, second)


@jit
def take_transfer(layer: Layer, state: State, slot: int, to: int) -> None:
    """Change `slot` over to expert `to`: its other replicas get lighter, those of the expert that leaves heavier."""
    out = state.held[slot]
    windows = layer.loads.shape[0]
    for turn in range(2):
        expert = out if turn == 0 else to
        for w in range(windows):
            for copy in range(0 if expert == layer.empty else state.counts[expert]):
                state.total[w, layer.gpu[state.where[expert, copy]]] -= state.unit[w, expert]
        if turn == 0:
            leave(layer, state, slot)
        else:
            enter(layer, state, to, slot)
        for w in range(windows):
            for copy in range(0 if expert == layer.empty else state.counts[expert]):
                state.total[w, layer.gpu[state.where[expert, copy]]] += state.unit[w, expert]


@jit
def keep(layer: Layer, state: State, reach: Floats, found: Small, rows: Flags) -> None:
    """Take the state into the frontier if nothing with as few moves is as good."""
    moves = state.moves[0]
    if moves >= reach.shape[0]:
        return
    top = value(layer, state)
    if top >= reach[moves] * (1.0 - EPSILON):
        return
    for slot in range(state.held.shape[0]):
        found[moves, slot] = state.held[slot]
    rows[moves] = True
    for more in range(moves, reach.shape[0]):
        if reach[more] <= top:
            break
        reach[more] = top
        if more > moves:
            rows[more] = False


@jit
def hot_slot(total: Floats, pace: Floats, start: Ints, threshold: float, rng: Ints) -> int:
    """A slot of some GPU above the threshold, or any slot when there is none."""
    num_gpus = pace.shape[0]
    first = draw(rng, num_gpus)
    for step in range(num_gpus):
        g = first + step
        if g >= num_gpus:
            g -= num_gpus
        for w in range(total.shape[0]):
            if total[w, g] * pace[g] > threshold and start[g + 1] > start[g]:
                return int(start[g] + draw(rng, start[g + 1] - start[g]))
    return draw(rng, int(start[num_gpus]))


@jit
def transfer_rise(
    loads: Floats,
    floor: Floats,
    unit: Floats,
    counts: Ints,
    where: Small,
    gpu: Ints,
    pace: Floats,
    total: Floats,
    shift: Floats,
    empty: int,
    slot: int,
    out: int,
    to: int,
    threshold: float,
    sharp: float,
) -> float:
    """Rise of the energy by the heights of all GPUs concerned if `slot` changes over from expert `out` to `to`."""
    home = gpu[slot]
    rise = 0.0
    for w in range(loads.shape[0]):
        if out != empty:
            change = piece(loads[w, out], counts[out] - 1, floor[w]) - unit[w, out]
            for copy in range(counts[out]):
                shift[gpu[where[out, copy]]] += change
            shift[home] -= unit[w, out] + change
        if to != empty:
            after = piece(loads[w, to], counts[to] + 1, floor[w])
            for copy in range(counts[to]):
                shift[gpu[where[to, copy]]] += after - unit[w, to]
            shift[home] += after
        for turn in range(3):
            expert = out if turn == 1 else to
            copies = 1 if turn == 0 else (0 if expert == empty else counts[expert])
            for copy in range(copies):
                at = home if turn == 0 else gpu[where[expert, copy]]
                if shift[at] != 0.0:
                    now = total[w, at]
                    rise += steep((now + shift[at]) * pace[at] - threshold, sharp)
                    rise -= steep(now * pace[at] - threshold, sharp)
                    shift[at] = 0.0
    return rise


@jit
def sweep(
    layer: Layer,
    state: State,
    how: Sweep,
    held: Ints,
    begin_step: int,
    end_step: int,
    reach: Floats,
    found: Small,
    fresh_rows: Flags,
    rng: Ints,
) -> int:
    """Steps `begin_step` to `end_step` of a sweep; how many proposals were taken.

    Parameters
    ----------
    layer, state
        The layer, and a state, which is updated.
    how
        Thresholds, sharpness, heat and the steps of the whole sweep.
    held
        (S,) experts in slots that step 0 begins with.
    reach
        (M + 1,) best value met with at most so many moves; updated.
    found, fresh_rows
        (M + 1, S) experts in slots of each new point of the frontier, and (M + 1,) which rows those are; updated.
    rng
        The generator's state; updated, so that a sweep cut into several calls takes the same steps.
    """
    if begin_step == 0:
        begin(layer, state, held)
    loads, gpu, start, pace, old, home = layer.loads, layer.gpu, layer.start, layer.pace, layer.old, layer.home
    order, place, chance, least = layer.order, layer.place, layer.chance, layer.least
    holds, counts, unit, on, where, total = state.held, state.counts, state.unit, state.on, state.where, state.total
    empty, distinct, num_slots, windows = layer.empty, layer.distinct, holds.shape[0], loads.shape[0]
    taken = 0
    threshold = how.high
    sharp = how.sharp
    for step in range(begin_step, end_step):
        if step % 32 == 0 or step == begin_step:
            threshold = how.high + (how.low - how.high) * ((step - step % 32) / how.steps)
            over = threshold - how.goal
            sharp = how.sharp if over * how.sharp <= how.soft else how.soft / over
        slot = hot_slot(total, pace, start, threshold, rng) if draw(rng, 2) == 0 else draw(rng, num_slots)
        kind = draw(rng, 8)
        one = holds[slot]
        a = gpu[slot]
        was = home[slot]
        if kind < 6:  # swap with what was here before, with a slightly lighter replica, or with any
            other = -1
            if kind < 2 and was >= 0 and was != one and was != empty and on[was, a] == 0:
                other = where[was, draw(rng, counts[was])]
            elif kind != 5 and one != empty:
                at = place[one] - 1 - ((((draw(rng, 1024) * draw(rng, 1024)) >> 10) * layer.reach) >> 10)
                if at >= 0:
                    other = where[order[at], draw(rng, counts[order[at]])]
            if other < 0:
                other = draw(rng, num_slots)
            two = holds[other]
            b = gpu[other]
            if a == b or one == two:
                continue
            if distinct and ((on[one, b] > 0 and one != empty) or (on[two, a] > 0 and two != empty)):
                continue
            change = 0
            if on[one, b] == 0 and not old[one, b]:
                change += 1
            if on[two, a] == 0 and not old[two, a]:
                change += 1
            if on[one, a] == 1 and not old[one, a]:
                change -= 1
            if on[two, b] == 1 and not old[two, b]:
                change -= 1
            if state.moves[0] + change > how.most_moves:
                continue
            rise = float(change)
            for w in range(windows):
                shift = unit[w, one] - unit[w, two]
                here = total[w, a]
                there = total[w, b]
                rise += steep((here - shift) * pace[a] - threshold, sharp)
                rise += steep((there + shift) * pace[b] - threshold, sharp)
                rise -= steep(here * pace[a] - threshold, sharp)
                rise -= steep(there * pace[b] - threshold, sharp)
            if rise > how.heat * chance[draw(rng, 1024)] or not may_swap(layer, state, one, two, a, b):
                continue
            take_swap(layer, state, slot, other)
        else:  # change over to what was here before, to any, or another slot to one copy more of what is here
            to = holds[draw(rng, num_slots)]
            if kind == 6 and was >= 0 and was != one:
                to = was
            elif kind == 7:
                to = one
                slot = draw(rng, num_slots)
                for _ in range(num_slots):
                    if holds[slot] == empty or counts[holds[slot]] > least[holds[slot]]:
                        break
                    slot = slot + 1 if slot + 1 < num_slots else 0
                one = holds[slot]
                a = gpu[slot]
            if one == to or (one != empty and counts[one] <= least[one]):
                continue
            if to != empty and (counts[to] >= layer.most or (distinct and on[to, a] > 0)):
                continue
            change = 0
            if on[to, a] == 0 and not old[to, a]:
                change += 1
            if on[one, a] == 1 and not old[one, a]:
                change -= 1
            if state.moves[0] + change > how.most_moves:
                continue
            rise = change + transfer_rise(
                loads,
                layer.floor,
                unit,
                counts,
                where,
                gpu,
                pace,
                total,
                state.shift,
                empty,
                slot,
                one,
                to,
                threshold,
                sharp,
            )
            if rise > how.heat * chance[draw(rng, 1024)] or not may_change(layer, state, one, to, a):
                continue
            take_transfer(layer, state, slot, to)
        taken += 1
        keep(layer, state, reach, found, fresh_rows)
    return taken
