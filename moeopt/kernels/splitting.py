"""Split the load of shared experts over their GPUs so that the busiest costs least: water-filling, then cuts.

Everything is about one layer. Experts on one GPU only are part of that GPU's `base`; what is left are M shared experts
and P pairs (expert, GPU), listed expert by expert. The flow part uses whole numbers only, so nothing is rounded: int64
when compiled, Python integers of any size when interpreted. See ``models/routing.md``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from moeopt.kernels._jit import jit
from moeopt.kernels.common import copy_into

ROUNDS = 64
"""Most rounds of water-filling: cuts and flows take over from any start, water-filling makes it a near one."""
CLOSE = 1e-12
"""Water-filling ends once the busiest GPU is this close to the best cut by order of loads."""


class Pairs(NamedTuple):
    """Which shared expert lies where.

    ``first`` (M + 1,) first pair of each expert; ``gpu``, ``expert`` (P,) of each pair; ``start`` (G + 1,) and ``pair``
    (P,) the same pairs, GPU by GPU.
    """

    first: Any
    gpu: Any
    expert: Any
    start: Any
    pair: Any


@jit
def fill(weight, first, gpu, base, speed, part, load, rounds):  # type: ignore[no-untyped-def]
    """Water-filling, one expert after another, `rounds` times: `part` (P,) and `load` (G,) floats, in place."""
    for _ in range(rounds):
        for expert in range(len(weight)):
            low, high = first[expert], first[expert + 1]
            volume, pace, kept = weight[expert], 0.0, 0
            for p in range(low, high):
                g = gpu[p]
                load[g] -= part[p]
                volume += load[g]
                pace += speed[g]
                kept += 1
                part[p] = 1.0
            level = volume / pace
            again = True
            while again and kept > 1:
                again = False
                for p in range(low, high):
                    g = gpu[p]
                    if part[p] > 0.0 and load[g] > level * speed[g] and kept > 1:
                        part[p] = 0.0
                        volume -= load[g]
                        pace -= speed[g]
                        kept -= 1
                        again = True
                level = volume / pace
            for p in range(low, high):
                g = gpu[p]
                if part[p] > 0.0:
                    part[p] = max(level * speed[g] - load[g], 0.0)
                    load[g] += part[p]


@jit
def best_prefix(weight, first, gpu, base, speed, load, inside):  # type: ignore[no-untyped-def]
    """The best cut among the busiest GPUs by order, marked in `inside` (G,); its value, a float."""
    gpus = len(load)
    cost = load / speed
    order = np.argsort(-cost, kind="mergesort")
    rank = np.zeros(gpus, np.int64)
    for place in range(gpus):
        rank[order[place]] = place
    whole = np.zeros(gpus)
    for place in range(gpus):
        whole[place] = base[order[place]]
    for expert in range(len(weight)):
        last = 0
        for p in range(first[expert], first[expert + 1]):
            last = max(last, rank[gpu[p]])
        whole[last] += weight[expert]
    total, pace, best, size = 0.0, 0.0, -1.0, 1
    for place in range(gpus):
        total += whole[place]
        pace += speed[order[place]]
        if total / pace > best:
            best, size = total / pace, place + 1
    for place in range(gpus):
        inside[order[place]] = place < size
    return best


@jit
def balance(first, gpu, expert_of, start, pair, part, load, target, inside):  # type: ignore[no-untyped-def]
    """Move load from GPUs above their `target` to GPUs below theirs, along shortest paths (Dinic), in place.

    True when no GPU is above. False when some stay so: `inside` (G,) then marks the GPUs that can be reached from
    them. All of these are at or above their targets, and hold nothing that an expert could take elsewhere.
    """
    gpus, experts = len(load), len(first) - 1
    depth = np.zeros(gpus, np.int64)
    seen = np.zeros(experts, np.int64)
    queue = np.zeros(gpus, np.int64)
    next_pair = np.zeros(gpus, np.int64)
    next_host = np.zeros(experts, np.int64)
    out_pair = np.zeros(gpus + 1, np.int64)  # pairs of the path: the one that gives and the one that takes
    in_pair = np.zeros(gpus + 1, np.int64)
    while True:
        count = 0
        for g in range(gpus):
            depth[g] = -1
            if load[g] > target[g]:
                depth[g] = 0
                queue[count] = g
                count += 1
        if count == 0:
            return True
        for e in range(experts):
            seen[e] = -1
        head, found = 0, -1
        while head < count:
            g = queue[head]
            head += 1
            if found >= 0 and depth[g] >= found:
                break
            for k in range(start[g], start[g + 1]):
                e = expert_of[pair[k]]
                if seen[e] < 0 and part[pair[k]] > 0:
                    seen[e] = depth[g]
                    for p in range(first[e], first[e + 1]):
                        other = gpu[p]
                        if depth[other] < 0:
                            depth[other] = depth[g] + 1
                            queue[count] = other
                            count += 1
                            if load[other] < target[other]:
                                found = depth[other]
        if found < 0:
            for g in range(gpus):
                inside[g] = depth[g] >= 0
            return False
        for g in range(gpus):
            next_pair[g] = start[g]
        for e in range(experts):
            next_host[e] = first[e]
        for source in range(gpus):
            if depth[source] != 0:
                continue
            length, g = 0, source
            while load[source] > target[source]:
                if length > 0 and load[g] < target[g]:  # a path: push what fits
                    amount = min(load[source] - target[source], target[g] - load[g])
                    for step in range(length):
                        amount = min(amount, part[out_pair[step]])
                    for step in range(length):
                        part[out_pair[step]] -= amount
                        part[in_pair[step]] += amount
                    load[source] -= amount
                    load[g] += amount
                    length, g = 0, source
                    continue
                moved = False
                while next_pair[g] < start[g + 1]:
                    p = pair[next_pair[g]]
                    e = expert_of[p]
                    if part[p] > 0 and seen[e] == depth[g] and depth[g] < found:
                        while next_host[e] < first[e + 1] and depth[gpu[next_host[e]]] != depth[g] + 1:
                            next_host[e] += 1
                        if next_host[e] < first[e + 1]:
                            out_pair[length], in_pair[length] = p, next_host[e]
                            length += 1
                            g = gpu[next_host[e]]
                            moved = True
                            break
                    next_pair[g] += 1
                if moved:
                    continue
                if length == 0:
                    break
                length -= 1  # a dead end: back, and not here again
                next_host[expert_of[in_pair[length]]] += 1
                g = gpu[out_pair[length]]


@jit
def cut(weight, first, gpu, base, speed, inside, out):  # type: ignore[no-untyped-def]
    """``out[:2]``: what the GPUs in `inside` must do whatever the split, and their speed, in lowest terms."""
    amount, pace = 0 * base[0], 0 * speed[0]
    for g in range(len(base)):
        if inside[g]:
            amount += base[g]
            pace += speed[g]
    for expert in range(len(weight)):
        within = True
        for p in range(first[expert], first[expert + 1]):
            within = within and inside[gpu[p]]
        if within:
            amount += weight[expert]
    a, b = amount, pace
    while b > 0:
        a, b = b, a % b
    out[0], out[1] = amount // a, pace // a


@jit
def newton(  # type: ignore[no-untyped-def]
    weight, base, speed, rough, rough_base, rough_speed, first, gpu, expert_of, start, pair, near, part, inside, out
):
    """The least possible cost of the busiest GPU, exactly: ``out[0] / out[1]``, by Newton's method on cuts.

    Parameters
    ----------
    weight, base, speed
        (M,), (G,), (G,) whole numbers: load of each shared expert; what each GPU has to do besides; speeds.
    rough, rough_base, rough_speed
        The same as floats, for the start.
    first, gpu, expert_of, start, pair
        The fields of `Pairs`.
    near, part
        (P,) floats and whole numbers, filled here: the start, and the split in units of ``1 / out[1]``.
    inside
        (G,) booleans, filled here: a cut that proves the value.
    out
        (4,) whole numbers, filled here: numerator, denominator, cuts tried, rounds of water-filling.
    """
    gpus, experts = len(base), len(weight)
    load = rough_base.copy()
    for expert in range(experts):
        for p in range(first[expert], first[expert + 1]):
            near[p] = rough[expert] / (first[expert + 1] - first[expert])
            load[gpu[p]] += near[p]
    rounds = 0
    while True:
        best = best_prefix(rough, first, gpu, rough_base, rough_speed, load, inside)
        if experts == 0 or rounds >= ROUNDS or (load / rough_speed).max() <= best * (1.0 + CLOSE):
            break
        fill(rough, first, gpu, rough_base, rough_speed, near, load, 4)
        rounds += 4
    cut(weight, first, gpu, base, speed, inside, out)
    alone = -1
    for g in range(gpus):
        if base[g] * out[1] > out[0] * speed[g]:
            out[0], out[1] = base[g], speed[g]
            alone = g
    if alone >= 0:
        for g in range(gpus):
            inside[g] = g == alone
        cut(weight, first, gpu, base, speed, inside, out)
    unit = out[1]
    for expert in range(experts):
        rest = weight[expert] * unit
        for p in range(first[expert], first[expert + 1]):
            part[p] = min(int(near[p] * unit), rest)
            rest -= part[p]
        part[first[expert]] += rest
    total, target = base * unit, base * unit
    reached = np.zeros(gpus, np.bool_)
    out[2], out[3] = 1, rounds
    while True:
        for g in range(gpus):
            total[g] = base[g] * unit
            target[g] = out[0] * speed[g]
        for p in range(len(part)):
            total[gpu[p]] += part[p]
        if balance(first, gpu, expert_of, start, pair, part, total, target, reached):
            return
        copy_into(inside, reached)
        cut(weight, first, gpu, base, speed, inside, out)
        out[2] += 1
        before, unit = unit, out[1]
        for expert in range(experts):
            rest = weight[expert] * unit
            for p in range(first[expert], first[expert + 1]):
                part[p] = (part[p] // before) * unit + (part[p] % before) * unit // before
                rest -= part[p]
            part[first[expert]] += rest
