"""Cost of every GPU in every layer, before and after, on one scale."""

from __future__ import annotations

import numpy as np

from moeopt.report import words
from moeopt.report.plots.canvas import (
    INK,
    Plot,
    colours,
    image,
    label,
    layer_axis,
    new_figure,
    style,
    to_svg,
    whole_steps,
)
from moeopt.report.summary import Floats, RowSummary, Summary

LEAST = 0.01
"""What the scale has on both sides of 1 at least: less would draw noise as contrast."""


def heat_map(summary: Summary, prefix: str) -> Plot | None:
    """Draw `before` beside the best plan, or the best alone where there is nothing else; ``None`` without a plan."""
    best = summary.best
    if best is None:
        return None
    first = before(summary, best)
    rows = [best] if first is None else [first, best]
    tables = [relative_cost(summary, row) for row in rows]
    known = [table for table in tables if not np.isnan(table).all()]
    low = min([1 - LEAST, *(float(np.nanmin(table)) for table in known)])
    top = max([1 + LEAST, *(float(np.nanmax(table)) for table in known)])
    instance = summary.instance
    titles = ["Best"] if first is None else ["Before" if first.method == "contiguous" else "Worst", "Best"]
    with style():
        from matplotlib.colors import TwoSlopeNorm

        norm = TwoSlopeNorm(1.0, low, top)
        figure = new_figure(min(max(1.5 + 0.085 * instance.num_layers, 2.5), 6.0))
        panels = figure.subplots(1, len(rows), sharex=True, sharey=True, squeeze=False)[0]
        for axes, row, table, title in zip(panels, rows, tables, titles, strict=True):
            shown = image(axes, np.ma.masked_invalid(table), cmap=colours(), norm=norm)
            axes.set_title(f"{title}: {label(row.method).strip()}")
            axes.set_xlabel("GPU")
            axes.xaxis.set_major_locator(whole_steps())
            for edge in _node_edges(instance.node):
                axes.axvline(edge - 0.5, color="white", linewidth=0.5)
        panels[0].set_ylabel("layer")
        layer_axis(panels[0], instance.layers, "y")
        ticks = [low, (low + 1) / 2, 1.0, (1 + top) / 2, top]
        bar = figure.colorbar(shown, ax=list(panels), pad=0.012, fraction=0.035, aspect=28, ticks=ticks)
        bar.ax.set_yticklabels([_number(tick, low, top) for tick in ticks])
        bar.ax.minorticks_off()
        bar.set_label("cost / perfect balance")
        for colour, width in (("white", 3.0), (INK, 1.2)):  # seen on whatever lies below
            bar.ax.axhline(1.0, color=colour, linewidth=width)
        bar.outline.set_visible(False)
        svg = to_svg(figure, prefix)
    peaks = [
        f"{row.method} up to {_number(float(np.nanmax(table)), low, top)}"
        for row, table in zip(rows, tables, strict=True)
        if known
    ]
    said = ", ".join(peaks) or "no layer has any load"
    shape = f"{words.count(instance.num_gpus, 'GPU')} in {words.count(instance.num_layers, 'layer')}"
    alt = f"Heat map of the cost of {shape}: {said}."
    caption = (
        f"Divided by its cost in perfect balance: 1 is the middle of the scale, from {_number(low, low, top)} to "
        f"{_number(top, low, top)} (line on the colour bar). The darkest GPU of a layer is the one that others wait "
        f"for: {said}."
    )
    if len(rows) > 1:
        caption += " Both panels have the same scale."
    if _node_edges(instance.node):
        caption += " White lines part the nodes."
    if (summary.ideal == 0).any():
        caption += " Grey: layers without load."
    return Plot("Cost of each GPU in each layer", svg, alt, caption)


def _number(value: float, low: float, top: float) -> str:
    """With as many decimals as tell the ends of the scale from 1."""
    return f"{value:.{2 if top - low > 0.2 else 3}f}"


def before(summary: Summary, best: RowSummary) -> RowSummary | None:
    """``contiguous``, or the worst plan that breaks no rule; ``None`` when that is the best one itself."""
    legal = [row for row in summary.rows if row.objective is not None and not row.remark]
    chosen = summary.legal("contiguous") or max(legal, key=lambda row: row.objective or 0.0)
    return None if chosen is best else chosen


def relative_cost(summary: Summary, row: RowSummary) -> Floats:
    """(L, G) cost over ideal; NaN in a layer without load."""
    cost = summary.gpu_cost(row)
    ideal = summary.ideal[:, None]
    return np.divide(cost, ideal, out=np.full_like(cost, np.nan), where=ideal > 0)


def _node_edges(node: tuple[int, ...]) -> list[int]:
    edges = [gpu for gpu in range(1, len(node)) if node[gpu] != node[gpu - 1]]
    return edges if len(edges) <= 32 else []
