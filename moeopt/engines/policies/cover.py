"""From what runs, or what is left of it, to a full map by the fewest moves: every expert there, no slot empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.row import Row
from moeopt.engines.policies.shape import Ints, Shape, legal_rows, new_pairs, replicas


@dataclass(frozen=True)
class Covered:
    """What runs, ``old`` (L, S) with -1 where nothing does, and ``held`` (L, S), the full map nearest to it.

    ``moves`` (L,) pairs of expert and GPU that only ``held`` has, ``doubles`` (L,) second replicas of an expert on one
    GPU that the budget has left there.
    """

    old: Ints
    held: Ints
    moves: Ints
    doubles: Ints

    def part(self, rows: Sequence[int] | Ints) -> Covered:
        """Some of the layers."""
        some = np.asarray(rows)
        return Covered(self.old[some], self.held[some], self.moves[some], self.doubles[some])


def covered(shape: Shape, old: Ints, loads: NDArray[np.number] | None, budget: int | None) -> Covered:
    """Give every expert a slot and every slot an expert, then take doubles away as long as the budget of moves lasts.

    Experts that are missing go to empty slots, then to those of doubles, then to those of experts that have other
    replicas; ``max(missing, empty)`` moves, as few as any full map needs where no double stands in the way. That much
    is done whatever the budget says. Groups stay on their nodes where those of `old` do. A full map without doubles
    comes back as it is.

    >>> row = np.array([[0, 1, 0, 0, -1, 2]])
    >>> covered(Shape(1, 4, 6, 3), row, None, None).held.tolist()
    [[0, 1, 0, 1, 3, 2]]
    >>> covered(Shape(1, 4, 6, 3), row, None, 1).held.tolist()
    [[0, 1, 0, 0, 3, 2]]
    """
    held = np.where((old >= 0) & (old < shape.num_experts), old, -1).astype(np.int64)
    weights = np.ones((len(held), shape.num_experts)) if loads is None else loads.astype(np.float64)
    for row in np.flatnonzero(~legal_rows(shape.flat(), held)):
        Row(shape, held[row], weights[row]).fill(budget)
    return Covered(old, held, new_pairs(shape, old, held), doubles(shape, held))


def doubles(shape: Shape, held: Ints) -> Ints:
    """(L,) replicas that share their GPU with another of their expert."""
    pairs = np.sort(shape.gpu_of_slot * shape.num_experts + held, axis=1)
    return np.asarray((pairs[:, 1:] == pairs[:, :-1]).sum(axis=1), dtype=np.int64)


def complete(shape: Shape, held: Ints) -> bool:
    """Whether a map (L, S) has known experts in all its slots and each expert at least once."""
    if held.shape != (shape.num_layers, shape.num_slots) or (held < 0).any() or (held >= shape.num_experts).any():
        return False
    return bool((replicas(held, shape.num_experts) > 0).all())
