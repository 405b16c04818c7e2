"""The mixed-integer programme of ``models/placement.md``, in its names: oracle for small layers, and export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement import bounds, enumeration
from moeopt.placement.bounds import LayerBound
from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.heuristics import search
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement, Share
from moeopt.placement.verify import evaluate
from moeopt.registry import Context, Outcome
from moeopt.result import CERTIFIED_TOLERANCE, Status, Stop

MOST_TERMS = 400_000
"""Programmes with more (expert, GPU, count) terms are not built: no solver gets anywhere with them."""

Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(E,) least and most replicas of each expert."""


@dataclass(frozen=True)
class Model:
    """A programme for some layers of an instance.

    Parameters
    ----------
    rows
        Rows of the loads it covers; names carry ``l<layer id>_`` in front when there are several.
    scale
        Tokens that one unit of C stands for, per row.
    problem, variables
        The `pulp.LpProblem`, and its variables by name.
    """

    instance: PlacementInstance
    rows: tuple[int, ...]
    scale: tuple[float, ...]
    problem: Any
    variables: Mapping[str, Any]

    def to_pulp(self) -> tuple[Any, Mapping[str, Any]]:
        """The problem and its variables by name, to add rows of one's own; hand the values to `read_back`."""
        return self.problem, self.variables

    def prefix(self, row: int) -> str:
        """What stands before the names of a layer."""
        return "" if len(self.rows) == 1 else f"l{self.instance.layers[row]}_"


def build(
    instance: PlacementInstance,
    layer: int | None = None,
    *,
    counts: Counts | None = None,
    lower_bound: float = 0.0,
    scaled: bool = False,
) -> Model:
    """Write the programme of one layer, or of all.

    Parameters
    ----------
    layer
        Row of the loads; ``None``: every row, minimising the sum of their C.
    counts
        Least and most replicas of each expert, when more is known than 1 and Rbar.
    lower_bound
        Proven floor under C, in units of C.
    scaled
        Divide loads and K by the layer's ideal, as a solver should see them; otherwise C is in tokens.

    >>> problem, variables = build(PlacementInstance([[3, 1]], gpus=2, slots=2)).to_pulp()
    >>> sorted(variables)[:3]
    ['C', 'p_0_0_1', 'p_0_1_1']
    """
    from moeopt.backends import modelling

    rows = tuple(range(instance.num_layers)) if layer is None else (layer,)
    scale = tuple((float(instance.ideal[row]) or 1.0) if scaled else 1.0 for row in rows)
    variables: dict[str, Any] = {}
    model = Model(instance, rows, scale, modelling.new_problem("placement"), variables)
    tops = []
    for row, size in zip(rows, scale, strict=True):
        writer = _Writer(model, row, size)
        top = writer.variable("C", lower_bound, None)
        tops.append((top, 1.0))
        writer.hosting()
        if instance.split == "even":
            writer.even(counts or _all_counts(instance), top)
        else:
            writer.free(top)
    modelling.minimise(model.problem, modelling.total(tops))
    return model


def _all_counts(instance: PlacementInstance) -> Counts:
    ones = np.ones(instance.num_experts, dtype=np.int64)
    return ones, ones * bounds.most_replicas(instance)


