"""The search of one layer over several windows: one plan, judged by the combined imbalance of all windows.

A state is the expert in each slot; ``total[g, w]`` is the cost of a GPU in window `w`, in parts of that window's ideal,
and ``rho_w = max_g total[g, w]``. What is minimised is the mean of the largest `tail` of the W ratios, the last one in
part: `tail` 1 is the worst window, W is the mean, between them lies CVaR.

Descent works on squared heights above one level a window, ``sum_g,w max(0, total[g, w] - level_w)^2``. The levels lie
just below ``max(rho_w, t)`` with `t` the least ratio that counts, so that first-order gains are gains of the objective,
and a window below `t` may rise up to it for nothing. When no move helps, a random kick follows, kept if the cost is no
higher after the next descent. Whenever the objective falls, the state is the new incumbent and the levels follow it.

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

BEST, COST, FAILS, STEP, WORK = range(5)
"""Places in the memory vector: incumbent's objective, cost of the base, kicks in vain, how far the levels lie below
the incumbent's ratios, and slots times windows looked at so far: a measure of work that is alike on every machine."""

PINNED, FORBIDDEN = 1, 2

EPSILON = 1e-12
PATIENCE = 4.0
"""Kicks in vain after which the levels move closer to the incumbent."""
FIRST_STEP, LEAST_STEP = 1e-1, 1e-4


class Field(NamedTuple):
    """What does not change: the loads of one layer in every window, and the GPUs.

    ``loads`` (E, W) in parts of each window's ideal, with empty slots allowed (E + 1, W), the last row -1; ``floor``
    (W,) least cost of a replica; ``base`` (G, W) what a GPU carries anyhow, at speed 1; ``least`` (W,) proven floor
    under each ratio; ``gpu`` (S,) GPU of each slot; ``start`` (G + 1,) first slots; ``pace`` (G,) reciprocal speeds;
    ``rule`` (E, G) 0, `PINNED` or `FORBIDDEN`, (0, 0) when there are none; ``distinct`` no doubles on a GPU; ``most``
    replicas of an expert; ``empty`` id of the empty expert, or -1; ``tail`` how many of the ratios count; ``keeps``
    (E,) replicas an expert keeps; ``home`` (G,) node of each GPU; ``spread`` nodes an expert keeps replicas on, or 1.
    """

    loads: Floats
    floor: Floats
    base: Floats
    least: Floats
    gpu: Ints
    start: Ints
    pace: Floats
    rule: NDArray[np.int8]
    distinct: bool
    most: int
    empty: int
    tail: float
    keeps: Ints
    home: Ints
    spread: int


class State(NamedTuple):
    """What the search changes, and its scratch space.

    ``held`` (S,) expert in each slot; ``counts`` (E,) replicas; ``unit`` (E, W) cost of one replica; ``on`` (E, G)
    replicas on a GPU; ``where`` (E, most + 1) slots of an expert; ``rank`` (S,) place of a slot in ``where``; ``total``
    (G, W) loads; ``ratio`` (W,) the largest of each window; ``level`` (W,) where heights begin.
    """

    held: Ints
    counts: Ints
    unit: Floats
    on: Ints
    where: Ints
    rank: Ints
    total: Floats
    ratio: Floats
    level: Floats
    shift: Floats
    shifted: NDArray[np.bool_]
    height: Floats
    relief: Floats
    strain: Floats
    tried: NDArray[np.bool_]
    move: Ints


@jit
def combined(ratios: Floats, tail: float) -> float:
    """Mean of the largest `tail` ratios, the last of them in part; none counts below 1."""
    ordered = np.sort(ratios)
    left = tail
    total: float = 0.0
    for place in range(ordered.shape[0]):
        part = left if left < 1.0 else 1.0
        if part <= 0.0:
            break
        value = ordered[ordered.shape[0] - 1 - place]
        total += part * (value if value > 1.0 else 1.0)
        left -= part
    return total / tail


@jit
def set_levels(field: Field, state: State, step: float) -> None:
    """Levels just below the ratios of the state that count; the others may rise up to the least of these."""
    ordered = np.sort(state.ratio)
    counted = int(np.ceil(field.tail))
    least = ordered[ordered.shape[0] - counted]
    for w in range(state.level.shape[0]):
        level = (state.ratio[w] if state.ratio[w] > least else least) * (1.0 - step)
        state.level[w] = level if level > field.least[w] else field.least[w]


