"""A step of micro-batches in time: a row a resource, a colour a micro-batch, idle time, utilisation and the cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moeopt.percent import percent
from moeopt.report.plots.canvas import INK, Plot, new_figure, style, to_svg
from moeopt.report.plots.files import as_png, as_svg
from moeopt.report.timeline import Bar, Lane, Timeline, Window, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#56b4e9", "#d55e00", "#009e73", "#f0e442", "#cc79a7", "#4d4d4d")
"""Told apart by every eye (Okabe and Ito); what is not split is grey."""
UNSPLIT, IDLE, QUIET = "#9aa1a9", "#edeff2", "#62707d"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
SHOWN_UNITS = {"us": "µs"}

LANE, ROOM, APART = 0.62, 0.30, 0.30
"""Heights: of a lane's bars, of the line above them that names layers, and between two resources."""
BREAK = 0.028
"""Width of a break, as a part of all that is drawn."""
INCHES = 8.0
"""Width of the axes, by which it is judged whether a text has room."""
LEGEND_BELOW, LEGEND_LEFT = 0.5, 0.24
"""Inches."""


def timeline_plot(solution: Mapping[str, Any], prefix: str, unit: str = "ms") -> Plot:
    """Draw the step of a plan's solution for a page."""
    step = Timeline.of(solution)
    with style():
        svg = to_svg(_figure(step, unit), prefix)
    title = f"A step of {_words(step)}"
    return Plot(title, svg, f"{title}. {said(step, unit)}", said(step, unit))


def timeline_svg(solution: Mapping[str, Any], unit: str = "ms") -> str:
    """The step as an SVG file of its own."""
    return as_svg(lambda: _figure(Timeline.of(solution), unit))


def timeline_png(solution: Mapping[str, Any], unit: str = "ms") -> bytes:
    """The step as a PNG file, 2,000 points wide."""
    return as_png(lambda: _figure(Timeline.of(solution), unit), 200)


def said(step: Timeline, unit: str = "ms") -> str:
    """The figure in a sentence or two."""
    busy = ", ".join(f"{name} {percent(step.utilisation[name])}" for name in step.resources)
    cycle = f" One more layer costs {_time(step.cycle, unit)}." if step.cycle else ""
    return f"It takes {_time(step.span, unit)}; busy: {busy}.{cycle}"


def _words(step: Timeline) -> str:
    layers = "layer" if step.layers == 1 else "layers"
    return f"{step.layers} {layers} with {step.m} {plural(step.noun, step.m)}, {step.pattern}"


def _time(seconds: float, unit: str) -> str:
    return f"{seconds / UNITS[unit]:.6g} {SHOWN_UNITS.get(unit, unit)}"


@dataclass(frozen=True)
class _Scale:
    """Where a second lies: windows side by side on one scale, a break between two of them."""

    windows: tuple[Window, ...]
    gap: float

    @classmethod
    def of(cls, windows: Sequence[Window]) -> _Scale:
        drawn = sum(window.length for window in windows)
        return cls(tuple(windows), BREAK * drawn / (1 - BREAK * (len(windows) - 1)))

    @property
    def width(self) -> float:
        found = sum(window.length for window in self.windows) + self.gap * (len(self.windows) - 1)
        return found or 1.0  # a step that takes no time is drawn empty

    def left(self, index: int) -> float:
        """Where a window begins."""
        return sum(window.length + self.gap for window in self.windows[:index])

    def at(self, index: int, second: float) -> float:
        return self.left(index) + second - self.windows[index].start

    def cut(self, start: float, end: float) -> list[tuple[float, float]]:
        """The parts of a piece of time that are drawn, at their places."""
        found = []
        for index, window in enumerate(self.windows):
            low, high = max(start, window.start), min(end, window.end)
            if high > low + 1e-9 * self.width:
                found.append((self.at(index, low), self.at(index, high)))
        return found

    def inches(self, low: float, high: float) -> float:
        return (high - low) / self.width * INCHES