class _Writer:
    """Writes the rows of one layer, in the names of the page."""

    def __init__(self, model: Model, row: int, scale: float) -> None:
        self.model, self.instance, self.row = model, model.instance, row
        self.before = model.prefix(row)
        self.experts, self.gpus = range(self.instance.num_experts), range(self.instance.num_gpus)
        self.loads = [float(load) / scale for load in self.instance.loads[row].tolist()]
        self.floor = float(self.instance.floor) / scale
        self.most = bounds.most_replicas(self.instance)

    def variable(self, name: str, low: float, up: float | None, *, whole: bool = False) -> Any:
        from moeopt.backends import modelling

        full = self.before + name
        self.model.variables[full] = modelling.variable(self.model.problem, full, low, up, whole=whole)  # type: ignore[index]
        return self.model.variables[full]

    def row_of(self, name: str, terms: list[tuple[Any, float]], sense: str, bound: float) -> None:
        from moeopt.backends import modelling

        modelling.constrain(self.model.problem, self.before + name, modelling.total(terms), sense, bound)

    def _widest(self, gpu: int) -> int:
        """U_g, the most replicas of one expert on a GPU."""
        return min(1 if self.instance.distinct else self.instance.slots[gpu], self.instance.slots[gpu])

    def hosting(self) -> None:
        """y, the slots, the groups, pins and prohibitions."""
        instance = self.instance
        allowed, pinned = allowed_pairs(instance), set(instance.pin)
        self.y = {
            (e, g): self.variable(
                f"y_{e}_{g}",
                1.0 if (e, g) in pinned else 0.0,
                float(self._widest(g)) if allowed[e, g] else 0.0,
                whole=True,
            )
            for e in self.experts
            for g in self.gpus
        }
        sense = "==" if instance.fill == "all" else "<="
        for g in self.gpus:
            self.row_of(f"slots_{g}", [(self.y[e, g], 1.0) for e in self.experts], sense, float(instance.slots[g]))
        if instance.hierarchical:
            self._groups()

    def _groups(self) -> None:
        instance = self.instance
        assert instance.groups is not None
        ids, nodes = sorted(set(instance.groups)), instance.node_ids
        u = {(q, n): self.variable(f"u_{q}_{n}", 0.0, 1.0, whole=True) for q in ids for n in nodes}
        for q in ids:
            self.row_of(f"home_{q}", [(u[q, n], 1.0) for n in nodes], "==", 1.0)
        for n in nodes:
            self.row_of(f"deal_{n}", [(u[q, n], 1.0) for q in ids], "==", len(ids) / len(nodes))
        for e in self.experts:
            for g in self.gpus:
                home = u[instance.groups[e], instance.node[g]]
                self.row_of(f"near_{e}_{g}", [(self.y[e, g], 1.0), (home, -float(self._widest(g)))], "<=", 0.0)

    def even(self, counts: Counts, top: Any) -> None:
        """z and p: one term for each expert, GPU and count."""
        instance = self.instance
        costs: dict[int, list[tuple[Any, float]]] = {g: [] for g in self.gpus}
        for e in self.experts:
            choices = range(int(counts[0][e]), min(int(counts[1][e]), self.most) + 1)
            z = {r: self.variable(f"z_{e}_{r}", 0.0, 1.0, whole=True) for r in choices}
            self.row_of(f"count_{e}", [(z[r], 1.0) for r in choices], "==", 1.0)
            p = {
                (g, r): self.variable(f"p_{e}_{g}_{r}", 0.0, float(min(self._widest(g), r)))
                for g in self.gpus
                for r in choices
            }
            for r in choices:
                self.row_of(f"copies_{e}_{r}", [*((p[g, r], 1.0) for g in self.gpus), (z[r], -float(r))], "==", 0.0)
                for g in self.gpus:
                    widest = float(min(self._widest(g), r))
                    self.row_of(f"link_{e}_{g}_{r}", [(p[g, r], 1.0), (z[r], -widest)], "<=", 0.0)
                    costs[g].append((p[g, r], self._piece(e, r)))
            for g in self.gpus:
                self.row_of(f"held_{e}_{g}", [(self.y[e, g], 1.0), *((p[g, r], -1.0) for r in choices)], "==", 0.0)
        for g in self.gpus:
            self.row_of(f"cost_{g}", [(top, instance.speed[g]), *((v, -c) for v, c in costs[g])], ">=", 0.0)

    def _piece(self, expert: int, count: int) -> float:
        if self.instance.floor_rule == "per_expert":
            return max(self.loads[expert], self.floor) / count
        return max(self.loads[expert] / count, self.floor)

    def free(self, top: Any) -> None:
        """x, and t where every replica has a floor."""
        instance = self.instance
        x = {(e, g): self.variable(f"x_{e}_{g}", 0.0, 1.0) for e in self.experts for g in self.gpus}
        for e in self.experts:
            self.row_of(f"shares_{e}", [(x[e, g], 1.0) for g in self.gpus], "==", 1.0)
            for g in self.gpus:
                self.row_of(f"host_{e}_{g}", [(x[e, g], 1.0), (self.y[e, g], -1.0)], "<=", 0.0)
        per_replica = instance.floor_rule == "per_replica" and self.floor > 0
        for g in self.gpus:
            terms: list[tuple[Any, float]] = [(top, instance.speed[g])]
            for e in self.experts:
                if not per_replica:
                    terms.append((x[e, g], -max(self.loads[e], self.floor)))
                    continue
                t = self.variable(f"t_{e}_{g}", 0.0, None)
                self.row_of(f"load_{e}_{g}", [(t, 1.0), (x[e, g], -self.loads[e])], ">=", 0.0)
                self.row_of(f"floor_{e}_{g}", [(t, 1.0), (self.y[e, g], -self.floor)], ">=", 0.0)
                terms.append((t, -1.0))
            self.row_of(f"cost_{g}", terms, ">=", 0.0)


