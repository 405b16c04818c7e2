"""Safe steps: from the running plan to the new one in bounded parts, after each of which every expert is served."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError, Violations
from moeopt.kinds import expects
from moeopt.placement import checks, verify
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import EMPTY, STORAGE, running_gpus
from moeopt.placement.plan import as_placement
from moeopt.placement.replanning.keep_slots import in_old_slots, old_slots
from moeopt.placement.replanning.parts import without_budgets
from moeopt.placement.replanning.units import Unit, fitting, units


@dataclass(frozen=True, slots=True)
class Transfer:
    """One replica written into a slot. ``source`` is a GPU that has it before the step, or -1 for storage."""

    layer: int
    expert: int
    source: int
    gpu: int
    slot: int


@dataclass(frozen=True, slots=True)
class Step:
    """Transfers that are made at once, as an engine does through its buffers.

    Parameters
    ----------
    transfers
        What is written; all sources are as they were before the step.
    objective
        Sum over layers of the busiest GPU after the step, tokens, parts even.
    over
        Largest ratio, over the layers touched, of the busiest GPU to the worse of the running and the new plan: above
        1 the step passes through something worse than both ends.
    """

    transfers: tuple[Transfer, ...]
    objective: float
    over: float

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        rows = [[one.layer, one.expert, one.source, one.gpu, one.slot] for one in self.transfers]
        return {"transfers": rows, "objective": self.objective, "over": self.over}


@expects(instance=PlacementInstance)
def steps(
    instance: PlacementInstance, plan: Any, max_transfers: int = 32, *, max_per_gpu: int | None = None
) -> list[Step]:
    """Cut the way from the running plan to `plan` into safe steps.

    Parameters
    ----------
    instance
        With ``current``, the plan that runs.
    plan
        Legal for the instance; a `Placement`, an (L, S) array or nested lists. Budgets are not asked for.
    max_transfers, max_per_gpu
        Most replicas a step moves, in all and onto one GPU.

    Returns
    -------
    list of Step
        Carried out in order they turn the running plan into this one, to the slot. After every step each expert has
        as many replicas as the least of: what it had, what it will have, what ``min_replicas`` asks; so a last copy is
        never overwritten before a new one is there. Experts that go round in a ring, with no copy to spare, change
        places in one step; a ring longer than a step is cut, with one transfer more for each cut. Replicas that
        only change slots inside a GPU come in a last step, or where a ring is cut make room beside it, as transfers
        from the GPU to itself; they are not counted. Slots that the plan leaves empty are emptied last, without a
        transfer.

    Raises
    ------
    InstanceError
        There is no running plan, a limit is no whole number >= 1, or an exchange of two does not fit them.
    PlanError
        The plan breaks a rule.

    Examples
    --------
    >>> instance = PlacementInstance([[10, 9, 5, 4, 2, 1]], gpus=3, slots=6, current=[[0, 1, 2, 3, 4, 5]])
    >>> [step.to_dict()["transfers"] for step in steps(instance, [[0, 5, 2, 3, 4, 1]])]
    [[[0, 5, 2, 0, 1], [0, 1, 0, 2, 5]]]
    """
    check = Violations()
    checks.whole("max_transfers", max_transfers, 1, check)
    if max_per_gpu is not None:
        checks.whole("max_per_gpu", max_per_gpu, 1, check)
    if instance.current is None:
        check.add("current", "missing", rule="is needed: steps begin at the running plan", fix="Give current")
    check.raise_if_any()
    target = as_placement(instance, plan)
    free = without_budgets(instance)
    broken = verify.faults(free, target)
    if broken:
        raise PlanError(broken)
    walk = _Walk(instance, target.slot_expert.astype(np.int64), max_transfers, max_per_gpu)
    for row in range(instance.num_layers):
        walk.layer(row)
    walk.close()
    walk.reorder()
    return walk.steps


class _Walk:
    """The plan on its way; transfers are gathered until a step is full."""

    def __init__(self, instance: PlacementInstance, target: NDArray[np.int64], most: int, per_gpu: int | None) -> None:
        self.instance, self.target = instance, target
        self.most, self.per_gpu = most, per_gpu or most
        rows = range(instance.num_layers)
        self.table = np.stack([old_slots(instance, row) for row in rows])
        self.goal = np.stack([in_old_slots(instance, target[row], row) for row in rows])
        self.worse = [max(self._top(row, self.table[row]), self._top(row, self.goal[row])) for row in rows]
        self.tops = [self._top(row, self.table[row]) for row in rows]
        self.leaving = self._on_leaving_gpus()
        self.steps: list[Step] = []
        self.open: list[tuple[int, int, int]] = []  # row, slot, expert
        self.used: Counter[int] = Counter()

    def layer(self, row: int) -> None:
        """All transfers of one layer, those first that leave the busiest GPU lowest."""
        needed = self._needed(row)
        trial = self.table[row].copy()  # what the layer will be once the open step is done
        left = units(trial, np.where(self.goal[row] == EMPTY, trial, self.goal[row]))  # slots are emptied last
        while left:
            worth = [self._top(row, _after(trial, unit)) for unit in left]
            unit = left.pop(int(np.argmin(worth)))
            for part in fitting(unit, trial, needed, self.instance.gpu_of_slot, self.most, self.per_gpu):
                self._add(row, part)
                trial = _after(trial, part)

    def _add(self, row: int, part: Unit) -> None:
        """Put transfers that belong together into the open step, or into the next."""
        gpus = Counter(int(self.instance.gpu_of_slot[slot]) for slot, _ in part)
        touched = {slot for at, slot, _ in self.open if at == row}
        full = len(self.open) + len(part) > self.most
        crowded = any(self.used[gpu] + count > self.per_gpu for gpu, count in gpus.items())
        if full or crowded or any(slot in touched for slot, _ in part):
            self.close()
        self.open.extend((row, slot, expert) for slot, expert in part)
        self.used.update(gpus)

    def close(self) -> None:
        """Carry the open step out."""
        if not self.open:
            return
        asked: Counter[int] = Counter()
        transfers = [self._transfer(row, slot, expert, asked) for row, slot, expert in self.open]
        self._carry_out(transfers, [(row, slot, expert) for row, slot, expert in self.open])
        self.open, self.used = [], Counter()

    def reorder(self) -> None:
        """Slots inside GPUs, where the plan wants experts that stay in other ones, and slots it leaves empty."""
        writes = [(int(r), int(s), int(self.target[r, s])) for r, s in np.argwhere(self.table != self.target)]
        gpu = self.instance.gpu_of_slot
        if writes:
            layers = self.instance.layers
            local = [Transfer(layers[r], e, int(gpu[s]), int(gpu[s]), s) for r, s, e in writes]
            self._carry_out([one for one in local if one.expert != EMPTY], writes)

    def _carry_out(self, transfers: list[Transfer], writes: list[tuple[int, int, int]]) -> None:
        over = 0.0
        for row, slot, expert in writes:
            self.table[row, slot] = expert
        for row in {row for row, _, _ in writes}:
            self.tops[row] = self._top(row, self.table[row])
            over = max(over, self.tops[row] / self.worse[row] if self.worse[row] else 1.0)
        self.steps.append(Step(tuple(transfers), float(sum(self.tops)), over))

    def _transfer(self, row: int, slot: int, expert: int, asked: Counter[int]) -> Transfer:
        """With the source on the same node if there is one, then the one asked least in this step."""
        instance = self.instance
        gpu = int(instance.gpu_of_slot[slot])
        homes = set(instance.gpu_of_slot[self.table[row] == expert].tolist()) | self.leaving[row][expert]
        source = STORAGE
        if homes:
            near = instance.node[gpu]
            source = min(homes, key=lambda home: (home != gpu, instance.node[home] != near, asked[home], home))
            asked[source] += 1
        return Transfer(instance.layers[row], expert, source, gpu, slot)

    def _needed(self, row: int) -> NDArray[np.int64]:
        """(E,) replicas that every plan on the way keeps."""
        experts = self.instance.num_experts
        ends = [np.bincount(held[held >= 0], minlength=experts) for held in (self.table[row], self.goal[row])]
        least = np.minimum(np.minimum(*ends), np.array(self.instance.min_replicas))
        needed: NDArray[np.int64] = least.astype(np.int64)
        return needed

    def _top(self, row: int, held: NDArray[np.int64]) -> float:
        """Cost of the busiest GPU, parts even, in floating point."""
        instance = self.instance
        filled = held >= 0
        counts = np.bincount(held[filled], minlength=instance.num_experts)
        floor = float(instance.floor) if instance.floor_rule == "per_replica" else 0.0
        loads = instance.loads[row] if floor else instance.weights[row]
        pieces = np.maximum(loads / np.maximum(counts, 1), floor)
        gpus = instance.gpu_of_slot[filled]
        totals = np.bincount(gpus, weights=pieces[held[filled]], minlength=instance.num_gpus)
        return float((totals / np.array(instance.speed)).max())

    def _on_leaving_gpus(self) -> list[defaultdict[int, set[int]]]:
        """Per layer and expert the GPUs that are being emptied and still have it: good sources all the way."""
        instance = self.instance
        assert instance.current is not None
        found = []
        for held in instance.current:
            homes: defaultdict[int, set[int]] = defaultdict(set)
            for expert, gpu in zip(held.tolist(), running_gpus(instance).tolist(), strict=True):
                if gpu in instance.retire and gpu not in instance.lost and expert != EMPTY:
                    homes[expert].add(gpu)
            found.append(homes)
        return found


def _after(held: NDArray[np.int64], unit: Unit) -> NDArray[np.int64]:
    out = held.copy()
    for slot, expert in unit:
        out[slot] = expert
    return out