def _figure(step: Timeline, unit: str) -> Figure:
    scale = _Scale.of(step.windows())
    tops, depth = _tops(step.lanes)
    figure = new_figure(max(0.62 * depth + 1.15, 2.2))
    axes = figure.subplots()
    axes.set_xlim(0, scale.width)
    axes.set_ylim(depth + 0.05, -0.62 if step.cycle_shown(scale.windows) else -0.3)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _tracks(axes, step, scale, tops)
    for lane, top in zip(step.lanes, tops, strict=True):
        _bars(axes, lane, top, scale, min(len(COLOURS), step.m))
        _layers(axes, lane, top, scale)
    _names(axes, step, tops, scale)
    _breaks(axes, scale, depth)
    _mark_cycle(axes, step, scale, unit)
    _time_axis(axes, step, scale, unit)
    _legend(axes, step)
    return figure


def _tops(lanes: Sequence[Lane]) -> tuple[list[float], float]:
    """The upper edge of each lane, and how far down they reach."""
    found: list[float] = []
    depth, before = 0.0, ""
    for lane in lanes:
        if found and lane.resource != before:
            depth += APART
        found.append(depth)
        depth += ROOM + LANE
        before = lane.resource
    return found, depth


def _tracks(axes: Axes, step: Timeline, scale: _Scale, tops: Sequence[float]) -> None:
    """What would be busy: idle time is what the bars leave of it."""
    from matplotlib.patches import Rectangle

    for top in tops:
        for index, window in enumerate(scale.windows):
            spot = (scale.left(index), top + ROOM)
            axes.add_patch(Rectangle(spot, window.length, LANE, facecolor=IDLE, linewidth=0, zorder=1))


HAIRLINE = 0.012
"""Inches below which a bar is drawn as a line of its own colour."""


def _bars(axes: Axes, lane: Lane, top: float, scale: _Scale, colours: int) -> None:
    from matplotlib.patches import Rectangle

    for bar in lane.bars:
        for low, high in scale.cut(bar.start, bar.end):
            fill = _colour(bar, colours)
            inches = scale.inches(low, high)
            hairline = inches < HAIRLINE
            edge = 0.7 if inches > 0.05 else 0.5 if hairline else 0.25
            rim = fill if hairline else "white"  # a white one would cover it
            spot = (low, top + ROOM)
            axes.add_patch(Rectangle(spot, high - low, LANE, facecolor=fill, edgecolor=rim, linewidth=edge, zorder=2))
            name = "" if bar.micro_batch < 0 else str(bar.micro_batch)
            size = next((size for size in (7.5, 6.0) if inches > size / 125 * len(name) + 0.04), None)
            if size is not None:
                ink = "white" if _dark(fill) else INK
                middle = top + ROOM + LANE / 2
                axes.text((low + high) / 2, middle, name, color=ink, ha="center", va="center_baseline", fontsize=size)


def _layers(axes: Axes, lane: Lane, top: float, scale: _Scale) -> None:
    """A line over the bars of each layer, with its number where there is room."""
    for layer, start, end in lane.runs():
        for low, high in scale.cut(start, end):
            inset = 0.012 * scale.width / INCHES
            y = top + ROOM - 0.07
            axes.plot([low + inset, high - inset], [y, y], color=QUIET, linewidth=0.7, solid_capstyle="butt", zorder=3)
            inches = scale.inches(low, high)
            names = (f"layer {layer}", str(layer))
            name = next((name for name in names if inches > 0.055 * len(name) + 0.03), "")
            if name:
                axes.text((low + high) / 2, y - 0.035, name, color=QUIET, ha="center", va="bottom", fontsize=6.5)


def _names(axes: Axes, step: Timeline, tops: Sequence[float], scale: _Scale) -> None:
    """Resources, and the stages where one serves several, at the left; how busy they are at the right."""
    from matplotlib.transforms import blended_transform_factory

    side = blended_transform_factory(axes.transAxes, axes.transData)
    for name in step.resources:
        mine = [(lane, top) for lane, top in zip(step.lanes, tops, strict=True) if lane.resource == name]
        middle = (mine[0][1] + ROOM + mine[-1][1] + ROOM + LANE) / 2
        shared = len(mine) > 1
        axes.text(-0.08 if shared else -0.012, middle, name, transform=side, ha="right", va="center",
                  fontsize=8.5, fontweight="bold")  # fmt: skip
        if shared:
            for lane, top in mine:
                axes.text(-0.012, top + ROOM + LANE / 2, lane.stage, transform=side, ha="right", va="center",
                          fontsize=7.5, color=QUIET)  # fmt: skip
        axes.text(1.012, middle, percent(step.utilisation[name]), transform=side, ha="left", va="center", fontsize=8.5)
    axes.text(1.012, -0.1, "busy", transform=side, ha="left", va="bottom", fontsize=7.5, color=QUIET)
    axes.set_yticks([])


