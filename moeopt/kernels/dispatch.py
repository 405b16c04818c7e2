"""Search of one layer under an engine's dispatch rule: which replica every source GPU sends to, and what that costs.

A state is the expert in each slot. It has two loads a GPU: the load under the rule, which is minimised, and the load
with even parts, which may not rise above a cap. Its cost at a threshold T is ``sum_g max(0, C_g - T)^2`` plus
``sum_g max(0, B_g - cap)^2``, with C the loads under the rule and B the even ones. Descent takes the GPU that stands
highest above its line and applies the best renaming (two GPUs exchange all they hold: even loads only change places),
the best swap of two replicas, or the best transfer (an expert gives a slot to another one); when nothing helps, random
kicks follow, kept if the cost is no higher after the next descent. Whenever the largest load under the rule falls with
no GPU above the cap, the state is the new incumbent, and T moves below it.

Both rules are one: replicas, in slot order, on GPUs of nodes; a source with a replica uses its first one; the other
sources of a node take turns over the node's replicas; sources of nodes without any take turns over all of them.
Without preference for the node, all GPUs are on one node here.

Everything here is in the subset that numba compiles. One file on purpose, with its own small helpers: numba's cache
notices changes of the file a function is in, not of the files it calls into.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit
from moeopt.kernels.common import copy_into, draw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BEST, THRESHOLD, COST, FAILS, STEP, WORK = range(6)
"""Places in the memory vector, as in `moeopt.kernels.packing`."""

PINNED, FORBIDDEN = 1, 2

EPSILON = 1e-12
PATIENCE = 24.0
"""Kicks in vain after which the threshold moves closer to the incumbent."""
FIRST_STEP, LEAST_STEP = 1.0, 0.02
"""Step down of the threshold, as a part of the way from the incumbent to the goal."""


class Layer(NamedTuple):
    """What does not change.

    ``loads`` (E,) scaled, with empty slots allowed (E + 1,), the last one -1; ``floor`` least cost of a replica;
    ``gpu`` (S,) GPU of each slot; ``start`` (G + 1,) first slots; ``pace`` (G,) reciprocal speeds; ``base`` (G,) load
    that is always there; ``node`` (G,) node of a GPU, 0..N-1; ``sources`` (N,) GPUs of a node that hold tokens;
    ``home`` (G,) GPUs between which replicas may move have the same number; ``rule`` (E, G) 0, `PINNED` or
    `FORBIDDEN`, (0, 0) for none; ``distinct``; ``most`` replicas of an expert; ``empty`` id of the empty expert or -1;
    ``nice`` (most + 2,) counts that transfers may lead to; ``strict`` no swap that changes the parts of an expert;
    ``everyone`` sources in all.
    """

    loads: Floats
    floor: float
    gpu: Ints
    start: Ints
    pace: Floats
    base: Floats
    node: Ints
    sources: Ints
    home: Ints
    rule: NDArray[np.int8]
    distinct: bool
    most: int
    empty: int
    nice: NDArray[np.bool_]
    strict: bool
    everyone: int


class State(NamedTuple):
    """What the search changes, and its scratch space.

    ``held`` (S,) expert in each slot; ``counts`` (E,); ``where`` (E, most) slots of an expert, ascending; ``on``
    (E, G) replicas on a GPU; ``part`` (S,) load of a slot under the rule; ``unit`` (E,) even piece; ``total`` and
    ``even`` (G,) loads.
    """

    held: Ints
    counts: Ints
    where: Ints
    on: Ints
    part: Floats
    unit: Floats
    total: Floats
    even: Floats
    shift: Floats
    even_shift: Floats
    touched: Ints
    marked: NDArray[np.bool_]
    listed: Ints
    number: Ints
    on_node: Ints
    homes: Ints
    turn: Ints
    fixed: NDArray[np.bool_]
    near: Ints
    height: Floats
    tried: NDArray[np.bool_]
    move: Ints


@jit
def deal(
    gpu: Ints,
    node: Ints,
    sources: Ints,
    everyone: int,
    slots: Ints,
    count: int,
    number: Ints,
    on_node: Ints,
    homes: Ints,
    turn: Ints,
) -> bool:
    """Sources that use each replica in ``slots[:count]`` (ascending), into `number`; whether no turn is cut short.

    ``gpu`` (S,), ``node`` (G,), ``sources`` (N,) as in `Layer`; the last three are scratch of N entries, zero before
    and after.
    """
    if count == 1:
        number[0] = everyone
        return True
    before = -1
    rest = everyone
    for place in range(count):
        g = gpu[slots[place]]
        n = node[g]
        if on_node[n] == 0:
            rest -= sources[n]
        on_node[n] += 1
        if g != before:
            homes[n] += 1
            number[place] = 1
        else:
            number[place] = 0
        before = g
    each = rest // count
    more = rest - each * count
    exact = more == 0
    for place in range(count):
        n = node[gpu[slots[place]]]
        left = sources[n] - homes[n]
        own = left // on_node[n]
        odd = left - own * on_node[n]
        exact = exact and odd == 0 and homes[n] == on_node[n]
        if turn[n] < odd:
            own += 1
        turn[n] += 1
        number[place] += own + each + (1 if place < more else 0)
    for place in range(count):
        n = node[gpu[slots[place]]]
        on_node[n] = 0
        homes[n] = 0
        turn[n] = 0
    return exact


@jit
def over(height: float) -> float:
    """Squared height above a line."""
    return height * height if height > 0.0 else 0.0


@jit
def lean(layer: Layer, state: State, num_touched: int, expert: int, drop: int, new: int) -> int:
    """Write down what changes when `expert` leaves slot `drop` and enters slot `new` (-1: none); the GPUs touched."""
    if expert == layer.empty:
        return num_touched
    gpu, where, part_of = layer.gpu, state.where, state.part
    shift, even_shift, marked, touched = state.shift, state.even_shift, state.marked, state.touched
    listed, number = state.listed, state.number
    count = 0
    placed = new < 0
    unit = state.unit[expert]
    for place in range(state.counts[expert]):
        slot = where[expert, place]
        g = gpu[slot]
        if not marked[g]:
            marked[g] = True
            touched[num_touched] = g
            num_touched += 1
        shift[g] -= part_of[slot]
        even_shift[g] -= unit
        if slot == drop:
            continue
        if not placed and new < slot:
            listed[count] = new
            count += 1
            placed = True
        listed[count] = slot
        count += 1
    if not placed:
        listed[count] = new
        count += 1
    total = layer.everyone
    deal(gpu, layer.node, layer.sources, total, listed, count, number, state.on_node, state.homes, state.turn)
    load = layer.loads[expert]
    floor = layer.floor
    unit = max(load / count, floor)
    for place in range(count):
        g = gpu[listed[place]]
        if not marked[g]:
            marked[g] = True
            touched[num_touched] = g
            num_touched += 1
        shift[g] += max(load * number[place] / total, floor)
        even_shift[g] += unit
    return num_touched


@jit
def settle(layer: Layer, state: State, num_touched: int, threshold: float, cap: float) -> float:
    """What the written down changes take off the cost; they are wiped out."""
    gain = 0.0
    for place in range(num_touched):
        g = state.touched[place]
        pace = layer.pace[g]
        gain += over(state.total[g] * pace - threshold) - over((state.total[g] + state.shift[g]) * pace - threshold)
        gain += over(state.even[g] * pace - cap) - over((state.even[g] + state.even_shift[g]) * pace - cap)
        state.shift[g] = 0.0
        state.even_shift[g] = 0.0
        state.marked[g] = False
    return gain


@jit
def cost_at(layer: Layer, state: State, threshold: float, cap: float) -> float:
    """Cost of the state."""
    cost = 0.0
    for g in range(layer.pace.shape[0]):
        cost += over(state.total[g] * layer.pace[g] - threshold) + over(state.even[g] * layer.pace[g] - cap)
    return cost


@jit
def place_in(layer: Layer, state: State, expert: int, slot: int) -> None:
    """Put a replica into an unoccupied slot; loads are not touched."""
    state.held[slot] = expert
    state.on[expert, layer.gpu[slot]] += 1
    state.near[expert, layer.node[layer.gpu[slot]]] += 1
    if expert != layer.empty:
        at = state.counts[expert]
        while at > 0 and state.where[expert, at - 1] > slot:
            state.where[expert, at] = state.where[expert, at - 1]
            at -= 1
        state.where[expert, at] = slot
    state.counts[expert] += 1


@jit
def take_out(layer: Layer, state: State, slot: int) -> None:
    """Take the replica out of a slot; loads are not touched."""
    expert = state.held[slot]
    state.on[expert, layer.gpu[slot]] -= 1
    state.near[expert, layer.node[layer.gpu[slot]]] -= 1
    state.counts[expert] -= 1
    if expert != layer.empty:
        at = 0
        while state.where[expert, at] != slot:
            at += 1
        while at < state.counts[expert]:
            state.where[expert, at] = state.where[expert, at + 1]
            at += 1


@jit
def unload(layer: Layer, state: State, expert: int) -> None:
    """Take the loads of an expert off its GPUs."""
    if expert == layer.empty:
        return
    for place in range(state.counts[expert]):
        slot = state.where[expert, place]
        state.total[layer.gpu[slot]] -= state.part[slot]
        state.even[layer.gpu[slot]] -= state.unit[expert]


@jit
def reload(layer: Layer, state: State, expert: int) -> None:
    """Deal an expert anew and put its loads on its GPUs."""
    count = state.counts[expert]
    if expert == layer.empty or count == 0:
        return
    for place in range(count):
        state.listed[place] = state.where[expert, place]
    total = layer.everyone
    state.fixed[expert] = deal(
        layer.gpu,
        layer.node,
        layer.sources,
        total,
        state.listed,
        count,
        state.number,
        state.on_node,
        state.homes,
        state.turn,
    )
    load = layer.loads[expert]
    state.unit[expert] = max(load / count, layer.floor)
    for place in range(count):
        slot = state.where[expert, place]
        state.part[slot] = max(load * state.number[place] / total, layer.floor)
        state.total[layer.gpu[slot]] += state.part[slot]
        state.even[layer.gpu[slot]] += state.unit[expert]


@jit
def weigh(layer: Layer, state: State) -> None:
    """All loads from scratch."""
    for g in range(layer.pace.shape[0]):
        state.total[g] = layer.base[g]
        state.even[g] = layer.base[g]
    for expert in range(state.counts.shape[0]):
        reload(layer, state, expert)


@jit
def top_of(layer: Layer, loads: Floats) -> float:
    """Largest cost of a GPU."""
    top = 0.0
    for g in range(layer.pace.shape[0]):
        top = max(top, loads[g] * layer.pace[g])
    return top


@jit
def may_put(layer: Layer, state: State, one: int, a: int, b: int) -> bool:
    """Whether expert `one` may go from GPU `a` to GPU `b`, as far as it alone is concerned."""
    if layer.distinct and one != layer.empty and state.on[one, b] > 0:
        return False
    if layer.rule.shape[0] > 0:
        if layer.rule[one, b] == FORBIDDEN:
            return False
        if layer.rule[one, a] == PINNED and state.on[one, a] == 1:
            return False
    return True


@jit
def may_swap(layer: Layer, state: State, first: int, second: int) -> bool:
    """Whether two slots may exchange their replicas."""
    one = state.held[first]
    two = state.held[second]
    a = layer.gpu[first]
    b = layer.gpu[second]
    if a == b or one == two or layer.home[a] != layer.home[b]:
        return False
    return may_put(layer, state, one, a, b) and may_put(layer, state, two, b, a)


@jit
def may_change(layer: Layer, state: State, slot: int, to: int) -> bool:
    """Whether `slot` may change over to expert `to`."""
    out = state.held[slot]
    g = layer.gpu[slot]
    if out == to or (out != layer.empty and (state.counts[out] < 2 or not layer.nice[state.counts[out] - 1])):
        return False
    if to != layer.empty:
        if state.counts[to] >= layer.most or not layer.nice[state.counts[to] + 1]:
            return False
        if layer.distinct and state.on[to, g] > 0:
            return False
        if layer.home[layer.gpu[state.where[to, 0]]] != layer.home[g]:
            return False
    if layer.rule.shape[0] > 0:
        if layer.rule[to, g] == FORBIDDEN:
            return False
        if layer.rule[out, g] == PINNED and state.on[out, g] == 1:
            return False
    return True


@jit
def swap(layer: Layer, state: State, first: int, second: int) -> None:
    """Exchange the replicas of two slots."""
    one = state.held[first]
    two = state.held[second]
    unload(layer, state, one)
    unload(layer, state, two)
    take_out(layer, state, first)
    take_out(layer, state, second)
    place_in(layer, state, two, first)
    place_in(layer, state, one, second)
    reload(layer, state, one)
    reload(layer, state, two)


@jit
def change(layer: Layer, state: State, slot: int, to: int) -> None:
    """Change a slot over to expert `to`."""
    out = state.held[slot]
    unload(layer, state, out)
    unload(layer, state, to)
    take_out(layer, state, slot)
    place_in(layer, state, to, slot)
    reload(layer, state, out)
    reload(layer, state, to)


@jit
def rename(layer: Layer, state: State, a: int, b: int) -> None:
    """Two GPUs with equally many slots exchange all they hold."""
    width = layer.start[a + 1] - layer.start[a]
    for place in range(width):
        first = layer.start[a] + place
        second = layer.start[b] + place
        one = state.held[first]
        two = state.held[second]
        if one == two:
            continue
        swap(layer, state, first, second)


@jit
def measure(layer: Layer, state: State, threshold: float, cap: float) -> None:
    """Cost of every GPU, into `height`."""
    for g in range(layer.pace.shape[0]):
        pace = layer.pace[g]
        state.height[g] = over(state.total[g] * pace - threshold) + over(state.even[g] * pace - cap)


@jit
def at_stake(layer: Layer, state: State, expert: int) -> float:
    """Cost of the GPUs that hold an expert: no change of its replicas takes more off."""
    cost = 0.0
    if expert != layer.empty:
        for place in range(state.counts[expert]):
            cost += state.height[layer.gpu[state.where[expert, place]]]
    return cost


@jit
def best_swap(layer: Layer, state: State, hot: int, threshold: float, cap: float) -> float:
    """Most that one swap with the hot GPU takes off the cost; the two slots are left in `move`.

    A replica changes no part of its expert when no turn is cut anywhere and the nodes hold as many replicas as before,
    or a node with one gives it to an equally large one with none; such swaps are weighed in one go.
    """
    best = EPSILON
    measure(layer, state, threshold, cap)
    pace, start, home, node, sources = layer.pace, layer.start, layer.home, layer.node, layer.sources
    held, counts, total, even, height = state.held, state.counts, state.total, state.even, state.height
    fixed, near, part_of, unit_of, empty, strict = (
        state.fixed,
        state.near,
        state.part,
        state.unit,
        layer.empty,
        layer.strict,
    )
    enough = height[hot] * (1.0 - EPSILON)
    n = node[hot]
    for other in range(pace.shape[0]):
        if other == hot or home[other] != home[hot]:
            continue
        m = node[other]
        alike = sources[n] == sources[m]
        before = height[hot] + height[other]
        for first in range(start[hot], start[hot + 1]):
            one = held[first]
            simple = one == empty or counts[one] == 1 or (fixed[one] and n == m)
            simple = simple or (fixed[one] and alike and near[one, n] == 1 and near[one, m] == 0)
            if strict and not simple:
                continue
            part = 0.0 if one == empty else part_of[first]
            unit = 0.0 if one == empty else unit_of[one]
            for second in range(start[other], start[other + 1]):
                two = held[second]
                if one == two:
                    continue
                easy = simple and (two == empty or counts[two] == 1 or (fixed[two] and n == m))
                easy = easy or (simple and fixed[two] and alike and near[two, m] == 1 and near[two, n] == 0)
                if easy:
                    by = part - (0.0 if two == empty else part_of[second])
                    even_by = unit - (0.0 if two == empty else unit_of[two])
                    above = max((total[hot] - by) * pace[hot] - threshold, 0.0)
                    even_above = max((even[hot] - even_by) * pace[hot] - cap, 0.0)
                    gain = before - above * above - even_above * even_above
                    if gain <= best:
                        continue
                    above = max((total[other] + by) * pace[other] - threshold, 0.0)
                    even_above = max((even[other] + even_by) * pace[other] - cap, 0.0)
                    gain -= above * above + even_above * even_above
                    if gain <= best or not may_swap(layer, state, first, second):
                        continue
                elif not strict:
                    stake = before + at_stake(layer, state, one) + at_stake(layer, state, two)
                    if stake <= best or not may_swap(layer, state, first, second):
                        continue
                    num = lean(layer, state, 0, one, first, second)
                    num = lean(layer, state, num, two, second, first)
                    gain = settle(layer, state, num, threshold, cap)
                else:
                    continue
                if gain > best:
                    best = gain
                    state.move[0] = first
                    state.move[1] = second
                    if best >= enough:
                        return float(best)
    return float(best) if best > EPSILON else 0.0


@jit
def best_transfer(layer: Layer, state: State, hot: int, threshold: float, cap: float) -> float:
    """Most that one transfer touching the hot GPU takes off the cost; slot and expert are left in `move`."""
    best = EPSILON
    measure(layer, state, threshold, cap)
    for first in range(layer.start[hot], layer.start[hot + 1]):
        inside = state.held[first]
        for way in range(2):
            # way 0: one more copy of `inside` elsewhere; way 1: the slot is given away
            if inside == layer.empty or (way == 0 and state.counts[inside] >= layer.most):
                continue
            if way == 1 and state.counts[inside] < 2:
                continue
            stake = at_stake(layer, state, inside)
            for other in range(state.held.shape[0] if way == 0 else state.counts.shape[0]):
                slot = other if way == 0 else first
                to = inside if way == 0 else other
                if not may_change(layer, state, slot, to):
                    continue
                if stake + at_stake(layer, state, state.held[slot] if way == 0 else to) <= best:
                    continue
                num = lean(layer, state, 0, state.held[slot], slot, -1)
                num = lean(layer, state, num, to, -1, slot)
                gain = settle(layer, state, num, threshold, cap)
                if gain > best:
                    best = gain
                    state.move[0] = slot
                    state.move[1] = to
    return float(best) if best > EPSILON else 0.0


@jit
def may_rename(layer: Layer, a: int, b: int) -> bool:
    """Whether two GPUs are alike but for their names, and may exchange all they hold."""
    width = layer.start[a + 1] - layer.start[a]
    alike = layer.start[b + 1] - layer.start[b] == width and layer.pace[a] == layer.pace[b]
    return a != b and alike and layer.base[a] == layer.base[b] and layer.home[a] == layer.home[b]


@jit
def best_renaming(layer: Layer, state: State, hot: int, threshold: float, cap: float) -> float:
    """Apply the best exchange of all that the hot GPU and another one hold; what it took off the cost, or 0."""
    if layer.strict or layer.rule.shape[0] > 0:
        return 0.0
    before = cost_at(layer, state, threshold, cap)
    best = before - EPSILON
    chosen = -1
    for other in range(layer.pace.shape[0]):
        if may_rename(layer, hot, other):
            rename(layer, state, hot, other)
            after = cost_at(layer, state, threshold, cap)
            if after < best:
                best = after
                chosen = other
            rename(layer, state, hot, other)
    if chosen < 0:
        return 0.0
    rename(layer, state, hot, chosen)
    return float(before - best)


@jit
def descend(layer: Layer, state: State, threshold: float, cap: float, most_scans: float) -> int:
    """Apply improving moves, the GPU that stands highest first, until none has one; the scans made."""
    state.tried[:] = False
    scans = 0
    while scans < most_scans:
        hot = -1
        height = EPSILON
        for g in range(layer.pace.shape[0]):
            above = max(state.total[g] * layer.pace[g] - threshold, state.even[g] * layer.pace[g] - cap)
            if not state.tried[g] and above > height:
                hot = g
                height = above
        if hot < 0:
            return scans
        scans += 1
        if best_swap(layer, state, hot, threshold, cap) > 0.0:
            swap(layer, state, state.move[0], state.move[1])
            state.tried[:] = False
        elif not layer.strict and best_transfer(layer, state, hot, threshold, cap) > 0.0:
            change(layer, state, state.move[0], state.move[1])
            state.tried[:] = False
        elif best_renaming(layer, state, hot, threshold, cap) > 0.0:
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
        if draw(rng, 2) == 0:
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
    return np.array([top, max(goal, top - FIRST_STEP * (top - goal)), np.inf, 0.0, FIRST_STEP, 0.0])


@jit
def fresh(layer: Layer, base: Ints) -> State:
    """The state of a plan."""
    num_slots = base.shape[0]
    num_gpus = layer.pace.shape[0]
    num_experts = layer.loads.shape[0]
    num_nodes = layer.sources.shape[0]
    state = State(
        base.copy(),
        np.zeros(num_experts, np.int64),
        np.zeros((num_experts, layer.most + 1), np.int64),
        np.zeros((num_experts, num_gpus), np.int64),
        np.zeros(num_slots, np.float64),
        np.zeros(num_experts, np.float64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_gpus, np.int64),
        np.zeros(num_gpus, np.bool_),
        np.zeros(layer.most + 1, np.int64),
        np.zeros(layer.most + 1, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_experts, np.bool_),
        np.zeros((num_experts, num_nodes), np.int64),
        np.zeros(num_gpus, np.float64),
        np.zeros(num_gpus, np.bool_),
        np.zeros(2, np.int64),
    )
    for slot in range(num_slots):
        place_in(layer, state, base[slot], slot)
    weigh(layer, state)
    return state


@jit
def improve(
    layer: Layer, base: Ints, best: Ints, goal: float, cap: float, rounds: int, work: float, memory: Floats, rng: Ints
) -> int:
    """Search `rounds` rounds on from `base`, or until the incumbent is at or below `goal`; the rounds done.

    Parameters
    ----------
    layer
        The loads and the GPUs.
    base, best
        (S,) state to go on from, and incumbent; both are updated.
    goal, cap
        Largest cost of a GPU under the rule at which the search may end; and with even parts, largest allowed.
    work
        The search ends once ``memory[WORK]`` has come to this.
    memory, rng
        The vector of `BEST` ... `WORK`, and the generator's state; both are updated.
    """
    num_slots = base.shape[0]
    state = fresh(layer, base)
    done = 0
    while done < rounds and memory[BEST] > goal and memory[WORK] < work:
        if memory[COST] < np.inf:
            kick(layer, state, memory[THRESHOLD], rng)
            if draw(rng, 3) == 0:
                kick(layer, state, memory[THRESHOLD], rng)
        scans_left = (work - memory[WORK]) / num_slots
        memory[WORK] += descend(layer, state, memory[THRESHOLD], cap, scans_left) * num_slots
        done += 1
        weigh(layer, state)
        top = top_of(layer, state.total)
        if top < memory[BEST] * (1.0 - EPSILON) and top_of(layer, state.even) <= cap * (1.0 + EPSILON):
            memory[BEST] = top
            memory[FAILS] = 0.0
            copy_into(best, state.held)
            copy_into(base, state.held)
            memory[THRESHOLD] = max(goal, top - memory[STEP] * (top - goal))
        elif memory[WORK] >= work:
            copy_into(base, state.held)
            memory[COST] = np.inf
            break
        else:
            memory[FAILS] += 1.0
            if cost_at(layer, state, memory[THRESHOLD], cap) <= memory[COST]:
                copy_into(base, state.held)
            else:
                for slot in range(num_slots):
                    if state.held[slot] != base[slot]:
                        take_out(layer, state, slot)
                for slot in range(num_slots):
                    if state.held[slot] != base[slot]:
                        place_in(layer, state, base[slot], slot)
                weigh(layer, state)
            if memory[FAILS] >= PATIENCE:
                memory[FAILS] = 0.0
                memory[STEP] = max(memory[STEP] * 0.5, LEAST_STEP)
                memory[THRESHOLD] = max(goal, memory[BEST] - memory[STEP] * (memory[BEST] - goal))
        memory[COST] = cost_at(layer, state, memory[THRESHOLD], cap)
    return done
