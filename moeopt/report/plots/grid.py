"""The means of a grid as points, a band for each column of its table, with deviations as whiskers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from moeopt.bench import written
from moeopt.bench.tables import Pivot
from moeopt.report.plots.canvas import FAINT, Plot, label, new_figure, style, to_svg
from moeopt.report.plots.files import as_png, as_svg
from moeopt.report.plots.looks import LOOKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN, BANDS = 16, 40
"""Rows and columns of the table that are drawn; the table has all."""
WIDE = 30
"""Where the largest number is so many times the least, the scale is logarithmic."""


def grid_plot(pivot: Pivot, prefix: str) -> Plot:
    """Draw for a page."""
    with style():
        svg = to_svg(_figure(pivot), prefix)
    title = f"{pivot.metric} by {pivot.rows}" + (f" and {pivot.columns}" if pivot.columns else "")
    caption = f"{pivot.said[0].upper()}{pivot.said[1:]}; a mean a point"
    caption += ", one standard deviation to each side, as far as there can be such numbers." if _spread(pivot) else "."
    left = _left_out(pivot)
    caption += f" {left}." if left else ""
    return Plot(title, svg, f"{title}. {caption}", caption)


def grid_svg(pivot: Pivot) -> str:
    """An SVG file of its own."""
    return as_svg(lambda: _figure(pivot))


def grid_png(pivot: Pivot) -> bytes:
    """A PNG file, 1,500 points wide."""
    return as_png(lambda: _figure(pivot))


def _left_out(pivot: Pivot) -> str:
    """What of the table is not drawn."""
    sizes = [(len(pivot.row_names), SHOWN, pivot.rows), (len(pivot.column_names), BANDS, pivot.columns)]
    found = [f"the first {drawn} of {there:,} along {axis}" for there, drawn, axis in sizes if there > drawn]
    return f"Drawn are {' and '.join(found)}" if found else ""


def _spread(pivot: Pivot) -> bool:
    return any(one is not None for row in pivot.spreads for one in row)


def _figure(pivot: Pivot) -> Figure:
    rows, bands = pivot.row_names[:SHOWN], pivot.column_names[:BANDS]
    alone = not pivot.columns
    step = 0.8 / max(len(rows), 3)
    height = 0.24 * len(rows) + 1.0 if alone else 0.9 + len(bands) * max(0.34, 0.13 * len(rows))
    figure = new_figure(min(max(height, 2.2), 30.0))
    axes = figure.subplots()
    axes.grid(axis="x", color=FAINT, linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    values = [mean for row in pivot.means[:SHOWN] for mean in row[: len(bands)] if _drawable(mean)]
    off, wide = _scale(pivot, values)
    scale = 100.0 if pivot.metric in written.GAPS else 1.0
    least = 0.0 if off or pivot.metric not in written.RATIOS else 1.0
    for at, row in enumerate(rows):
        colour, _, marker = LOOKS[at % len(LOOKS)]
        fill = colour if at < len(LOOKS) else "white"
        places, means, low, high = [], [], [], []
        for over in range(len(bands)):
            mean = pivot.means[at][over]
            if _drawable(mean):
                places.append(float(at) if alone else over + step * (at - (len(rows) - 1) / 2))
                means.append(scale * (mean - off))
                spread = scale * (pivot.spreads[at][over] or 0.0)
                low.append(min(spread, max(means[-1] - least, 0.0)))
                high.append(spread)
        axes.errorbar(means, places, xerr=[low, high] if any(high) else None, linestyle="none", marker=marker,
            color=colour, markerfacecolor=fill, markersize=5.2, elinewidth=1.0, capsize=2.0,
            label=label(row))  # fmt: skip
    names = rows if alone else bands
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set_ylim(len(names) - 0.45, -0.55)  # the first on top, as in the table
    axes.tick_params(axis="y", length=0)
    for edge in [] if alone else range(1, len(bands)):
        axes.axhline(edge - 0.5, color=FAINT, linewidth=0.6)
    if wide:
        axes.set_xscale("log")
        axes.set_xlim(left=scale * (min(values) - off) / 2)  # whiskers that come near 0 run off the edge
        axes.xaxis.set_major_formatter("{x:g}")
    shown = f"{pivot.metric} - {off:g}" if off else pivot.metric
    unit = " (%)" if pivot.metric in written.GAPS else ""
    axes.set_xlabel(f"{shown}{unit}: {pivot.said}{f', beyond an even {off:g}' if off else ''}")
    if left := _left_out(pivot):
        foot = 0.2 / figure.get_figheight()
        figure.text(0.005, 0.1 * foot, left, fontsize=7, va="bottom")
        figure.get_layout_engine().set(rect=(0, foot, 1, 1 - foot))  # type: ignore[union-attr,call-arg]
    if not alone:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=pivot.rows, alignment="left")
        axes.set_ylabel(pivot.columns)
    return figure


def _drawable(mean: float | None) -> TypeGuard[float]:
    """Whether a number can be drawn: the picture has doubles for its own sums too."""
    return mean is not None and abs(mean) < 1e290


def _scale(pivot: Pivot, values: list[float]) -> tuple[float, bool]:
    """What is taken off every number, and whether the scale is logarithmic.

    Ratios differ in what they are above 1: where some are far closer to it than others, that is drawn.
    """
    if not values:
        return 0.0, False
    off = 1.0 if pivot.metric in written.RATIOS else 0.0
    least, most = min(values) - off, max(values) - off
    wide = least > 0 and most > WIDE * least
    return (off if wide else 0.0), wide