@jit
def heights(field: Field, state: State, gpu: int) -> float:
    """Squared heights of one GPU above the levels, over all windows."""
    cost = 0.0
    for w in range(field.floor.shape[0]):
        above = state.total[gpu, w] * field.pace[gpu] - state.level[w]
        if above > 0.0:
            cost += above * above
    return cost


@jit
def changed_heights(field: Field, state: State, gpu: int, gains: int, loses: int, most: float) -> float:
    """The same if a replica of `gains` came and one of `loses` left, counts as they are; given up above `most`."""
    cost: float = 0.0
    for w in range(field.floor.shape[0]):
        load = state.total[gpu, w] + state.unit[gains, w] - state.unit[loses, w]
        above = load * field.pace[gpu] - state.level[w]
        if above > 0.0:
            cost += above * above
            if cost >= most:
                return cost
    return cost


@jit
def put(field: Field, state: State, expert: int, slot: int) -> None:
    """Put a replica of `expert` into an unoccupied slot; loads of GPUs are not touched."""
    state.held[slot] = expert
    state.on[expert, field.gpu[slot]] += 1
    if expert != field.empty:
        state.where[expert, state.counts[expert]] = slot
        state.rank[slot] = state.counts[expert]
    state.counts[expert] += 1
    for w in range(field.floor.shape[0]):
        state.unit[expert, w] = piece(field.loads[expert, w], state.counts[expert], field.floor[w])


@jit
def take(field: Field, state: State, slot: int) -> None:
    """Take the replica out of a slot; loads of GPUs are not touched."""
    expert = state.held[slot]
    state.on[expert, field.gpu[slot]] -= 1
    state.counts[expert] -= 1
    if expert != field.empty:
        last = state.where[expert, state.counts[expert]]
        state.where[expert, state.rank[slot]] = last
        state.rank[last] = state.rank[slot]
    for w in range(field.floor.shape[0]):
        state.unit[expert, w] = piece(field.loads[expert, w], state.counts[expert], field.floor[w])


@jit
def weigh_windows(field: Field, state: State) -> float:
    """Loads and ratios from scratch; the objective."""
    for g in range(field.pace.shape[0]):
        for w in range(field.floor.shape[0]):
            state.total[g, w] = field.base[g, w]
    for slot in range(state.held.shape[0]):
        for w in range(field.floor.shape[0]):
            state.total[field.gpu[slot], w] += state.unit[state.held[slot], w]
    for w in range(field.floor.shape[0]):
        top = 0.0
        for g in range(field.pace.shape[0]):
            top = max(top, state.total[g, w] * field.pace[g])
        state.ratio[w] = top
    return combined(state.ratio, field.tail)


@jit
def cost_of(field: Field, state: State) -> float:
    """Cost of the state: squared heights of all GPUs in all windows."""
    cost = 0.0
    for g in range(field.pace.shape[0]):
        cost += heights(field, state, g)
    return cost


@jit
def too_close(field: Field, state: State, slot: int, to: int) -> bool:
    """Whether the expert in a slot, once it has left it for GPU `to` or for none (-1), would lie on too few nodes."""
    expert = state.held[slot]
    if field.spread < 2 or expert == field.empty:
        return False
    nodes = 0
    if to >= 0:
        nodes = 1
    for copy in range(state.counts[expert]):
        here = state.where[expert, copy]
        if here == slot:
            continue
        node = field.home[field.gpu[here]]
        seen = to >= 0 and field.home[to] == node
        for before in range(copy):
            there = state.where[expert, before]
            if there != slot and field.home[field.gpu[there]] == node:
                seen = True
        if not seen:
            nodes += 1
    return nodes < field.spread


@jit
def can_swap(field: Field, state: State, first: int, second: int) -> bool:
    """Whether two slots may exchange their replicas."""
    one = state.held[first]
    two = state.held[second]
    a = field.gpu[first]
    b = field.gpu[second]
    if a == b or one == two:
        return False
    if field.distinct and (
        (state.on[one, b] > 0 and one != field.empty) or (state.on[two, a] > 0 and two != field.empty)
    ):
        return False
    if field.rule.shape[0] > 0:
        if field.rule[one, b] == FORBIDDEN or field.rule[two, a] == FORBIDDEN:
            return False
        if field.rule[one, a] == PINNED and state.on[one, a] == 1:
            return False
        if field.rule[two, b] == PINNED and state.on[two, b] == 1:
            return False
    return not too_close(field, state, first, b) and not too_close(field, state, second, a)


