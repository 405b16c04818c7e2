"""How far each method is from the best bound, layer by layer, on a log axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from moeopt.report import words
from moeopt.report.plots.canvas import FAINT, Plot, label, layer_axis, new_figure, style, to_svg
from moeopt.report.plots.looks import LOOKS
from moeopt.report.summary import NEAR_GAP, Floats, RowSummary, Summary

SHOWN = 8
SMALLEST = 1e-6
"""Gaps below this are drawn as 0."""


def gap_plot(summary: Summary, prefix: str) -> Plot | None:
    """Draw the gap of up to `SHOWN` plans, best first; the excess over perfect balance where no bound is known."""
    rows = [row for row in summary.rows if row.imbalance is not None and not row.remark]
    if summary.best is None:
        return None
    rows.sort(key=lambda row: (not row.best, row.objective))
    keep = _chosen(summary, rows)
    bounded = all(row.layer_gap is not None for row in keep)
    values = [_values(row, bounded) for row in keep]
    positive = np.concatenate(values)
    positive = positive[positive >= SMALLEST]
    low = 10.0 ** math.floor(math.log10(positive.min())) if positive.size else NEAR_GAP
    high = float(positive.max()) if positive.size else NEAR_GAP * 10
    low = min(low, NEAR_GAP)
    zero = low / 10**0.4
    zeros = positive.size < len(keep) * summary.instance.num_layers
    what = "gap to the best bound" if bounded else "excess over perfect balance"
    positions = np.arange(summary.instance.num_layers)
    step = max(1, len(positions) // 24)
    with style():
        figure = new_figure(3.3)
        axes = figure.subplots()
        axes.set_yscale("log")
        if zeros:
            axes.axhspan(low / 10, low, color="#f1f2f4", linewidth=0)
        axes.grid(axis="y", color=FAINT, linewidth=0.4)
        if bounded:
            axes.axhline(NEAR_GAP, color="#22262b", linewidth=0.7, dashes=(6, 3))
        handles = []
        for index in range(len(keep)):
            colour, line, marker = LOOKS[index]
            drawn = np.where(values[index] >= SMALLEST, values[index], zero)
            handles += axes.plot(
                positions,
                drawn,
                color=colour,
                linestyle=line,
                linewidth=2.2 if index == 0 else 0.9,
                marker=marker,
                markersize=4.4 if index == 0 else 3.6,
                markevery=(index % step, step),
                markerfacecolor=colour if index == 0 else "white",
                markeredgewidth=0.8,
            )
        names = [label(row.method) + (" (best)" if row.best else "") for row in keep]
        axes.legend(handles, names, loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2)
        ticks = [10.0**power for power in range(round(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        names_of_ticks = [f"{tick * 100:.10g} %" for tick in ticks]
        if zeros:
            ticks, names_of_ticks = [zero, *ticks], ["0", *names_of_ticks]
        axes.set_ylim(low / 10**0.75 if zeros else low * 0.8, max(high * 1.35, low * 10))
        axes.set_yticks(ticks, names_of_ticks)
        axes.yaxis.set_minor_locator(_none())
        axes.set_xlim(-0.6, len(positions) - 0.4)
        layer_axis(axes, summary.instance.layers, "x")
        axes.set_xlabel("layer")
        axes.set_ylabel(what)
        axes.spines[["top", "right"]].set_visible(False)
        svg = to_svg(figure, prefix)
    said = ", ".join(f"{row.method} {words.percent(float(gap.mean()))}" for row, gap in zip(keep, values, strict=True))
    caption = f"On a log scale; lower is better. Means over layers: {said}."
    if bounded:
        caption += f" Dashed line: {words.NEAR}."
    if len(keep) < len(rows):
        caption += f" Drawn: the best {len(keep)} of {words.count(len(rows), 'plan')} and those of eplb and contiguous."
    if zeros:
        caption += " In the grey band: gap 0."
    title = f"{what.capitalize()}, layer by layer"
    return Plot(title, svg, f"{title}. Means over layers: {said}.", caption)


def _chosen(summary: Summary, rows: list[RowSummary]) -> list[RowSummary]:
    """The best few in order, among them the two that people compare with."""
    wanted = [row for row in (summary.legal("eplb"), summary.legal("contiguous")) if row is not None]
    picked = {id(row) for row in wanted}
    for row in rows:
        if len(picked) < SHOWN:
            picked.add(id(row))
    return [row for row in rows if id(row) in picked]


def _values(row: RowSummary, bounded: bool) -> Floats:
    if bounded:
        assert row.layer_gap is not None
        return row.layer_gap
    assert row.imbalance is not None
    return row.imbalance - 1.0


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
