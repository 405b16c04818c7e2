"""The search over several windows: one plan for all of them, never worse than the plan of the summed loads.

Starts are the plan that `search` finds for the sum of the windows, the public rule on each window, and on the largest
load that each expert has in any window, in parts of the window's ideal. The best two starts of a layer are deepened by
the kernel of `moeopt.kernels.windows`, the better of them further. Where groups are kept on nodes, each start keeps
its own deal of groups to nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import windows as kernel
from moeopt.kernels._jit import interpreter_note
from moeopt.kernels.loads import gpu_loads
from moeopt.kernels.warmup import load_windows
from moeopt.limits import Deadline
from moeopt.placement import bounds as lower
from moeopt.placement.combined import tail_of
from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.heuristics import eplb
from moeopt.placement.heuristics.deep import engine
from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.window_bounds import alike
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WORK = 1.5e6
"""Slots times windows looked at before a layer is given up, some 60 ms compiled: the default iteration limit."""
TRIAL = 0.2
"""Part of it that each of the two best starts gets before the better one gets the rest."""
ROUNDS = 2000
LASTING = frozenset({"min_replicas", "survive_nodes"})
KNOWS = frozenset({"windows", "base", "engine_split"}) | LASTING
"""Further rules that it keeps."""
DEFAULT_GAP = 0.001


def applies(instance: PlacementInstance) -> str | None:
    """Several windows are searched with even parts, and not beside budgets of moves."""
    if not instance.windows:
        return None
    strange = instance.extras - KNOWS
    if strange:
        return f"several windows cannot be planned together with {', '.join(sorted(strange))} yet; plan their sum"
    if instance.split != "even":
        fix = "use split even, or plan each window apart"
        return f"several windows are planned with split even; {instance.split} is for one window: {fix}"
    return None


def search_windows(
    instance: PlacementInstance, context: Context, search: Callable[[PlacementInstance, Context], Outcome[Placement]]
) -> Outcome[Placement]:
    """Search every layer down to the gap limit or the iteration limit; `search` plans the summed loads."""
    if context.deadline.limited:  # compiled code is loaded now: a third of the time might not hold it
        _load(context.deadline)
        engine(context.deadline)
    whole = alike(instance, instance.loads, instance.floor_tokens, instance.steps)
    inner = replace(context, deadline=context.deadline.share(3), on_progress=None)
    first = search(whole, inner)
    assert first.plan is not None
    run = _Run(instance, context, [first.plan.slot_expert.astype(np.int64)])
    run.notes.extend(first.notes)
    if first.stop is Stop.INTERRUPTED:
        run.stop = Stop.INTERRUPTED
        return run.outcome()
    try:
        run.more_starts(whole)
        run.deepen()
    except KeyboardInterrupt:
        run.stop = Stop.INTERRUPTED
    return run.outcome()


def _load(deadline: Deadline) -> None:
    """The compiled kernel, where there is a limit and room for it."""
    improve = kernel.improve_windows
    if deadline.limited and not improve.ready() and improve.in_time(deadline):
        load_windows()


@dataclass
class _Run:
    """One search over all layers; the incumbent of every layer is always a complete plan."""

    instance: PlacementInstance
    context: Context
    starts: list[Ints]
    notes: list[str] = field(default_factory=list)
    incumbents: list[tuple[float, float]] = field(default_factory=list)
    rounds: int = 0
    stop: Stop = Stop.GAP

    def __post_init__(self) -> None:
        gap = self.context.limits.gap
        self.slack = max((DEFAULT_GAP if gap is None else gap) * (1 - 1e-6), 5e-10)
        self.tail = float(tail_of(self.instance))
        self.held = self.starts[0].copy()
        self.value = self._values(self.held)
        self.bounds = lower.cheap(self.instance, self.context.deadline)
        self._incumbent()

    def more_starts(self, whole: PlacementInstance) -> None:
        """The warm start, and the public rule on every window and on their envelope."""
        instance, deadline = self.instance, self.context.deadline
        if self.context.warm_start is not None:
            self.starts.append(self.context.warm_start.slot_expert.astype(np.int64))
        if not (instance.constrained or instance.extras & LASTING):  # the public rule looks at none of these
            for one in (*instance.windows, alike(whole, self._envelope(), 0.0, 1)):
                if deadline.passed():
                    return
                found = eplb.balanced(alike(one, one.loads, one.floor_tokens, one.steps), avoid_doubles=True)
                self.starts.append(replace_doubles(one, found)[0].astype(np.int64))

    def deepen(self) -> None:
        """Layer by layer: the best two starts for a while, then the better of them."""
        deadline = self.context.deadline
        values = np.array([self._values(start) for start in self.starts])
        self.improve, self.compiled = self._engine(deadline)
        rows = list(range(self.instance.num_layers))
        if deadline.limited:  # with little time the worst layer comes first
            rows.sort(key=lambda row: -float(self.value[row]))
        for done, row in enumerate(rows):
            if deadline.passed():
                self.stop = Stop.TIME
                return
            self._layer(row, values[:, row], deadline.share(len(rows) - done))
            self.context.report(done + 1, len(rows))

    def _layer(self, row: int, values: Floats, share: Deadline) -> None:
        order = np.argsort(values, kind="stable")
        goal = float(self.bounds[row].value) / (1 - self.slack)
        self._take(row, self.starts[order[0]][row], float(values[order[0]]))
        if self.value[row] <= goal:
            return
        parts = [_Part(self, row, self.starts[place][row], float(values[place])) for place in order[:2]]
        for part in parts:
            part.go(goal, TRIAL * WORK, share)
            self._take(row, part.best, part.value)
        better = min(parts, key=lambda part: part.value)
        better.go(goal, (1 - TRIAL * len(parts)) * WORK, share)
        self._take(row, better.best, better.value)
        if self.value[row] > goal and self.stop is not Stop.TIME:
            self.stop = Stop.TIME if share.passed() else Stop.ITERATIONS

    def _take(self, row: int, held: Ints, value: float) -> None:
        if value < self.value[row]:
            self.held[row], self.value[row] = held, value
            self._incumbent()

    def _incumbent(self) -> None:
        self.incumbents.append((self.context.deadline.elapsed_s(), float(self.value.sum())))

    def _envelope(self) -> Floats:
        """(L, E) largest load of each expert in any window, in parts of the window's ideal."""
        found: Floats = np.max([window.weights / _ideals(window)[:, None] for window in self.instance.windows], axis=0)
        return found

    def _values(self, held: Ints) -> Floats:
        """(L,) combined ratio of a plan in floating point; the referee has the last word."""
        counts = np.maximum(Placement(held.astype(np.int32)).replicas(self.instance.num_experts), 1)
        ratios = []
        for window in self.instance.windows:
            totals = gpu_loads(lower.pieces(window, counts), held, window.slot_start)
            if window.base is not None:
                totals = totals + window.base
            ratios.append((totals / np.array(window.speed)).max(axis=1) / _ideals(window))
        ordered = -np.sort(-np.maximum(np.array(ratios), 1.0), axis=0)
        part = np.clip(self.tail - np.arange(len(ratios)), 0.0, 1.0)
        value: Floats = (ordered * part[:, None]).sum(axis=0) / self.tail
        return value

    def _engine(self, deadline: Deadline) -> tuple[Callable[..., int], bool]:
        """Compiled code where this process has it or there is time to get it, else the same kernel interpreted."""
        improve = kernel.improve_windows
        compiled = improve.in_time(deadline)
        note = interpreter_note("the search over windows", compiled)
        self.notes.extend([note] if note else [])
        if not compiled:
            return improve.plain(), False
        _load(deadline)
        return improve, True

    def outcome(self) -> Outcome[Placement]:
        """The incumbents of all layers as one plan."""
        notes = list(dict.fromkeys(self.notes))
        return Outcome(Placement.of(self.held), self.stop, self.rounds, self.incumbents, list(self.bounds), notes)


