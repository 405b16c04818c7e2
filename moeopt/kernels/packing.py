"""The deep search of one layer: replica counts and packing together, by descent and kicks under a falling threshold.

A state is the expert in each slot. Its cost at a threshold T is ``sum_g max(0, C_g - T)^2``: how far GPUs stand above
T. Descent takes the hottest GPU and applies the best swap with another GPU, or the best transfer (one replica of an
expert gives its slot to another expert); when nothing helps, a random kick follows, kept if the cost is no higher
after the next descent. Whenever the largest cost falls, the state is the new incumbent and T moves below it.

Everything here is in the subset that numba compiles; interpreted, it does the same steps and gives the same bytes.
One file on purpose: numba's cache notices changes of the file a function is in, not of the files it calls into.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit
from moeopt.kernels.common import copy_into, draw, piece

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BEST, THRESHOLD, COST, FAILS, STEP, WORK = range(6)
"""Places in the memory vector: incumbent's largest cost, threshold, cost of the base, kicks in vain, step, and the
slots looked at so far by scans of hot GPUs: a measure of work that is the same on every machine."""

PINNED, FORBIDDEN = 1, 2

EPSILON = 1e-12
PATIENCE = 32.0
"""Kicks in vain after which the threshold moves closer to the incumbent."""
SOON = 3.0
"""Kicks in vain after which a search ends that has come to what is enough."""
FIRST_STEP, LEAST_STEP = 3e-2, 1e-4
"""How far below the incumbent the threshold lies: far at first, so that nearly full GPUs count as well."""
NARROW_STEP = 2e-3
"""The same with five slots or more on at most 64 GPUs, where the goal is near: less work a round."""


class Layer(NamedTuple):
    """What does not change: the loads of one layer and the GPUs.

    ``loads`` (E,) scaled, with empty slots allowed (E + 1,), the last one -1; ``floor`` least cost of a replica,
    scaled; ``gpu`` (S,) GPU of each slot; ``start`` (G + 1,) first slots; ``pace`` (G,) reciprocal speeds; ``rule``
    (E, G) 0, `PINNED` or `FORBIDDEN`, (0, 0) when there are none; ``distinct`` no doubles on a GPU; ``most`` replicas
    of an expert; ``empty`` id of the empty expert, or -1; ``base`` (G,) load that every GPU has whatever it holds, at
    speed 1, scaled; ``least`` (E,) replicas an expert keeps; ``home`` (G,) node of each GPU, from 0, and ``spread``
    nodes an expert keeps replicas on, 1 when there is no such rule.
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
    base: Floats
    least: Ints
    home: Ints
    spread: int


class State(NamedTuple):
    """What the search changes, and its scratch space.

    ``held`` (S,) expert in each slot; ``counts`` (E,) replicas; ``unit`` (E,) cost of one replica; ``on`` (E, G)
    replicas on a GPU; ``where`` (E, most) slots of an expert; ``rank`` (S,) place of a slot in ``where``; ``inside``
    (E, N) replicas on a node and ``nodes`` (E,) nodes with any, (0, 0) and (0,) without a rule on nodes; ``total``
    (G,) loads.
    """

    held: Ints
    counts: Ints
    unit: Floats
    on: Ints
    where: Ints
    rank: Ints
    inside: Ints
    nodes: Ints
    total: Floats
    beside: Floats
    shift: Floats
    height: Floats
    grown: Floats
    shrunk: Floats
    relief: Floats
    strain: Floats
    tried: NDArray[np.bool_]
    move: Ints


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
    total, pace = state.total, layer.pace
    cost = 0.0
    for g in range(pace.shape[0]):
        cost += over(total[g], pace[g], threshold)
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
    if layer.spread > 1:
        at = layer.home[layer.gpu[slot]]
        state.inside[expert, at] += 1
        if state.inside[expert, at] == 1:
            state.nodes[expert] += 1
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
    if layer.spread > 1:
        at = layer.home[layer.gpu[slot]]
        state.inside[expert, at] -= 1
        if state.inside[expert, at] == 0:
            state.nodes[expert] -= 1
    state.unit[expert] = piece(layer.loads[expert], state.counts[expert], layer.floor)


