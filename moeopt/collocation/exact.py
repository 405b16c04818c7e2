"""The mixed-integer programme of ``models/collocation.md``: tiny sizes, without replicas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.backends.modelling import constrain, minimise, new_problem, total, variable
from moeopt.collocation import bounds
from moeopt.collocation.bounds import LayerBound
from moeopt.collocation.heuristics import fill, nets, search
from moeopt.collocation.heuristics.repair import lowered
from moeopt.collocation.heuristics.starts import rooms
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of
from moeopt.collocation.verify import count, objective_of
from moeopt.collocation.verify import value as layer_value
from moeopt.kernels.connectivity import Net
from moeopt.limits import Deadline
from moeopt.registry import Context, Outcome
from moeopt.result import Status, Stop

Ints = NDArray[np.int64]

MOST_TOUCHES = 20_000
"""Programmes with more (row, unit) variables are not built: no solver gets anywhere with them."""

NO_REPLICAS = (
    "the programme has no replicas, and slots are to spare: its plan may be the best without them, its bound is none "
    "of plans with them and is not taken"
)


@dataclass(frozen=True)
class Model:
    """A programme for one layer: the `pulp.LpProblem`, its variables by name, and what one unit of its objective is."""

    instance: CollocationInstance
    row: int
    problem: Any
    variables: dict[str, Any]
    scale: float


def no_programme(instance: CollocationInstance) -> str | None:
    """Why there is no programme for an instance."""
    if instance.num_slots > instance.num_experts and instance.fill == "all":
        return "it has no replicas; slots = experts, or fill = at_most, has a programme"
    if instance.objective == "time":
        return "it counts copies, not seconds; objective = copies has a programme"
    return None


def build(instance: CollocationInstance, row: int) -> Model:
    """The programme of one layer, in the names of the model's page; objective: copies, or tokens of the busiest GPU."""
    net, room = nets.layer_net(instance, row), rooms(instance)
    scale = float(net.load.sum() if instance.objective == "tokens" else net.weight.sum())
    problem = new_problem(f"collocation_l{instance.layers[row]}")
    held: dict[str, Any] = {}
    units, experts = range(len(room)), range(instance.num_experts)

    def add(name: str, *, whole: bool) -> Any:
        held[name] = variable(problem, name, 0, 1, whole=whole)
        return held[name]

    x = [[add(f"x_{e}_{u}", whole=True) for u in units] for e in experts]
    for e in experts:
        constrain(problem, f"place_{e}", total((x[e][u], 1.0) for u in units), "==", 1)
    for u in units:
        constrain(problem, f"slots_{u}", total((x[e][u], 1.0) for e in experts), "<=", int(room[u]))
        if np.isfinite(net.cap[u]):
            loads = total((x[e][u], float(net.load[e])) for e in experts)
            constrain(problem, f"load_{u}", loads, "<=", float(net.cap[u]))
    if instance.objective == "tokens":
        top = variable(problem, "C", 0, None)
        held["C"] = top
        for u in units:
            loads = [(x[e][u], float(net.load[e]) / scale) for e in experts]
            constrain(problem, f"busiest_{u}", total([(top, 1.0), *((v, -w) for v, w in loads)]), ">=", 0)
        minimise(problem, total([(top, 1.0)]))
        return Model(instance, row, problem, held, scale)
    terms = []
    for t in range(len(net.weight)):
        for u in units:
            if net.home[t] == u:
                continue
            a = add(f"a_{t}_{u}", whole=False)
            terms.append((a, float(net.price[u]) * int(net.weight[t]) / scale))
            for e in net.member[net.start[t] : net.start[t + 1]]:
                constrain(problem, f"touch_{t}_{u}_{e}", total([(a, 1.0), (x[e][u], -1.0)]), ">=", 0)
    minimise(problem, total(terms))
    return Model(instance, row, problem, held, scale)


def _buildable(net: Net) -> bool:
    return len(net.weight) * len(net.price) <= MOST_TOUCHES


def read_back(model: Model, values: dict[str, float]) -> Ints:
    """(S,) experts in slots out of the values of the variables."""
    instance = model.instance
    units = range(len(rooms(instance)))
    unit = np.array([
        max(units, key=lambda u: values.get(f"x_{e}_{u}", 0.0)) for e in range(instance.num_experts)
    ])  # fmt: skip
    loads = loads_of(instance, model.row)
    return fill.into_slots(instance, unit, loads, nets.search_units(instance))


