"""Exact methods: the programme over the candidates, and on small sizes the order of service of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from moeopt.microbatch import order, verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.heuristics import search, sweep
from moeopt.microbatch.heuristics.sweep import SweepRow
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.registry import Context, Outcome
from moeopt.result import Status, Stop

MOST_ORDERS = 32
"""Candidates whose order is searched, the most promising first."""


@dataclass(frozen=True)
class Model:
    """The programme over candidates of ``models/microbatch.md``.

    Parameters
    ----------
    rows
        The candidates with their times.
    scale
        Seconds (or seconds per token) that one unit of W stands for, and seconds of one unit of T.
    problem, variables
        The `pulp.LpProblem`, and its variables by name.
    """

    rows: tuple[SweepRow, ...]
    scale: tuple[float, float]
    problem: Any
    variables: Mapping[str, Any]

    def to_pulp(self) -> tuple[Any, Mapping[str, Any]]:
        """The problem and its variables by name, to add rows of one's own; hand the values to `read_back`."""
        return self.problem, self.variables


def build(instance: MicrobatchInstance, *, rows: Sequence[SweepRow] | None = None, scaled: bool = False) -> Model:
    """Write the programme: one binary a candidate, its time as tabulated.

    Parameters
    ----------
    rows
        Times that are known already.
    scaled
        Divide times and what is minimised by their least value, as a solver should see them.

    >>> times = {"attention": 10, "dispatch": 4, "experts": 10}
    >>> problem, variables = build(MicrobatchInstance(times, layers=32, m=[1, 3])).to_pulp()
    >>> sorted(variables)
    ['T', 'W', 'z_1_1', 'z_3_3']
    """
    from moeopt.backends import modelling

    listed = tuple(sweep.table(instance) if rows is None else rows)
    worths = [float(verify.worth(instance, row.candidate, row.time)) for row in listed]
    times = [float(row.time) for row in listed]
    unit, second = (min(filter(None, worths), default=1.0), min(filter(None, times), default=1.0))
    scale = (unit, second) if scaled else (1.0, 1.0)
    problem = modelling.new_problem("microbatch")
    found = {name: modelling.variable(problem, name, 0.0, None) for name in ("W", "T")}
    z = []
    for row in listed:
        name = f"z_{row.candidate.m}_{row.candidate.batch}"
        z.append(modelling.variable(problem, name, 0.0, 0.0 if row.why_not else 1.0, whole=True))
        found[name] = z[-1]
    modelling.minimise(problem, modelling.total([(found["W"], 1.0)]))
    modelling.constrain(problem, "choose", modelling.total((one, 1.0) for one in z), "==", 1.0)
    for name, column, values, size in (("worth", "W", worths, scale[0]), ("time", "T", times, scale[1])):
        terms = [(found[column], 1.0), *((one, -value / size) for one, value in zip(z, values, strict=True))]
        modelling.constrain(problem, name, modelling.total(terms), "==", 0.0)
    if instance.tbt_slo_s is not None:
        terms = [(found["T"], 1.0)]
        modelling.constrain(problem, "tbt", modelling.total(terms), "<=", instance.tbt_slo_s / scale[1])
    if instance.memory_bytes is not None and instance.bytes_per_sequence is not None:
        part = instance.bytes_per_sequence / instance.memory_bytes
        terms = [(one, row.candidate.batch * part) for one, row in zip(z, listed, strict=True)]
        modelling.constrain(problem, "memory", modelling.total(terms), "<=", 1.0)
    return Model(listed, scale, problem, found)


def read_back(model: Model, values: Mapping[str, float]) -> MicrobatchPlan:
    """The plan from values of the variables."""
    row = max(model.rows, key=lambda one: values[f"z_{one.candidate.m}_{one.candidate.batch}"])
    return MicrobatchPlan(row.candidate.m, row.candidate.batch)


def start_values(model: Model, plan: MicrobatchPlan, instance: MicrobatchInstance) -> dict[str, float]:
    """Values of the variables for a plan that is first come first served."""
    values = dict.fromkeys(model.variables, 0.0)
    row = next(one for one in model.rows if (one.candidate.m, one.candidate.batch) == (plan.m, plan.batch))
    values[f"z_{plan.m}_{plan.batch}"] = 1.0
    values["W"] = float(verify.worth(instance, row.candidate, row.time)) / model.scale[0]
    values["T"] = float(row.time) / model.scale[1]
    return values


def solve_exact(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """Choose by the programme, then search the order of every candidate that could still be better."""
    from moeopt.backends import LinearModel, Worker, solve_model

    outcome = search.search(instance, context)
    rows: list[SweepRow] = outcome.details["rows"]
    notes, versions, stop = list(outcome.notes), dict[str, str](), outcome.stop
    claims: dict[Candidate, Fraction] = {}
    try:
        with Worker() as worker:
            first = next(iter(sweep.ranked(instance, rows)), None)
            if first is not None and stop is Stop.FINISHED and not context.deadline.passed():
                model = build(instance, rows=rows, scaled=True)
                linear = LinearModel.from_pulp(model.problem)
                start = start_values(model, first.plan, instance)
                answer = solve_model(
                    linear,
                    limits=replace(context.limits, time_s=_left(context), gap=0.0),
                    seed=context.seed % 2**31,
                    start=[start[name] for name in linear.columns],
                    worker=worker,
                )
                notes += answer.notes
                versions["solver"] = answer.backend
                if answer.status is not Status.OPTIMAL:
                    stop = answer.stop
            run = order.Search(instance, context, worker, rows, claims)
            for candidate in search.promising(instance, rows)[:MOST_ORDERS]:
                if stop is not Stop.FINISHED or context.deadline.passed():
                    break
                run.candidate(candidate)
            stop = run.stop if stop is Stop.FINISHED else stop
            notes += run.said()
            versions |= run.versions
    except KeyboardInterrupt:
        stop = Stop.INTERRUPTED
    if stop is Stop.FINISHED and context.deadline.passed():
        stop = Stop.INTERRUPTED if context.deadline.stopped() else Stop.TIME
    found = replace(outcome, stop=stop, notes=list(dict.fromkeys(notes)), versions=versions)
    found.bounds = claims  # type: ignore[assignment]
    return search.chosen(instance, found, rows)


def _left(context: Context) -> float | None:
    return max(context.deadline.remaining_s(), 1e-3) if context.deadline.limited else None
