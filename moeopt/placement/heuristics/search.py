"""The search: counts and packing together, from several starts, `eplb` among them, so never worse than any of them.

Stage one is numpy, batched over layers: the baselines. Stage two takes each layer's best start and deepens it with the
kernel of `moeopt.kernels.packing` until a lower bound certifies the gap, or the iteration limit is reached. Where
groups are kept on nodes, deals of groups to nodes are tried in order of their bound and each node is searched alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.loads import gpu_loads
from moeopt.kernels.lpt import pack
from moeopt.kernels.packing import FORBIDDEN, PINNED
from moeopt.limits import Deadline
from moeopt.placement import bounds as lower
from moeopt.placement import deals
from moeopt.placement.feasible import allowed_pairs, fill
from moeopt.placement.heuristics import eplb, fold
from moeopt.placement.heuristics.deep import Engine, Found, Part, deepen, engine
from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.heuristics.windowed import search_windows
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.registry import Context, Outcome
from moeopt.result import MACHINE_NOTE, Stop

DEFAULT_GAP = 0.001
MOST_TRIED_DEALS = 8


def applies(instance: PlacementInstance) -> str | None:
    """Pins are searched flat only, constant loads on GPUs that are alike, several windows with even parts."""
    if instance.exact_base is not None and not instance.windows and len(set(instance.speed)) > 1:
        return "constant loads of shared experts on GPUs of unequal speed are not searched; leave shared or speed out"
    if instance.windows and instance.split != "even":
        return f"several windows are planned with split even; {instance.split} is for one window"
    if instance.hierarchical and instance.constrained:
        return "groups on nodes and pins or prohibitions cannot be kept at once yet; leave one of them out"
    return None


def search(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Search every layer down to the gap limit (0.1 % by default) or to the iteration limit."""
    if instance.windows:
        return search_windows(instance, context, search)
    if instance.exact_base is not None:  # equal on all GPUs, so it changes no plan, and what is proved is lifted
        return with_base(instance, search(instance.bare, context))
    run = _Run(instance, context)
    try:
        run.stage_one()
        run.stage_two()
    except KeyboardInterrupt:
        if not run.begun:
            raise  # there is no plan yet
        run.stop = Stop.INTERRUPTED
    return run.outcome()


def with_base(instance: PlacementInstance, bare: Outcome[Placement]) -> Outcome[Placement]:
    """An outcome without the constant loads, for the instance that has them."""
    assert instance.exact_base is not None
    bounds = None
    if bare.bounds is not None:
        bounds = [lower.lifted(instance, row, bound) for row, bound in enumerate(bare.bounds)]
    more = float(sum(instance.exact_base)) / max(instance.speed)
    incumbents = [(moment, value + more) for moment, value in bare.incumbents]
    return replace(bare, bounds=bounds, incumbents=incumbents)


