"""Descent, kicks, and the search that alternates them."""

from __future__ import annotations

import numpy as np

from moeopt.kernels._jit import jit
from moeopt.kernels.packing.moves import best_swap, best_transfer
from moeopt.kernels.packing.state import (
    EPSILON,
    Floats,
    Ints,
    Layer,
    State,
    add,
    change,
    cost_at,
    draw,
    may_change,
    may_swap,
    remove,
    swap,
    weigh,
)

BEST, THRESHOLD, COST, FAILS, STEP, WORK = range(6)
"""Places in the memory vector: incumbent's largest cost, threshold, cost of the base, kicks in vain, step, and the
slots looked at so far by scans of hot GPUs: a measure of work that is the same on every machine."""

PATIENCE = 32.0
"""Kicks in vain after which the threshold moves closer to the incumbent."""
FIRST_STEP, LEAST_STEP = 2e-3, 1e-4


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


def remember(top: float, goal: float) -> Floats:
    """The memory vector of a search that begins at an incumbent of cost `top`."""
    threshold = max(goal, top * (1.0 - FIRST_STEP))
    return np.array([top, threshold, np.inf, 0.0, FIRST_STEP, 0.0])


@jit
def improve(
    layer: Layer, base: Ints, best: Ints, goal: float, rounds: int, work: float, memory: Floats, rng: Ints
) -> int:
    """Search `rounds` rounds on from `base`, or until the incumbent is at or below `goal`; the rounds done.

    Parameters
    ----------
    layer
        The loads and the GPUs.
    base, best
        (S,) state to go on from, and incumbent; both are updated.
    goal
        Largest cost of a GPU at which the search may end.
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
    state = State(
        base.copy(),
        np.zeros(num_experts, np.int64),
        np.zeros(num_experts, np.float64),
        np.zeros((num_experts, num_gpus), np.int64),
        np.zeros((num_experts, layer.most + 1), np.int64),
        np.zeros(num_slots, np.int64),
        np.zeros(num_gpus, np.float64),
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
    weigh(layer, state)
    done = 0
    while done < rounds and memory[BEST] > goal and memory[WORK] < work:
        if memory[COST] < np.inf:  # not in the very first round, which only descends
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
            best[:] = state.held
            base[:] = state.held
            memory[THRESHOLD] = max(goal, top * (1.0 - memory[STEP]))
        elif memory[WORK] >= work:  # out of work, perhaps in the middle of a descent
            base[:] = state.held
            memory[COST] = np.inf
            break
        else:
            memory[FAILS] += 1.0
            if cost_at(layer, state, memory[THRESHOLD]) <= memory[COST]:
                base[:] = state.held
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
