"""What other service levels would cost: the plan bought anew at tighter and looser limits around those asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from moeopt import kinds
from moeopt.errors import InstanceError, Violation, Violations
from moeopt.limits import Deadline, Limits
from moeopt.mesh import bounds
from moeopt.mesh.clock import ended
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import is_partial
from moeopt.mesh.problem import PROBLEM
from moeopt.mesh.verify import evaluate
from moeopt.plugins import Policy
from moeopt.registry import Context
from moeopt.result import CERTIFIED_TOLERANCE, Status, relative_gap

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Multiples of the limits that were asked for."""
LEVELS = ("tpot_s", "ttft_s")
SLACK = 1e-6
"""Relative difference up to which two proved values are the same: a solver's tolerance."""


@dataclass(frozen=True)
class SloPoint:
    """The best plan at other limits.

    Parameters
    ----------
    level, factor
        Which level differs, and how many times as long it is; the other one is as asked.
    limits_s
        That limit by demand; ``None`` where none is asked for.
    status
        OPTIMAL, FEASIBLE, INFEASIBLE, or UNKNOWN where time ran out.
    objective, lower_bound
        In what the instance minimises; ``None`` without a plan. The bound is certified.
    rate_per_s, total_gpus, price
        What the plan serves, and what it takes.
    pools
        Label and replicas of each.
    why_not
        Why there is no plan; empty where there is one.
    """

    level: str
    factor: float
    limits_s: tuple[float | None, ...]
    status: str
    objective: float | None = None
    lower_bound: float | None = None
    rate_per_s: float | None = None
    total_gpus: int | None = None
    price: float | None = None
    pools: tuple[tuple[str, int], ...] = ()
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**self.__dict__, "limits_s": list(self.limits_s), "pools": [list(pool) for pool in self.pools]}


def slo_curve(
    instance: MeshInstance,
    *,
    factors: Sequence[float] = FACTORS,
    method: str | Policy = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    on_point: Callable[[int, int], None] | None = None,
) -> list[SloPoint]:
    """Buy anew at these multiples of each service level that is asked for, one level at a time.

    Parameters
    ----------
    instance
        With a TTFT or a TPOT.
    factors
        Finite numbers above 0.
    method, limits, seed
        As of a solve; the time is for all points together.
    on_point
        Called with the points that are done and all there are.

    Raises
    ------
    InstanceError
        No demand has a service level, or a factor is no number above 0.

    Notes
    -----
    Strength: each point is as good as its method; a tighter limit never gives a better optimum.

    >>> from moeopt import mesh
    >>> from moeopt.llm import find
    >>> demand = mesh.demand_of(find("mixtral-8x7b"), (1024, 256), slo=mesh.Slo(tpot_s=0.02))
    >>> times, shape = {"quick": (10, 0.01), "slow": (30, 0.03)}, mesh.Shape("colocated", "H100")
    >>> given = [
    ...     mesh.Config(0, "colocated", shape, 1, {"H100": 2}, rate, rate, tpot_s=tpot, name=name)
    ...     for name, (rate, tpot) in times.items()
    ... ]
    >>> gpus = [mesh.GpuType.of("H100", stock=8)]
    >>> one = mesh.MeshInstance([demand], gpus, "goodput", families=("colocated",), configs=given)
    >>> [(point.factor, point.rate_per_s) for point in slo_curve(one, factors=(0.25, 0.5, 1, 2))]
    [(0.25, None), (0.5, 40.0), (1, 40.0), (2, 120.0)]
    """
    limits, seed = PROBLEM.checked(instance, limits, seed, on_point, listener="on_point")
    PROBLEM.method(method)
    asked = [name for name in LEVELS if any(getattr(demand.slo, name) is not None for demand in instance.demands)]
    if not asked:
        rule = "no service level is asked for, so there is none to vary"
        raise InstanceError([Violation("slo", "", "none", rule, "Give tpot_s (--tpot) or ttft_s (--ttft)")])
    check = Violations()
    factors = kinds.numbers(check, "factors", factors)
    check.raise_if_any()
    for factor in factors:
        if not (isinstance(factor, int | float) and 0 < factor < math.inf):
            raise InstanceError([Violation("factors", "", repr(factor), "must be finite numbers > 0", "Use 0.5")])
    deadline, total = Deadline(limits.time_s, limits.stop), len(asked) * len(factors)
    known: dict[MeshInstance, SloPoint] = {}
    found: list[SloPoint] = []
    for level in asked:
        for factor in factors:
            at = _at(instance, level, factor)
            if at not in known:
                share = deadline.share(total - len(found))
                context = Context(replace(limits, time_s=None), seed, share)
                known[at] = _point(at, level, factor, method, context)
            limit = tuple(getattr(demand.slo, level) for demand in at.demands)
            found.append(replace(known[at], level=level, factor=factor, limits_s=limit))
            if on_point is not None:
                on_point(len(found), total)
    return found


