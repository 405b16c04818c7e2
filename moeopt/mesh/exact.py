"""The programme of ``models/mesh.md``: whole replicas by a MILP solver, begun with the best baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from moeopt.errors import MoeoptError
from moeopt.mesh.covering import Counts
from moeopt.mesh.dual import rounded_up
from moeopt.mesh.heuristics.per_price import at_once, per_price, theta_of
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import PHASES, Market, market_of
from moeopt.mesh.plan import MeshPlan, plan_of
from moeopt.mesh.purchase import cost_of
from moeopt.mesh.verify import wanted_rate
from moeopt.registry import Context, Outcome
from moeopt.result import Status, Stop

if TYPE_CHECKING:
    from moeopt.backends import Worker

TIE = 1e-9
"""Part of what is served that the second stage may give up to save GPUs: rounding of the first."""


@dataclass(frozen=True)
class Model:
    """A programme of purchase.

    Parameters
    ----------
    market
        Its offers are the columns.
    scale
        What one unit of its objective is.
    problem, variables
        The `pulp.LpProblem`, and its variables by name.
    """

    market: Market
    scale: float
    problem: Any
    variables: Mapping[str, Any]

    def to_pulp(self) -> tuple[Any, Mapping[str, Any]]:
        """The problem and its variables by name, to add rows of one's own; hand the values to `read_back`."""
        return self.problem, self.variables


def build(instance: MeshInstance) -> Model:
    """The programme of an instance; with ``time``, fewest GPUs within its stock, all configurations allowed."""
    return write(market_of(instance).pruned, theta=instance.objective == "goodput")


def write(market: Market, *, theta: bool = False, least: float | None = None, gpus: bool = False) -> Model:
    """Write the programme of a market.

    Parameters
    ----------
    theta
        Serve the most with the stock there is, else all that is wanted at the least cost.
    least
        Part of what is wanted that has to be served; ``None``: all of it.
    gpus
        Count GPUs whatever they cost.
    """
    from moeopt.backends import modelling

    problem = modelling.new_problem("mesh")
    found = {
        f"n_{offer.place}": modelling.variable(problem, f"n_{offer.place}", 0.0, None, whole=True)
        for offer in market.offers
    }
    scale = 1.0
    if theta:
        found["theta"] = modelling.variable(problem, "theta", 0.0, None)
        modelling.minimise(problem, modelling.total([(found["theta"], -1.0)]))
    else:
        costs = {offer.place: float(offer.total_gpus if gpus else offer.cost) for offer in market.offers}
        scale = max(costs.values(), default=1.0) or 1.0
        terms = [(found[f"n_{place}"], cost / scale) for place, cost in costs.items()]
        modelling.minimise(problem, modelling.total(terms))
    for demand, phase in market.rows:
        mine = [offer for offer in market.offers if offer.demand == demand and offer.shares[phase]]
        terms = [(found[f"n_{offer.place}"], float(offer.shares[phase])) for offer in mine]
        if theta:
            terms.append((found["theta"], -1.0))
        bound = 0.0 if theta else 1.0 if least is None else least
        modelling.constrain(problem, f"serve_{demand}_{PHASES[phase]}", modelling.total(terms), ">=", bound)
    for kind, most in enumerate(market.stock):
        if most is not None:
            terms = [
                (found[f"n_{offer.place}"], float(offer.gpus[kind])) for offer in market.offers if offer.gpus[kind]
            ]
            modelling.constrain(problem, f"stock_{kind}", modelling.total(terms), "<=", float(most))
    return Model(market, scale, problem, found)


def read_back(model: Model, values: Mapping[str, float]) -> Counts:
    """Replicas by place from values of the variables."""
    counts = {offer.place: round(values[f"n_{offer.place}"]) for offer in model.market.offers}
    return {place: count for place, count in counts.items() if count}


_AHEAD: ContextVar[Worker | None] = ContextVar("_AHEAD", default=None)


@contextmanager
def started_ahead(instance: MeshInstance, method: str) -> Iterator[None]:
    """Let the solver's process start while configurations are enumerated, where it will hardly be done without.

    A table of what several types of GPU serve is too large where no stock bounds them (`moeopt.mesh.purchase`).
    """
    several = len(instance.gpus) > 1 and any(gpu.stock is None for gpu in instance.gpus)
    if method not in ("auto", "exact") or not several or instance.configs is not None:
        yield
        return
    from moeopt.backends import Worker

    with Worker() as worker:
        with suppress(MoeoptError, OSError):  # whoever solves a model says what is wrong
            worker.start()
        token = _AHEAD.set(worker)
        try:
            yield
        finally:
            _AHEAD.reset(token)