class _Part:
    """The deep search of one layer from one start; it can be gone on with."""

    def __init__(self, run: _Run, row: int, start: Ints, value: float) -> None:
        self.run = run
        self.field = _field(run.instance, row, start, run.tail, run.bounds[row].value)
        self.state = np.where(start < 0, self.field.empty, start).astype(np.int64)
        self.incumbent = self.state.copy()
        self.memory = kernel.remember_windows(value)
        seed = run.context.seed_of(row)
        self.rng = np.array([1 + (seed * 2654435761 + 12345) % 2147483645], dtype=np.int64)
        self.done = 0

    @property
    def value(self) -> float:
        """Combined ratio of the best state so far."""
        return float(self.memory[kernel.BEST])

    @property
    def best(self) -> Ints:
        """(S,) experts in slots of the best state so far, -1 for an empty one."""
        return np.where(self.incumbent == self.field.empty, -1, self.incumbent)

    def go(self, goal: float, work: float, deadline: Deadline) -> None:
        """Search on until the value is at most `goal`, or `work` more, the rounds or the time are up."""
        limits, memory = self.run.context.limits, self.memory
        rounds = ROUNDS if limits.iterations is None else limits.iterations
        end = memory[kernel.WORK] + work
        scan = float(len(self.state) * len(self.field.floor))
        while memory[kernel.BEST] > goal and memory[kernel.WORK] < end and self.done < rounds:
            if deadline.passed():
                return
            until = end
            if deadline.watched:  # a descent can take seconds
                until = min(end, memory[kernel.WORK] + scan * (200 if self.run.compiled else 1))
            done = self.run.improve(
                self.field, self.state, self.incumbent, goal, rounds - self.done, until, memory, self.rng
            )
            self.done += done
            self.run.rounds += done