@dataclass
class _Run:
    """One search over all layers; the incumbent of every layer is always a complete plan."""

    instance: PlacementInstance
    context: Context
    held: NDArray[np.int64] = field(init=False)
    cost: NDArray[np.float64] = field(init=False)
    bounds: list[lower.LayerBound] = field(default_factory=list)
    ranked: list[lower.RankedDeals] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    incumbents: list[tuple[float, float]] = field(default_factory=list)
    rounds: int = 0
    stop: Stop = Stop.GAP
    share: Deadline = field(init=False)
    engine: Engine = field(init=False)
    begun: bool = False

    def __post_init__(self) -> None:
        gap = self.context.limits.gap
        self.gap = DEFAULT_GAP if gap is None else gap
        self.slack = max(self.gap * (1 - 1e-6), 5e-10)
        self.scale = np.array([float(value) for value in self.instance.ideal])
        self.scale[self.scale == 0] = 1.0
        self.rule = _rules(self.instance)
        self.notes.extend(self.instance.notes)

    def stage_one(self) -> None:
        """The best of the baselines, layer by layer."""
        instance = self.instance
        starts: list[NDArray[np.int64]] = []
        if self.context.warm_start is not None:
            starts.append(self.context.warm_start.slot_expert.astype(np.int64))
        if instance.constrained:
            row = fill(instance)
            assert row is not None  # `conflicts` has looked
            starts.append(np.tile(row, (instance.num_layers, 1)))
        else:
            starts.append(_repaired(instance, eplb.balanced(instance, avoid_doubles=False)))
            in_time = not self.context.deadline.passed()
            if instance.distinct and in_time:
                starts.append(_repaired(instance, eplb.balanced(instance, avoid_doubles=True)))
            if instance.fill == "at_most" and not instance.hierarchical and in_time:
                ones = np.ones(instance.weights.shape, dtype=np.int64)
                alone = pack(instance.weights, ones, instance.slots, instance.speed, distinct=False)
                starts.append(alone.astype(np.int64))
            if fold.applies(instance) is None and in_time:
                starts.append(_repaired(instance, fold.folded(instance)))
        self.held = starts[0]
        self.cost = self._costs(starts[0])
        self.begun = True
        for other in starts[1:]:
            cost = self._costs(other)
            better = cost < self.cost
            self.held = np.where(better[:, None], other, self.held)
            self.cost = np.where(better, cost, self.cost)
        if deals.enumerable(instance):  # the same bounds as `cheap`, and the order of the deals for stage two
            self.ranked = lower.rank_deals(instance, list(range(instance.num_layers)))
            self.bounds = [ranked.bound for ranked in self.ranked]
        else:
            self.bounds = lower.cheap(instance)
        self._incumbent()

    def stage_two(self) -> None:
        """Deepen layer by layer."""
        deadline = self.context.deadline
        self.engine = engine(deadline)
        self._note_interpreter()
        if self.instance.hierarchical and not self.ranked:
            self.notes.append(
                "nodes differ, or groups can be dealt to them in too many ways to list: only the largest-first deal "
                "is searched, and the bound is that of a placement without groups"
            )
        order = self._worst_first() if deadline.limited else list(range(self.instance.num_layers))
        for done, row in enumerate(order):
            if deadline.passed():
                self.stop = Stop.TIME
                return
            self.share = deadline.share(len(order) - done)
            if self.instance.hierarchical:
                self._deepen_nodes(row)
            else:
                self._deepen_layer(row)
            self.context.report(done + 1, self.instance.num_layers)

    def _worst_first(self) -> list[int]:
        """Layers by falling gap: with little time, the worst one comes first and none takes it all."""
        floors = np.array([float(bound.value) for bound in self.bounds])
        gaps = 1.0 - floors / np.where(self.cost > 0, self.cost, 1.0)
        return [int(row) for row in np.argsort(-gaps, kind="stable")]

    def _deepen_layer(self, row: int) -> None:
        if self._certified(row):
            return
        self.bounds[row] = lower.tighten(self.instance, self.bounds[row], row, float(self.cost[row]), self.gap)
        if self._certified(row):
            return
        part = self._part(row, np.arange(self.instance.num_experts), list(range(self.instance.num_gpus)))
        found = self._deepen(part, self.held[row], self._goal(row), row)
        if found.cost * self.scale[row] < self.cost[row]:
            self.held[row], self.cost[row] = found.held, found.cost * self.scale[row]
            self._incumbent()
        if found.cost > self._goal(row) and self.stop is not Stop.TIME:
            self.stop = Stop.TIME if found.out_of_time else Stop.ITERATIONS

    def _deepen_nodes(self, row: int) -> None:
        """Search the nodes of one deal after another; a set of groups is searched once per layer."""
        instance = self.instance
        members = deals.group_members(instance)
        known: dict[tuple[object, ...], Found] = {}
        for bound, deal in self._deals(row):
            if self._certified(row) or bound >= self.cost[row] * (1 - self.gap):
                break
            held = np.empty(instance.num_slots, dtype=np.int64)
            worst = 0.0
            for node, groups in zip(instance.node_ids, deal, strict=True):
                gpus = deals.gpus_of_node(instance, node)
                experts = members[list(groups)].ravel()
                part = self._part(row, experts, gpus)
                same = (groups, part.slots, part.speed)  # nodes that are alike may have their GPUs in another order
                if same not in known:
                    known[same] = self._search_node(part, max(bound, float(self.bounds[row].value)), row)
                found = known[same]
                worst = max(worst, found.cost)
                held[eplb.slots_of(instance, gpus)] = np.append(experts, -1)[found.held]
            if worst * self.scale[row] < self.cost[row]:
                self.held[row], self.cost[row] = held, worst * self.scale[row]
                self._incumbent()
        if not self._certified(row) and self.stop is not Stop.TIME:
            self.stop = Stop.TIME if self.share.passed() else Stop.ITERATIONS

    def _deals(self, row: int) -> list[tuple[float, deals.Deal]]:
        """The most promising deals of a layer with their bounds; where they cannot be listed, the incumbent's own."""
        instance = self.instance
        if not self.ranked:
            return [(0.0, self._deal_of(row))]
        ranked = self.ranked[row]
        subsets = deals.subsets(instance)
        value = dict(zip(subsets, ranked.subset_values, strict=True))
        everything = deals.all_deals(len(set(instance.groups or ())), len(instance.node_ids))
        tried = [everything[place] for place in ranked.order[:MOST_TRIED_DEALS]]
        return [(float(max(value[groups] for groups in deal)), deal) for deal in tried]

    def _search_node(self, part: Part, floor: float, row: int) -> Found:
        """One node alone; it need not get below what the busiest node must carry anyhow."""
        loads = part.loads[None, :]
        slots = list(part.slots)
        usable = sum(count > 0 for count in slots)
        counts = greedy_counts(loads, sum(slots), usable if part.distinct else None)
        start = pack(loads / counts, counts, slots, part.speed, distinct=part.distinct)
        alone = PlacementInstance(
            np.asarray(loads), slots=slots, speed=part.speed, distinct=part.distinct, fill=self.instance.fill
        )
        held = replace_doubles(alone, start)[0][0].astype(np.int64)
        own = float(lower.cheap(alone)[0].value)
        goal = max(own, floor / self.scale[row]) / (1 - self.slack)
        return self._deepen(part, held, goal, row)

    def _deepen(self, part: Part, start: NDArray[np.int64], goal: float, row: int) -> Found:
        limits = self.context.limits
        seed = self.context.seed * 1_000_003 + row
        found = deepen(part, start, goal, seed, rounds=limits.iterations, deadline=self.share, by=self.engine)
        self.rounds += found.rounds
        return found

    def _part(self, row: int, experts: NDArray[np.int64], gpus: list[int]) -> Part:
        instance = self.instance
        per_replica = instance.floor_rule == "per_replica"
        loads = instance.loads[row].astype(np.float64) if per_replica else instance.weights[row]
        return Part(
            loads[experts] / self.scale[row],
            float(instance.floor) / self.scale[row] if per_replica else 0.0,
            tuple(instance.slots[gpu] for gpu in gpus),
            tuple(instance.speed[gpu] for gpu in gpus),
            self.rule[np.ix_(experts, np.array(gpus))] if self.rule.size else self.rule,
            instance.distinct,
            instance.fill == "at_most",
        )

    def _deal_of(self, row: int) -> deals.Deal:
        """The deal that the incumbent of a layer has."""
        assert self.instance.groups is not None
        ids = sorted(set(self.instance.groups))
        groups, nodes = np.array(self.instance.groups), np.array(self.instance.node)
        filled = self.held[row] >= 0
        at = nodes[self.instance.gpu_of_slot[filled]]
        return tuple(
            tuple(ids.index(group) for group in np.unique(groups[self.held[row][filled][at == node]]).tolist())
            for node in self.instance.node_ids
        )

    def _costs(self, held: NDArray[np.int64]) -> NDArray[np.float64]:
        """(L,) cost of the busiest GPU in floating point; the referee has the last word."""
        instance = self.instance
        counts = Placement(held.astype(np.int32)).replicas(instance.num_experts)
        totals = gpu_loads(lower.pieces(instance, np.maximum(counts, 1)), held, instance.slot_start)
        top: NDArray[np.float64] = (totals / np.array(instance.speed)).max(axis=1)
        return top

    def _goal(self, row: int) -> float:
        """Cost, scaled, at which the gap is certified; a hair less, as the referee computes exactly."""
        return float(self.bounds[row].value) / float(self.scale[row]) / (1 - self.slack)

    def _certified(self, row: int) -> bool:
        return bool(self.cost[row] / self.scale[row] <= self._goal(row)) or self.cost[row] == 0

    def _incumbent(self) -> None:
        self.incumbents.append((self.context.deadline.elapsed_s(), float(self.cost.sum())))

    def _note_interpreter(self) -> None:
        from moeopt.kernels import packing
        from moeopt.kernels._jit import has_numba

        if not has_numba():
            slow = "the deep search is interpreted, some hundred times slower: pip install 'moeopt[fast]'"
            self.notes.append(MACHINE_NOTE + slow)
        elif not self.engine.compiled:
            self.notes.append(
                "the time limit leaves no room to load the compiled search, so it ran interpreted, some hundred times "
                "slower: allow 3 s more, or solve in a process that has called moeopt.kernels.warmup()"
            )
        elif not packing.improve.cached:
            lost = "compiled code cannot be kept: no folder for it can be written (set NUMBA_CACHE_DIR)"
            self.notes.append(MACHINE_NOTE + lost)

    def outcome(self) -> Outcome[Placement]:
        """The incumbents of all layers as one plan."""
        return Outcome(
            Placement.of(self.held),
            self.stop,
            self.rounds,
            self.incumbents,
            self.bounds or None,
            self.notes,
        )


def _repaired(instance: PlacementInstance, slot_expert: NDArray[np.integer]) -> NDArray[np.int64]:
    return replace_doubles(instance, slot_expert)[0].astype(np.int64)


def _rules(instance: PlacementInstance) -> NDArray[np.int8]:
    if not instance.constrained:
        return np.zeros((0, 0), dtype=np.int8)
    rule = np.where(allowed_pairs(instance), 0, FORBIDDEN).astype(np.int8)
    for expert, gpu in instance.pin:
        rule[expert, gpu] = PINNED
    return rule
