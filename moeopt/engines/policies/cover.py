"""From what runs, or what is left of it, to a full map by the fewest moves: every expert there, no slot empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.shape import Ints, Shape, legal_rows, new_pairs, replicas

Floats = NDArray[np.float64]


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
        _Row(shape, held[row], weights[row]).fill(budget)
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


class _Row:
    """One layer under repair; ``held`` (S,) is written in place."""

    def __init__(self, shape: Shape, held: Ints, weights: Floats) -> None:
        self.shape, self.held, self.weights, self.gpu = shape, held, weights, shape.gpu_of_slot
        filled = held >= 0
        self.on = np.zeros((shape.num_experts, shape.num_gpus), dtype=np.int64)
        np.add.at(self.on, (held[filled], self.gpu[filled]), 1)
        self.counts = self.on.sum(axis=1)
        self.share = weights / np.maximum(self.counts, 1)
        self.home = self._homes()

    def fill(self, budget: int | None) -> None:
        before = self.on > 0
        lost = np.flatnonzero(self.counts == 0)
        for expert in lost[np.argsort(-self.weights[lost], kind="stable")]:
            self._put(int(expert), self._slot_for(int(expert)))
        for slot in np.flatnonzero(self.held < 0):
            self._put(self._expert_for(int(slot)), int(slot))
        moves = int(((self.on > 0) & ~before).sum())
        for slot in self._doubled():
            if budget is not None and moves >= budget:
                break
            expert = self._expert_for(int(slot))
            if self.on[expert, self.gpu[slot]]:
                continue  # more slots than experts: it has them all
            self._put(expert, int(slot))
            moves += 1

    def _homes(self) -> Ints | None:
        """(E,) node of each expert's group, where the layer keeps groups on nodes; ``None``: anywhere."""
        shape = self.shape
        if shape.groups is None:
            return None
        room = shape.groups // shape.num_nodes
        seen = self.on.reshape(shape.groups, -1, shape.num_nodes, shape.num_gpus // shape.num_nodes).sum(axis=(1, 3))
        there = seen > 0
        if (there.sum(axis=1) > 1).any() or (there.sum(axis=0) > room).any():
            return None
        node = np.where(there.any(axis=1), there.argmax(axis=1), -1)
        free = np.repeat(np.arange(shape.num_nodes), room - there.sum(axis=0))
        node[node < 0] = free
        return np.repeat(node, shape.num_experts // shape.groups)

    def _near(self, slots: NDArray[np.bool_], expert: int) -> NDArray[np.bool_]:
        """Those of the slots (S,) that are on the node of the expert's group."""
        if self.home is None:
            return slots
        return np.asarray(slots & (self.gpu // (self.shape.num_gpus // self.shape.num_nodes) == self.home[expert]))

    def _doubled(self) -> Ints:
        """Slots of replicas that a GPU has already, those with the lightest experts first."""
        first = np.unique(self.gpu * self.shape.num_experts + self.held, return_index=True)[1]
        slots = np.delete(np.arange(len(self.held)), first)
        return np.asarray(slots[np.argsort(self.share[self.held[slots]], kind="stable")], dtype=np.int64)

    def _slot_for(self, expert: int) -> int:
        """An empty slot on the lightest GPU, else a double's, else that of the expert that can best spare a replica."""
        empty = self._near(self.held < 0, expert)
        if empty.any():
            size = np.where(self.held >= 0, self.share[self.held], 0.0)
            cost = np.bincount(self.gpu, weights=size, minlength=self.shape.num_gpus)
            return int(np.where(empty, cost[self.gpu], np.inf).argmin())
        spare = self._near((self.held >= 0) & (self.on[self.held, self.gpu] > 1), expert)
        if not spare.any():
            spare = self._near((self.held >= 0) & (self.counts[self.held] > 1), expert)
        after = self.weights / np.maximum(self.counts - 1, 1)
        return int(np.where(spare, after[self.held], np.inf).argmin())

    def _expert_for(self, slot: int) -> int:
        """The expert with the heaviest replicas that the slot's GPU lacks and its node may hold."""
        gpu = int(self.gpu[slot])
        worth = np.where(self.on[:, gpu] == 0, self.share, -1.0)
        if self.home is not None:
            worth[self.home != gpu // (self.shape.num_gpus // self.shape.num_nodes)] = -2.0
        return int(worth.argmax())

    def _put(self, expert: int, slot: int) -> None:
        gpu, out = self.gpu[slot], int(self.held[slot])
        self.held[slot] = expert
        for one, more in ((out, -1), (expert, 1)) if out >= 0 else ((expert, 1),):
            self.counts[one] += more
            self.on[one, gpu] += more
            self.share[one] = self.weights[one] / max(self.counts[one], 1)