@jit
def weigh(layer: Layer, state: State) -> float:
    """Load of every GPU from scratch; the largest cost."""
    total, unit, held = state.total, state.unit, state.held
    base, start, pace = layer.base, layer.start, layer.pace
    top = 0.0
    for g in range(pace.shape[0]):
        load = base[g]
        for slot in range(start[g], start[g + 1]):
            load += unit[held[slot]]
        total[g] = load
        top = max(top, load * pace[g])
    return top


@jit
def too_close(layer: Layer, state: State, expert: int, leaves: int, enters: int) -> bool:
    """Whether an expert that leaves one GPU, for another or for none (-1), would lie on too few nodes."""
    if layer.spread < 2 or expert == layer.empty:
        return False
    old = layer.home[leaves]
    new = layer.home[enters] if enters >= 0 else -1
    if old == new:
        return False
    nodes = state.nodes[expert]
    if state.inside[expert, old] == 1:
        nodes -= 1
    if new >= 0 and state.inside[expert, new] == 0:
        nodes += 1
    return bool(nodes < layer.spread and nodes < state.nodes[expert])


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
    return not (too_close(layer, state, one, a, b) or too_close(layer, state, two, b, a))


@jit
def may_change(layer: Layer, state: State, slot: int, to: int) -> bool:
    """Whether `slot` may change over to expert `to`."""
    out = state.held[slot]
    home = layer.gpu[slot]
    if out == to or (out != layer.empty and state.counts[out] <= layer.least[out]):
        return False
    if to != layer.empty and (state.counts[to] >= layer.most or (layer.distinct and state.on[to, home] > 0)):
        return False
    if layer.rule.shape[0] > 0:
        if layer.rule[to, home] == FORBIDDEN:
            return False
        if layer.rule[out, home] == PINNED and state.on[out, home] == 1:
            return False
    return not too_close(layer, state, out, home, -1)


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


@jit
def best_swap(layer: Layer, state: State, hot: int, threshold: float) -> float:
    """Most that one swap with the hot GPU takes off the cost; the two slots are left in `move`.

    A swap that beats the best so far leaves neither of its GPUs higher than the root of what cost may then remain:
    few pairs shift that much and no more, and the others are passed over at one look.
    """
    least = least_gain(threshold)
    best = least
    gpu_load, pace, held, unit, beside = state.total, layer.pace, state.held, state.unit, state.beside
    on, distinct, empty = state.on, layer.distinct, layer.empty
    ruled = layer.rule.shape[0] > 0 or layer.spread > 1
    height = gpu_load[hot] * pace[hot]
    hot_cost = over(gpu_load[hot], pace[hot], threshold)
    for other in range(pace.shape[0]):
        low_height = gpu_load[other] * pace[other]
        if low_height >= height:
            continue
        before = hot_cost + over(gpu_load[other], pace[other], threshold)
        root = np.sqrt(before - best) * (1.0 + EPSILON) if before > best else 0.0
        at_least = max((height - threshold - root) / pace[hot], 0.0)
        at_most = (threshold + root - low_height) / pace[other]
        if at_most <= at_least:
            continue
        begin, end = layer.start[other], layer.start[other + 1]
        for second in range(begin, end):
            beside[second - begin] = unit[held[second]]
        for first in range(layer.start[hot], layer.start[hot + 1]):
            size = unit[held[first]]
            for second in range(begin, end):
                shift = size - beside[second - begin]
                if shift <= at_least or shift >= at_most:
                    continue
                gain = (
                    before
                    - over(gpu_load[hot] - shift, pace[hot], threshold)
                    - over(gpu_load[other] + shift, pace[other], threshold)
                )
                if gain > best:
                    one, two = held[first], held[second]
                    if distinct and ((on[one, other] > 0 and one != empty) or (on[two, hot] > 0 and two != empty)):
                        continue  # a call to ask costs more than a look at a whole GPU
                    if ruled and not may_swap(layer, state, first, second):
                        continue
                    best = gain
                    state.move[0] = first
                    state.move[1] = second
                    if best >= hot_cost * (1.0 - EPSILON):
                        return best  # the hot GPU comes down to the threshold, and no other one rises above it
    return best if best > least else 0.0


