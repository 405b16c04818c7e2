"""A plan changed slot by slot under all rules, counting the (expert, GPU) pairs that the running plan lacks.

Plain numpy, one layer at a time: every candidate change is judged by the totals of all GPUs after it. Small searches
that start from a given plan are built from it; nothing here knows why a plan is to be changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.limits import Deadline
from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.instance import PlacementInstance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CELLS = 4_000_000
"""Numbers looked at in one go, 32 MB."""
GAIN = 1e-9
"""Relative change of the largest total that counts as better."""


@dataclass(frozen=True)
class Change:
    """One change: experts that come into slots, what the busiest GPU and the sum of squares then are, new pairs."""

    slots: tuple[int, ...]
    experts: tuple[int, ...]
    top: float
    squares: float
    more_new: int

    def better_than(self, other: Change | None) -> bool:
        """Whether it has the lower top, then fewer new pairs, then the lower squares."""
        if other is None or self.top < other.top * (1 - GAIN):
            return True
        if self.top > other.top * (1 + GAIN):
            return False
        return (self.more_new, self.squares) < (other.more_new, other.squares * (1 - GAIN))


class Patch:
    """One layer's plan under change.

    Parameters
    ----------
    held
        (S,) expert in each slot, -1 empty.
    known
        (E, G) pairs of the running plan: all others are new.
    allowed
        (E, G) where an expert may lie.
    """

    def __init__(self, instance: PlacementInstance, layer: int, held: Ints, known: Flags, allowed: Flags) -> None:
        self.instance, self.held, self.known, self.allowed = instance, held.copy(), known, allowed
        per_replica = instance.floor_rule == "per_replica"
        scale = float(instance.ideal[layer]) or 1.0
        loads = instance.loads[layer].astype(np.float64) if per_replica else instance.weights[layer]
        self.load = loads / scale
        self.floor = float(instance.floor) / scale if per_replica else 0.0
        self.gpu: Ints = instance.gpu_of_slot
        self.speed = np.array(instance.speed)
        self.need = least_replicas(instance)
        self.survive = instance.survive_nodes + 1 if instance.survive_nodes else 0
        self.node = np.searchsorted(np.array(instance.node_ids), np.array(instance.node))
        self.pinned = np.zeros((instance.num_experts, instance.num_gpus), dtype=bool)
        for expert, gpu in instance.pin:
            self.pinned[expert, gpu] = True
        base = instance.base
        self.base = np.zeros(instance.num_gpus) if base is None else base[layer] / scale
        self._recount()

    def _recount(self) -> None:
        experts, gpus = self.instance.num_experts, self.instance.num_gpus
        filled = self.held >= 0
        held, gpu = self.held[filled], self.gpu[filled]
        self.on = np.bincount(held * gpus + gpu, minlength=experts * gpus).reshape(experts, gpus)
        self.count = np.bincount(held, minlength=experts)
        unit = self.piece(np.arange(experts), self.count)
        self.total = self.base + np.bincount(gpu, weights=unit[held], minlength=gpus)
        if self.survive:
            self.on_node = np.zeros((len(self.count), int(self.node.max()) + 1), dtype=np.int64)
            for node in range(self.on_node.shape[1]):
                self.on_node[:, node] = self.on[:, self.node == node].sum(axis=1)

    def piece(self, experts: Ints, counts: Ints) -> Floats:
        """Cost of one replica of each expert out of so many; 0 where there are none."""
        part = np.maximum(self.load[experts] / np.maximum(counts, 1), self.floor)
        return np.where(counts > 0, part, 0.0)

    @property
    def top(self) -> float:
        """Cost of the busiest GPU."""
        return float((self.total / self.speed).max())

    @property
    def squares(self) -> float:
        """Sum of squared costs."""
        return float(((self.total / self.speed) ** 2).sum())

    @property
    def new_pairs(self) -> int:
        """Pairs that the running plan lacks."""
        filled = self.held >= 0
        pairs = np.unique(self.held[filled] * self.known.shape[1] + self.gpu[filled])
        return int((~self.known.ravel()[pairs]).sum())

    def may_leave(self) -> Flags:
        """(S,) slots that may be given to another expert: empty, or a replica that no rule needs."""
        held = np.maximum(self.held, 0)
        free = (self.count[held] > self.need[held]) & ~self.pinned[held, self.gpu]
        if self.survive:
            last = self.on_node[held, self.node[self.gpu]] == 1
            free &= ~last | ((self.on_node[held] > 0).sum(axis=1) > self.survive)
        leave: Flags = free | (self.held < 0)
        return leave

    def best_replacement(
        self, slots: Ints, experts: Ints, room: int, same: Flags | None = None, deadline: Deadline | None = None
    ) -> Change | None:
        """The best change of one slot to one expert, within `room` further new pairs.

        ``same`` (G,): only GPUs marked there take an expert. Where the time is up, the best of the slots looked at.
        """
        best: Change | None = None
        if not len(slots) or not len(experts):
            return None
        step = max(CELLS // (len(experts) * len(self.total)), 1)
        came = self.piece(experts, self.count[experts] + 1)
        add = self.on[experts] * (came - self.piece(experts, self.count[experts]))[:, None]
        for start in range(0, len(slots), step):
            if deadline is not None and deadline.passed():
                break
            some = slots[start : start + step]
            gpu, gone = self.gpu[some], np.maximum(self.held[some], 0)
            filled = self.held[some] >= 0
            left = self.piece(gone, self.count[gone] - 1)
            drop = self.on[gone] * (left - self.piece(gone, self.count[gone]))[:, None]
            drop[np.arange(len(some)), gpu] -= left
            drop[~filled] = 0.0
            total = self.total + drop[:, None, :] + add[None, :, :]
            total[np.arange(len(some)), :, gpu] += came
            total /= self.speed
            top, squares = total.max(axis=2), np.einsum("kmg,kmg->km", total, total)
            good = self.allowed[experts][:, gpu].T & (self.held[some][:, None] != experts[None, :])
            if self.instance.distinct:
                good &= ~(self.on[experts][:, gpu] > 0).T
            if same is not None:
                good &= same[gpu][:, None]
            more = self._new(experts[None, :], gpu[:, None], 0).astype(np.int64)
            more = more - (self._new(gone, gpu, 1) & filled)[:, None]
            best = self._pick(best, good & (more <= room), top, squares, more, some, experts)
        return best

    def _pick(
        self, best: Change | None, good: Flags, top: Floats, squares: Floats, more: Ints, slots: Ints, experts: Ints
    ) -> Change | None:
        if not good.any():
            return best
        near = good & (top <= top[good].min() * (1 + GAIN))
        fewest = near & (more == more[near].min())
        flat = int(np.argmin(np.where(fewest, squares, np.inf)))
        row, column = divmod(flat, len(experts))
        found = Change(
            (int(slots[row]),),
            (int(experts[column]),),
            float(top[row, column]),
            float(squares[row, column]),
            int(more[row, column]),
        )
        return found if found.better_than(best) else best

    def _new(self, expert: Ints, gpu: Ints, there: int) -> Flags:
        """Pairs that are new and of which the plan has `there` replicas: they come with the first, go with the last."""
        fresh: Flags = ~self.known[expert, gpu] & (self.on[expert, gpu] == there)
        return fresh

    def best_swap(self, slots: Ints, room: int) -> Change | None:
        """The best exchange of a replica in one of `slots`, all on one GPU, with one elsewhere."""
        hot = int(self.gpu[slots[0]])
        others = np.flatnonzero((self.gpu != hot) & (self.held >= 0))
        slots = slots[self.held[slots] >= 0]
        if not len(slots) or not len(others):
            return None
        mine, theirs, gpu = self.held[slots], self.held[others], self.gpu[others]
        unit = self.piece(np.arange(len(self.count)), self.count)
        shift = unit[theirs][None, :] - unit[mine][:, None]
        here = (self.total[hot] + shift) / self.speed[hot]
        there = (self.total[gpu][None, :] - shift) / self.speed[gpu]
        cost = self.total / self.speed
        rest = cost.copy()
        rest[hot] = -np.inf
        order = np.argsort(-rest, kind="stable")[:2]
        without = np.where(gpu == order[0], rest[order[-1]] if len(order) > 1 else -np.inf, rest[order[0]])
        top = np.maximum(np.maximum(here, there), without[None, :])
        squares = self.squares - cost[hot] ** 2 - cost[gpu][None, :] ** 2 + here**2 + there**2
        good = (self.allowed[mine][:, gpu]) & self.allowed[theirs, hot][None, :] & (mine[:, None] != theirs[None, :])
        good &= ~self.pinned[mine, hot][:, None] & ~self.pinned[theirs, gpu][None, :]
        if self.instance.distinct:
            good &= ~(self.on[mine][:, gpu] > 0) & ~(self.on[theirs, hot] > 0)[None, :]
        if self.survive:
            good &= (self.node[gpu] == self.node[hot])[None, :]
        more = self._new(mine[:, None], gpu[None, :], 0).astype(np.int64) + self._new(theirs, np.full_like(gpu, hot), 0)
        more = more - self._new(mine, np.full_like(mine, hot), 1)[:, None] - self._new(theirs, gpu, 1)[None, :]
        good &= more <= room
        if not good.any():
            return None
        near = good & (top <= top[good].min() * (1 + GAIN))
        fewest = near & (more == more[near].min())
        row, column = divmod(int(np.argmin(np.where(fewest, squares, np.inf))), len(others))
        return Change(
            (int(slots[row]), int(others[column])),
            (int(theirs[column]), int(mine[row])),
            float(top[row, column]),
            float(squares[row, column]),
            int(more[row, column]),
        )

    def apply(self, change: Change) -> None:
        """Make a change."""
        for slot, expert in zip(change.slots, change.experts, strict=True):
            gpu = int(self.gpu[slot])
            self._shift(int(self.held[slot]), gpu, -1)
            self._shift(expert, gpu, 1)
            self.held[slot] = expert

    def _shift(self, expert: int, gpu: int, by: int) -> None:
        """One replica more or less: the others of its expert get smaller or larger."""
        if expert < 0:
            return
        self.total -= self.on[expert] * self._part(expert)
        self.on[expert, gpu] += by
        self.count[expert] += by
        self.total += self.on[expert] * self._part(expert)
        if self.survive:
            self.on_node[expert, self.node[gpu]] += by

    def _part(self, expert: int) -> float:
        count = int(self.count[expert])
        return max(float(self.load[expert]) / count, self.floor) if count else 0.0

    def quick_replacement(self, slots: Ints, expert: int, same: Flags | None = None) -> Change | None:
        """A slot for an expert by its own GPU alone, when there is no time to look at the others."""
        gpu, gone = self.gpu[slots], np.maximum(self.held[slots], 0)
        good = self.allowed[expert, gpu] & (self.held[slots] != expert)
        if self.instance.distinct:
            good &= ~(self.on[expert, gpu] > 0)
        if same is not None:
            good &= same[gpu]
        if not good.any():
            return None
        left = np.where(self.held[slots] >= 0, self.piece(gone, self.count[gone]), 0.0)
        after = (self.total[gpu] - left + self.piece(np.array([expert]), self.count[[expert]] + 1)) / self.speed[gpu]
        place = int(np.argmin(np.where(good, after, np.inf)))
        return Change((int(slots[place]),), (expert,), float(after[place]), 0.0, 0)

    def improve(self, most_new: int, deadline: Deadline, step: Callable[[], None] | None = None) -> bool:
        """Change on from the busiest GPU while it gets better, at most `most_new` pairs new; false: out of time."""
        everyone = np.arange(len(self.count))
        while True:
            if deadline.passed():
                return False
            room = most_new - self.new_pairs
            hot = int(np.argmax(self.total / self.speed))
            here = np.flatnonzero(self.gpu == hot)
            free = self.may_leave()
            best = self.best_replacement(here[free[here]], everyone, room, deadline=deadline)
            away = np.flatnonzero(free & (self.gpu != hot))
            mine = np.unique(self.held[here][self.held[here] >= 0])
            for other in (
                self.best_replacement(away, mine, room, deadline=deadline),
                self.best_swap(here, room) if len(here) else None,
            ):
                if other is not None and other.better_than(best):
                    best = other
            if best is None or deadline.passed():  # of the last slots not all were looked at
                return not deadline.passed()
            top, squares = self.top, self.squares
            level = best.top <= top * (1 + GAIN) and best.squares < squares * (1 - GAIN)
            if not (best.top < top * (1 - GAIN) or level):
                return True
            self.apply(best)
            if step is not None:
                step()


def least_replicas(instance: PlacementInstance) -> Ints:
    """(E,) replicas that rules ask for."""
    nodes = instance.survive_nodes + 1 if instance.survive_nodes else 1
    return np.maximum(np.array(instance.min_replicas, dtype=np.int64), nodes)


def where_allowed(instance: PlacementInstance) -> Flags:
    """(E, G) where experts may lie: pairs that are not forbidden, on GPUs that have slots."""
    return allowed_pairs(instance) & (np.array(instance.slots) > 0)[None, :]
