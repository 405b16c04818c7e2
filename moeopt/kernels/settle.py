"""Counts first: the search over replica counts alone, for few slots a GPU, where counts decide and packing follows.

For given counts a packing can be no better than a number that is quick to compute. Two slots a GPU: the heaviest piece
with the lightest, the second with the second lightest and so on; the worst of these pairs is what the best packing
costs (but for pairs of one expert with itself). More slots: the k heaviest pieces lie on at most k GPUs, with the
(s - 1) k lightest beside them at best, so some GPU costs the k-th part of both together; the worst k counts. Searched
are counts with the least such number, by random exchanges of one replica between two experts.

Everything here is in the subset that numba compiles; interpreted, it does the same steps and gives the same bytes.
One file on purpose: numba's cache notices changes of the file a function is in, not of the files it calls into.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit
from moeopt.kernels.common import copy_into, draw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEP, LEAST_STEP = 3e-2, 1e-3
"""How far below the best number the threshold lies, at first and at least."""
HEAT = 0.1
"""An exchange that makes things worse is taken up to a random part of this share."""
PATIENCE = 300
"""Exchanges in vain after which the threshold moves closer to the best number."""
EVEN = 5e-4
"""What uneven pieces cost with three slots or more: a number can be low where no packing comes near it."""


@jit
def part_of(load: float, count: int, floor: float) -> float:
    """Cost of one replica out of `count`."""
    part = load / count
    return part if part > floor else floor


@jit
def measure(
    order: Ints,
    size: Floats,
    many: Ints,
    trade: Ints,
    traded: Floats,
    slots: int,
    num_gpus: int,
    threshold: float,
    limit: float,
    out: Floats,
) -> None:
    """The number for pieces by falling ``size`` (E,), ``many`` (E,) of each, of the experts ``order``.

    ``trade`` takes two experts out of them, or none (-1), and puts their new counts in: (up, down, count of up, count
    of down), pieces of size ``traded``. ``out[0]`` gets the number, ``out[1]`` the squared heights above the
    threshold, summed over pairs or over k; a sum above ``limit`` is left unfinished.
    """
    num_experts = size.shape[0]
    up, down = trade[0], trade[1]
    top, top_left, top_size, top_first, top_second = -1, 0, 0.0, trade[2], trade[3]
    low, low_left, low_size, low_first, low_second = num_experts, 0, 0.0, trade[2], trade[3]
    worst, cost, heavy, light = 0.0, 0.0, 0.0, 0.0
    for k in range(1, num_gpus + 1):
        while top_left == 0:
            at = top + 1
            while at < num_experts and (order[at] == up or order[at] == down):
                at += 1
            here = size[at] if at < num_experts else -1.0
            if top_first > 0 and traded[0] >= here and (top_second == 0 or traded[0] >= traded[1]):
                top_size = traded[0]
                top_left = top_first
                top_first = 0
            elif top_second > 0 and traded[1] >= here:
                top_size = traded[1]
                top_left = top_second
                top_second = 0
            else:
                top = at
                top_size = here
                top_left = many[at]
        top_left -= 1
        if slots == 2:
            heavy = 0.0
            light = 0.0
        heavy += top_size
        need = slots - 1
        while need > 0:
            while low_left == 0:
                at = low - 1
                while at >= 0 and (order[at] == up or order[at] == down):
                    at -= 1
                here = size[at] if at >= 0 else np.inf
                if low_first > 0 and traded[0] <= here and (low_second == 0 or traded[0] <= traded[1]):
                    low_size = traded[0]
                    low_left = low_first
                    low_first = 0
                elif low_second > 0 and traded[1] <= here:
                    low_size = traded[1]
                    low_left = low_second
                    low_second = 0
                else:
                    low = at
                    low_size = here
                    low_left = many[at]
            taken = min(need, low_left)
            light += taken * low_size
            low_left -= taken
            need -= taken
        number = heavy + light if slots == 2 else (heavy + light) / k
        worst = max(worst, number)
        if number > threshold:
            cost += (number - threshold) * (number - threshold)
            if cost > limit:
                break
    out[0] = worst
    out[1] = cost


@jit
def above(size: Floats, many: Ints, slots: int, num_gpus: int, threshold: float, sore: Ints) -> int:
    """Places whose pieces keep the number above the threshold, heavy ones first, into ``sore``; how many."""
    top, bottom = 0, size.shape[0] - 1
    top_left, bottom_left = many[0], many[bottom]
    heavy, light = 0.0, 0.0
    found, last = 0, -1
    for k in range(1, num_gpus + 1):
        while top_left == 0:
            top += 1
            top_left = many[top]
        top_left -= 1
        if slots == 2:
            heavy = 0.0
            light = 0.0
        heavy += size[top]
        need = slots - 1
        while need > 0:
            while bottom_left == 0:
                bottom -= 1
                bottom_left = many[bottom]
            taken = min(need, bottom_left)
            light += taken * size[bottom]
            bottom_left -= taken
            need -= taken
        number = heavy + light if slots == 2 else (heavy + light) / k
        if number > threshold and top != last:
            if slots == 2:
                sore[found] = top
                found += 1
            else:
                found = top + 1
            last = top
    if slots > 2:
        for place in range(found):
            sore[place] = place
    return found


@jit
def arrange(loads: Floats, floor: float, counts: Ints, order: Ints, size: Floats, many: Ints) -> None:
    """Keep ``order`` sorted by falling piece, then rising id, and fill ``size`` and ``many``."""
    for at in range(order.shape[0]):
        expert = order[at]
        piece = part_of(loads[expert], counts[expert], floor)
        before = at
        while before > 0 and (size[before - 1] < piece or (size[before - 1] == piece and order[before - 1] > expert)):
            order[before] = order[before - 1]
            size[before] = size[before - 1]
            many[before] = many[before - 1]
            before -= 1
        order[before] = expert
        size[before] = piece
        many[before] = counts[expert]


@jit
def unevener(loads: Floats, counts: Ints, up: int, down: int) -> float:
    """What an exchange adds to the sum of squares of all pieces."""
    more = loads[down] * loads[down] / (counts[down] * (counts[down] - 1.0))
    return float(more - loads[up] * loads[up] / (counts[up] * (counts[up] + 1.0)))


def forget() -> Floats:
    """The memory vector of a search that begins."""
    return np.array([np.inf, 0.0, 0.0, 0.0, 0.0, 0.0])


@jit
def settle(
    loads: Floats,
    floor: float,
    counts: Ints,
    best: Ints,
    least: Ints,
    most: int,
    slots: int,
    num_gpus: int,
    goal: float,
    tries: int,
    memory: Floats,
    rng: Ints,
) -> int:
    """Search counts for `tries` exchanges on, or until their number is at or below `goal`; the exchanges tried.

    Parameters
    ----------
    loads, floor
        (E,) loads and least cost of a replica, scaled.
    counts, best
        (E,) counts to go on from, and the best ones; both are updated. They sum to ``slots * num_gpus``.
    least, most
        (E,) smallest counts, and the largest one.
    memory, rng
        Best number (infinite at first, see `forget`), threshold, step, exchanges in vain, unevenness now and at the
        best; the generator's state. Both are updated, so that a search cut into several calls takes the same steps.
    """
    num_experts = loads.shape[0]
    order = np.arange(num_experts)
    size = np.zeros(num_experts)
    many = np.zeros(num_experts, np.int64)
    trade = np.zeros(4, np.int64)
    traded = np.zeros(2)
    no_trade = np.array([-1, -1, 0, 0])
    out = np.zeros(2)
    arrange(loads, floor, counts, order, size, many)
    measure(order, size, many, no_trade, traded, slots, num_gpus, memory[1], np.inf, out)
    if memory[0] == np.inf:
        memory[0] = out[0]
        memory[1] = max(goal, out[0] * (1.0 - STEP))
        memory[2] = STEP
        copy_into(best, counts)
        measure(order, size, many, no_trade, traded, slots, num_gpus, memory[1], np.inf, out)
    cost = out[1]
    even = EVEN if slots > 2 else 0.0
    sore = np.zeros(num_experts, np.int64)
    num_sore = above(size, many, slots, num_gpus, memory[1], sore)
    spare = 0
    spares = np.zeros(num_experts, np.int64)
    for expert in range(num_experts):
        if counts[expert] > least[expert]:
            spares[spare] = expert
            spare += 1
    if spare == 0 or num_experts < 2:
        return tries
    done = 0
    while done < tries and memory[0] > goal:
        done += 1
        down = spares[draw(rng, spare)]
        # mostly an expert that keeps the number up, else any
        up = draw(rng, num_experts)
        if num_sore > 0 and up % 2 != 0:
            up = order[sore[draw(rng, num_sore)]]
        if up == down or counts[up] >= most:
            continue
        trade[0], trade[1], trade[2], trade[3] = up, down, counts[up] + 1, counts[down] - 1
        traded[0] = part_of(loads[up], counts[up] + 1, floor)
        traded[1] = part_of(loads[down], counts[down] - 1, floor)
        rise = even * unevener(loads, counts, up, down)
        limit = cost * (1.0 + HEAT * draw(rng, 1000) / 1000.0) - rise
        measure(order, size, many, trade, traded, slots, num_gpus, memory[1], limit, out)
        memory[3] += 1.0
        if out[1] <= limit:
            counts[up] += 1
            counts[down] -= 1
            arrange(loads, floor, counts, order, size, many)
            cost = out[1]
            spare = 0
            for expert in range(num_experts):
                if counts[expert] > least[expert]:
                    spares[spare] = expert
                    spare += 1
            memory[4] += rise
            if out[0] <= memory[0] * (1.0 + 1e-9) and (out[0] < memory[0] * (1.0 - 1e-9) or memory[4] < memory[5]):
                memory[5] = memory[4]
                memory[0] = out[0]
                memory[3] = 0.0
                copy_into(best, counts)
                memory[1] = max(goal, out[0] * (1.0 - memory[2]))
                measure(order, size, many, no_trade, traded, slots, num_gpus, memory[1], np.inf, out)
                cost = out[1]
            num_sore = above(size, many, slots, num_gpus, memory[1], sore)
        if memory[3] >= PATIENCE:
            memory[3] = 0.0
            memory[2] = max(memory[2] * 0.5, LEAST_STEP)
            memory[1] = max(goal, memory[0] * (1.0 - memory[2]))
            copy_into(counts, best)  # and a few exchanges from there, whatever they cost
            memory[4] = memory[5]
            for _ in range(1 + draw(rng, 3)):
                down = draw(rng, num_experts)
                up = draw(rng, num_experts)
                for step in range(num_experts):
                    other_one = (down + step) % num_experts
                    if counts[other_one] > least[other_one] and other_one != up and counts[up] < most:
                        memory[4] += even * unevener(loads, counts, up, other_one)
                        counts[other_one] -= 1
                        counts[up] += 1
                        break
            arrange(loads, floor, counts, order, size, many)
            measure(order, size, many, no_trade, traded, slots, num_gpus, memory[1], np.inf, out)
            cost = out[1]
            num_sore = above(size, many, slots, num_gpus, memory[1], sore)
            spare = 0
            for expert in range(num_experts):
                if counts[expert] > least[expert]:
                    spares[spare] = expert
                    spare += 1
    return done
