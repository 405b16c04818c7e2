"""The exact frontier of a tiny layer: every plan, in numpy."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import EMPTY, running_pairs

MOST_PLANS = 20_000


def num_plans(instance: PlacementInstance) -> int:
    """Ways to fill the GPUs one by one, legal or not; stops counting above `MOST_PLANS`."""
    total = 1
    for count in instance.slots:
        ways = 0
        for used in range(count + 1) if instance.fill == "at_most" else (count,):
            ways += (
                comb(instance.num_experts, used) if instance.distinct else comb(instance.num_experts + used - 1, used)
            )
        total *= ways
        if total > MOST_PLANS:
            return total
    return total


def all_plans(instance: PlacementInstance, row: int, allowed: NDArray[np.bool_]) -> tuple[NDArray[np.int64], ...]:
    """Moves (P,) and plans (P, S) of every way to give each GPU experts that may lie there, where every expert keeps
    its least number of replicas, in a fixed order; pins, groups and nodes are left to the referee.

    Only where `num_plans` is small.
    """
    pick = combinations if instance.distinct else combinations_with_replacement
    plans = np.zeros((1, 0), dtype=np.int64)
    for gpu, count in enumerate(instance.slots):
        experts = np.flatnonzero(allowed[:, gpu]).tolist()
        sizes = range(count, -1, -1) if instance.fill == "at_most" else (count,)
        fills = [list(one) + [EMPTY] * (count - size) for size in sizes for one in pick(experts, size)]
        options = np.array(fills, dtype=np.int64).reshape(len(fills), count)
        plans = np.concatenate([np.repeat(plans, len(options), axis=0), np.tile(options, (len(plans), 1))], axis=1)
    counts = np.stack([(plans == expert).sum(axis=1) for expert in range(instance.num_experts)], axis=1)
    plans = plans[(counts >= np.array(instance.min_replicas)).all(axis=1)]
    lacking = np.concatenate([~running_pairs(instance, row), np.zeros((1, instance.num_gpus), dtype=bool)])
    fresh = lacking[plans, instance.gpu_of_slot]
    for gpu in range(instance.num_gpus):  # two replicas on one GPU are one pair
        slots = range(int(instance.slot_start[gpu]), int(instance.slot_start[gpu + 1]))
        for slot in slots:
            for other in range(slots.start, slot):
                fresh[:, slot] &= plans[:, slot] != plans[:, other]
    return fresh.sum(axis=1), plans
