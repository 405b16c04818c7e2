"""One layer of a map under repair: what is lost finds room, empty slots and doubles get other experts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.shape import Ints, Shape

Floats = NDArray[np.float64]
FEW, ROUNDS = 1024, 64
"""Up to so many slots are filled one by one; more of them in about so many rounds."""
CELLS = 2**22
"""Pairs of slot and expert that are looked at together."""
LOOKS = 2**25
"""Pairs of lost expert and slot up to which each expert looks for the best slot."""


class Row:
    """``held`` (S,), written in place."""

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
        lost = lost[np.argsort(-self.weights[lost], kind="stable")]
        if len(lost) * len(self.held) > LOOKS:
            lost = self._find_room(lost)
        for expert in lost:
            self._put(int(expert), self._slot_for(int(expert)))
        self._deal(np.flatnonzero(self.held < 0), len(self.held))
        moves = int(((self.on > 0) & ~before).sum())
        self._deal(self._doubled(), len(self.held) if budget is None else budget - moves)

    def _find_room(self, lost: Ints) -> Ints:
        """Many lost experts at once, in the order of `_slot_for`; those that are left over."""
        node = self.gpu // (self.shape.num_gpus // self.shape.num_nodes) * (self.home is not None)
        home = np.zeros_like(lost) if self.home is None else self.home[lost]
        for slots in (lambda: np.flatnonzero(self.held < 0), self._doubled, self._spare):
            for one in np.unique(home).tolist():
                room, wanting = slots(), np.flatnonzero((home == one) & (lost >= 0))
                room = room[node[room] == one][: len(wanting)]
                wanting = wanting[: len(room)]
                self._put_all(lost[wanting], room)
                lost[wanting] = -1
        return lost[lost >= 0]

    def _spare(self) -> Ints:
        """Slots of experts that have other replicas, the lightest first."""
        first = np.unique(self.held, return_index=True)[1]
        slots = np.delete(np.arange(len(self.held)), first)
        return np.asarray(slots[np.argsort(self.share[self.held[slots]], kind="stable")], dtype=np.int64)

    def _deal(self, slots: Ints, most: int) -> None:
        """Give each of the slots an expert its GPU lacks, one after another, or where they are many, many at once."""
        at_once = 1 if len(slots) <= FEW else min(max(len(slots) // ROUNDS, 1), max(CELLS // len(self.counts), 1))
        if at_once > 1:  # slots of different GPUs beside each other
            by_gpu = np.argsort(self.gpu[slots], kind="stable")
            own = self.gpu[slots[by_gpu]]
            turn = np.arange(len(own)) - np.searchsorted(own, own)
            slots = slots[by_gpu[np.argsort(turn, kind="stable")]]
        while len(slots) and most > 0:
            some, slots = slots[: min(at_once, most)], slots[min(at_once, most) :]
            if len(some) == 1:
                experts = np.array([self._expert_for(int(some[0]))])
            else:
                experts = self._experts_for(some)
            lacks = self.on[experts, self.gpu[some]] == 0  # else more slots than experts: it has them all
            some, experts = some[lacks], experts[lacks]
            pairs = self.gpu[some] * len(self.counts) + experts
            first = np.unique(pairs, return_index=True)[1]
            again = np.delete(some, first)
            self._put_all(experts[first], some[first])
            most -= len(first)
            slots = np.concatenate([again, slots])

    def _experts_for(self, slots: Ints) -> Ints:
        """For each slot an expert: in turn those with the heaviest replicas, or what else its GPU lacks."""
        more = self._more(len(slots))
        order = np.argsort(-more, kind="stable")
        experts = np.repeat(order, more[order])[: len(slots)]
        experts = np.asarray(np.pad(experts, (0, len(slots) - len(experts)), constant_values=order[0]), dtype=np.int64)
        gpu = self.gpu[slots]
        barred = self.on[experts, gpu] > 0
        if self.home is not None:
            node = gpu // (self.shape.num_gpus // self.shape.num_nodes)
            barred |= self.home[experts] != node
        rows = np.flatnonzero(barred)
        worth = np.where(self.on[:, gpu[rows]] == 0, self.share[:, None], -1.0)
        if self.home is not None:
            worth[self.home[:, None] != node[rows][None, :]] = -2.0
        if len(rows):
            experts[rows] = worth.argmax(axis=0)
        return experts

    def _more(self, count: int) -> Ints:
        """(E,) replicas more of each expert, about so many in all, that leave the heaviest replica lightest."""
        low, high = 0.0, float(self.weights.max()) or 1.0
        weights = np.maximum(self.weights, high * 1e-12)
        for _ in range(60):
            size = (low + high) / 2
            more = np.maximum(np.ceil(np.minimum(weights / size, 2.0**40)).astype(np.int64) - self.counts, 0)
            low, high = (low, size) if more.sum() <= count else (size, high)
        more = np.maximum(np.ceil(weights / high).astype(np.int64) - self.counts, 0)
        if more.sum() < count:
            more += -(-(count - int(more.sum())) // len(more))
        return np.asarray(more, dtype=np.int64)

    def _put_all(self, experts: Ints, slots: Ints) -> None:
        """`_put` for many slots of different pairs of expert and GPU."""
        gpu, out = self.gpu[slots], self.held[slots]
        self.held[slots] = experts
        went = out >= 0
        for one, where, more in ((out[went], gpu[went], -1), (experts, gpu, 1)):
            np.add.at(self.on, (one, where), more)
            self.counts += more * np.bincount(one, minlength=len(self.counts))
        self.share = self.weights / np.maximum(self.counts, 1)

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
