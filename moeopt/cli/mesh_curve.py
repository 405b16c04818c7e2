"""``moeopt mesh --slo-curve``: what other service levels would cost, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from moeopt.cli.say import Say
from moeopt.cli.tables import table
from moeopt.errors import Violations
from moeopt.report.mesh_words import achieved, behind, per_second
from moeopt.report.words import seconds

if TYPE_CHECKING:
    from moeopt.limits import Limits
    from moeopt.mesh import MeshInstance, SloPoint
    from moeopt.result import Result

NAMES = {"tpot_s": "TPOT", "ttft_s": "TTFT"}
MARKS = {"OPTIMAL": "", "FEASIBLE": " (not proved)"}


def check_curve(asked: bool, instance: MeshInstance) -> None:
    """Refuse a curve of no service level, before the work."""
    levels = [value for demand in instance.demands for value in (demand.slo.tpot_s, demand.slo.ttft_s)]
    if asked and not any(value is not None for value in levels):
        check = Violations()
        rule = "has nothing to vary: no service level is asked for"
        check.add("--slo-curve", "given", rule=rule, fix="Give --tpot or --ttft")
        check.raise_if_any()


def curve_of(
    asked: bool, instance: MeshInstance, result: Result, method: str, limits: Limits, seed: int, say: Say
) -> list[SloPoint] | None:
    """The points, in the time that the solve has left; ``None`` where they were not asked for."""
    if not asked:
        return None
    from moeopt.mesh import slo_curve
    from moeopt.registry import Progress

    left = None if limits.time_s is None else max(limits.time_s - result.runtime_s, 1e-3)
    with say.progress("other service levels") as listener:

        def step(done: int, total: int) -> None:
            if listener is not None:
                listener(Progress(done, total))

        return slo_curve(instance, method=method, limits=replace(limits, time_s=left), seed=seed, on_point=step)


def show(curve: Sequence[SloPoint] | None, instance: MeshInstance, say: Say) -> None:
    """A row for each limit; what was asked for is bold."""
    if curve is None or say.quiet:
        return
    goal = {"goodput": "requests/s", "gpus": "GPUs", "price": "price", "time": "time a token"}[instance.objective]
    more = [] if instance.objective == "gpus" else ["GPUs"]
    rows = table("other service levels, the other one as asked", "level", goal, "against the asked", *more, "plan")
    for place in (0, 2, -1):
        rows.columns[place].justify = "left"
    rows.columns[-1].no_wrap = False
    for level in dict.fromkeys(point.level for point in curve):
        mine = [point for point in curve if point.level == level]
        base = next((point.objective for point in mine if point.factor == 1), None)
        for point in mine:
            said = " and ".join(seconds(limit) for limit in dict.fromkeys(point.limits_s) if limit is not None)
            cells = [f"{NAMES[level]} {said}", *_cells(instance, point, base)]
            rows.add_row(*cells, style="bold" if point.factor == 1 else None)
    say.line("")
    say.show(rows)


def _cells(instance: MeshInstance, point: SloPoint, base: float | None) -> list[str]:
    if point.objective is None:
        why = "no plan" if point.status == "INFEASIBLE" else point.why_not
        return ["-", why, *([] if instance.objective == "gpus" else ["-"]), _reason(point)]
    value = achieved(instance, point.objective)
    if instance.objective == "goodput":
        value = per_second(1 / point.objective)
    elif instance.objective != "time":
        value = f"{point.objective:,.6g}"
    pools = " + ".join(f"{many:,} x {label}" for label, many in point.pools)
    gpus = [] if instance.objective == "gpus" else [f"{point.total_gpus or 0:,}"]
    return [value, _against(instance, point, base), *gpus, pools + MARKS[point.status]]


def _against(instance: MeshInstance, point: SloPoint, base: float | None) -> str:
    """How a point compares with the limits as asked."""
    if point.factor == 1:
        return "asked"
    if base is None or point.objective is None:
        return "-"
    if abs(point.objective - base) <= 1e-9 * base:
        return "the same"
    if point.objective > base:
        return behind(instance, point.objective, base)
    more = {"goodput": "more requests", "gpus": "fewer GPUs", "price": "cheaper", "time": "less time a token"}
    from moeopt.percent import percent

    part = base / point.objective - 1 if instance.objective == "goodput" else 1 - point.objective / base
    return f"{percent(part)} {more[instance.objective]}"


def _reason(point: SloPoint) -> str:
    return point.why_not.partition(": the closest")[0] if point.status == "INFEASIBLE" else "-"