def read_back(model: Model, values: Mapping[str, float]) -> Placement:
    """The plan that values of the variables describe, for the layers of the model.

    Replicas take the slots of their GPU in order of expert id. Nothing is checked but wholeness: the referee does that.
    """
    instance = model.instance
    held = np.full((len(model.rows), instance.num_slots), EMPTY, dtype=np.int64)
    shares: list[list[Share]] = []
    for place, row in enumerate(model.rows):
        before = model.prefix(row)
        mine: list[Share] = []
        for g in range(instance.num_gpus):
            slot = int(instance.slot_start[g])
            for e in range(instance.num_experts):
                copies = round(values[f"{before}y_{e}_{g}"])
                held[place, slot : slot + copies] = e
                slot += copies
                if copies and instance.split == "free":
                    mine.append((e, g, min(max(values[f"{before}x_{e}_{g}"], 0.0), 1.0)))
        shares.append(_whole(mine))
    return Placement.of(held, shares if instance.split == "free" else None)


def _whole(shares: list[Share]) -> list[Share]:
    """Scale each expert's shares to sum to 1: solvers leave errors of 1e-9."""
    total: dict[int, float] = {}
    for expert, _, share in shares:
        total[expert] = total.get(expert, 0.0) + share
    return [(expert, gpu, share / total[expert]) for expert, gpu, share in shares]


def start_values(model: Model, plan: Placement) -> dict[str, float]:
    """Values of the variables for a plan of the whole instance, to start a solver from."""
    instance = model.instance
    values = dict.fromkeys(model.variables, 0.0)
    costs = evaluate(instance, plan).gpu_cost
    for row, size in zip(model.rows, model.scale, strict=True):
        before = model.prefix(row)
        values[f"{before}C"] = float(costs[row].max()) / size
        filled = plan.slot_expert[row] != EMPTY
        pairs = list(zip(plan.slot_expert[row][filled].tolist(), instance.gpu_of_slot[filled].tolist(), strict=True))
        counts = np.bincount([e for e, _ in pairs], minlength=instance.num_experts)
        for e, g in pairs:
            values[f"{before}y_{e}_{g}"] += 1.0
            if instance.split == "even":
                values[f"{before}z_{e}_{counts[e]}"] = 1.0
                values[f"{before}p_{e}_{g}_{counts[e]}"] += 1.0
        for e, g, share in plan.shares[row] if plan.shares is not None else ():
            values[f"{before}x_{e}_{g}"] = share
            if f"{before}t_{e}_{g}" in values:
                load = float(instance.loads[row, e]) * share
                values[f"{before}t_{e}_{g}"] = max(load, float(instance.floor)) / size
        if instance.hierarchical and instance.groups is not None:
            for e, g in pairs:
                values[f"{before}u_{instance.groups[e]}_{instance.node[g]}"] = 1.0
    return values


