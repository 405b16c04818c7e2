"""Exact methods: small layers by listing all plans, others by the programme of `moeopt.placement.programme`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from moeopt.placement import bounds, configuration, enumeration
from moeopt.placement.bounds import LayerBound
from moeopt.placement.heuristics import search
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.programme import Counts, Model, build, read_back, start_values
from moeopt.placement.verify import evaluate
from moeopt.registry import Context, Outcome
from moeopt.result import CERTIFIED_TOLERANCE, Status, Stop

__all__ = ["Model", "build", "prove", "read_back", "solve_auto", "solve_exact", "start_values"]

WRITING_S = 1e-4
"""Seconds that writing one term takes at most, to see beforehand whether there is time for it."""
CHILD_S = 0.3
"""Seconds that a child process with a solver takes to start."""
MOST_TERMS = 400_000
"""Programmes with more (expert, GPU, count) terms are not built: no solver gets anywhere with them."""


def solve_exact(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Search first, then prove or improve layer by layer with a MILP solver in a child process."""
    if instance.exact_base is not None and not instance.windows:
        return search.with_base(instance, solve_exact(instance.bare, context))
    gap = context.limits.gap or 0.0
    half = context.deadline.share(2)
    inner = replace(context, limits=replace(context.limits, gap=gap), deadline=half, on_progress=None)
    outcome = search.search(instance, inner)
    return prove(instance, context, outcome, gap)


def prove(
    instance: PlacementInstance, context: Context, outcome: Outcome[Placement], gap: float, *, programmes: bool = True
) -> Outcome[Placement]:
    """Prove or improve every layer whose gap is above `gap`, within the limits; the plan only gets better.

    One layer after another: all plans are listed where that is possible, else the configuration bound is searched, and
    with `programmes` the mixed-integer programme is run where that leaves a gap.
    """
    plan = outcome.plan
    assert plan is not None
    if instance.split == "free" and plan.shares is None:
        from moeopt.placement.shares import with_best_shares

        plan = with_best_shares(instance, plan, context.deadline)
    floors = list(outcome.bounds) if outcome.bounds is not None else bounds.cheap(instance)
    tops = list(evaluate(instance, plan).max_load)
    floors = [bounds.tighten(instance, floor, row, float(tops[row]), gap) for row, floor in enumerate(floors)]
    run = _Proof(instance, context, plan, floors, tops, max(gap, CERTIFIED_TOLERANCE), programmes)
    run.run(outcome.stop)
    return replace(
        outcome,
        plan=run.plan,
        bounds=run.floors,
        stop=run.stop,
        notes=[*outcome.notes, *dict.fromkeys(run.notes)],
        versions={**outcome.versions, **run.versions},
    )


