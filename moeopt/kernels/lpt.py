"""Largest processing time first with a limited number of slots, batched over layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.largest import largest


def pack(
    pieces: NDArray[np.floating],
    counts: NDArray[np.int64],
    slots: Sequence[int],
    speed: Sequence[float] | None = None,
    *,
    distinct: bool,
) -> NDArray[np.int32]:
    """Put each replica, heaviest first, on the GPU that then costs least and has a free slot.

    Ties go to the lower expert id, then to the lower GPU. With `distinct` a GPU that has the expert is avoided
    where another has room; what is left doubled is for the caller to repair.

    Parameters
    ----------
    pieces
        (L, E) load of one replica.
    counts
        (L, E) replicas; every row has the same sum, at most ``sum(slots)``.
    slots, speed
        G slots and speeds.

    Returns
    -------
    ndarray
        (L, S) expert in each slot, GPU-major, in the order they were placed, -1 where a slot stays empty.

    >>> pack(np.array([[5.0, 4.0, 3.0, 2.0]]), np.ones((1, 4), dtype=np.int64), [2, 2], distinct=True).tolist()
    [[0, 3, 1, 2]]
    """
    num_layers = len(pieces)
    capacity = np.array(slots)
    num_gpus, num_pieces = len(capacity), int(counts[0].sum())
    start = np.concatenate([[0], np.cumsum(capacity)[:-1]])
    if largest.ready() and pieces.dtype == np.float64:
        filled = np.full((num_layers, int(capacity.sum())), -1, dtype=np.int32)
        equal = speed is None or len(set(speed)) == 1
        paces = np.zeros(0) if equal or speed is None else 1.0 / np.array(speed)
        sizes = np.ascontiguousarray(pieces, dtype=np.float64)
        amounts = np.ascontiguousarray(counts, dtype=np.int64)
        order = np.argsort(-pieces, axis=1)  # not stable, which takes four times as long
        largest(sizes, order, amounts, capacity.astype(np.int64), paces, distinct, filled)
        return filled
    order = np.argsort(-pieces, axis=1, kind="stable")
    flat = np.repeat(order.ravel(), np.take_along_axis(counts, order, axis=1).ravel())
    experts = np.ascontiguousarray(flat.reshape(num_layers, num_pieces).T)  # (pieces, L), heaviest first
    size = np.ascontiguousarray(np.take_along_axis(pieces, experts.T, axis=1).T)
    repeat = np.zeros(experts.shape, dtype=bool)  # the expert of the step before again
    repeat[1:] = experts[1:] == experts[:-1]
    with_repeat = np.append(repeat.any(axis=1), False)
    base = np.arange(num_layers) * num_gpus
    room = np.tile(capacity, num_layers)
    cost = np.where(room == 0, np.inf, np.zeros(len(room), dtype=pieces.dtype)).astype(pieces.dtype)
    wall = np.zeros(int(capacity.max()) + 1, dtype=pieces.dtype)
    wall[0] = np.inf  # added to a GPU that has just been filled
    grid = cost.reshape(num_layers, num_gpus)
    pace = None if speed is None or len(set(speed)) == 1 else 1.0 / np.tile(np.array(speed), num_layers)
    hosts = np.zeros(len(room), dtype=bool)
    chosen = np.empty((num_pieces, num_layers), dtype=np.int64)
    place = np.empty((num_pieces, num_layers), dtype=np.int64)
    for step in range(num_pieces):
        key = grid if pace is None else grid + size[step][:, None] * pace.reshape(grid.shape)
        if distinct and with_repeat[step]:
            hosts.reshape(grid.shape)[~repeat[step]] = False
            avoiding = np.where(hosts.reshape(grid.shape), np.inf, key)
            gpu = avoiding.argmin(axis=1)
            stuck = np.isinf(avoiding[np.arange(num_layers), gpu])
            if stuck.any():
                gpu = np.where(stuck, key.argmin(axis=1), gpu)
        else:
            gpu = key.argmin(axis=1)
        where = base + gpu
        left = room.take(where)
        left -= 1
        room[where] = left
        after = wall.take(left)
        after += size[step] if pace is None else size[step] * pace.take(where)
        after += cost.take(where)
        cost[where] = after
        if distinct and with_repeat[step + 1]:
            if not with_repeat[step]:
                hosts[:] = False
            hosts[where] = True
        chosen[step] = gpu
        place[step] = left
    out = np.full((num_layers, int(capacity.sum())), -1, dtype=np.int32)
    slot = (start + capacity - 1)[chosen] - place
    out[np.arange(num_layers), slot] = experts
    return out
