"""Repair: the running plan goes on without the GPUs that are gone, with the fewest loads from storage and new pairs.

What stays, stays in its slot. An expert that no readable GPU has is loaded from storage once; all else is copied.
Which spare replica gives its slot to what is missing is chosen for balance; with a budget of moves the rest of it
is spent where it wins most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import NotApplicable
from moeopt.kernels.knapsack import choose
from moeopt.limits import Deadline
from moeopt.placement.damage import FLOW_PAIRS, Running, bare_gpus, describe, fewest_moves, homes, running, said
from moeopt.placement.feasible import hosts
from moeopt.placement.flow import MOST_PAIRS
from moeopt.placement.heuristics.patch import GAIN, Change, Patch, least_replicas, where_allowed
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.replanning.parts import layer_alone, without_budgets
from moeopt.placement.verify import faults
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

PASSES = 3
"""How often every replica that came in is looked at again."""


def applies(instance: PlacementInstance) -> str | None:
    """It needs a plan to repair."""
    if instance.current is None:
        return "it needs the running plan: give current"
    return None


def repair(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Restore every expert layer by layer, then spend what `max_moves` leaves."""
    run = _Run(instance, context)
    return run.outcome()


class _Run:
    """One repair over all layers."""

    def __init__(self, instance: PlacementInstance, context: Context) -> None:
        self.instance, self.context = instance, context
        self.deadline = context.deadline
        self.notes: list[str] = []
        self.stop = Stop.FINISHED
        self.allowed = where_allowed(instance)
        self.before = [running(instance, layer) for layer in range(instance.num_layers)]
        self.closed = fewest_moves(instance, self.before) is not None
        self.proved = True

    def outcome(self) -> Outcome[Placement]:
        """The plan, and what it takes to get there."""
        instance = self.instance
        patches = []
        half = self.deadline.share(2)
        for layer in range(instance.num_layers):
            patches.append(self._restore(layer, half.share(instance.num_layers - layer)))
        if faults(without_budgets(instance), Placement.of(np.stack([patch.held for patch in patches]))):
            patches = [self._mended(layer, patch) for layer, patch in enumerate(patches)]
        for layer, patch in enumerate(patches):
            self._balance(patch, self.before[layer], self.deadline.share(instance.num_layers - layer))
            self.context.report(layer + 1, instance.num_layers)
        fewest = [patch.new_pairs for patch in patches]
        self._check_budget(fewest)
        if instance.max_moves is not None or instance.max_moves_per_layer is not None:
            held = np.stack(self._spend(patches, fewest))
        else:
            held = np.stack([patch.held for patch in patches])
        plan = Placement.of(held)
        report = describe(instance, held, self.before)
        if self.proved and report["moves_fewest"] is None:
            report["moves_fewest"] = sum(fewest)
        self.notes += list(dict.fromkeys(said(report)))
        return Outcome(plan, self.stop, notes=[*instance.notes, *self.notes], details={"repair": report})

    def _restore(self, layer: int, deadline: Deadline) -> Patch:
        """Every expert somewhere, by the fewest new pairs; notes where that is not proved."""
        instance, before = self.instance, self.before[layer]
        allowed = self._homes(before)
        patch = Patch(instance, layer, before.held, before.known, allowed)
        if instance.hierarchical or self.closed or self.allowed.size > FLOW_PAIRS:
            self._insert(patch, deadline)
            self.proved &= self.closed
        return patch

    def _mended(self, layer: int, patch: Patch) -> Patch:
        """The layer by the flow, where it breaks a rule."""
        if not _broken(self.instance, layer, patch.held):
            return patch
        held = self._by_flow(layer, self.before[layer])
        return Patch(self.instance, layer, held, patch.known, patch.allowed)

    def _balance(self, patch: Patch, before: Running, deadline: Deadline) -> None:
        """Other places for what came in, with no more new pairs."""
        self._reinsert(patch, before, deadline)
        if not patch.improve(patch.new_pairs, deadline):
            self.stop = Stop.TIME

    def _homes(self, before: Running) -> Flags:
        """(E, G) where experts may lie: with groups, the node that has most of the group's experts."""
        instance = self.instance
        if not instance.hierarchical or instance.groups is None:
            return self.allowed
        nodes = np.searchsorted(np.array(instance.node_ids), np.array(instance.node))
        nodes = np.where(np.isin(np.array(instance.node), instance.node_ids), nodes, -1)
        home = homes(instance, before)
        at_home: Flags = self.allowed & (home[:, None] == nodes[None, :])
        return at_home

    def _insert(self, patch: Patch, deadline: Deadline) -> None:
        """What is missing, the heaviest first, each where the busiest GPU is then least busy; then empty slots."""
        need, full = least_replicas(self.instance), self.instance.fill == "all"
        everyone = np.arange(len(need))

        def bare(slots: Ints) -> Flags:
            """(K,) slots on GPUs that have nothing, as was found, or by now."""
            gpus: Flags = bare_gpus(self.instance, patch.known | (patch.on > 0))[patch.gpu[slots]]
            return gpus

        def best(slots: Ints, experts: Ints, same: Flags | None = None) -> Change | None:
            if deadline.passed() and len(experts) == 1:
                return patch.quick_replacement(slots, int(experts[0]), same)
            return patch.best_replacement(slots, experts, 2**31, same)

        asked = np.flatnonzero((patch.count < need) | (patch.survive > 1))
        for expert in asked[np.lexsort((asked, -patch.load[asked]))].tolist():
            while patch.count[expert] < need[expert] or self._unseen(patch, expert):
                slots = np.flatnonzero(patch.may_leave())
                empty = slots[patch.held[slots] < 0]
                lacking = int(np.maximum(need - patch.count, 0).sum())
                if full and len(empty) >= lacking:
                    slots = empty  # they must be filled anyhow
                    if not self.instance.distinct and bare(empty).any():
                        slots = empty[bare(empty)]  # others are filled by second replicas of what is there
                same = self._unseen_gpus(patch, expert) if self._unseen(patch, expert) else None
                change = best(slots, np.array([expert]), same)
                if change is None and len(slots) == len(empty):
                    change = best(np.flatnonzero(patch.may_leave()), np.array([expert]), same)
                if change is None:
                    return  # the caller looks for faults
                patch.apply(change)
        while full and (patch.held < 0).any():
            empty = np.flatnonzero(patch.held < 0)
            change = None if self.instance.distinct else patch.best_replacement(empty, everyone, 0)
            change = change or best(empty, everyone)
            if change is None:
                return
            patch.apply(change)

    def _unseen(self, patch: Patch, expert: int) -> bool:
        return bool(patch.survive) and int((patch.on_node[expert] > 0).sum()) < patch.survive

    def _unseen_gpus(self, patch: Patch, expert: int) -> Flags:
        """GPUs of nodes that have no replica of the expert."""
        unseen: Flags = patch.on_node[expert][patch.node] == 0
        return unseen

    def _by_flow(self, layer: int, before: Running) -> Ints:
        """The plan with the fewest new pairs, by the flow; what stays keeps its slot."""
        instance = self.instance
        counts = None
        if not instance.hierarchical and self.allowed.size <= MOST_PAIRS:
            counts = hosts(instance, cost=(~before.known).astype(float))
        if counts is None:
            raise NotApplicable(
                f"layer {instance.layers[layer]}: no repair was found that keeps groups, pins and least replicas at "
                "once; plan anew with search"
            )
        held = before.held.copy()
        for gpu in range(instance.num_gpus):
            slots = range(int(instance.slot_start[gpu]), int(instance.slot_start[gpu + 1]))
            left = counts[:, gpu].copy()
            for slot in slots:
                if held[slot] >= 0 and left[held[slot]] > 0:
                    left[held[slot]] -= 1
                else:
                    held[slot] = -1
            coming = iter(np.repeat(np.arange(len(left)), left).tolist())
            for slot in slots:
                if held[slot] < 0:
                    held[slot] = next(coming, -1)
        return held

    def _reinsert(self, patch: Patch, before: Running, deadline: Deadline) -> None:
        """Every replica that came in: back with what it displaced, and in again where that is best."""
        for _ in range(PASSES):
            better = False
            for slot in np.flatnonzero(patch.held != before.held).tolist():
                if deadline.passed():
                    return
                better |= self._moved(patch, before, slot)
            if not better:
                return

    def _moved(self, patch: Patch, before: Running, slot: int) -> bool:
        expert, back = int(patch.held[slot]), int(before.held[slot])
        if expert < 0 or patch.pinned[expert, patch.gpu[slot]] or (back < 0 and self.instance.fill == "all"):
            return False
        if back >= 0 and self.instance.distinct and patch.on[back, patch.gpu[slot]]:
            return False
        top, squares, new = patch.top, patch.squares, patch.new_pairs
        kept = patch.held.copy()
        patch.held[slot] = back
        patch._recount()
        change = patch.best_replacement(np.flatnonzero(patch.may_leave()), np.array([expert]), new - patch.new_pairs)
        if change is not None:
            patch.apply(change)
            level = patch.top <= top * (1 + GAIN) and patch.squares < squares * (1 - GAIN)
            if (patch.top < top * (1 - GAIN) or level) and patch.new_pairs <= new and not _lacking(patch):
                return True
        patch.held[:] = kept
        patch._recount()
        return False

    def _check_budget(self, fewest: list[int]) -> None:
        """A budget that not even the restored plan keeps."""
        instance = self.instance
        if instance.max_moves is not None and sum(fewest) > instance.max_moves:
            raise NotApplicable(f"restoring every expert took {sum(fewest)} moves, max_moves is {instance.max_moves}")
        if instance.max_moves_per_layer is not None and max(fewest) > instance.max_moves_per_layer:
            layer = instance.layers[int(np.argmax(fewest))]
            raise NotApplicable(
                f"layer {layer}: restoring every expert took {max(fewest)} moves, max_moves_per_layer is "
                f"{instance.max_moves_per_layer}"
            )

    def _spend(self, patches: list[Patch], fewest: list[int]) -> list[Ints]:
        """Improve every layer as far as its budget goes, then share the budget of all by the knapsack."""
        instance = self.instance
        total = instance.max_moves
        costs: list[list[float]] = []
        moves: list[list[int]] = []
        stages: list[list[Ints]] = []
        for layer, (patch, least) in enumerate(zip(patches, fewest, strict=True)):
            scale = float(instance.ideal[layer]) or 1.0
            most = patch.held.size if total is None else least + total - sum(fewest)
            if instance.max_moves_per_layer is not None:
                most = min(most, instance.max_moves_per_layer)
            seen = [(least, patch.top * scale, patch.held.copy())]

            def note(patch: Patch = patch, seen: list[tuple[int, float, Ints]] = seen, scale: float = scale) -> None:
                seen.append((patch.new_pairs, patch.top * scale, patch.held.copy()))

            share = self.deadline.share(len(patches) - layer)
            if not patch.improve(most, share, note):
                self.stop = Stop.TIME
            moves.append([new for new, _, _ in seen])
            costs.append([cost for _, cost, _ in seen])
            stages.append([held for _, _, held in seen])
        limit = sum(map(max, moves)) if total is None else total
        chosen = choose(costs, moves, limit)
        assert chosen is not None  # the restored plans fit
        return [stages[layer][at] for layer, at in enumerate(chosen)]


def _lacking(patch: Patch) -> bool:
    short = bool((patch.count < patch.need).any())
    if patch.survive:
        short |= bool(((patch.on_node > 0).sum(axis=1) < patch.survive).any())
    return short


def _broken(instance: PlacementInstance, layer: int, held: Ints) -> bool:
    """Whether a layer's plan breaks a rule of the placement (budgets are looked at elsewhere)."""
    return bool(faults(layer_alone(instance, layer), Placement.of(held)))