def _at(instance: MeshInstance, level: str, factor: float) -> MeshInstance:
    """The same question with one level so many times as long."""
    if factor == 1:
        return instance
    demands = []
    for demand in instance.demands:
        value = getattr(demand.slo, level)
        longer = demand.slo if value is None else replace(demand.slo, **{level: float(f"{value * factor:.12g}")})
        demands.append(replace(demand, slo=longer))
    return replace(instance, demands=tuple(demands))


def _point(at: MeshInstance, level: str, factor: float, method: str | Policy, context: Context) -> SloPoint:
    none = SloPoint(level, factor, (), str(Status.UNKNOWN), why_not=ended(context.deadline))
    if context.deadline.passed():
        return none
    made = PROBLEM.prepared(at, context)
    conflicts = PROBLEM.conflicts(made)
    if conflicts:
        return replace(none, status=str(Status.INFEASIBLE), why_not="; ".join(one["message"] for one in conflicts))
    chosen = PROBLEM.method(method)
    reason = chosen.applies(made)
    if reason is not None:
        return replace(none, why_not=f"{chosen.name} does not apply: {reason}")
    outcome = chosen.run(made, context)
    if outcome.plan is None:
        if outcome.details.get("claimed_infeasible"):
            return replace(none, status=str(Status.INFEASIBLE), why_not="a solver finds no plan")
        return replace(none, why_not="no plan was found")
    judged = evaluate(made, PROBLEM.as_plan(made, outcome.plan))
    floor = 0.0 if is_partial(made) else float(min(bounds.bound(made, judged.objective).value, judged.objective))
    optimal = relative_gap(float(judged.objective), floor) <= CERTIFIED_TOLERANCE
    rates = [judged.rate(demand) for demand in range(len(made.demands))]
    return replace(
        none,
        status=str(Status.OPTIMAL if optimal else Status.FEASIBLE),
        objective=float(judged.objective),
        lower_bound=floor,
        rate_per_s=float(sum(rates)),
        total_gpus=sum(judged.gpus.values()),
        price=None if judged.price is None else float(judged.price),
        pools=tuple((pool.config.label, pool.replicas) for pool in judged.pools),
        why_not="",
    )


def curve_faults(document: Mapping[str, Any]) -> list[str]:
    """Points of a document that contradict each other, or its answer: what is looser is never worse, where proved."""
    faults: list[str] = []
    proved = [point for point in document.get("slo_curve") or () if point["status"] == str(Status.OPTIMAL)]
    for level in LEVELS:
        mine = sorted((point for point in proved if point["level"] == level), key=lambda point: point["factor"])
        for one, two in pairwise(mine):
            if two["objective"] > one["objective"] * (1 + SLACK):
                faults.append(f"slo_curve[{level} x {two['factor']:g}]: is worse than at {one['factor']:g}")
        if document["status"] == str(Status.OPTIMAL):
            value = document["objective"]
            same = [point for point in mine if point["factor"] == 1]
            faults += [
                f"slo_curve[{level} x 1].objective = {point['objective']!r}: the answer has {value!r}"
                for point in same
                if abs(point["objective"] - value) > SLACK * value
            ]
    return faults
