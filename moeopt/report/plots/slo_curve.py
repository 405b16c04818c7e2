"""What other service levels would cost: the objective against each level, tighter to looser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moeopt.report.plots.canvas import FAINT, INK, new_figure
from moeopt.report.plots.files import as_png, as_svg
from moeopt.report.words import seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from moeopt.mesh import MeshInstance, SloPoint

LINE, ASKED = "#10355e", "#c8502f"
NAMES = {"tpot_s": "TPOT at most", "ttft_s": "TTFT at most"}
VALUES = {"goodput": "requests a second", "gpus": "GPUs", "price": "price", "time": "milliseconds a token"}


def slo_curve_svg(instance: MeshInstance, curve: Sequence[SloPoint]) -> str:
    """The curve as an SVG file of its own."""
    return as_svg(lambda: _figure(instance, curve))


def slo_curve_png(instance: MeshInstance, curve: Sequence[SloPoint]) -> bytes:
    """The curve as a PNG file, 1,500 points wide."""
    return as_png(lambda: _figure(instance, curve))


def value_of(instance: MeshInstance, point: SloPoint) -> float | None:
    """The objective as people count it."""
    if point.objective is None:
        return None
    if instance.objective == "goodput":
        return 1 / point.objective
    return point.objective * (1e3 if instance.objective == "time" else 1)


def _figure(instance: MeshInstance, curve: Sequence[SloPoint]) -> Figure:
    levels = list(dict.fromkeys(point.level for point in curve))
    figure = new_figure(3.8)
    panels = figure.subplots(1, len(levels), sharey=True, squeeze=False)[0]
    values = [value for point in curve if (value := value_of(instance, point)) is not None]
    for axes, level in zip(panels, levels, strict=True):
        _panel(axes, instance, [point for point in curve if point.level == level])
        axes.set_xlabel(f"{NAMES[level]} (times what was asked for)")
        axes.set_ylim(0, 1.2 * max(values, default=1.0))
    panels[0].set_ylabel(VALUES[instance.objective])
    panels[-1].legend(loc="lower right")
    return figure


def _panel(axes: Any, instance: MeshInstance, points: Sequence[SloPoint]) -> None:
    axes.grid(color=FAINT, linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xticks([point.factor for point in points], [_tick(point) for point in points])
    axes.set_xlim(min(point.factor for point in points) - 0.12, max(point.factor for point in points) + 0.12)
    there = [(point, value) for point in points if (value := value_of(instance, point)) is not None]
    across, up = [point.factor for point, _ in there], [value for _, value in there]
    axes.plot(across, up, color=LINE, linewidth=1.6, marker="o", markersize=4.6, label="best plan")
    for point, value in there:
        axes.annotate(f"{value:,.4g}", (point.factor, value), xytext=(0, 7), textcoords="offset points", ha="center")
        if point.factor == 1:
            axes.plot([1], [value], "o", markersize=9, markerfacecolor="none", color=ASKED, label="as asked for")
    for point in points:
        if point.objective is None:
            axes.annotate("no plan" if point.status == "INFEASIBLE" else "not known", (point.factor, 0.03),
                          xycoords=("data", "axes fraction"), ha="center", color=INK, fontstyle="italic")  # fmt: skip


def _tick(point: SloPoint) -> str:
    limits = [seconds(limit) for limit in dict.fromkeys(point.limits_s) if limit is not None]
    return " and\n".join(limits) + f"\n({point.factor:g})"
