"""Imbalance against the number of redundant experts, with its bound, its price in memory and the knee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.placement.curve import SlotsCurve
from moeopt.report import words
from moeopt.report.curve import said
from moeopt.report.plots.canvas import FAINT, INK, Plot, new_figure, style, to_svg
from moeopt.report.plots.files import as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE, FLOOR, MARK, CLOSE = "#10355e", "#9fb4c9", "#c8502f", "#3f8f7b"

CLOSEST = ", within 1 % of the best"


def curve_plot(curve: SlotsCurve, prefix: str) -> Plot:
    """Draw the curve for a page."""
    with style():
        svg = to_svg(_figure(curve), prefix)
    title = "What redundant experts win"
    return Plot(title, svg, f"{title}. {said(curve)}", said(curve))


def curve_svg(curve: SlotsCurve) -> str:
    """The curve as an SVG file of its own."""
    return as_svg(lambda: _figure(curve))


def curve_png(curve: SlotsCurve) -> bytes:
    """The curve as a PNG file, 1,500 points wide."""
    return as_png(lambda: _figure(curve))


def _figure(curve: SlotsCurve) -> Figure:
    redundant = [point.redundant for point in curve.points]
    mean = [point.imbalance_mean for point in curve.points]
    worst = [point.imbalance_worst for point in curve.points]
    floor = [point.bound_mean for point in curve.points]
    figure = new_figure(3.8)
    axes = figure.subplots()
    axes.grid(axis="y", color=FAINT, linewidth=0.4)
    axes.plot(redundant, worst, color="#62707d", linestyle=":", linewidth=1.1, marker="s", markersize=3.2,
              markerfacecolor="white", label="worst layer")  # fmt: skip
    axes.plot(redundant, mean, color=LINE, linewidth=2.0, marker="o", markersize=4.6, label="mean over layers")
    axes.plot(redundant, floor, color=FLOOR, linestyle="--", linewidth=1.1, label="bound on the mean")
    if len(redundant) > 1 and curve.knee is not None:
        ends = [redundant[0], redundant[-1]]
        axes.plot(ends, [mean[0], mean[-1]], color=FAINT, linewidth=0.9, zorder=0, label="chord")
        _mark(axes, curve, curve.knee, MARK, "D", "knee" + (CLOSEST if curve.knee == curve.within else ""), 30)
    if curve.knee != curve.within:
        _mark(axes, curve, curve.within, CLOSE, "^", CLOSEST.removeprefix(", "), 52)
    axes.set_xlabel("redundant experts R, the same on every layer")
    axes.set_ylabel("imbalance, busiest GPU / mean")
    axes.set_xticks(redundant[:: _step(curve)])
    room = max(max(worst) - 1.0, 0.002)
    axes.set_ylim(1.0 - 0.03 * room, 1.0 + 1.08 * room)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.0)
    axes.spines[["top", "right"]].set_visible(False)
    _price(axes, curve)
    return figure


def _mark(axes: Any, curve: SlotsCurve, place: int, colour: str, marker: str, name: str, above: int) -> None:
    """A named point: its marker, and its name with both numbers."""
    point = curve.points[place]
    at = (point.redundant, point.imbalance_mean)
    right = place < len(curve.points) / 2
    axes.plot(*at, color=colour, marker=marker, markersize=9, markerfacecolor="none", markeredgewidth=1.8, zorder=5)
    axes.annotate(
        f"{name}: R = {point.redundant}, {words.ratio(point.imbalance_mean)}",
        at,
        xytext=(14 if right else -14, above),
        textcoords="offset points",
        ha="left" if right else "right",
        color=colour,
        fontweight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.9},
    )


def _price(axes: Any, curve: SlotsCurve) -> None:
    """A second scale above: bytes a GPU, or its slots."""
    bytes_known = curve.points[0].gpu_bytes is not None
    shown = curve.points[:: _step(curve)]
    top = axes.secondary_xaxis("top")
    top.set_xticks([point.redundant for point in shown])
    if bytes_known:
        top.set_xticklabels([f"{(point.gpu_bytes or 0.0) / 1e9:.3g}" for point in shown])
        top.set_xlabel("memory of a GPU for experts, GB")
    else:
        top.set_xticklabels([str(point.slots_per_gpu) for point in shown])
        top.set_xlabel("slots of a GPU")
    top.spines["top"].set_color(INK)
    top.spines["top"].set_linewidth(0.4)


def _step(curve: SlotsCurve) -> int:
    """Every which point has a tick."""
    return max(1, -(-len(curve.points) // 12))
