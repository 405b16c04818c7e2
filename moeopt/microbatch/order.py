"""The order of service on small sizes: a disjunctive programme proves first come first served best, or beats it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from moeopt.errors import PlanError
from moeopt.microbatch import bounds, verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import StageGraph
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.simulate import Schedule
from moeopt.registry import Context
from moeopt.result import Status, Stop

if TYPE_CHECKING:
    from moeopt.backends import Worker

MOST_PAIRS = 200
"""Pairs of items whose order is open, beyond which no programme is written: from there on proofs take minutes."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class OrderModel:
    """The programme of one candidate: starts ``s_i``, the end T, and ``y_i_k`` = 1 where item i goes before item k."""

    graph: StageGraph
    pairs: tuple[Pair, ...]
    reach: tuple[frozenset[int], ...]
    scale: float
    problem: Any
    variables: Mapping[str, Any]


def open_pairs(graph: StageGraph) -> tuple[tuple[Pair, ...], tuple[frozenset[int], ...]]:
    """Pairs on one resource that precedence leaves open, and what each item leads to."""
    reach: list[frozenset[int]] = [frozenset()] * graph.num_items
    for item in reversed(range(graph.num_items)):  # items are numbered along the work
        reach[item] = frozenset(graph.after[item]).union(*(reach[other] for other in graph.after[item]))
    pairs = [
        (one, other)
        for row in graph.turns
        for place, one in enumerate(row)
        for other in row[place + 1 :]
        if other not in reach[one] and one not in reach[other]
    ]
    return tuple(pairs), tuple(reach)


def build(
    graph: StageGraph, horizon: Any, *, lower_bound: Any = 0, alike: bool = False, scaled: bool = False
) -> OrderModel:
    """Write the programme.

    Parameters
    ----------
    horizon
        The end of some schedule, in the unit of the durations: nothing later is of interest.
    lower_bound
        A proven floor under T.
    alike
        Whether micro-batches can be exchanged: their order in the first stage is then fixed.
    scaled
        Divide all times by the horizon, as a solver should see them.
    """
    from moeopt.backends import modelling

    pairs, reach = open_pairs(graph)
    scale = float(horizon) if scaled and horizon else 1.0
    problem = modelling.new_problem("order")
    top = float(horizon) / scale
    times = [float(Fraction(time)) / scale for time in graph.durations]
    found = {"T": modelling.variable(problem, "T", float(lower_bound) / scale, top)}
    for item, time in enumerate(times):
        found[f"s_{item}"] = modelling.variable(problem, f"s_{item}", 0.0, max(top - time, 0.0))
    modelling.minimise(problem, modelling.total([(found["T"], 1.0)]))
    for item, row in enumerate(graph.after):
        for other in row:
            terms = [(found[f"s_{other}"], 1.0), (found[f"s_{item}"], -1.0)]
            modelling.constrain(problem, f"after_{item}_{other}", modelling.total(terms), ">=", times[item])
        if not row:
            terms = [(found["T"], 1.0), (found[f"s_{item}"], -1.0)]
            modelling.constrain(problem, f"end_{item}", modelling.total(terms), ">=", times[item])
    for one, other in pairs:
        first = alike and graph.place(one)[:2] == graph.place(other)[:2] == (0, 0)
        name = f"y_{one}_{other}"
        found[name] = modelling.variable(problem, name, 1.0 if first else 0.0, 1.0, whole=True)
        ahead = [(found[f"s_{other}"], 1.0), (found[f"s_{one}"], -1.0), (found[name], -top)]
        modelling.constrain(problem, f"ahead_{one}_{other}", modelling.total(ahead), ">=", times[one] - top)
        behind = [(found[f"s_{one}"], 1.0), (found[f"s_{other}"], -1.0), (found[name], top)]
        modelling.constrain(problem, f"behind_{one}_{other}", modelling.total(behind), ">=", times[other])
    return OrderModel(graph, pairs, reach, scale, problem, found)