def _breaks(axes: Axes, scale: _Scale, depth: float) -> None:
    """Two slanting strokes where time is left out, and in the gap the layers that are not seen."""
    for index, window in enumerate(scale.windows[1:], start=1):
        middle = scale.left(index) - scale.gap / 2
        for shift in (-0.16, 0.16):
            x = middle + shift * scale.gap
            axes.plot([x - 0.13 * scale.gap, x + 0.13 * scale.gap], [depth + 0.13, depth - 0.03], color=QUIET,
                      linewidth=0.8, clip_on=False)  # fmt: skip
        axes.text(middle, (ROOM + depth) / 2, window.unseen, ha="center", va="center", rotation=90, fontsize=7,
                  color=QUIET)  # fmt: skip


def _mark_cycle(axes: Axes, step: Timeline, scale: _Scale, unit: str) -> None:
    """A dimension line over a lap that takes as long as the cycle."""
    found = step.cycle_shown(scale.windows)
    if found is None or step.cycle is None:
        return
    low, high = scale.cut(*found)[0]
    y = -0.16
    axes.annotate("", (low, y), (high, y), arrowprops={"arrowstyle": "<|-|>,head_length=0.35,head_width=0.14",
                  "color": INK, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0})  # fmt: skip
    for x in (low, high):
        axes.plot([x, x], [y - 0.1, 0.1], color=INK, linewidth=0.5, dashes=(2, 2))
    axes.text((low + high) / 2, y - 0.07, f"cycle {_time(step.cycle, unit)}", ha="center", va="bottom", fontsize=7.5)


def _time_axis(axes: Axes, step: Timeline, scale: _Scale, unit: str) -> None:
    """Round times in every window, and the end of the step."""
    from matplotlib.ticker import MaxNLocator

    size = UNITS[unit]
    ticks, names = [], []
    for index, window in enumerate(scale.windows):
        room = scale.inches(0, window.length)
        locator = MaxNLocator(nbins=max(int(room / 0.6), 1), steps=[1, 2, 2.5, 5, 10], min_n_ticks=1)
        for value in locator.tick_values(window.start / size, window.end / size):
            second = float(value) * size
            near = step.span - second
            inside = window.start - 1e-9 * step.span <= second <= window.end + 1e-9 * step.span
            if inside and not 1e-9 * step.span < near < 0.5 / INCHES * scale.width:
                ticks.append(scale.at(index, second))
                names.append(f"{value:.10g}")
    end = f"{step.span / size:.6g}"
    if end not in names:
        ticks.append(scale.width)
        names.append(end)
    axes.set_xticks(ticks, names)
    axes.set_xlabel(f"time, {SHOWN_UNITS.get(unit, unit)}")


def _legend(axes: Axes, step: Timeline) -> None:
    """In a line under the axis, as far below it whatever the height of the figure."""
    from matplotlib.patches import Patch
    from matplotlib.transforms import ScaledTranslation

    shown = min(step.m, len(COLOURS))
    patches = [Patch(alpha=0, label=f"{step.noun} ")]
    patches += [Patch(facecolor=COLOURS[index], label=str(index)) for index in range(shown)]
    if step.m > shown:
        patches[-1].set_label(f"{shown - 1}, then again")
    if any(bar.micro_batch < 0 for lane in step.lanes for bar in lane.bars[:1]):
        patches.append(Patch(facecolor=UNSPLIT, label="not split"))
    patches.append(Patch(facecolor=IDLE, label="idle"))
    figure = axes.get_figure(root=True)
    assert figure is not None
    below = axes.transAxes + ScaledTranslation(-LEGEND_LEFT, -LEGEND_BELOW, figure.dpi_scale_trans)
    made = axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(0.0, 0.0), bbox_transform=below, borderpad=0,
                       borderaxespad=0, ncols=len(patches), handlelength=1.4, columnspacing=1.4)  # fmt: skip
    made.legend_handles[0].set_visible(False)  # type: ignore[union-attr]


def _colour(bar: Bar, colours: int) -> str:
    return UNSPLIT if bar.micro_batch < 0 else COLOURS[bar.micro_batch % colours]


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 130
