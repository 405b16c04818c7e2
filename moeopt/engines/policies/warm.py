"""From the running map to a better one by few moves: swaps off the busiest GPU, all layers at once, no compiler."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.shape import Ints, Shape, replicas

FEW_GPUS_SWAPS, SWAPS_A_GPU = 40, 1.5
"""Swaps of a layer: 40, or one and a half a GPU; a drift of 5 % on 32 GPUs takes some 15 to half a percent."""


def most_swaps(shape: Shape) -> int:
    """Swaps after which a layer is given up.

    >>> most_swaps(Shape(1, 256, 288, 72))
    108
    """
    return max(FEW_GPUS_SWAPS, int(SWAPS_A_GPU * shape.num_gpus))


def swapped(
    loads: Ints,
    shape: Shape,
    old: Ints,
    goals: NDArray[np.float64],
    swaps: int | Ints = FEW_GPUS_SWAPS,
    go_on: Callable[[], bool] = lambda: True,
) -> Ints:
    """(R, S) maps from the legal ones in `old` by at most so many swaps a layer, or each of (R,).

    Replicas stay as many as they were.

    Every swap gives a replica of the busiest GPU for one of another GPU (of its node, where groups bind), the pair that
    leaves the busier of both lightest; a layer is done at its goal (R,), or where no swap makes the busiest GPU
    lighter. `go_on` is asked before every round and may end it all.

    >>> shape = Shape(1, 4, 4, 2)
    >>> swapped(np.array([[8, 4, 2, 2]]), shape, np.array([[0, 1, 2, 3]]), np.array([8.0])).tolist()
    [[2, 1, 0, 3]]
    """
    held = old.copy()
    size = np.take_along_axis(loads / replicas(held, shape.num_experts), held, axis=1)
    there = np.zeros((len(held), shape.num_experts, shape.num_gpus), dtype=bool)
    there[np.arange(len(held))[:, None], held, shape.gpu_of_slot] = True
    cost = size.reshape(len(held), shape.num_gpus, -1).sum(axis=2)
    active = np.arange(len(held))
    most = np.broadcast_to(swaps, len(held))
    for turn in range(int(most.max(initial=0))):
        active = active[(cost[active].max(axis=1) > goals[active]) & (most[active] > turn)]
        if len(active):
            active = active[_swap(shape, held, size, there, cost, active)]
        if not len(active) or not go_on():
            break
    return held


def _swap(
    shape: Shape,
    held: Ints,
    size: NDArray[np.float64],
    there: NDArray[np.bool_],
    cost: NDArray[np.float64],
    rows: Ints,
) -> NDArray[np.bool_]:
    """Make the best swap of each of these layers; which of them had one."""
    gpu, per_gpu = shape.gpu_of_slot, shape.per_gpu
    some = np.arange(len(rows))
    hot = cost[rows].argmax(axis=1)
    top = cost[rows, hot]
    mine = hot[:, None] * per_gpu + np.arange(per_gpu)  # (R, s) slots of the busiest GPU
    gives, takes = held[rows[:, None], mine], held[rows]
    shift = size[rows[:, None], mine][:, :, None] - size[rows][:, None, :]  # (R, s, S) what the busiest GPU sheds
    worst = np.maximum(top[:, None, None] - shift, cost[rows][:, gpu][:, None, :] + shift)
    barred = there[rows[:, None], gives][:, :, gpu]  # the other GPU has it
    barred |= there[rows[:, None], takes, hot[:, None]][:, None, :]  # the busiest GPU has it
    if shape.groups is not None:
        node = gpu // (shape.num_gpus // shape.num_nodes)
        barred |= (node[None, :] != (hot // (shape.num_gpus // shape.num_nodes))[:, None])[:, None, :]
    worst[barred] = np.inf
    best = worst.reshape(len(rows), -1).argmin(axis=1)
    good: NDArray[np.bool_] = worst.reshape(len(rows), -1)[some, best] < top * (1 - 1e-12)
    layer, best = rows[good], best[good]
    own, other = mine[good, best // shape.num_slots], best % shape.num_slots
    a, b, here, away = held[layer, own], held[layer, other], hot[good], gpu[other]
    difference = size[layer, own] - size[layer, other]
    held[layer, own], held[layer, other] = b, a
    size[layer, own], size[layer, other] = size[layer, other], size[layer, own]
    there[layer, a, here], there[layer, b, away] = False, False
    there[layer, a, away], there[layer, b, here] = True, True
    cost[layer, here] -= difference
    cost[layer, away] += difference
    return good
