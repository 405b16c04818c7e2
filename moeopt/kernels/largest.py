"""Largest first, compiled: the same bytes as `moeopt.kernels.lpt.pack`, which uses it once this process has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit


@jit
def plant(first: NDArray[np.int64], cost: NDArray[np.float64]) -> None:
    """A tournament: ``first`` (2 P,) the GPU of least cost under each knot of a tree, the lower of equals.

    ``cost`` (P,) infinite where there is no room or no GPU; knot 1 is the root, knot ``P + g`` GPU g.
    """
    leaves = cost.shape[0]
    for leaf in range(leaves):
        first[leaves + leaf] = leaf
    for knot in range(leaves - 1, 0, -1):
        one, two = first[2 * knot], first[2 * knot + 1]
        first[knot] = one if cost[one] <= cost[two] else two


@jit
def replay(first: NDArray[np.int64], cost: NDArray[np.float64], gpu: int) -> None:
    """Set the tournament right after the cost of one GPU has changed."""
    winner, least = gpu, cost[gpu]
    knot = cost.shape[0] + gpu
    while knot > 1:
        rival = first[knot ^ 1]
        other = cost[rival]
        if other < least or (other == least and rival < winner):
            winner, least = rival, other
        knot >>= 1
        first[knot] = winner


@jit
def lightest(
    cost: NDArray[np.float64],
    left: NDArray[np.int64],
    host: NDArray[np.int64],
    pace: NDArray[np.float64],
    size: float,
    avoided: int,
) -> int:
    """The GPU with room that costs least after one more piece, if possible one that does not hold `avoided`."""
    best, rival = -1, -1
    best_key, rival_key = np.inf, np.inf
    for gpu in range(left.shape[0]):
        if left[gpu] == 0:
            continue
        key = cost[gpu] if pace.shape[0] == 0 else cost[gpu] + size * pace[gpu]
        if rival < 0 or key < rival_key:
            rival = gpu
            rival_key = key
        if host[gpu] != avoided and (best < 0 or key < best_key):
            best = gpu
            best_key = key
    return best if best >= 0 else rival


@jit
def largest(
    pieces: NDArray[np.float64],
    order: NDArray[np.int64],
    counts: NDArray[np.int64],
    capacity: NDArray[np.int64],
    pace: NDArray[np.float64],
    distinct: bool,
    out: NDArray[np.int32],
) -> None:
    """Fill ``out`` (L, S), -1 throughout, as `pack` does.

    ``pieces``, ``counts`` (L, E); ``order`` (L, E) experts by falling piece, equal ones in any order, which is put
    right; ``capacity`` (G,); ``pace`` (G,) reciprocal speeds, or (0,) where they are equal.
    """
    num_gpus = capacity.shape[0]
    start = np.zeros(num_gpus, np.int64)
    for gpu in range(1, num_gpus):
        start[gpu] = start[gpu - 1] + capacity[gpu - 1]
    leaves = 1
    while leaves < num_gpus:
        leaves *= 2
    cost = np.zeros(leaves)
    first = np.zeros(2 * leaves, np.int64)
    left = np.zeros(num_gpus, np.int64)
    host = np.zeros(num_gpus, np.int64)
    alike = pace.shape[0] == 0
    for row in range(order.shape[0]):
        cost[:] = np.inf
        for gpu in range(num_gpus):
            left[gpu] = capacity[gpu]
            host[gpu] = -1
            if left[gpu] > 0:
                cost[gpu] = 0.0
        plant(first, cost)
        begin = 0
        for at in range(1, order.shape[1] + 1):  # equal pieces by rising id
            if at == order.shape[1] or pieces[row, order[row, at]] != pieces[row, order[row, begin]]:
                if at > begin + 1:
                    order[row, begin:at].sort()
                begin = at
        for at in range(order.shape[1]):
            expert = order[row, at]
            size = pieces[row, expert]
            for copy in range(counts[row, expert]):
                best = first[1]
                if not alike or (distinct and copy > 0 and host[best] == expert):
                    best = lightest(cost, left, host, pace, size, expert if distinct else -2)
                left[best] -= 1
                out[row, start[best] + capacity[best] - 1 - left[best]] = expert
                host[best] = expert
                if left[best] == 0:
                    cost[best] = np.inf
                else:
                    cost[best] = (size if alike else size * pace[best]) + cost[best]
                if alike:
                    replay(first, cost, best)
