"""The search under an engine's dispatch rule: the even split first, then counts, nodes and names that suit the rule.

The value of the even split, or its certified gap where that is larger, is a cap. Where no plan under it comes near it
under the rule, the cap is lifted by 1 %, then altogether, as it is the rule's value that is asked for; a note says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import dispatch as kernel
from moeopt.kernels._jit import interpreter_note
from moeopt.kernels.sources import sources_per_slot
from moeopt.kernels.warmup import load_dispatch
from moeopt.limits import Deadline
from moeopt.placement import bounds as lower
from moeopt.placement import engine_rule, verify
from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.heuristics import eplb, layouts
from moeopt.placement.heuristics.deep import engine
from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

Search = Callable[[PlacementInstance, Context], Outcome[Placement]]

WORK, WORK_ON_PARTS = 3.0e6, 1.0e5
"""Slots looked at before a phase is given up: with parts that stay equal, and with all moves."""
ROUNDS = 2000
"""Rounds before a phase is given up, where `Limits.iterations` says nothing."""
NEAR = {"sglang-static": 1.01, "sglang-static-node": 1.05}
"""A layer whose value under the rule is within this factor of the even one keeps the cap."""
LIFTED = 1.01
SEARCHED_BESIDE = frozenset({"engine_split", "lost", "base"})
"""Further rules this search lives with; beside others, the plan of the even split stays as it is."""


def under_rule(search: Search) -> Search:
    """The search of `search` for the even split, followed by one under the instance's engine rule, if it has one."""

    def run(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
        if not instance.engine_split:
            return search(instance, context)
        even = instance.even
        if not engine_rule.fixed(instance):
            return search(even, context)
        engine(context.deadline)  # compiled code is loaded now: half the time might not hold it
        half = replace(context, deadline=context.deadline.share(2))
        outcome = search(even, half)
        if outcome.stop is Stop.INTERRUPTED or outcome.plan is None:
            return replace(outcome, bounds=None)
        strange = sorted(instance.extras - SEARCHED_BESIDE)
        if strange:
            note = f"the plan is that of the even split: {instance.split} is not searched beside {', '.join(strange)}"
            return replace(outcome, bounds=None, notes=[*outcome.notes, note])
        return _Run(instance, context, outcome).run()

    return run


@dataclass
class _Run:
    """One search over all layers, from the plan of the even split."""

    instance: PlacementInstance
    context: Context
    outcome: Outcome[Placement]
    held: NDArray[np.int64] = field(init=False)
    stop: Stop = Stop.GAP
    rounds: int = 0
    given_up: int = 0
    compiled: bool = True

    def __post_init__(self) -> None:
        instance = self.instance
        assert self.outcome.plan is not None
        self.held = self.outcome.plan.slot_expert.astype(np.int64)
        gap = self.context.limits.gap
        self.slack = max((0.001 if gap is None else gap) * (1 - 1e-6), 5e-10)
        self.node, self.sources = engine_rule.nodes_and_sources(instance, instance.split)
        self.bounds = lower.cheap(instance)
        self.even_bounds = self.outcome.bounds or lower.cheap(instance.even)
        self.scale = np.array([float(value) for value in instance.ideal])
        self.scale[self.scale == 0] = 1.0
        most = lower.most_replicas(instance)
        self.most = most
        self.lumps = np.append(layouts.lumps(most, self.sources.tolist()), [np.inf])

    def run(self) -> Outcome[Placement]:
        """Search layer by layer."""
        deadline = self.context.deadline
        self.improve = self._engine(deadline)
        eplb_too = self._eplb_under_rule()
        try:
            for row in range(self.instance.num_layers):
                if deadline.passed():
                    self.stop = Stop.TIME
                    break
                _Layer(self, row, deadline.share(self.instance.num_layers - row)).search(eplb_too)
                self.context.report(row + 1, self.instance.num_layers)
        except KeyboardInterrupt:
            self.stop = Stop.INTERRUPTED
        notes = list(self.outcome.notes)
        note = interpreter_note("the search under the engine's rule", self.compiled)
        notes.extend([note] if note else [])
        if self.given_up:
            notes.append(
                f"{self.given_up} of {self.instance.num_layers} layers: no plan found keeps the even value and comes "
                f"near it under {self.instance.split}; theirs is better under the rule and worse with even parts"
            )
        iterations = self.outcome.iterations + self.rounds
        return replace(
            self.outcome,
            plan=Placement.of(self.held),
            stop=self.stop,
            iterations=iterations,
            bounds=self.bounds,
            notes=notes,
        )

    def _engine(self, deadline: Deadline) -> Callable[..., int]:
        """Compiled where that is at hand or there is time for it."""
        code = kernel.improve
        if code.in_time(deadline, compile_s=90.0):
            if deadline.limited and not code.ready():
                load_dispatch()
            return code
        self.compiled = False
        return code.plain()

    def _eplb_under_rule(self) -> NDArray[np.int64] | None:
        """The public rule's plan, which the answer shall not be worse than under the rule either."""
        if self.instance.constrained or self.context.deadline.passed():
            return None
        even = self.instance.even
        found = replace_doubles(even, eplb.balanced(even, avoid_doubles=False))[0].astype(np.int64)
        return None if verify.faults(even, Placement.of(found)) else found


class _Layer:
    """The search of one layer; loads are divided by the ideal cost."""

    def __init__(self, run: _Run, row: int, share: Deadline) -> None:
        self.run, self.row, self.share = run, row, share
        instance = run.instance
        scale = float(run.scale[row])
        per_replica = instance.floor_rule == "per_replica"
        loads = instance.loads[row].astype(np.float64) if per_replica else instance.weights[row]
        self.loads = loads / scale
        self.floor = float(instance.floor) / scale if per_replica else 0.0
        self.base = np.zeros(instance.num_gpus) if instance.base is None else instance.base[row] / scale
        self.kernel = self._kernel()
        self.held = self._with_empty(run.held[row])
        self.even, self.value = self._costs(self.held)
        self.goal = float(run.bounds[row].value) / scale / (1 - run.slack)
        self.cap = max(self.even, float(run.even_bounds[row].value) / scale / (1 - run.slack))
        self.rng = np.array([1 + (run.context.seed_of(row) * 2654435761 + 54321) % 2147483645], dtype=np.int64)
        self.out_of_time = False

    def search(self, eplb_too: NDArray[np.int64] | None) -> None:
        """All phases, until the goal is reached; the layer's plan is replaced if that is better."""
        run = self.run
        near = NEAR[run.instance.split] * self.even
        start = self._start()
        before = self.value
        self._phase(start, self.cap, WORK, strict=True)
        self._phase(self.held, self.cap, WORK_ON_PARTS)
        if self.value > max(near, self.goal):
            self._phase(start, self.cap * LIFTED, WORK, strict=True)
        if self.value > max(near, self.goal):
            self._phase(start, np.inf, WORK, strict=True)
            self._phase(self.held, np.inf, WORK_ON_PARTS)
        if eplb_too is not None:
            other = self._with_empty(eplb_too[self.row])
            value = self._costs(other)[1]
            if value < self.value * (1 - 1e-12):
                self.held, self.value = other, value
                self._phase(other, np.inf, WORK_ON_PARTS)
        if self.value < before * (1 - 1e-12):
            empty = self.kernel.empty
            run.held[self.row] = np.where(self.held == empty, -1, self.held) if empty >= 0 else self.held
            run.given_up += self._costs(self.held)[0] > self.cap * (1 + 1e-9)
        if self.value > self.goal and run.stop is not Stop.TIME:
            run.stop = Stop.TIME if self.out_of_time else Stop.ITERATIONS

    def _phase(self, start: NDArray[np.int64] | None, cap: float, work: float, *, strict: bool = False) -> None:
        """Search on from a start under a cap; what is found replaces the incumbent if it is better."""
        if start is None or self.value <= self.goal or self.share.passed():
            self.out_of_time |= self.share.passed()
            return
        run = self.run
        layer = self.kernel
        if strict:
            layer = layer._replace(nice=run.lumps <= 0.0, strict=True)
        base, best = start.copy(), self.held.copy()
        even, value = self._costs(start)
        memory = kernel.remember(self.value, self.goal)
        if even <= cap and value < self.value:
            best[:] = start
            memory = kernel.remember(value, self.goal)
        rounds = 0
        most = run.context.limits.iterations
        most = ROUNDS if most is None else most
        while memory[kernel.BEST] > self.goal and memory[kernel.WORK] < work and rounds < most:
            if self.share.passed():
                self.out_of_time = True
                break
            todo, until = min(32, most - rounds), work
            if run.context.deadline.watched:
                todo = min(todo, 4)
                until = min(work, memory[kernel.WORK] + len(base) * (64 if run.compiled else 1))
            rounds += run.improve(layer, base, best, self.goal, cap, todo, until, memory, self.rng)
        run.rounds += rounds
        if memory[kernel.BEST] < self.value * (1 - 1e-12):
            self.held, self.value = best, float(memory[kernel.BEST])

    def _start(self) -> NDArray[np.int64] | None:
        """Counts whose replicas get equal numbers of sources, on nodes that keep them equal."""
        instance, run = self.run.instance, self.run
        if instance.constrained or instance.hierarchical:
            return None
        allowed = np.flatnonzero(run.lumps <= 0.0)
        slots, pace = np.array(instance.slots), 1.0 / np.array(instance.speed)
        counts = layouts.nice_counts(self.loads, instance.num_slots, allowed, instance.fill == "all")
        if counts is None:
            return None
        held = layouts.placed(self.loads, counts, slots, pace, self.base, run.node, run.sources.tolist())
        return None if held is None or (instance.fill == "all" and (held < 0).any()) else self._with_empty(held)

    def _with_empty(self, held: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(held < 0, self.kernel.empty, held)

    def _costs(self, held: NDArray[np.int64]) -> tuple[float, float]:
        """Largest cost of a GPU with even parts, and under the rule."""
        run, instance = self.run, self.run.instance
        row = np.where(held == self.kernel.empty, -1, held)[None, :]
        gpu = instance.gpu_of_slot
        filled = row[0] >= 0
        experts = row[0][filled]
        counts = np.bincount(experts, minlength=instance.num_experts)
        number = sources_per_slot(row, gpu, run.node, run.sources)[0][filled]
        costs = []
        for part in (1.0 / counts[experts], number / run.sources.sum()):
            pieces = np.maximum(self.loads[experts] * part, self.floor)
            totals = np.bincount(gpu[filled], weights=pieces, minlength=instance.num_gpus) + self.base
            costs.append(float((totals / np.array(instance.speed)).max()))
        return costs[0], costs[1]

    def _kernel(self) -> kernel.Layer:
        """The kernel's view of the layer."""
        instance, run = self.run.instance, self.run
        loads, empty = self.loads, -1
        rule = np.zeros((0, 0), dtype=np.int8)
        if instance.constrained:
            rule = np.where(allowed_pairs(instance), 0, kernel.FORBIDDEN).astype(np.int8)
            for expert, gpu in instance.pin:
                rule[expert, gpu] = kernel.PINNED
        if instance.fill == "at_most":
            loads, empty = np.append(loads, -1.0), instance.num_experts
            if rule.size:
                rule = np.vstack([rule, np.zeros((1, instance.num_gpus), dtype=np.int8)])
        homes = np.array(instance.node) if instance.hierarchical else np.zeros(instance.num_gpus)
        return kernel.Layer(
            loads,
            self.floor,
            instance.gpu_of_slot.astype(np.int64),
            instance.slot_start,
            1.0 / np.array(instance.speed),
            self.base,
            run.node,
            run.sources,
            homes.astype(np.int64),
            rule,
            instance.distinct,
            run.most,
            empty,
            np.ones(run.most + 2, dtype=np.bool_),
            False,
            int(run.sources.sum()),
        )
