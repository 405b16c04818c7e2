"""Lower bounds in closed form: mean, one expert alone, the largest replica; ``models/placement.md`` has the proofs.

In whole numbers and fractions, so that a value is a proof.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from moeopt.kernels.fractions import total
from moeopt.placement.instance import PlacementInstance


def most_replicas(instance: PlacementInstance) -> int:
    """Largest number of GPUs that can share one expert: every other expert needs a slot."""
    spare = instance.num_slots - instance.num_experts + 1
    usable = sum(count > 0 for count in instance.slots)
    return min(usable, spare) if instance.distinct else spare


def means(instance: PlacementInstance) -> Sequence[Fraction]:
    """Total cost over total speed; with a floor per replica every replica beyond a_e/K adds to the total."""
    if instance.floor_rule == "per_expert" or not instance.floor:
        return instance.ideal
    speed = sum(map(Fraction, instance.speed))
    spare = instance.num_slots - instance.num_experts if instance.fill == "all" else 0
    whole, floor, denominator = instance.exact_loads
    return [Fraction(_least_total(row, floor, spare), denominator) / speed for row in whole.tolist()]


def _least_total(loads: list[int], floor: int, spare: int) -> int:
    """Least ``sum_e max(a_e, r_e K)`` over counts with `spare` replicas more than one each: convex in each r_e."""
    least = sum(max(load, floor) for load in loads)
    free = sum(max(load // floor, 1) - 1 for load in loads)  # replicas that stay above the floor cost nothing
    rest = max(spare - free, 0)
    partial = sorted(floor - load % floor for load in loads if load > floor)
    least += sum(partial[:rest])
    return least + max(rest - len(partial), 0) * floor


def exact_weights(instance: PlacementInstance, row: int) -> tuple[list[int], int]:
    whole, floor, denominator = instance.exact_loads
    return [max(int(a), floor) for a in whole[row].tolist()], denominator


def alone(instance: PlacementInstance, row: int, expert: int) -> Fraction:
    """One expert on as many GPUs as can share it, the fastest ones."""
    whole, floor, denominator = instance.exact_loads
    load = int(whole[row, expert])
    paces = sorted((pace for pace, count in zip(instance.speed, instance.slots, strict=True) if count), reverse=True)
    exact = {pace: Fraction(pace) for pace in paces}
    speeds = [exact[pace] for pace in paces[: most_replicas(instance)]]
    per_replica = instance.floor_rule == "per_replica"
    floor_cost = Fraction(floor if per_replica else 0, denominator) / speeds[0]  # per expert, replicas share the floor
    weight = Fraction(max(load, floor), denominator)  # below the floor the cost of the floor decides
    if instance.split == "free":
        return max(weight / total(speeds), floor_cost)
    if not instance.distinct:  # several replicas on the fastest GPU: only the share of one piece is sure
        return max(weight / most_replicas(instance) / speeds[0], floor_cost)
    # r equal pieces on r different GPUs: the slowest of them decides, at best the r-th fastest
    return max(min(weight / (r * speed) for r, speed in enumerate(speeds, start=1)), floor_cost)


def largest(instance: PlacementInstance, row: int) -> Fraction:
    """Smallest possible largest replica: below it more replicas are needed than there are slots."""
    loads, denominator = exact_weights(instance, row)  # where a floor per replica hides a load, it is the value
    most = most_replicas(instance)
    counts = instance.greedy_counts[row]
    pieces = instance.weights[row] / counts
    near = np.flatnonzero(pieces >= pieces.max() * (1 - 1e-12)).tolist()
    top = max(Fraction(loads[expert], int(counts[expert])) for expert in near)
    if top > 0:  # a largest piece below `top` needs at least floor(load / top) + 1 replicas of each expert
        needed = [load * top.denominator // top.numerator + 1 for load in loads]
        if sum(needed) <= instance.num_slots and max(needed) <= most:  # rounding misled the greedy counts
            top = _least_largest(loads, instance.num_slots, most)
    if instance.floor_rule == "per_replica":
        top = max(top, Fraction(instance.exact_loads[1]))
    return top / denominator / Fraction(max(instance.speed))


def _least_largest(loads: list[int], num_slots: int, most: int) -> Fraction:
    """The greedy rule in fractions: the largest piece gets the next slot, until it may not have one more."""
    counts = [1] * len(loads)
    heap = [(-Fraction(load), expert) for expert, load in enumerate(loads)]
    heapq.heapify(heap)
    for _ in range(num_slots - len(loads)):
        expert = heap[0][1]
        if counts[expert] == most:
            break
        counts[expert] += 1
        heapq.heapreplace(heap, (-Fraction(loads[expert], counts[expert]), expert))
    return -heap[0][0]