@jit
def transfer_gain(layer: Layer, state: State, slot: int, to: int, threshold: float) -> float:
    """What it takes off the cost if `slot` changes over to expert `to`."""
    shift, total, unit, counts, where = state.shift, state.total, state.unit, state.counts, state.where
    gpu, pace, loads, empty = layer.gpu, layer.pace, layer.loads, layer.empty
    out = state.held[slot]
    home = gpu[slot]
    shift[home] -= unit[out]
    if out != empty:
        change_out = piece(loads[out], counts[out] - 1, layer.floor) - unit[out]
        for copy in range(counts[out]):
            if where[out, copy] != slot:
                shift[gpu[where[out, copy]]] += change_out
    if to != empty:
        after = piece(loads[to], counts[to] + 1, layer.floor)
        shift[home] += after
        for copy in range(counts[to]):
            shift[gpu[where[to, copy]]] += after - unit[to]
    gain = over(total[home], pace[home], threshold)
    gain -= over(total[home] + shift[home], pace[home], threshold)
    shift[home] = 0.0
    for turn in range(2):
        expert = out if turn == 0 else to
        if expert == empty:
            continue
        for copy in range(counts[expert]):
            at = gpu[where[expert, copy]]
            if shift[at] != 0.0:
                gain += over(total[at], pace[at], threshold)
                gain -= over(total[at] + shift[at], pace[at], threshold)
                shift[at] = 0.0
    return gain


@jit
def weigh_counts(layer: Layer, state: State, threshold: float) -> None:
    """What one copy more of an expert would take off the cost of its GPUs (`relief`), and one less add (`strain`)."""
    height, relief, strain, grown, shrunk = state.height, state.relief, state.strain, state.grown, state.shrunk
    total, unit, counts, held = state.total, state.unit, state.counts, state.held
    gpu, pace, loads, floor = layer.gpu, layer.pace, layer.loads, layer.floor
    for g in range(pace.shape[0]):
        height[g] = over(total[g], pace[g], threshold)
    for expert in range(counts.shape[0]):
        relief[expert] = 0.0
        strain[expert] = 0.0
        grown[expert] = piece(loads[expert], counts[expert] + 1, floor)
        shrunk[expert] = piece(loads[expert], counts[expert] - 1, floor)
    for slot in range(held.shape[0]):
        expert = held[slot]
        if expert == layer.empty:
            continue
        at = gpu[slot]
        if height[at] > 0.0:
            less = total[at] + grown[expert] - unit[expert]
            relief[expert] += height[at] - over(less, pace[at], threshold)
        if counts[expert] > 1:
            more = total[at] + shrunk[expert] - unit[expert]
            strain[expert] += over(more, pace[at], threshold) - height[at]


@jit
def best_transfer(layer: Layer, state: State, hot: int, threshold: float) -> float:
    """Most that one transfer touching the hot GPU takes off the cost; slot and expert are left in `move`.

    `weigh_counts` gives a guess that is exact unless replicas of both experts share a GPU; only a guess that beats
    the best so far is computed in full.
    """
    weigh_counts(layer, state, threshold)
    height, relief, strain, grown, shrunk = state.height, state.relief, state.strain, state.grown, state.shrunk
    total, unit, counts, held = state.total, state.unit, state.counts, state.held
    gpu, pace, fewest, empty = layer.gpu, layer.pace, layer.least, layer.empty
    on, distinct, most = state.on, layer.distinct, layer.most
    ruled = layer.rule.shape[0] > 0 or layer.spread > 1
    least = least_gain(threshold)
    best = least
    for first in range(layer.start[hot], layer.start[hot + 1]):
        inside = held[first]
        for turn in range(2):
            # turn 0: one more copy of `inside` elsewhere relieves the hot GPU; turn 1: it gives its slot away
            if inside == empty or (counts[inside] >= most and turn == 0):
                continue
            if turn == 1 and inside != empty and counts[inside] <= fewest[inside]:
                continue
            for other in range(held.shape[0] if turn == 0 else counts.shape[0]):
                slot = other if turn == 0 else first
                to = inside if turn == 0 else other
                out = held[slot]
                home = gpu[slot]
                if (turn == 0 and home == hot) or (out != empty and counts[out] <= fewest[out]):
                    continue
                now = total[home]
                guess = height[home] + relief[to] - strain[out]
                if strain[out] > 0.0:  # the strain counts this slot's own GPU, where nothing is left to strain
                    more = now + shrunk[out] - unit[out]
                    guess += over(more, pace[home], threshold) - height[home]
                if guess <= best:
                    continue
                guess -= over(now - unit[out] + grown[to], pace[home], threshold)
                if guess <= best or out == to:
                    continue
                if to != empty and (counts[to] >= most or (distinct and on[to, home] > 0)):
                    continue  # as in `best_swap`
                if ruled and not may_change(layer, state, slot, to):
                    continue
                gain = transfer_gain(layer, state, slot, to, threshold)
                if gain > best:
                    best = gain
                    state.move[0] = slot
                    state.move[1] = to
    return best if best > least else 0.0