def _ideals(instance: PlacementInstance) -> Floats:
    ideal = np.array([float(value) for value in instance.ideal])
    ideal[ideal == 0] = 1.0
    return ideal


def _field(instance: PlacementInstance, row: int, start: Ints, tail: float, least: Fraction) -> kernel.Field:
    """The kernel's view of one layer; groups stay on the nodes where `start` has them."""
    ideals = np.array([_ideals(window)[row] for window in instance.windows])
    per_replica = instance.floor_rule == "per_replica"
    tables = [window.loads[row] if per_replica else window.weights[row] for window in instance.windows]
    loads = np.array(tables, dtype=np.float64).T / ideals
    floor = np.array([float(window.floor) if per_replica else 0.0 for window in instance.windows]) / ideals
    base = np.zeros((instance.num_gpus, len(ideals)))
    for place, window in enumerate(instance.windows):
        if window.base is not None:
            base[:, place] = window.base[row] / ideals[place]
    rule = np.zeros((0, 0), dtype=np.int8)
    if instance.constrained or instance.hierarchical:
        rule = np.where(allowed_pairs(instance), 0, kernel.FORBIDDEN).astype(np.int8)
        for expert, gpu in instance.pin:
            rule[expert, gpu] = kernel.PINNED
    if instance.hierarchical:
        node = np.array(instance.node)
        home = np.empty(instance.num_experts, dtype=np.int64)
        home[start[start >= 0]] = node[instance.gpu_of_slot[start >= 0]]
        rule[home[:, None] != node[None, :]] = kernel.FORBIDDEN
    empty, slots = -1, np.array(instance.slots, dtype=np.int64)
    if instance.fill == "at_most":
        loads, empty = np.vstack([loads, -np.ones((1, len(ideals)))]), instance.num_experts
        if rule.size:
            rule = np.vstack([rule, np.zeros((1, len(slots)), dtype=np.int8)])
    usable, spare = int((slots > 0).sum()), instance.num_slots - instance.num_experts + 1
    most = max(min(usable, instance.num_slots) if instance.distinct else spare, 1)
    # with the worst window as the objective no level need lie below its bound; else a window's ideal is what is sure
    floors = np.full(len(ideals), float(least) if tail == 1.0 else 1.0)
    return kernel.Field(
        np.ascontiguousarray(loads),
        floor,
        base,
        floors,
        instance.gpu_of_slot.astype(np.int64),
        instance.slot_start,
        1.0 / np.array(instance.speed),
        rule,
        instance.distinct,
        most,
        empty,
        tail,
        np.array(instance.min_replicas, dtype=np.int64),
        np.searchsorted(np.array(instance.node_ids), np.array(instance.node)).astype(np.int64),
        instance.survive_nodes + 1,
    )
