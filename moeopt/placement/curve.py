"""How many redundant experts pay: imbalance, its bound and the price in memory for every feasible number of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moeopt import kinds
from moeopt.errors import Violations
from moeopt.limits import Deadline, Limits
from moeopt.percent import percent_up
from moeopt.placement import checks
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.problem import PROBLEM
from moeopt.plugins import Policy
from moeopt.registry import Progress
from moeopt.result import Result, Stop

SCHEMA = "moeopt/slots-curve/1"
WITHIN = 0.01
"""The smallest number of redundant experts this close to the best one is named."""
PERFECT = 1.002
"""A mean imbalance from which no larger number can win more than 0.2 %: none is below 1."""
FEWEST, MOST = 6, 256
"""Points that are looked at beyond which a perfect one ends the curve, and points at most."""


@dataclass(frozen=True)
class CurvePoint:
    """One number of redundant experts, the same on all layers.

    Parameters
    ----------
    redundant, slots, slots_per_gpu
        R, S = E + R, and the slots of the GPU that has most.
    imbalance_mean, imbalance_worst
        Mean and largest of the layers' imbalance, 1 in perfect balance.
    bound_mean
        What the mean cannot be below for this R, certified.
    gpu_bytes
        ``expert_bytes * layers * slots_per_gpu``; ``None`` where the size of an expert is not known.
    max_load, imbalance
        L values each.
    method
        What the plan is by.
    """

    redundant: int
    slots: int
    slots_per_gpu: int
    imbalance_mean: float
    imbalance_worst: float
    bound_mean: float
    gpu_bytes: float | None
    max_load: tuple[float, ...]
    imbalance: tuple[float, ...]
    method: str


@dataclass(frozen=True)
class SlotsCurve:
    """The points by rising R, and the three that are named.

    Parameters
    ----------
    best, within, knee
        Places in `points`: the least mean imbalance, the smallest R within 1 % of it, and the point farthest below
        the chord from the first point to the last (``None`` where none lies below it, or all lie within 1 %).
    complete
        Whether every wanted number was looked at in time.
    """

    instance: dict[str, Any]
    experts: int
    gpus: int
    layers: tuple[int, ...]
    points: tuple[CurvePoint, ...]
    best: int
    within: int
    knee: int | None
    complete: bool
    notes: tuple[str, ...]
    runtime_s: float

    def to_dict(self) -> dict[str, Any]:
        """A strict JSON document."""
        points = [{**vars(point), "max_load": list(point.max_load)} for point in self.points]
        for point in points:
            point["imbalance"] = list(point["imbalance"])
        return {
            "schema": SCHEMA,
            "instance": self.instance,
            "experts": self.experts,
            "gpus": self.gpus,
            "layers": list(self.layers),
            "points": points,
            "best_redundant": self.points[self.best].redundant,
            "within_1_percent_redundant": self.points[self.within].redundant,
            "knee_redundant": None if self.knee is None else self.points[self.knee].redundant,
            "complete": self.complete,
            "notes": list(self.notes),
            "runtime_s": self.runtime_s,
        }


def slots_curve(
    instance: PlacementInstance,
    *,
    redundant: Iterable[int] | None = None,
    uneven: bool = False,
    expert_bytes: float | None = None,
    method: str | Policy = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> SlotsCurve:
    """Solve an instance for every feasible number R of redundant experts, one R for all layers.

    Parameters
    ----------
    instance
        Loads, GPUs and rules; its own slots do not matter, but GPUs must have equally many.
    redundant
        The R to look at; by default all from the least, until the mean imbalance is within 0.2 % of 1.
    uneven
        Also R that leave GPUs with slot numbers that differ by one.
    expert_bytes
        Bytes of one expert in one layer, for the price in memory.
    method, limits, seed
        As in `solve`, for every point; ``limits.time_s`` is for all points together.
    on_progress
        Called after every point.

    Raises
    ------
    InstanceError
        GPUs of unequal slots, lost GPUs, a current plan, or an R that is not feasible.

    >>> curve = slots_curve(PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4), method="lpt")
    >>> [(point.redundant, point.imbalance_mean) for point in curve.points]
    [(0, 1.25), (2, 1.0), (4, 1.0)]
    >>> curve.points[curve.within].redundant
    2
    """
    limits, seed = PROBLEM.checked(instance, limits, seed, on_progress)
    PROBLEM.method(method)
    _check(instance)
    if not isinstance(uneven, bool):
        check = Violations()
        check.refuse("uneven", uneven, rule="must be true or false", fix="Use False")
        check.raise_if_any()
    feasible = feasible_redundant(instance, uneven=uneven)
    wanted = feasible if redundant is None else _wanted(redundant, feasible, instance)
    check = Violations()
    if expert_bytes is not None:
        checks.number("expert_bytes", expert_bytes, check, positive=True)
    check.raise_if_any()
    run = _Run(instance, method, limits, seed, Deadline(limits.time_s))
    run.solve(wanted, on_progress, open_ended=redundant is None)
    if not run.results:
        check = Violations()
        for note in run.notes or ["no time for any"]:
            check.add("redundant", note, rule="no number of redundant experts has a plan", fix="Relax the rules")
        check.raise_if_any()
    points = tuple(_point(size, result, expert_bytes) for size, result in zip(run.sizes, run.results, strict=True))
    return SlotsCurve(
        {"name": instance.name, "sha256": instance.sha256},
        instance.num_experts,
        instance.num_gpus,
        instance.layers,
        points,
        *named(points),
        run.complete,
        tuple(run.notes),
        run.deadline.elapsed_s(),
    )


class _Run:
    """Point after point, each with a share of the time, until perfect balance ends the curve."""

    def __init__(
        self, instance: PlacementInstance, method: str | Policy, limits: Limits, seed: int, deadline: Deadline
    ) -> None:
        self.instance, self.method, self.seed = instance, method, seed
        self.limits, self.deadline = limits, deadline
        self.sizes: list[PlacementInstance] = []
        self.results: list[Result] = []
        self.notes: list[str] = []
        self.complete = True

    def solve(self, wanted: list[int], listen: Callable[[Progress], None] | None, *, open_ended: bool) -> None:
        """Search every wanted number, the smallest first."""
        last_s = 0.0
        for extra in wanted[:MOST]:
            start_s = self.deadline.elapsed_s()
            if self.results and self.deadline.remaining_s() < min(last_s, 0.1):
                self._stopped("the time was up", extra)
                return
            size = with_slots(self.instance, self.instance.num_experts + extra)
            limits = self._limits(max(min(FEWEST, len(wanted)) - len(self.results), 1))
            result = PROBLEM.solve(size, method=self.method, limits=limits, seed=self.seed)
            if result.solution is None:  # rules such as min_replicas need more slots
                why = result.conflicts[0]["message"] if result.conflicts else f"stopped by {result.stop}"
                self.notes.append(f"{extra} redundant experts: {result.status}: {why}")
                continue
            self.sizes.append(size)
            self.results.append(result)
            last_s = self.deadline.elapsed_s() - start_s
            if listen is not None:
                listen(Progress(len(self.results), len(wanted), f"R = {extra}"))
            if self.results[-1].stop is Stop.INTERRUPTED:
                self._stopped("interrupted", extra)
                return
            mean = _mean(self.results[-1])
            if open_ended and len(self.results) >= FEWEST and mean <= PERFECT and extra != wanted[-1]:
                self.notes.append(
                    f"the curve ends at {extra} redundant experts: the mean imbalance is {mean:.4f} there and never "
                    f"below 1, so no larger number can win more than {percent_up(mean - 1)}"
                )
                return
        if len(wanted) > MOST:
            self.notes.append(f"only the first {MOST} of {len(wanted)} feasible numbers were looked at")

    def _limits(self, parts: int) -> Limits:
        if not self.deadline.limited:
            return self.limits
        return replace(self.limits, time_s=max(self.deadline.share(parts).remaining_s(), 1e-3))

    def _stopped(self, why: str, extra: int) -> None:
        self.complete = False
        self.notes.append(f"{why} at {extra} redundant experts: larger numbers were not looked at")


def feasible_redundant(instance: PlacementInstance, *, uneven: bool = False) -> list[int]:
    """Every R >= 0 that slots on all GPUs alike allow: E + R a multiple of G, no GPU with more slots than experts.

    >>> feasible_redundant(PlacementInstance([[1] * 6], gpus=4, slots=8))
    [2, 6, 10, 14, 18]
    """
    experts, gpus = instance.num_experts, instance.num_gpus
    own = experts // len(instance.node_ids) if instance.hierarchical else experts
    totals = range(experts, own * gpus + 1) if uneven else range(-(-experts // gpus) * gpus, own * gpus + 1, gpus)
    return [total - experts for total in totals]


def named(points: Sequence[CurvePoint]) -> tuple[int, int, int | None]:
    """Places of the best point, of the smallest R within 1 % of it, and of the knee.

    The knee is the point farthest below the chord from the first point to the last, R and imbalance both scaled to
    [0, 1]; ties go to the smaller R. A curve that falls by less than 1 % has no knee.
    """
    values = [point.imbalance_mean for point in points]
    best = min(range(len(values)), key=lambda at: (values[at], at))
    within = next(at for at, value in enumerate(values) if value <= values[best] * (1 + WITHIN))
    spread, reach = values[0] - values[-1], points[-1].redundant - points[0].redundant
    if len(points) < 3 or spread <= WITHIN * values[best]:
        return best, within, None
    below = [
        (values[0] - value) / spread - (point.redundant - points[0].redundant) / reach
        for point, value in zip(points, values, strict=True)
    ]
    knee = max(range(len(below)), key=lambda at: (below[at], -at))
    return best, within, knee if below[knee] > 1e-12 else None


def with_slots(instance: PlacementInstance, total: int) -> PlacementInstance:
    """The same loads and rules on another number of slots, dealt evenly; memory is left aside.

    Fused shared experts have slots of their own beside these.
    """
    fields = instance.to_dict(with_loads=False)
    for key in ("schema", "memory_bytes", "expert_bytes"):
        fields.pop(key, None)
    each, rest = divmod(total, instance.num_gpus)
    own = instance.num_shared if instance.shared == "fused" else 0
    fields["slots"] = [each + (gpu < rest) + own for gpu in range(instance.num_gpus)]
    return PlacementInstance(instance.given_loads, **fields)


def _check(instance: PlacementInstance) -> None:
    check = Violations()
    for field in ("current", "lost", "retire"):
        if getattr(instance, field) is not None and len(getattr(instance, field)):
            check.add(field, "...", rule="has no meaning for a curve", fix="Leave it out")
    if max(instance.slots) - min(instance.slots) > 1:
        shown = f"{min(instance.slots)} to {max(instance.slots)} a GPU"
        check.add("slots", shown, rule="a curve needs GPUs with equally many slots", fix="Leave the slots out")
    check.raise_if_any()


def _wanted(redundant: Iterable[int], feasible: list[int], instance: PlacementInstance) -> list[int]:
    check = Violations()
    given = [
        checks.whole("redundant", extra, 0, check, where=str(place))
        for place, extra in enumerate(kinds.numbers(check, "redundant", redundant))
    ]
    check.raise_if_any()
    wanted = sorted(set(given))
    rule = f"{instance.num_experts} experts and R more must fill {instance.num_gpus} GPUs evenly, one of each a GPU"
    for extra in wanted:
        if extra not in feasible:
            near = sorted(sorted(feasible, key=lambda known: (abs(known - extra), known))[:2])
            check.add("redundant", extra, rule=rule, fix=f"Use {' or '.join(map(str, near))}")
    if not wanted:
        check.add("redundant", "none", rule="needs a number", fix=f"Use {feasible[0]}")
    check.raise_if_any()
    return wanted


def _mean(result: Result) -> float:
    assert result.solution is not None
    return float(result.solution["imbalance_mean"])


def _point(instance: PlacementInstance, result: Result, expert_bytes: float | None) -> CurvePoint:
    assert result.solution is not None
    layers = result.solution["layers"]
    ratios = [layer["lower_bound"] / layer["ideal"] if layer["ideal"] else 1.0 for layer in layers]
    return CurvePoint(
        instance.num_slots - instance.num_experts,
        instance.num_slots,
        max(instance.slots),
        float(result.solution["imbalance_mean"]),
        max(layer["imbalance"] for layer in layers),
        min(sum(ratios) / len(ratios), float(result.solution["imbalance_mean"])),
        None if expert_bytes is None else expert_bytes * instance.num_layers * max(instance.given_slots),
        tuple(layer["max_load"] for layer in layers),
        tuple(layer["imbalance"] for layer in layers),
        result.method,
    )