@jit
def can_change(field: Field, state: State, slot: int, to: int) -> bool:
    """Whether `slot` may change over to expert `to`."""
    out = state.held[slot]
    home = field.gpu[slot]
    if out == to or (out != field.empty and state.counts[out] <= field.keeps[out]):
        return False
    if to != field.empty and (state.counts[to] >= field.most or (field.distinct and state.on[to, home] > 0)):
        return False
    if field.rule.shape[0] > 0:
        if field.rule[to, home] == FORBIDDEN:
            return False
        if field.rule[out, home] == PINNED and state.on[out, home] == 1:
            return False
    return not too_close(field, state, slot, -1)


@jit
def exchange(field: Field, state: State, first: int, second: int) -> None:
    """Exchange the replicas of two slots."""
    one = state.held[first]
    two = state.held[second]
    for w in range(field.floor.shape[0]):
        shift = state.unit[one, w] - state.unit[two, w]
        state.total[field.gpu[first], w] -= shift
        state.total[field.gpu[second], w] += shift
    take(field, state, first)
    take(field, state, second)
    put(field, state, two, first)
    put(field, state, one, second)


@jit
def reload(field: Field, state: State, expert: int, sign: float) -> None:
    """Add or take away what all replicas of an expert weigh, on their GPUs."""
    if expert == field.empty:
        return
    for copy in range(state.counts[expert]):
        at = field.gpu[state.where[expert, copy]]
        for w in range(field.floor.shape[0]):
            state.total[at, w] += sign * state.unit[expert, w]


@jit
def convert(field: Field, state: State, slot: int, to: int) -> None:
    """Change a slot over to expert `to`: its other replicas get lighter, those of the expert that leaves heavier."""
    out = state.held[slot]
    reload(field, state, out, -1.0)
    reload(field, state, to, -1.0)
    take(field, state, slot)
    put(field, state, to, slot)
    reload(field, state, out, 1.0)
    reload(field, state, to, 1.0)


@jit
def find_swap(field: Field, state: State, hot: int, critical: int, least: float) -> float:
    """Most that one swap with the hot GPU takes off the cost; the two slots are left in `move`."""
    best = least
    hot_cost = state.height[hot]
    for other in range(field.pace.shape[0]):
        if other == hot:
            continue
        before = hot_cost + state.height[other]
        for first in range(field.start[hot], field.start[hot + 1]):
            one = state.held[first]
            for second in range(field.start[other], field.start[other + 1]):
                two = state.held[second]
                if state.unit[one, critical] <= state.unit[two, critical]:
                    continue
                after = changed_heights(field, state, hot, two, one, before - best)
                if before - after <= best:
                    continue
                after += changed_heights(field, state, other, one, two, before - best - after)
                if before - after > best and can_swap(field, state, first, second):
                    best = before - after
                    state.move[0] = first
                    state.move[1] = second
    return best if best > least else 0.0


@jit
def conversion_gain(field: Field, state: State, slot: int, to: int) -> float:
    """What it takes off the cost if `slot` changes over to expert `to`."""
    out = state.held[slot]
    home = field.gpu[slot]
    width = field.floor.shape[0]
    state.shifted[home] = True
    for w in range(width):
        state.shift[home, w] -= state.unit[out, w]
    if out != field.empty:
        for copy in range(state.counts[out]):
            if state.where[out, copy] != slot:
                at = field.gpu[state.where[out, copy]]
                state.shifted[at] = True
                for w in range(width):
                    after = piece(field.loads[out, w], state.counts[out] - 1, field.floor[w])
                    state.shift[at, w] += after - state.unit[out, w]
    if to != field.empty:
        for w in range(width):
            state.shift[home, w] += piece(field.loads[to, w], state.counts[to] + 1, field.floor[w])
        for copy in range(state.counts[to]):
            at = field.gpu[state.where[to, copy]]
            state.shifted[at] = True
            for w in range(width):
                after = piece(field.loads[to, w], state.counts[to] + 1, field.floor[w])
                state.shift[at, w] += after - state.unit[to, w]
    gain = 0.0
    for turn in range(3):
        count = 1
        expert = out if turn == 1 else to
        if turn > 0:
            count = 0 if expert == field.empty else state.counts[expert]
        for copy in range(count):
            at = home
            if turn > 0:
                at = field.gpu[state.where[expert, copy]]
            if not state.shifted[at]:
                continue
            state.shifted[at] = False
            gain += state.height[at]
            for w in range(width):
                above = (state.total[at, w] + state.shift[at, w]) * field.pace[at] - state.level[w]
                state.shift[at, w] = 0.0
                if above > 0.0:
                    gain -= above * above
    return gain