def solve_exact(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Search first, then prove or improve layer by layer with a MILP solver in a child process."""
    gap = context.limits.gap or 0.0
    inner = replace(context, limits=replace(context.limits, gap=gap), on_progress=None)
    outcome = search.search(instance, inner)
    return prove(instance, context, outcome, gap)


def prove(instance: PlacementInstance, context: Context, outcome: Outcome[Placement], gap: float) -> Outcome[Placement]:
    """Run the programme on every layer whose gap is above `gap`, within the limits; the plan only gets better."""
    plan = outcome.plan
    assert plan is not None
    if instance.split == "free" and plan.shares is None:
        from moeopt.placement.shares import with_best_shares

        plan = with_best_shares(instance, plan)
    floors = list(outcome.bounds) if outcome.bounds is not None else bounds.cheap(instance)
    tops = [float(top) for top in evaluate(instance, plan).max_load]
    floors = [bounds.tighten(instance, floor, row, tops[row], gap) for row, floor in enumerate(floors)]
    run = _Proof(instance, context, plan, floors, tops, max(gap, CERTIFIED_TOLERANCE))
    run.run(outcome.stop)
    return replace(
        outcome,
        plan=run.plan,
        bounds=run.floors,
        stop=run.stop,
        iterations=outcome.iterations + run.nodes,
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
        tops: list[float],
        gap: float,
    ) -> None:
        self.instance, self.context, self.plan = instance, context, plan
        self.floors, self.tops, self.gap = floors, tops, gap
        self.stop, self.nodes = Stop.FINISHED, 0
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}

    def open_rows(self) -> list[int]:
        """Layers whose gap is above the limit."""
        return [
            row
            for row, (top, floor) in enumerate(zip(self.tops, self.floors, strict=True))
            if top - float(floor.value) > self.gap * top
        ]

    def run(self, searched: Stop) -> None:
        """Solve every open layer, or say why not."""
        from moeopt.backends import Worker

        rows = self.open_rows()
        if searched is Stop.INTERRUPTED:
            self.stop = searched
            return
        if rows and self.context.deadline.passed():
            self.stop = Stop.TIME
            self.notes.append("the time was up before the exact programme began: the plan is the search's (heuristic)")
            return
        with Worker() as worker:
            for place, row in enumerate(rows):
                if self.context.deadline.passed():
                    self.stop = Stop.TIME
                    self.notes.append("the time was up: layers not proved have the search's plan (heuristic)")
                    return
                self._layer(row, len(rows) - place, worker)
                self.context.report(place + 1, len(rows))
                if self.stop is Stop.INTERRUPTED:
                    return

    def _layer(self, row: int, left: int, worker: Any) -> None:
        from moeopt.backends import LinearModel, solve_model

        if self._listed(row):
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
        scale = float(self.instance.ideal[row]) or 1.0
        floor = float(self.floors[row].value) / scale
        model = build(self.instance, row, counts=counts, lower_bound=floor * (1 - 1e-12), scaled=True)
        linear = LinearModel.from_pulp(model.problem)
        first = start_values(model, self.plan)
        limits = self.context.limits
        time_s = None
        if self.context.deadline.limited:
            time_s = max(self.context.deadline.remaining_s() / left, 1e-3)
        answer = solve_model(
            linear,
            limits=replace(limits, time_s=time_s, gap=limits.gap or 0.0),
            seed=self.context.seed % 2**31,
            start=[first[name] for name in linear.columns],
            bound=floor,
            worker=worker,
        )
        self.nodes += answer.nodes or 0
        self.notes.extend(answer.notes)
        self.versions["solver"] = answer.backend
        if answer.values is not None:
            self._take(row, read_back(model, dict(zip(linear.columns, answer.values.tolist(), strict=True))))
        if answer.bound is not None:
            self._bound(row, min(answer.bound * scale, self.tops[row]), answer.backend, answer.status)
        if answer.status is not Status.OPTIMAL and self.stop not in (Stop.TIME, Stop.INTERRUPTED):
            self.stop = answer.stop
        if answer.stop is Stop.INTERRUPTED:
            self.stop = Stop.INTERRUPTED

    def _listed(self, row: int) -> bool:
        """Settle a small layer by listing all its plans; whether that was possible."""
        top = evaluate(self.instance, self.plan).max_load[row]
        answer = enumeration.optimum(self.instance, row, bounds.most_replicas(self.instance), top)
        if answer is None:
            return False
        value, held = answer
        if held is not None:
            self._take(row, Placement.of(held))
        certificate = {"kind": "enumeration", "value": str(value)}
        self.floors[row] = LayerBound("enumeration", value, certificate)
        return True

    def _useful_counts(self, row: int) -> Counts:
        """Counts that a plan at least as good as the incumbent can have: pieces must fit under it."""
        instance = self.instance
        ones = np.ones(instance.num_experts, dtype=np.int64)
        most = bounds.most_replicas(instance)
        if instance.split == "free":
            return ones, ones  # free split has no counts: one term for each expert and GPU
        limit = self.tops[row] * max(instance.speed)
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
        top = float(evaluate(self.instance, better).max_load[row])
        if top < self.tops[row]:
            self.plan, self.tops[row] = better, top

    def _bound(self, row: int, value: float, backend: str, status: Status) -> None:
        if value > float(self.floors[row].value):
            certificate = {"kind": "solver", "backend": backend, "claim": str(status), "value": value}
            self.floors[row] = LayerBound("solver", Fraction(value), certificate)


AUTO_SIZE = 32
"""`auto` hands layers with at most this many (expert, GPU) pairs to the exact programme."""
AUTO_NODES = 1_000
"""Nodes per layer that `auto` allows it, so that the answer does not depend on the machine."""


def solve_auto(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Search to a certified gap (0.1 % by default); small layers that it leaves open go to the exact programme."""
    outcome = search.search(instance, context)
    if instance.num_experts * instance.num_gpus > AUTO_SIZE or outcome.stop in (Stop.INTERRUPTED, Stop.TIME):
        return outcome
    limits = context.limits
    nodes = AUTO_NODES if limits.nodes is None else limits.nodes
    gap = search.DEFAULT_GAP if limits.gap is None else limits.gap
    inner = replace(context, limits=replace(limits, nodes=nodes, gap=gap))
    return prove(instance, inner, outcome, gap)