@jit
def descend(layer: Layer, state: State, threshold: float, most_scans: float) -> int:
    """Apply improving moves, hottest GPU first, until none of the GPUs above the threshold has one; the scans made."""
    state.tried[:] = False
    scans = 0
    while scans < most_scans:
        hot = -1
        height = threshold * (1.0 + EPSILON)
        for g in range(layer.pace.shape[0]):
            if not state.tried[g] and state.total[g] * layer.pace[g] > height:
                hot = g
                height = state.total[g] * layer.pace[g]
        if hot < 0:
            return scans
        scans += 1
        if best_swap(layer, state, hot, threshold) > 0.0:
            swap(layer, state, state.move[0], state.move[1])
            state.tried[layer.gpu[state.move[1]]] = False
        elif best_transfer(layer, state, hot, threshold) > 0.0:
            change(layer, state, state.move[0], state.move[1])
            state.tried[:] = False
        else:
            state.tried[hot] = True
    return scans


@jit
def kick(layer: Layer, state: State, threshold: float, rng: Ints) -> None:
    """One random legal move: a swap or a transfer, half of the time touching a GPU above the threshold."""
    num_slots = state.held.shape[0]
    num_gpus = layer.pace.shape[0]
    for _ in range(64):
        first = draw(rng, num_slots)
        if draw(rng, 2) == 0:
            turn = draw(rng, num_gpus)
            for step in range(num_gpus):
                g = (turn + step) % num_gpus
                width = layer.start[g + 1] - layer.start[g]
                if width > 0 and state.total[g] * layer.pace[g] > threshold:
                    first = layer.start[g] + draw(rng, width)
                    break
        if draw(rng, 2) == 0:
            second = draw(rng, num_slots)
            if may_swap(layer, state, first, second):
                swap(layer, state, first, second)
                return
            continue
        if draw(rng, 2) == 0:  # one more copy of what sits in `first`, in any slot that can be spared
            to = state.held[first]
            slot = draw(rng, num_slots)
        else:
            to = draw(rng, state.counts.shape[0])
            slot = first
        for step in range(num_slots):
            at = (slot + step) % num_slots
            if may_change(layer, state, at, to):
                change(layer, state, at, to)
                return


def remember(step: float = FIRST_STEP) -> Floats:
    """The memory vector of a search yet to begin; its threshold will lie a `step` below the cost of its start."""
    return np.array([np.inf, np.inf, np.inf, 0.0, step, 0.0])


