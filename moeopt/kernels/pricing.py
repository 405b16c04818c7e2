"""Thresholds that two simple prices of pieces refute, compiled; `moeopt.placement.partner` says what they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def fewest(weights: Floats, threshold: float, least: Floats) -> float:
    """Replicas that keep each piece of ``weights`` (E,) within the threshold, into ``least`` (E,); their sum."""
    total = 0.0
    for expert in range(weights.shape[0]):
        least[expert] = max(np.ceil(weights[expert] / threshold * (1 - 1e-12)), 1.0)
        total += least[expert]
    return total


@jit
def crowded(weights: Floats, num_gpus: int, slots: int, threshold: float) -> int:
    """A k up to `slots` such that pieces larger than a k-th of the threshold are too many for the GPUs; 0 if none."""
    num_experts = weights.shape[0]
    least = np.empty(num_experts)
    spare = num_gpus * slots - fewest(weights, threshold, least)
    further = np.empty(num_experts)
    many = np.empty(num_experts)
    for pieces in range(2, slots + 1):
        large = 0
        left = 0.0
        for expert in range(num_experts):
            if weights[expert] / least[expert] * pieces > threshold * (1 + 1e-9):
                many[large] = least[expert]
                further[large] = np.ceil(weights[expert] * pieces / threshold * (1 - 1e-9)) - least[expert]
                left += least[expert]
                large += 1
        order = np.argsort(further[:large] / many[:large], kind="mergesort")
        room = spare  # a fractional knapsack saves at least as many
        for place in range(large):
            more = further[order[place]]
            left -= many[order[place]] * min(max(room, 0.0), more) / more
            room -= more
        if spare < 0 or left > num_gpus * (pieces - 1) + 1e-6:
            return pieces
    return 0


@jit
def lonely(
    weights: Floats, num_gpus: int, slots: int, threshold: float, few: Floats, many: Floats, slot_prices: Floats
) -> float:
    """An x, two slots a GPU, such that pieces above the threshold less x find too few to lie beside them; else -1.

    ``few``, ``many``: rising numbers of further replicas that are looked at, of an expert that one GPU can hold and of
    the others; ``slot_prices`` of a spare slot. 0 where the pieces alone are more than the slots.
    """
    num_experts = weights.shape[0]
    least = np.empty(num_experts)
    spare = num_gpus * slots - fewest(weights, threshold, least)
    if spare < 0:
        return 0.0
    widest = max(few.shape[0], many.shape[0])
    places = np.empty(num_experts * widest)
    changes = np.empty((slot_prices.shape[0], num_experts * widest))
    start = np.zeros(slot_prices.shape[0])
    where = np.empty(widest)
    large = np.empty(widest, np.bool_)
    count = 0
    for expert in range(num_experts):
        more = few if least[expert] == 1.0 else many
        options = more.shape[0]
        for option in range(options):  # the price of a piece changes at one x, from 1 to `slots` or to 0
            ahead = more[option + 1] - 1 if option + 1 < options else more[option]
            size = weights[expert] / (least[expert] + ahead)
            large[option] = size > threshold / 2
            where[option] = threshold - size if large[option] else size
        rising = np.sort(where[:options])
        for at in range(options):
            places[count + at] = rising[at]
        for price in range(slot_prices.shape[0]):
            slot_price = slot_prices[price]
            beyond = slot_price * (more[options - 1] + 1)
            value = min(least[expert], beyond)  # at x = 0 every price is 1
            start[price] += value
            for at in range(options):
                cheapest = beyond
                for option in range(options):
                    each = 1.0
                    if where[option] <= rising[at]:
                        each = float(slots) if large[option] else 0.0
                    cheapest = min(cheapest, each * (least[expert] + more[option]) + slot_price * more[option])
                changes[price, count + at] = cheapest - value
                value = cheapest
        count += options
    line = np.argsort(places[:count], kind="mergesort")
    middle = threshold / 2 * (1 - 1e-9)
    for price in range(slot_prices.shape[0]):
        total = start[price] - slot_prices[price] * spare
        dearest = num_gpus * slots * (1 + 1e-12) + 1e-9
        best = -1.0
        for at in range(count - 1):
            here, following = places[line[at]], places[line[at + 1]]
            if following >= middle:
                break
            total += changes[price, line[at]]
            if total > dearest and following - here > 1e-9 * threshold:  # an x strictly between two places
                dearest = total
                best = (here + following) / 2
        if best >= 0.0:
            return best
    return -1.0
