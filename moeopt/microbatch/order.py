"""The order of service on small sizes: a disjunctive programme proves first come first served best, or beats it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from moeopt.errors import PlanError
from moeopt.microbatch import bounds, verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import SYNC, StageGraph
from moeopt.microbatch.heuristics import sweep
from moeopt.microbatch.heuristics.sweep import SweepRow
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


def num_open_pairs(instance: MicrobatchInstance, candidate: Candidate) -> int:
    """How many pairs are open, counted without writing them down."""
    stages: dict[str, int] = {}
    for stage in instance.kind.build_stages:
        stages[stage.resource] = stages.get(stage.resource, 0) + 1
    layers = instance.layers
    pairs = candidate.m * (candidate.m - 1) // 2
    if SYNC in instance.kind.symbols:  # items of different layers wait for one another
        return layers * pairs * sum(num * num for num in stages.values())
    return pairs * sum((layers * num) ** 2 for num in stages.values())


class Search:
    """Candidates one after another; keeps the best order of each in its row, and what was claimed about it."""

    def __init__(
        self,
        instance: MicrobatchInstance,
        context: Context,
        worker: Worker,
        rows: list[SweepRow],
        claims: dict[Candidate, Fraction],
    ) -> None:
        self.instance, self.context, self.worker, self.rows, self.claims = instance, context, worker, rows, claims
        self.large: list[Candidate] = []
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}
        self.stop = Stop.FINISHED

    def said(self) -> list[str]:
        """Notes on everything that happened."""
        if not self.large:
            return self.notes
        one, many = self.large[0], len(self.large)
        which = f"m = {one.m}, batch {one.batch}" + (", ..." if many > 1 else "")
        what = f"the order of {many} {'candidate' if many == 1 else 'candidates'} was not searched ({which})"
        return [*self.notes, f"{what}: more than {MOST_PAIRS} pairs are open"]

    def candidate(self, candidate: Candidate) -> None:
        """Search the order of one candidate."""
        from moeopt.backends import LinearModel, solve_model
        from moeopt.backends import read_back as values_of

        if num_open_pairs(self.instance, candidate) > MOST_PAIRS:
            self.large.append(candidate)
            return
        place = next(place for place, row in enumerate(self.rows) if row.candidate == candidate)
        known, ticks = verify.schedule(self.instance, self.rows[place].plan)
        graph = known.graph
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
        if answer.values is not None:
            self._take(place, read_back(model, values_of(linear, answer.values)))
        if answer.bound is not None:
            claim = Fraction(answer.bound) * Fraction(model.scale) / ticks
            self.claims[candidate] = min(claim, self.rows[place].time)

    def _take(self, place: int, sequences: tuple[tuple[int, ...], ...]) -> None:
        """Put the order into its row if the referee finds it better."""
        row = self.rows[place]
        try:
            plan = MicrobatchPlan(row.candidate.m, row.candidate.batch, sequences)
            done, ticks = verify.schedule(self.instance, plan)
        except PlanError as error:
            self.notes.append(f"an order that the solver gave is refused: {error}")
            return
        self.rows[place] = sweep.ordered(self.instance, row, Fraction(done.makespan) / ticks, sequences)
