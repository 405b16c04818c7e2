"""Where the redundant replicas go: loads of the experts in order, and the replicas each of them gets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.report import words
from moeopt.report.plots.canvas import (
    FAINT,
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
from moeopt.report.summary import Floats, Summary

DISCRETE = 10
"""Up to this many replicas each number has a colour of its own."""


def replica_plot(summary: Summary, prefix: str) -> Plot | None:
    """Draw loads (above) and replicas of the best plan (below), experts of each layer sorted by load."""
    best = summary.best
    if best is None or best.solution is None:
        return None
    instance = summary.instance
    counts = np.array([layer["replicas"] for layer in best.solution["layers"]])
    loads = instance.loads.astype(np.float64)
    order = np.argsort(-loads, axis=1, kind="stable")
    ranked = np.take_along_axis(counts, order, axis=1)
    curves = _relative(np.take_along_axis(loads, order, axis=1))
    most, width = int(counts.max()), _width(ranked)
    with style():
        figure = new_figure(min(max(2.9 + 0.07 * instance.num_layers, 3.4), 6.4))
        grid = figure.add_gridspec(2, 2, width_ratios=[1, 0.018], height_ratios=[1.5, 1.2 + 0.07 * len(counts)])
        top = figure.add_subplot(grid[0, 0])
        cells = figure.add_subplot(grid[1, 0], sharex=top)
        _draw_loads(top, curves[:, :width])
        shown = image(cells, ranked[:, :width], cmap=_map(most), norm=_norm(most))
        cells.set_xlabel("expert, by load in its layer (0: most loaded)")
        cells.set_ylabel("layer")
        cells.xaxis.set_major_locator(whole_steps())
        layer_axis(cells, instance.layers, "y")
        cells.set_title(f"Replicas by {label(best.method).strip()}")
        bar = figure.colorbar(shown, cax=figure.add_subplot(grid[1, 1]))
        bar.set_label("replicas")
        ticks = list(range(1, most + 1)) if most <= DISCRETE else _doublings(most)
        bar.set_ticks(ticks, labels=[str(tick) for tick in ticks])
        bar.ax.minorticks_off()
        bar.ax.tick_params(length=0)
        bar.outline.set_visible(False)
        svg = to_svg(figure, prefix)
    many = int((counts > 1).sum())
    share = many / counts.size
    said = f"{words.percent(share)} of the experts have more than one, none more than {most}"
    said = said if many else "one each"
    shape = f"{words.count(instance.num_experts, 'expert')} in {words.count(len(counts), 'layer')}"
    alt = f"Loads and replica counts of {shape}; {said}."
    caption = (
        "Above, load of the experts over the mean of their layer, each layer sorted by load: median over layers "
        f"(line) and range (band). Below, the replicas that the best plan gives them: {said}."
    )
    if width < instance.num_experts:
        caption += f" Left out: experts from rank {width} on, which all have one replica."
    return Plot("Loads and replicas", svg, alt, caption)


def _width(ranked: NDArray[np.int64]) -> int:
    """How many ranks to draw: all, or where most experts have one replica in every layer, the others and a few more."""
    experts = ranked.shape[1]
    several = np.flatnonzero((ranked > 1).any(axis=0))
    last = int(several[-1]) + 1 if several.size else 0
    wanted = max(round(1.1 * last), 32)
    return wanted if wanted < 0.7 * experts else experts


def _relative(ranked: Floats) -> Floats:
    """(layers with load, E) sorted loads over their layer's mean."""
    busy = ranked[ranked.sum(axis=1) > 0]
    relative: Floats = busy / busy.mean(axis=1, keepdims=True) if len(busy) else busy
    return relative


def _draw_loads(axes: object, curves: NDArray[np.float64]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    axes.set_title("Loads of the experts")
    axes.set_ylabel("load / mean")
    axes.tick_params(labelbottom=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, linewidth=0.4)
    axes.axhline(1.0, color="#767c84", linewidth=0.7, dashes=(6, 3))
    if not len(curves):
        return
    ranks = np.arange(curves.shape[1])
    axes.fill_between(ranks, curves.min(axis=0), curves.max(axis=0), color="#9fb2c6", linewidth=0, alpha=0.55)
    alone = curves.shape[1] == 1
    axes.plot(ranks, np.median(curves, axis=0), color="#10355e", linewidth=1.5, marker="o" if alone else None)
    axes.set_ylim(bottom=0)


def _map(most: int) -> object:
    return colours().resampled(most) if most <= DISCRETE else colours()


def _norm(most: int) -> object:
    from matplotlib.colors import BoundaryNorm, LogNorm

    if most <= DISCRETE:
        return BoundaryNorm(np.arange(0.5, most + 1), max(most, 1))
    return LogNorm(1, most)


def _doublings(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length()) if 2**power <= most]