class _Solver:
    """MILPs one after another in one child process, within one deadline."""

    def __init__(self, context: Context, worker: Any) -> None:
        self.context, self.worker = context, worker
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}
        self.stop = Stop.FINISHED

    def run(self, model: Model, start: Counts | None) -> tuple[Status, Counts | None, float | None]:
        """Status, replicas and the bound that the solver claims, in units of the model's objective."""
        from moeopt.backends import LinearModel, solve_model

        linear = LinearModel.from_pulp(model.problem)
        first = None
        if start is not None:
            first = [_start(model, start, name) for name in linear.columns]
        left = max(self.context.deadline.remaining_s(), 1e-3) if self.context.deadline.limited else None
        limits = replace(self.context.limits, time_s=left, gap=0.0)
        answer = solve_model(linear, limits=limits, seed=self.context.seed % 2**31, start=first, worker=self.worker)
        self.notes += answer.notes
        self.versions["solver"] = answer.backend
        if answer.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            self.stop = answer.stop
        counts = None
        if answer.values is not None:
            counts = read_back(model, dict(zip(linear.columns, answer.values.tolist(), strict=True)))
        return answer.status, counts, None if answer.bound is None else answer.bound * model.scale


def _start(model: Model, counts: Counts, name: str) -> float:
    if name == "theta":
        return float(theta_of(model.market, counts)) * (1 - 1e-12)
    return float(counts.get(int(name[2:]), 0))


def solve_exact(instance: MeshInstance, context: Context) -> Outcome[MeshPlan]:
    """Solve the programme, then take fewest GPUs among plans of that value."""
    from moeopt.backends import Worker

    market = market_of(instance).pruned
    choose: Callable[..., tuple[Counts | None, Fraction | None]] = {
        "goodput": _goodput,
        "time": _time,
    }.get(instance.objective, _cost)
    ahead = _AHEAD.get()
    with Worker() if ahead is None else nullcontext(ahead) as worker:
        solver = _Solver(context, worker)
        counts, claim = choose(instance, market, solver)
    plan = None if counts is None else plan_of(instance, counts)
    details = {"claimed_infeasible": counts is None and solver.stop is Stop.FINISHED}
    bounds = None if claim is None else [claim]
    return Outcome(plan, solver.stop, notes=solver.notes, versions=solver.versions, bounds=bounds, details=details)


def _cost(instance: MeshInstance, market: Market, solver: _Solver) -> tuple[Counts | None, Fraction | None]:
    first = at_once(market, enough=True)
    status, counts, claim = solver.run(write(market), first)
    counts = _exactly(market, counts, first)
    value = None if claim is None else rounded_up(market.offers, Fraction(claim) * (1 - Fraction(1, 10**9)))
    if counts is None or status is not Status.OPTIMAL:
        return counts, value
    cost = cost_of(market, counts)
    if any(offer.cost != offer.total_gpus for offer in market.offers):  # a tie is broken by GPUs
        model = write(market, gpus=True)
        from moeopt.backends import modelling

        terms = [(model.variables[f"n_{o.place}"], float(o.cost / (cost or 1))) for o in market.offers]
        modelling.constrain(model.problem, "cost", modelling.total(terms), "<=", 1.0)
        _, fewer, _ = solver.run(model, counts)
        fewer = _exactly(market, fewer, counts)
        if fewer is not None and cost_of(market, fewer) <= cost:
            counts = fewer
    return counts, value


def _goodput(instance: MeshInstance, market: Market, solver: _Solver) -> tuple[Counts | None, Fraction | None]:
    first = at_once(market, enough=False)
    status, counts, claim = solver.run(write(market, theta=True), first)
    served = Fraction(0) if counts is None else theta_of(market, counts)
    if first is not None and theta_of(market, first) > served:
        counts, served = first, theta_of(market, first)
    value = None if not claim else 1 / (Fraction(-claim) * wanted_rate(instance))
    if not counts or not served:
        return None, None
    if status is Status.OPTIMAL:
        _, fewer, _ = solver.run(write(market, least=float(served) * (1 - TIE), gpus=True), counts)
        if fewer is not None and theta_of(market, fewer) >= served:
            counts = fewer
    return counts, value


def _time(instance: MeshInstance, market: Market, solver: _Solver) -> tuple[Counts | None, Fraction | None]:
    taus = market.taus
    best: Counts | None = None
    low, high = 0, len(taus)  # taus[high] is enough, as far as it is known
    while low < high and solver.stop is Stop.FINISHED:
        middle = (low + high) // 2
        some = market.up_to(taus[middle])
        _, counts, _ = solver.run(write(some, gpus=True), per_price(some, enough=True))
        counts = _exactly(some, counts, None)
        if counts is not None:
            best, high = counts, middle
        elif solver.stop is Stop.FINISHED:
            low = middle + 1
    if best is None or solver.stop is not Stop.FINISHED:
        return best, None
    return best, taus[high]


def _exactly(market: Market, counts: Counts | None, first: Counts | None) -> Counts | None:
    """Replicas that serve all in fractions too, and cost no more than the plan known before."""
    if counts is not None and theta_of(market, counts) < 1:
        counts = None  # short by what a solver tolerates
    if counts is None or (first is not None and cost_of(market, first) < cost_of(market, counts)):
        return first
    return counts