def read_back(model: OrderModel, values: Mapping[str, float]) -> tuple[tuple[int, ...], ...]:
    """The sequences: an item's place is the number of items on its resource that go before it."""
    before = dict.fromkeys(range(model.graph.num_items), 0)
    for row in model.graph.turns:
        for item in row:
            before[item] += sum(1 for other in row if item in model.reach[other])
    for one, other in model.pairs:
        before[other if values[f"y_{one}_{other}"] > 0.5 else one] += 1
    return tuple(tuple(sorted(row, key=lambda item: (before[item], item))) for row in model.graph.turns)


def start_values(model: OrderModel, schedule: Schedule) -> dict[str, float]:
    """Values of the variables for a schedule."""
    values = {"T": float(schedule.makespan) / model.scale}
    values |= {f"s_{item}": float(start) / model.scale for item, start in enumerate(schedule.start)}
    place = {item: rank for row in schedule.sequences for rank, item in enumerate(row)}
    values |= {f"y_{one}_{other}": float(place[one] < place[other]) for one, other in model.pairs}
    return values


class Search:
    """Candidates one after another; keeps the best plan, and what was claimed about each candidate."""

    def __init__(
        self, instance: MicrobatchInstance, context: Context, worker: Worker, plan: MicrobatchPlan | None
    ) -> None:
        self.instance, self.context, self.worker, self.plan = instance, context, worker, plan
        self.best = None if plan is None else verify.evaluate(instance, plan).objective
        self.claims: dict[Candidate, Fraction] = {}
        self.large: list[Candidate] = []
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}
        self.stop = Stop.FINISHED

    def said(self) -> list[str]:
        """Notes on everything that happened."""
        if not self.large:
            return self.notes
        one = self.large[0]
        note = (
            f"the order of {len(self.large)} candidates was not searched (m = {one.m}, batch {one.batch}, ...): "
            f"more than {MOST_PAIRS} pairs are open"
        )
        return [*self.notes, note]

    def candidate(self, candidate: Candidate) -> None:
        """Search the order of one candidate."""
        from moeopt.backends import LinearModel, solve_model
        from moeopt.backends import read_back as values_of

        plan = MicrobatchPlan(candidate.m, candidate.batch)
        if self.plan is not None and (self.plan.m, self.plan.batch) == (plan.m, plan.batch):
            plan = self.plan  # the best order so far
        known, ticks = verify.schedule(self.instance, plan)
        graph = known.graph
        if len(open_pairs(graph)[0]) > MOST_PAIRS:
            self.large.append(candidate)
            return
        floor = bounds.bound(self.instance, candidate).seconds * ticks
        alike = len(set(candidate.sizes)) == 1
        model = build(graph, known.makespan, lower_bound=floor, alike=alike, scaled=True)
        linear = LinearModel.from_pulp(model.problem)
        first = start_values(model, known)
        left = max(self.context.deadline.remaining_s(), 1e-3) if self.context.deadline.limited else None
        answer = solve_model(
            linear,
            limits=replace(self.context.limits, time_s=left, gap=0.0),
            seed=self.context.seed % 2**31,
            start=[first[name] for name in linear.columns],
            bound=float(floor) / model.scale,
            worker=self.worker,
        )
        self.notes += [note for note in answer.notes if note != "the answer is the given start"]
        self.versions["solver"] = answer.backend
        if answer.status is not Status.OPTIMAL:
            self.stop = answer.stop
        done = Fraction(known.makespan) / ticks
        if answer.values is not None:
            sequences = read_back(model, values_of(linear, answer.values))
            done = min(done, self._take(MicrobatchPlan(candidate.m, candidate.batch, sequences), done))
        if answer.bound is not None:
            self.claims[candidate] = min(Fraction(answer.bound) * Fraction(model.scale) / ticks, done)

    def _take(self, plan: MicrobatchPlan, known: Fraction) -> Fraction:
        """Take the plan over if the referee finds it better; its time, or the known one where it is no plan."""
        try:
            done, ticks = verify.schedule(self.instance, plan)
            time = Fraction(done.makespan) / ticks
            if time < known and (
                self.best is None or verify.worth(self.instance, Candidate(plan.m, plan.batch), time) < self.best
            ):
                self.best = verify.evaluate(self.instance, plan).objective
                self.plan = plan
        except PlanError as error:
            self.notes.append(f"an order that the solver gave is refused: {error}")
            return known
        return time