@jit
def weigh_changes(field: Field, state: State) -> None:
    """What one copy more of an expert would take off the cost of its GPUs (`relief`), and one less add (`strain`)."""
    for expert in range(state.counts.shape[0]):
        state.relief[expert] = 0.0
        state.strain[expert] = 0.0
        if expert == field.empty:
            continue
        count = state.counts[expert]
        for copy in range(count):
            at = field.gpu[state.where[expert, copy]]
            less = 0.0
            more = 0.0
            for w in range(field.floor.shape[0]):
                load = state.total[at, w] - state.unit[expert, w]
                if state.height[at] > 0.0:
                    grown = piece(field.loads[expert, w], count + 1, field.floor[w])
                    above = (load + grown) * field.pace[at] - state.level[w]
                    if above > 0.0:
                        less += above * above
                if count > 1:
                    shrunk = piece(field.loads[expert, w], count - 1, field.floor[w])
                    above = (load + shrunk) * field.pace[at] - state.level[w]
                    if above > 0.0:
                        more += above * above
            state.relief[expert] += state.height[at] - less
            if count > 1:
                state.strain[expert] += more - state.height[at]


@jit
def strain_at(field: Field, state: State, expert: int, gpu: int) -> float:
    """What one replica less of an expert would add to the cost of one of its GPUs."""
    more: float = -state.height[gpu]
    for w in range(field.floor.shape[0]):
        shrunk = piece(field.loads[expert, w], state.counts[expert] - 1, field.floor[w])
        above = (state.total[gpu, w] - state.unit[expert, w] + shrunk) * field.pace[gpu] - state.level[w]
        if above > 0.0:
            more += above * above
    return more


@jit
def find_change(field: Field, state: State, hot: int, least: float) -> float:
    """Most that one changed slot that touches the hot GPU takes off the cost; slot and expert are left in `move`.

    `weigh_changes` gives a guess that is exact, but for the slot's own GPU and GPUs with both experts; only a guess
    that beats the best so far is computed in full.
    """
    weigh_changes(field, state)
    best = least
    for first in range(field.start[hot], field.start[hot + 1]):
        inside = state.held[first]
        for turn in range(2):
            # turn 0: one more copy of `inside` elsewhere relieves the hot GPU; turn 1: it gives its slot away
            if inside == field.empty or (state.counts[inside] >= field.most and turn == 0):
                continue
            if state.counts[inside] <= field.keeps[inside] and turn == 1:
                continue
            for other in range(state.held.shape[0] if turn == 0 else state.counts.shape[0]):
                slot = other if turn == 0 else first
                to = inside if turn == 0 else other
                out = state.held[slot]
                home = field.gpu[slot]
                if (turn == 0 and home == hot) or (out != field.empty and state.counts[out] <= field.keeps[out]):
                    continue
                guess = state.height[home] + state.relief[to]
                if guess <= best:
                    continue
                if out != field.empty:  # the strain counts this slot's own GPU, where nothing is left to strain
                    guess -= state.strain[out] - strain_at(field, state, out, home)
                if guess <= best or not can_change(field, state, slot, to):
                    continue
                gain = conversion_gain(field, state, slot, to)
                if gain > best:
                    best = gain
                    state.move[0] = slot
                    state.move[1] = to
    return best if best > least else 0.0


@jit
def descend_windows(field: Field, state: State, most_scans: float) -> int:
    """Apply improving moves, highest GPU and window first, until no GPU above a level has one; the scans made."""
    state.tried[:] = False
    least = EPSILON
    for g in range(field.pace.shape[0]):
        state.height[g] = heights(field, state, g)
    scans = 0
    while scans < most_scans:
        hot = -1
        critical = 0
        highest = EPSILON
        for g in range(field.pace.shape[0]):
            if state.tried[g] or state.height[g] <= 0.0:
                continue
            for w in range(field.floor.shape[0]):
                above = state.total[g, w] * field.pace[g] - state.level[w]
                if above > highest:
                    hot = g
                    critical = w
                    highest = above
        if hot < 0:
            return scans
        scans += 1
        if find_swap(field, state, hot, critical, least) > 0.0:
            other = field.gpu[state.move[1]]
            exchange(field, state, state.move[0], state.move[1])
            state.height[hot] = heights(field, state, hot)
            state.height[other] = heights(field, state, other)
            state.tried[other] = False
        elif find_change(field, state, hot, least) > 0.0:
            convert(field, state, state.move[0], state.move[1])
            for g in range(field.pace.shape[0]):
                state.height[g] = heights(field, state, g)
            state.tried[:] = False
        else:
            state.tried[hot] = True
    return scans


