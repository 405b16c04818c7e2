"""Every plan of a small layer, in whole numbers: is there one below a limit?

Counts are listed outside; for each, GPUs are filled one after another, the first slot with the largest replica left
(GPUs are alike, so that loses nothing), the others by falling size. A GPU must end between the limit and what the
other GPUs cannot take. In the subset that numba compiles, and the same steps interpreted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

Ints = NDArray[np.int64]

FOUND, NONE, GAVE_UP = 1, 0, -1


@jit
def pack_below(size: Ints, expert: Ints, slots: int, limit: int, distinct: bool, held: Ints, budget: Ints) -> int:
    """Fill GPUs of `slots` slots each with all pieces, every GPU at most `limit`: `FOUND`, `NONE` or `GAVE_UP`.

    Parameters
    ----------
    size, expert
        (S,) pieces by falling size, pieces of one expert next to each other, and whose they are.
    held
        (S,) on `FOUND` the piece in each slot; scratch otherwise.
    budget
        (1,) steps left; reduced.
    """
    num_slots = size.shape[0]
    num_gpus = num_slots // slots
    used = np.zeros(num_slots, np.bool_)
    load = np.zeros(num_slots + 1, np.int64)  # of the GPU being filled, before position k
    left = np.zeros(num_slots + 1, np.int64)  # weight of all pieces not yet placed, before position k
    for i in range(num_slots):
        left[0] += size[i]
    tried = np.zeros(num_slots, np.int64)  # next piece to try at position k
    k = 0
    fresh = True
    while True:
        if k == num_slots:
            return FOUND
        budget[0] -= 1
        if budget[0] < 0:
            return GAVE_UP
        place = k % slots
        gpus_after = num_gpus - 1 - k // slots
        if place == 0:
            if not fresh:  # the first slot has no other choice: back to the GPU before
                used[held[k]] = False
                k -= 1
                if k < 0:
                    return NONE
                continue
            first = 0
            while used[first]:
                first += 1
            if size[first] > limit:
                k -= 1
                if k < 0:
                    return NONE
                fresh = False
                continue
            held[k] = first
            used[first] = True
            load[k + 1] = size[first]
            left[k + 1] = left[k] - size[first]
            k += 1
            fresh = True
            if k < num_slots:
                tried[k] = first + 1
            if slots == 1 and left[k] > gpus_after * limit:
                k -= 1
                fresh = False
            continue
        if not fresh:
            used[held[k]] = False
        lowest = left[k] + load[k] - gpus_after * limit  # what the GPUs after this one cannot take
        begin = k - place
        i = tried[k]
        last = -1 if fresh else expert[held[k]]
        chosen = -1
        while i < num_slots:
            e = expert[i]
            if used[i] or e == last or load[k] + size[i] > limit:
                i += 1
                continue
            if load[k] + (slots - place) * size[i] < lowest:
                break  # pieces only get smaller from here
            clash = False
            if distinct:
                for j in range(begin, k):
                    if expert[held[j]] == e:
                        clash = True
                        break
            if clash:
                last = e
                i += 1
                continue
            chosen = i
            break
        if chosen < 0:
            k -= 1
            fresh = False
            continue
        held[k] = chosen
        used[chosen] = True
        tried[k] = chosen + 1
        load[k + 1] = load[k] + size[chosen]
        left[k + 1] = left[k] - size[chosen]
        k += 1
        fresh = True
        if k < num_slots:
            tried[k] = chosen + 1
            if k % slots == 0:
                load[k] = 0


@jit
def any_below(
    loads: Ints, floor: int, num_gpus: int, slots: int, most: int, limit: int, distinct: bool, held: Ints, budget: Ints
) -> int:
    """Whether some counts and packing keep every GPU at or below `limit`: `FOUND`, `NONE` or `GAVE_UP`.

    Parameters
    ----------
    loads, floor, limit
        Loads of one layer, least cost of a replica, and the limit, all times a multiple of every count up to
        `most`, so that every piece is whole.
    held
        (S,) on `FOUND` the expert in each slot.
    """
    num_experts = loads.shape[0]
    num_slots = num_gpus * slots
    least = np.ones(num_experts, np.int64)
    total = 0
    for e in range(num_experts):
        while least[e] <= most and loads[e] // least[e] > limit:
            least[e] += 1
        if least[e] > most:
            return NONE
        total += least[e]
    if total > num_slots or floor > limit:
        return NONE
    counts = least.copy()
    size = np.zeros(num_slots, np.int64)
    expert = np.zeros(num_slots, np.int64)
    piece = np.zeros(num_experts, np.int64)
    spare = num_slots - total
    counts[num_experts - 1] += spare
    while True:
        budget[0] -= 1
        if budget[0] < 0:
            return GAVE_UP
        if counts[num_experts - 1] <= most:
            weight = 0
            for e in range(num_experts):
                piece[e] = max(loads[e] // counts[e], floor)
                weight += piece[e] * counts[e]
            if weight <= limit * num_gpus:
                order = np.argsort(-piece, kind="mergesort")
                at = 0
                for rank in range(num_experts):
                    for _ in range(counts[order[rank]]):
                        size[at] = piece[order[rank]]
                        expert[at] = order[rank]
                        at += 1
                found = pack_below(size, expert, slots, limit, distinct, held, budget)
                if found == GAVE_UP:
                    return GAVE_UP
                if found == FOUND:
                    for slot in range(num_slots):
                        held[slot] = expert[held[slot]]
                    return FOUND
        # next counts: an odometer over all experts but the last, which takes what is spare
        e = num_experts - 2
        while e >= 0:
            if counts[e] < most and counts[num_experts - 1] > least[num_experts - 1]:
                counts[e] += 1
                counts[num_experts - 1] -= 1
                break
            counts[num_experts - 1] += counts[e] - least[e]
            counts[e] = least[e]
            e -= 1
        if e < 0:
            return NONE
