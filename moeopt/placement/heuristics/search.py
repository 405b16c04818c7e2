"""The search: counts and packing together, from several starts, `eplb` among them, so never worse than any of them.

Stage one is numpy, batched over layers: the baselines. Stage two takes each layer's best start and deepens it with the
kernel of `moeopt.kernels.packing` until a lower bound certifies the gap, or the iteration limit is reached; where the
counts alone keep a start from that, counts are searched first. Where groups are kept on nodes, deals of groups to
nodes are tried in order of their bound and each node is searched alone.

With a free split it searches even parts, and the best shares come after: there `eplb` can be better.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import packing
from moeopt.kernels._jit import interpreter_note
from moeopt.kernels.loads import gpu_loads
from moeopt.kernels.packing import FIRST_STEP, NARROW_STEP
from moeopt.limits import Deadline
from moeopt.placement import bounds as lower
from moeopt.placement import deals
from moeopt.placement.heuristics import eplb, nodes
from moeopt.placement.heuristics.count_first import CountFirst, count_first, countable, number_of
from moeopt.placement.heuristics.deep import ROUNDS, Engine, Found, Part, deepen, engine
from moeopt.placement.heuristics.free import with_rival
from moeopt.placement.heuristics.parts import part_of, rules_of, scale_of
from moeopt.placement.heuristics.starts import starts
from moeopt.placement.heuristics.together import common_part, first_searches
from moeopt.placement.heuristics.windowed import search_windows
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.registry import Context, Outcome
from moeopt.result import MACHINE_NOTE, Stop

DEFAULT_GAP = 0.001
KNOWS = frozenset({"min_replicas", "survive_nodes", "base"})
"""Further rules that the search keeps."""
SHORT = 6
"""Short searches before a long one; each has a tenth of the rounds and of the work."""
FIRST = 0.4
"""Share of the work of the first one with five slots or more, where it hardly ever gets caught."""
BRIEF, BRIEF_ROUNDS = 2e4, 30
"""Work and rounds of the deep search with two slots."""
FINE = 0.04
"""The gap that is easy, times the square of the slots on a GPU: 0.05 % with nine, 0.014 % with 17."""
NEAR, CLOSE = 1e-4, 2e-3
"""How close to the number of its counts a packing need come to be finished, and to need no other start."""


def search(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Search every layer down to the gap limit (0.1 % by default) or to the iteration limit."""
    if instance.windows:
        return search_windows(instance, context, search)
    if instance.exact_base is not None and len(set(instance.speed)) == 1:
        # equal on all GPUs, so it changes no plan, and what is proved is lifted
        return with_base(instance, search(instance.bare, context))
    run = _Run(instance, context)
    try:
        run.stage_one()
        run.stage_two()
    except KeyboardInterrupt:
        if not run.begun:
            raise  # there is no plan yet
        run.stop = Stop.INTERRUPTED
    return with_rival(instance, context, run.outcome()) if instance.split == "free" else run.outcome()


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
    begun_with: dict[int, tuple[NDArray[np.int64], Found]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        gap = self.context.limits.gap
        self.gap = DEFAULT_GAP if gap is None else gap
        self.slack = max(self.gap * (1 - 1e-6), 5e-10)
        self.scale = np.array([scale_of(self.instance, row) for row in range(self.instance.num_layers)])
        self.rule = rules_of(self.instance)
        self.notes.extend(self.instance.notes)

    def stage_one(self) -> None:
        """The best of the baselines, layer by layer."""
        instance = self.instance
        plans = starts(instance, self.context.deadline)
        if self.context.warm_start is not None:
            plans.insert(0, self.context.warm_start.slot_expert.astype(np.int64))
        self.held = plans[0]
        self.cost = self._costs(plans[0])
        self.begun = True
        for other in plans[1:]:
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
        self._together()
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
        every = np.arange(self.instance.num_experts)
        part = part_of(self.instance, row, every, list(range(self.instance.num_gpus)), self.rule)
        if row not in self.begun_with and self._held_up(part, row):
            self.bounds[row] = lower.tighten(self.instance, self.bounds[row], row, float(self.cost[row]), self.gap)
            if self._certified(row):
                return
        goal = self._goal(row)
        if row in self.begun_with:
            start, first = self.begun_with[row]
            found = self._descend(part, first, start, goal, row, part.work, searched=1)
        else:
            found = self._deepen(part, self.held[row], goal, row)
        if found.cost * self.scale[row] < self.cost[row]:
            self.held[row], self.cost[row] = found.held, found.cost * self.scale[row]
            self._incumbent()
        if found.cost > goal and self.stop is not Stop.TIME:
            self.stop = Stop.TIME if found.out_of_time else Stop.ITERATIONS

    def _together(self) -> None:
        """The first short search of every layer that is to have one."""
        deadline = self.context.deadline
        part = None if deadline.limited or deadline.passed() else common_part(self.instance, self.rule)
        if part is None:
            return
        goal = {}
        for row in range(self.instance.num_layers):
            aim = self._goal(row) * (1 - self.gap + self._aim(part))
            if self.cost[row] > aim * self.scale[row]:
                goal[row] = (aim, self._goal(row))
        rounds, work, step = self._rounds() // 10, part.work * FIRST, _first_step(part)
        search = first_searches(
            self.instance, part, self.held, self.scale, goal, self._seed, rounds=rounds, work=work, step=step
        )
        for some in search:
            for row, found in some.items():
                self.begun_with[row] = (self.held[row].copy(), found)
                self.rounds += found.rounds
                if found.cost * self.scale[row] < self.cost[row]:
                    self.held[row], self.cost[row] = found.held, found.cost * self.scale[row]
            self._incumbent()
            if deadline.passed():
                return

    def _aim(self, part: Part) -> float:
        """The gap that first searches go on to where it is easy: the more slots on a GPU, the finer balances are.

        Asked for a gap they stop there.
        """
        return min(self.gap, FINE / part.slots[0] ** 2) if self.context.limits.gap is None else self.gap

    def _held_up(self, part: Part, row: int) -> bool:
        """Whether the counts of the incumbent keep it from the goal, or few slots may: then the bound can be low."""
        if not countable(part) or part.slots[0] < 5:
            return True
        counts = np.bincount(self.held[row], minlength=len(part.loads))
        return number_of(part, counts) > self._goal(row)

    def _deepen_nodes(self, row: int) -> None:
        """Search the nodes of one deal after another; a set of experts is searched once per layer and kind of node."""
        instance = self.instance
        known: dict[tuple[object, ...], Found | None] = {}
        for deal in nodes.promising(instance, self.ranked[row] if self.ranked else None, self.held[row]):
            if self._certified(row) or deal.bound >= self.cost[row] * (1 - self.gap):
                break
            held = np.empty(instance.num_slots, dtype=np.int64)
            worst = 0.0
            for experts, gpus in deal.shares:
                part = part_of(instance, row, experts, gpus, self.rule)
                # nodes that are alike may have their GPUs in another order
                same = (experts.tobytes(), part.slots, part.speed, part.rule.tobytes(), part.base)
                if same not in known:
                    known[same] = self._search_node(part, max(deal.bound, float(self.bounds[row].value)), row)
                found = known[same]
                if found is None:
                    worst = np.inf
                    break
                worst = max(worst, found.cost)
                held[eplb.slots_of(instance, gpus)] = np.append(experts, -1)[found.held]
            if worst * self.scale[row] < self.cost[row]:
                self.held[row], self.cost[row] = held, worst * self.scale[row]
                self._incumbent()
        if not self._certified(row) and self.stop is not Stop.TIME:
            self.stop = Stop.TIME if self.share.passed() else Stop.ITERATIONS

    def _search_node(self, part: Part, floor: float, row: int) -> Found | None:
        """One node alone; it need not get below what the busiest node must carry anyhow."""
        start = nodes.start_of(self.instance, part)
        if start is None:
            return None
        held, own = start
        return self._deepen(part, held, max(own, floor / self.scale[row]) / (1 - self.slack), row)

    def _deepen(self, part: Part, start: NDArray[np.int64], goal: float, row: int) -> Found:
        """The deep search of one part, from better counts first where those of the start keep it from the goal."""
        best = Found(start, part.cost(start), 0, False)
        firsts: list[CountFirst] = []
        if best.cost > goal and countable(part):
            counts = np.bincount(start, minlength=len(part.loads))
            if number_of(part, counts) > goal:
                tries, seed = self.context.limits.iterations, self._seed(row)
                firsts = count_first(part, goal, seed, tries=tries, deadline=self.share, by=self.engine)
        low = max(goal, firsts[0].number) if firsts else goal
        for first in firsts:
            if best.cost <= low * (1 + CLOSE) or first.number > best.cost:
                break
            aim = max(goal, first.number * (1 + NEAR))
            own = part.cost(first.held)
            if own <= aim:
                best = min(best, replace(best, held=first.held, cost=own), key=lambda found: found.cost)
                continue
            best = self._descend(
                part, best, first.held, aim, row, part.work / (60 if part.slots[0] == 2 else len(firsts))
            )
        if firsts and part.slots[0] == 2:
            return self._short(part, best, goal, row)
        if firsts and best.cost > low * (1 + CLOSE):
            best = self._descend(part, best, start, goal, row, part.work / 2)
        return self._descend(part, best, best.held, goal, row, part.work / 2 if firsts else part.work)

    def _short(self, part: Part, best: Found, goal: float, row: int) -> Found:
        """A very short deep search: no packing of the counts is much better, but counts near by may be."""
        limit = self.context.limits.iterations
        rounds = BRIEF_ROUNDS if limit is None else min(limit, BRIEF_ROUNDS)
        if best.cost <= goal or best.out_of_time:
            return best
        found = deepen(
            *(part, best.held, goal, self._seed(row)),
            rounds=rounds,
            deadline=self.share,
            work=BRIEF,
            by=self.engine,
        )
        self.rounds += found.rounds
        return found

    def _descend(
        self,
        part: Part,
        best: Found,
        start: NDArray[np.int64],
        goal: float,
        row: int,
        work: float,
        searched: int = 0,
    ) -> Found:
        """The better of the best so far and a deep search: some short ones from a start, then a long one from the best.

        A search finds what it is after within few rounds or gets caught for long: other kicks from the start help.
        The first `searched` ones have been made.
        """
        left = self._rounds()
        for attempt in range(searched, SHORT + 1):
            if best.cost <= goal or best.out_of_time:
                break
            last = attempt == SHORT
            first = attempt == 0 and part.slots[0] > 4
            step = _first_step(part) if first else FIRST_STEP
            share = FIRST if first else 1 - SHORT / 10 if last else 0.1
            todo = (left - best.rounds) if last else left // 10
            found = deepen(
                *(part, best.held if last else start, goal, self._seed(row) + 101 * attempt),
                rounds=max(todo, 0),
                deadline=self.share,
                work=work * share,
                by=self.engine,
                step=step,
            )
            self.rounds += found.rounds
            better = found if found.cost <= best.cost else best
            best = replace(better, rounds=best.rounds + found.rounds, out_of_time=found.out_of_time)
        return best

    def _rounds(self) -> int:
        """Rounds of the deep search of a layer."""
        limit = self.context.limits.iterations
        return ROUNDS if limit is None else limit

    def _seed(self, row: int) -> int:
        return self.context.seed_of(row)

    def _costs(self, held: NDArray[np.int64]) -> NDArray[np.float64]:
        """(L,) cost of the busiest GPU in floating point; the referee has the last word."""
        instance = self.instance
        counts = Placement(held.astype(np.int32)).replicas(instance.num_experts)
        totals = gpu_loads(lower.pieces(instance, np.maximum(counts, 1)), held, instance.slot_start)
        if instance.base is not None:
            totals = totals + instance.base
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
        note = interpreter_note("the deep search", self.engine.compiled)
        if note is not None:
            self.notes.append(note)
        elif self.engine.compiled and not packing.improve.cached:
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


def _first_step(part: Part) -> float:
    """How far below a start the first search of it puts its threshold."""
    return NARROW_STEP if part.slots[0] > 4 and len(part.slots) <= 64 else FIRST_STEP