def solve_exact(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Search first, then prove or improve layer by layer with a MILP solver in a child process."""
    from moeopt.backends import LinearModel, Worker, solve_model

    outcome = search.search(instance, replace(context, on_progress=None))
    assert outcome.plan is not None
    held = outcome.plan.slot_expert.astype(np.int64)
    deadline = context.deadline.rest()
    sought = any(_buildable(nets.layer_net(instance, row)) for row in range(instance.num_layers))
    until = deadline.share(2) if sought else deadline
    parts = range(instance.num_layers, 0, -1)
    floors = [bounds.bound(instance, row, until.share(left)) for row, left in enumerate(parts)]
    notes, stop = list(outcome.notes), Stop.FINISHED
    values: list[Fraction | None] = []
    for row, found in enumerate(held):
        held[row], value = _kept(instance, row, found, deadline)
        values.append(value)
    with Worker() as worker:
        for row, value in enumerate(values):
            if value is not None and floors[row].value >= value:
                continue
            if deadline.passed():
                stop = Stop.TIME
                break
            net = nets.layer_net(instance, row)
            if not _buildable(net):
                notes.append(f"the programme is not built for layers with more than {MOST_TOUCHES:,} (set, unit) pairs")
                stop = Stop.TIME if outcome.stop is Stop.TIME else Stop.ITERATIONS
                continue
            model = build(instance, row)
            linear = LinearModel.from_pulp(model.problem)
            left = deadline.remaining_s()
            limits = replace(context.limits, time_s=left if deadline.limited else None, gap=0.0)
            answer = solve_model(linear, limits=limits, seed=context.seed, worker=worker)
            if answer.values is not None:
                named = dict(zip(linear.columns, answer.values.tolist(), strict=True))
                found, better = _kept(instance, row, read_back(model, named), deadline)
                if better is not None and (value is None or better < value):
                    held[row], values[row] = found, better
            if _speaks_for_replicas(instance):
                offset = int(net.weight.sum()) if instance.pairs is not None else 0
                floors[row] = _claimed(floors[row], answer.bound, model.scale, offset, values[row])
            else:
                notes.append(NO_REPLICAS)
            if answer.status is not Status.OPTIMAL:
                stop = answer.stop
            if answer.stop is Stop.INTERRUPTED:  # the whole work, not this layer alone
                break
    above = [str(layer) for layer, value in zip(instance.layers, values, strict=True) if value is None]
    if above:
        notes.append(
            f"no plan within max_imbalance = {instance.max_imbalance:g} was found for layers {', '.join(above)}"
        )
    plan = None if above else Collocation.of(held)
    return replace(outcome, plan=plan, bounds=floors, stop=stop, notes=notes)


def _kept(instance: CollocationInstance, row: int, held: Ints, deadline: Deadline) -> tuple[Ints, Fraction | None]:
    """A layer, brought under the load cap where it is above, and its objective; ``None`` where that fails.

    The programme caps units, of which a GPU may still have too much.
    """
    if instance.max_imbalance is not None:
        held, ratio = lowered(instance, row, held, deadline)
        if ratio > instance.max_imbalance * (1 + 1e-12):
            return held, None
    return held, objective_of(instance, layer_value(instance, count(instance, row, held)))


def _speaks_for_replicas(instance: CollocationInstance) -> bool:
    """Whether no plan with replicas in spare slots is below what the programme, which has none, proves.

    Pairs apart count alike from every source GPU, and from each of them an expert is in one unit.
    """
    spare = instance.num_slots > instance.num_experts
    return not spare or (instance.pairs is not None and instance.max_imbalance is None)


def _claimed(floor: LayerBound, bound: float | None, scale: float, offset: int, value: Fraction | None) -> LayerBound:
    """The solver's bound, where it is above ours."""
    if bound is None or bound * scale - offset <= float(floor.value):
        return floor
    claim = Fraction(bound * scale - offset)
    if value is not None and (claim > value or abs(claim - value) <= abs(value) / 10**6):
        claim = value
    certificate = {"layer": floor.certificate["layer"], "kind": "solver", "value": str(claim)}
    return LayerBound(claim, floor.touched, certificate)