class _Proof:
    """The exact part of a solve: open layers one after another, each with its share of the time left."""

    def __init__(
        self,
        instance: PlacementInstance,
        context: Context,
        plan: Placement,
        floors: list[LayerBound],
        tops: list[Fraction],
        gap: float,
        programmes: bool = True,
    ) -> None:
        self.instance, self.context, self.plan = instance, context, plan
        self.floors, self.tops, self.gap, self.programmes = floors, tops, gap, programmes
        self.stop = Stop.FINISHED
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}

    def open_rows(self) -> list[int]:
        """Layers whose gap is above the limit."""
        return [
            row
            for row, (top, floor) in enumerate(zip(self.tops, self.floors, strict=True))
            if float(top - floor.value) > self.gap * float(top)
        ]

    def run(self, searched: Stop) -> None:
        """Solve every open layer, or say why not."""
        from moeopt.backends import Worker

        rows = self.open_rows()
        if searched is Stop.INTERRUPTED:
            self.stop = searched
            return
        with Worker() as worker:
            for place, row in enumerate(rows):
                if self.context.deadline.passed():
                    self._out_of_time()
                    return
                try:
                    self._layer(row, len(rows) - place, worker)
                except KeyboardInterrupt:
                    self.stop = Stop.INTERRUPTED
                if self.stop is Stop.INTERRUPTED:
                    return
                self.context.report(place + 1, len(rows), "proving")

    def _layer(self, row: int, left: int, worker: Any) -> None:
        from moeopt.backends import LinearModel, solve_model

        if self._listed(row):
            return
        if self._priced(row, left) or not self.programmes:
            return
        counts = self._useful_counts(row)
        terms = int((counts[1] - counts[0] + 1).sum()) * self.instance.num_gpus
        if terms > MOST_TERMS:
            self.stop = Stop.ITERATIONS
            self.notes.append(
                f"the exact programme is not built where it would have more than {MOST_TERMS} terms: those layers "
                "have the search's plan (heuristic)"
            )
            return
        deadline = self.context.deadline
        if deadline.limited and terms * WRITING_S + CHILD_S > deadline.remaining_s():
            self._out_of_time()
            return
        scale = 1.0 if self.instance.windows else float(self.instance.ideal[row]) or 1.0
        floor = float(self.floors[row].value) / scale
        model = build(self.instance, row, counts=counts, lower_bound=floor * (1 - 1e-12), scaled=True)
        linear = LinearModel.from_pulp(model.problem)
        first = start_values(model, self.plan)
        limits = self.context.limits
        if deadline.passed():
            self._out_of_time()
            return
        time_s = max(deadline.remaining_s(), 1e-3) / left if deadline.limited else None
        answer = solve_model(
            linear,
            limits=replace(limits, time_s=time_s, gap=limits.gap or 0.0),
            seed=self.context.seed % 2**31,
            start=[first[name] for name in linear.columns],
            bound=floor,
            worker=worker,
        )
        self.notes.extend(answer.notes)
        self.versions["solver"] = answer.backend
        if answer.values is not None:
            self._take(row, read_back(model, dict(zip(linear.columns, answer.values.tolist(), strict=True))))
        if answer.bound is not None:
            self._bound(row, answer.bound * scale, answer.backend, answer.status)
        if answer.status is not Status.OPTIMAL and self.stop not in (Stop.TIME, Stop.INTERRUPTED):
            self.stop = answer.stop
        if answer.stop is Stop.INTERRUPTED:
            self.stop = Stop.INTERRUPTED

    def _out_of_time(self) -> None:
        self.stop = Stop.TIME
        self.notes.append("the time was up: layers that are not proved have the search's plan (heuristic)")

    def _listed(self, row: int) -> bool:
        """Settle a small layer by listing all its plans; whether that was possible."""
        deadline = self.context.deadline
        most = bounds.most_replicas(self.instance)
        answer = enumeration.optimum(self.instance, row, most, self.tops[row], may_compile=not deadline.limited)
        if answer is None:
            return False
        value, held = answer
        if held is not None:
            self._take(row, Placement.of(held))
        certificate = {"kind": "enumeration", "value": str(value)}
        self.floors[row] = LayerBound("enumeration", value, certificate)
        return True

    def _priced(self, row: int, left: int) -> bool:
        """Raise the bound of a layer by prices of fillings; whether that closed its gap."""
        share = self.context.deadline.share(2 * left if self.programmes else left)
        top = float(self.tops[row])
        self.floors[row] = bounds.priced(self.instance, self.floors[row], row, top, self.gap, share)
        return float(self.tops[row] - self.floors[row].value) <= self.gap * top

    def _useful_counts(self, row: int) -> Counts:
        """Counts that a plan at least as good as the incumbent can have: pieces must fit under it."""
        instance = self.instance
        ones = np.ones(instance.num_experts, dtype=np.int64)
        most = bounds.most_replicas(instance)
        if instance.split == "free":
            return ones, ones  # free split has no counts: one term for each expert and GPU
        if instance.windows:
            return ones, ones * most  # a combined ratio says little about a single window
        limit = float(self.tops[row]) * max(instance.speed)
        per_replica = instance.floor_rule == "per_replica"
        loads = instance.loads[row].astype(float) if per_replica else instance.weights[row]
        least = np.clip(np.ceil(loads / limit * (1 - 1e-9)), 1, most).astype(np.int64) if limit > 0 else ones
        spare = max(instance.num_slots - int(least.sum()), 0)
        return least, np.minimum(least + spare, most)

    def _take(self, row: int, found: Placement) -> None:
        """Take a layer over from the solver if the referee finds it better."""
        slots = self.plan.slot_expert.copy()
        slots[row] = found.slot_expert[0]
        shares = self.plan.shares
        if shares is not None and found.shares is not None:
            shares = (*shares[:row], found.shares[0], *shares[row + 1 :])
        better = Placement.of(slots, shares)
        top = evaluate(self.instance, better).max_load[row]
        if top < self.tops[row]:
            self.plan, self.tops[row] = better, top

    def _bound(self, row: int, value: float, backend: str, status: Status) -> None:
        """Take a solver's bound over where it says more, never above the plan: solvers compute to 1e-9 or so."""
        claim = min(Fraction(value), self.tops[row])
        if claim > self.floors[row].value:
            certificate = {"kind": "solver", "backend": backend, "claim": str(status), "value": float(claim)}
            self.floors[row] = LayerBound("solver", claim, certificate)


AUTO_SIZE = 32
"""`auto` hands layers with at most this many (expert, GPU) pairs to the exact programme."""
AUTO_NODES = 1_000
"""Nodes per layer that `auto` allows it, so that the answer does not depend on the machine."""


PRICING_S = 1.5
"""Seconds a layer that `auto` keeps back from the search for the configuration bound, at most half of its time."""


def solve_auto(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Search to a certified gap (0.1 % by default); small layers that it leaves open go to the exact programme.

    With a time limit, what the search leaves open gets the configuration bound in the time that is left.
    """
    if instance.exact_base is not None and not instance.windows and len(set(instance.speed)) == 1:
        return search.with_base(instance, solve_auto(instance.bare, context))
    limits, deadline = context.limits, context.deadline
    small = instance.num_experts * instance.num_gpus <= AUTO_SIZE and not instance.engine_split
    provable = deadline.limited and not small and configuration.searched(instance, 0)
    inner = context
    if provable:
        kept = min(PRICING_S * instance.num_layers, deadline.remaining_s() / 2)
        inner = replace(context, deadline=deadline.within(max(deadline.remaining_s() - kept, 1e-9)))
    outcome = search.search(instance, inner)
    gap = search.DEFAULT_GAP if limits.gap is None else limits.gap
    if outcome.stop is Stop.INTERRUPTED or deadline.passed():
        return outcome
    if provable:
        proved = prove(instance, context, outcome, gap, programmes=False)
        return replace(proved, stop=outcome.stop if proved.stop is Stop.FINISHED else proved.stop)
    if not small or outcome.stop is Stop.TIME:
        return outcome
    nodes = AUTO_NODES if limits.nodes is None else limits.nodes
    return prove(instance, replace(context, limits=replace(limits, nodes=nodes, gap=gap)), outcome, gap)
