"""Largest first under rules: pins, prohibitions, least replicas, spreading over nodes, constant loads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.packing import FORBIDDEN, PINNED
from moeopt.placement.heuristics.deep import Part


def packed(part: Part) -> NDArray[np.int64] | None:
    """(S,) a start that keeps every rule, -1 where a slot stays empty, or ``None`` where largest first gets stuck.

    Greedy counts within the rules; pinned replicas first, then each replica, heaviest first, to the GPU that then
    costs least among those that may take it, replicas of an expert to new nodes until it lies on enough.
    """
    num_experts, slots = len(part.loads), np.array(part.slots)
    num_gpus, num_slots = len(slots), int(slots.sum())
    rule = part.rule if part.rule.size else np.zeros((num_experts, num_gpus), np.int8)
    usable = (rule != FORBIDDEN) & (slots > 0)
    most = np.minimum(usable.sum(axis=1), part.most) if part.distinct else np.full(num_experts, part.most)
    least = np.maximum(part.smallest, (rule == PINNED).sum(axis=1))
    if (least > most).any() or least.sum() > num_slots:
        return None
    counts = _counts(part, num_slots, least, most)
    if counts is None:
        return None
    node = np.unique(part.node or (0,) * num_gpus, return_inverse=True)[1]
    pace = 1.0 / np.array(part.speed)
    total = np.array(part.base or (0.0,) * num_gpus)
    room, hosts = slots.copy(), np.zeros((num_experts, num_gpus), dtype=np.int64)
    size = np.maximum(part.loads / counts, part.floor)

    def put(expert: int, gpu: int) -> None:
        hosts[expert, gpu] += 1
        room[gpu] -= 1
        total[gpu] += size[expert]

    for expert, gpu in np.argwhere(rule == PINNED):
        put(int(expert), int(gpu))
    if (room < 0).any():
        return None
    order = np.argsort(-size, kind="stable")
    tight = order[np.argsort(usable.sum(axis=1)[order], kind="stable")] if part.rule.size else order
    first = tight[usable.sum(axis=1)[tight] <= num_gpus // 2]  # experts with little choice choose first
    for expert in [*first.tolist(), *[e for e in order.tolist() if e not in set(first.tolist())]]:
        while hosts[expert].sum() < counts[expert]:
            may = usable[expert] & (room > 0)
            if part.distinct:
                may &= hosts[expert] == 0
            if part.spread > 1 and len(set(node[hosts[expert] > 0])) < part.spread:
                may &= ~np.isin(node, node[hosts[expert] > 0])
            if not may.any():
                return None
            put(expert, int(np.argmin(np.where(may, (total + size[expert]) * pace, np.inf))))
    out = np.full(num_slots, -1, dtype=np.int64)
    start = np.concatenate([[0], np.cumsum(slots)])
    for gpu in range(num_gpus):
        held = np.repeat(np.arange(num_experts), hosts[:, gpu])
        out[start[gpu] : start[gpu] + len(held)] = held
    return out


def _counts(part: Part, num_slots: int, least: NDArray[np.int64], most: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Greedy counts between `least` and `most` of each expert; ``None`` where the slots cannot be filled."""
    if len(set(most.tolist())) == 1:
        if not part.may_be_empty and int(most.sum()) < num_slots:
            return None
        greedy = greedy_counts(part.loads[None, :], min(num_slots, int(most.sum())), int(most[0]), least)
        return np.array(greedy[0])
    counts = least.copy()
    for _ in range(num_slots - int(least.sum())):
        size = np.where(counts < most, part.loads / counts, -1.0)
        expert = int(size.argmax())
        if size[expert] < 0:
            return counts if part.may_be_empty else None
        counts[expert] += 1
    return counts