@jit
def kick_windows(field: Field, state: State, rng: Ints) -> None:
    """One random legal move: a swap or a changed slot, half of the time touching a GPU above a level."""
    num_slots = state.held.shape[0]
    num_gpus = field.pace.shape[0]
    for _ in range(64):
        first = draw(rng, num_slots)
        if draw(rng, 2) == 0:
            turn = draw(rng, num_gpus)
            for step in range(num_gpus):
                g = (turn + step) % num_gpus
                width = field.start[g + 1] - field.start[g]
                if width > 0 and heights(field, state, g) > 0.0:
                    first = field.start[g] + draw(rng, width)
                    break
        if draw(rng, 2) == 0:
            second = draw(rng, num_slots)
            if can_swap(field, state, first, second):
                exchange(field, state, first, second)
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
            if can_change(field, state, at, to):
                convert(field, state, at, to)
                return


@jit
def go_to(field: Field, state: State, wanted: Ints) -> None:
    """Change the state, slot by slot, and weigh it."""
    for slot in range(wanted.shape[0]):
        if state.held[slot] != wanted[slot]:
            take(field, state, slot)
            state.held[slot] = -2
    for slot in range(wanted.shape[0]):
        if state.held[slot] == -2:
            put(field, state, wanted[slot], slot)
    weigh_windows(field, state)


def remember_windows(objective: float) -> Floats:
    """The memory vector of a search that begins at an incumbent of that objective."""
    return np.array([objective, np.inf, 0.0, FIRST_STEP, 0.0])


@jit
def improve_windows(
    field: Field, base: Ints, best: Ints, goal: float, rounds: int, work: float, memory: Floats, rng: Ints
) -> int:
    """Search `rounds` rounds on from `base`, or until the incumbent is at or below `goal`; the rounds done.

    Parameters
    ----------
    field
        The loads of all windows and the GPUs.
    base, best
        (S,) state to go on from, and incumbent; both are updated.
    goal
        Combined ratio at which the search may end.
    work
        The search ends once ``memory[WORK]`` has come to this, in the middle of a descent if need be.
    memory, rng
        The vector of `BEST` ... `WORK`, and the generator's state; both are updated, so that a search cut into
        several calls takes the same steps.
    """
    num_slots = base.shape[0]
    num_gpus = field.pace.shape[0]
    num_experts = field.loads.shape[0]
    width = field.loads.shape[1]
    state = State(
        best.copy(),
        np.zeros(num_experts, np.int64),
        np.zeros((num_experts, width), np.float64),
        np.zeros((num_experts, num_gpus), np.int64),
        np.zeros((num_experts, field.most + 1), np.int64),
        np.zeros(num_slots, np.int64),
        np.zeros((num_gpus, width), np.float64),
        np.zeros(width, np.float64),
        np.zeros(width, np.float64),
        np.zeros((num_gpus, width), np.float64),
        np.zeros(num_gpus, np.bool_),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_gpus, np.bool_),
        np.zeros(2, np.int64),
    )
    for slot in range(num_slots):
        put(field, state, best[slot], slot)
    weigh_windows(field, state)
    set_levels(field, state, memory[STEP])
    go_to(field, state, base)
    done = 0
    while done < rounds and memory[BEST] > goal and memory[WORK] < work:
        if memory[COST] < np.inf:  # not in the very first round, which only descends
            kick_windows(field, state, rng)
            if draw(rng, 3) == 0:
                kick_windows(field, state, rng)
        scans_left = (work - memory[WORK]) / (num_slots * width)
        memory[WORK] += descend_windows(field, state, scans_left) * num_slots * width
        done += 1
        value = weigh_windows(field, state)
        if value < memory[BEST] * (1.0 - EPSILON):
            memory[BEST] = value
            memory[FAILS] = 0.0
            copy_into(best, state.held)
            copy_into(base, state.held)
            set_levels(field, state, memory[STEP])
        elif memory[WORK] >= work:  # out of work, perhaps in the middle of a descent
            copy_into(base, state.held)
            memory[COST] = np.inf
            break
        else:
            memory[FAILS] += 1.0
            if cost_of(field, state) <= memory[COST]:
                copy_into(base, state.held)
            else:  # back to the base, slot by slot
                go_to(field, state, base)
            if memory[FAILS] >= PATIENCE:
                memory[FAILS] = 0.0
                memory[STEP] = max(memory[STEP] * 0.5, LEAST_STEP)
                copy_into(base, best)
                go_to(field, state, best)
                set_levels(field, state, memory[STEP])
        memory[COST] = cost_of(field, state)
    return done