@jit
def improve(
    layer: Layer,
    base: Ints,
    best: Ints,
    goal: float,
    enough: float,
    rounds: int,
    work: float,
    memory: Floats,
    rng: Ints,
) -> int:
    """Search `rounds` rounds on from `base`, or until the incumbent is at or below `goal`; the rounds done.

    Parameters
    ----------
    layer
        The loads and the GPUs.
    base, best
        (S,) state to go on from, and incumbent; both are updated.
    goal
        Largest cost of a GPU at which the search ends.
    enough
        Cost at which it ends too, once `SOON` kicks have been in vain.
    work
        The search ends once ``memory[WORK]`` has come to this, in the middle of a descent if need be: a later call
        goes on with that descent.
    memory, rng
        The vector of `BEST` ... `WORK`, and the generator's state; both are updated, so that a search cut into
        several calls takes the same steps.
    """
    num_slots = base.shape[0]
    num_gpus = layer.pace.shape[0]
    num_experts = layer.loads.shape[0]
    num_nodes = layer.home.max() + 1 if layer.spread > 1 else 0
    state = State(
        base.copy(),
        np.zeros(num_experts, np.int64),
        np.zeros(num_experts, np.float64),
        np.zeros((num_experts, num_gpus), np.int64),
        np.zeros((num_experts, layer.most + 1), np.int64),
        np.zeros(num_slots, np.int64),
        np.zeros((num_experts, num_nodes) if layer.spread > 1 else (0, 0), np.int64),
        np.zeros(num_experts if layer.spread > 1 else 0, np.int64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_slots, np.float64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_gpus, np.bool_),
        np.zeros(2, np.int64),
    )
    for slot in range(num_slots):
        add(layer, state, base[slot], slot)
    top = weigh(layer, state)
    if memory[BEST] == np.inf:
        memory[BEST] = top
        memory[THRESHOLD] = max(goal, top * (1.0 - memory[STEP]))
    done = 0
    while done < rounds and memory[BEST] > goal and memory[WORK] < work:
        if memory[BEST] <= enough and memory[FAILS] >= SOON:
            break
        if memory[COST] < np.inf:  # else there is only a descent to go on with
            kick(layer, state, memory[THRESHOLD], rng)
            if draw(rng, 3) == 0:
                kick(layer, state, memory[THRESHOLD], rng)
        scans_left = (work - memory[WORK]) / num_slots
        memory[WORK] += descend(layer, state, memory[THRESHOLD], scans_left) * num_slots
        done += 1
        top = weigh(layer, state)
        if top < memory[BEST] * (1.0 - EPSILON):
            memory[BEST] = top
            memory[FAILS] = 0.0
            copy_into(best, state.held)
            copy_into(base, state.held)
            reached = top <= memory[THRESHOLD] * (1.0 + EPSILON)
            memory[THRESHOLD] = max(goal, top * (1.0 - memory[STEP]))
            if reached:  # not stuck: on to the next threshold without a kick
                memory[COST] = np.inf
                continue
        elif memory[WORK] >= work:  # out of work, perhaps in the middle of a descent
            copy_into(base, state.held)
            memory[COST] = np.inf
            break
        else:
            memory[FAILS] += 1.0
            if cost_at(layer, state, memory[THRESHOLD]) <= memory[COST]:
                copy_into(base, state.held)
            else:  # back to the base, slot by slot
                for slot in range(num_slots):
                    if state.held[slot] != base[slot]:
                        remove(layer, state, slot)
                for slot in range(num_slots):
                    if state.held[slot] != base[slot]:
                        add(layer, state, base[slot], slot)
                weigh(layer, state)
            if memory[FAILS] >= PATIENCE:
                memory[FAILS] = 0.0
                memory[STEP] = max(memory[STEP] * 0.5, LEAST_STEP)
                memory[THRESHOLD] = max(goal, memory[BEST] * (1.0 - memory[STEP]))
        memory[COST] = cost_at(layer, state, memory[THRESHOLD])
    return done


@jit
def improve_layers(
    layer: Layer,
    loads: Floats,
    floor: Floats,
    held: Ints,
    goal: Floats,
    enough: Floats,
    rounds: int,
    work: float,
    memory: Floats,
    rng: Ints,
    done: Ints,
) -> None:
    """`improve` one layer after another on the same GPUs, each from its row of `held`, where its incumbent is left.

    Parameters
    ----------
    layer
        What all have in common: its own loads and floor are not looked at.
    loads, floor, held, goal, enough
        (L, E), (L,), (L, S), (L,) and (L,): what each layer has of its own.
    rounds, work
        For each layer.
    memory, rng, done
        (L, 6), (L, 1) and (L,): vectors as for `improve`, and the rounds done.
    """
    for row in range(held.shape[0]):
        own = Layer(
            loads[row],
            floor[row],
            layer.gpu,
            layer.start,
            layer.pace,
            layer.rule,
            layer.distinct,
            layer.most,
            layer.empty,
            layer.base,
            layer.least,
            layer.home,
            layer.spread,
        )
        done[row] = improve(
            own, held[row].copy(), held[row], goal[row], enough[row], rounds, work, memory[row], rng[row]
        )
