"""The value of every candidate over m, or over the batch with a line for each m, and what no order gets beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.report.microbatch_words import SHOWN, UNITS, noun, part, unit_for
from moeopt.report.plots.canvas import FAINT, INK, Plot, new_figure, style, to_svg
from moeopt.report.plots.looks import LOOKS
from moeopt.report.timeline import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from moeopt.microbatch import MicrobatchInstance

Rows = Sequence[Mapping[str, Any]]
WHY_NOT = {"memory": "does not fit", "tbt": "too slow"}


def sweep_plot(instance: MicrobatchInstance, solution: Mapping[str, Any], prefix: str) -> Plot | None:
    """Draw what the best method looked at, ``None`` where it was one candidate."""
    rows = [row for row in solution["sweep"] if row["time_s"]]
    if len(rows) < 2:
        return None
    by_time = instance.objective == "time"
    batches = sorted({row["batch"] for row in rows})
    over_batch = instance.batches is not None and len(batches) > 1
    unit = unit_for([row["time_s"] for row in rows])
    with style():
        figure = new_figure(3.4)
        axes = figure.subplots()
        axes.grid(color=FAINT, linewidth=0.4)
        drawn = _series(axes, rows, "batch" if over_batch else "m", by_time, UNITS[unit])
        _marks(axes, drawn, solution, "batch" if over_batch else "m", by_time, UNITS[unit])
        what = plural(noun(instance), 2)
        axes.set_xlabel("tokens of a step" if over_batch else f"{plural(part(instance), 2)} of a step, m")
        axes.set_ylabel(f"time of a step, {SHOWN.get(unit, unit)}" if by_time else f"{what} a second")
        axes.set_ylim(bottom=0)
        _ticks(axes, [row["batch" if over_batch else "m"] for row in rows])
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=2.6)
        svg = to_svg(figure, prefix)
    goal = "Time of a step" if by_time else f"{what.capitalize()} a second"
    title = f"{goal} over {'the batch' if over_batch else 'm'}"
    better = "Lower" if by_time else "Higher"
    caption = f"{better} is better; ringed: the plan; small marks: what no order of service gets beyond."
    if len(drawn) < len(rows):
        caption += f" Drawn: {len(drawn):,} of {len(rows):,} candidates, those of the best m."
    if any(row["why_not"] for row in drawn):
        caption += " Hollow: does not keep a limit."
    best = f"m = {solution['m']}, {solution['batch']:,} {noun(instance) if solution['batch'] == 1 else what}"
    return Plot(title, svg, f"{title}: {len(rows)} candidates; the plan has {best}.", caption)


def _value(row: Mapping[str, Any], by_time: bool, size: float) -> float:
    return float(row["time_s"] / size if by_time else row["throughput"])


def thinned(points: Rows, most: int = 200) -> int:
    """Every which of many points has a mark, so that a page stays small."""
    return max(1, len(points) // most)


def _series(axes: Axes, rows: Rows, across: str, by_time: bool, size: float) -> Rows:
    """A line for each m, those with the best values if there are many; over m there is one. What is drawn."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["m"] if across == "batch" else None, []).append(row)
    sign = 1 if by_time else -1
    ranked = sorted(groups, key=lambda key: min(sign * _value(row, by_time, size) for row in groups[key]))
    shown = sorted(ranked[: len(LOOKS)], key=lambda key: key or 0)
    for key in shown:
        points = sorted(groups[key], key=lambda row: row[across])
        colour, line, marker = LOOKS[ranked.index(key)]
        values = [_value(row, by_time, size) for row in points]
        name = "candidates" if key is None else f"m = {key}"
        axes.plot(
            [row[across] for row in points], values, color=colour, linestyle=line, linewidth=1.1, zorder=2, label=name,
            marker=marker, markersize=4 if len(points) <= 24 else 2.5, markevery=thinned(points, 24),
        )  # fmt: skip

    return [row for key in shown for row in groups[key]]


def _marks(axes: Axes, rows: Rows, solution: Mapping[str, Any], across: str, by_time: bool, size: float) -> None:
    """What no order gets beyond, what breaks a limit, and the plan."""
    bounds = [row for row in rows if row["lower_bound_s"]]
    if bounds:
        seconds = [row["lower_bound_s"] for row in bounds]
        values = [one / size if by_time else row["batch"] / one for row, one in zip(bounds, seconds, strict=True)]
        where = [row[across] for row in bounds]
        look: dict[str, Any] = {
            "color": INK,
            "markersize": 9,
            "markeredgewidth": 0.9,
            "zorder": 1,
            "label": "bound of each",
        }
        axes.plot(where, values, "_", markevery=thinned(bounds), **look)
    for why in dict.fromkeys(row["why_not"] for row in rows if row["why_not"]):
        bad = [row for row in rows if row["why_not"] == why]
        axes.plot(
            [row[across] for row in bad], [_value(row, by_time, size) for row in bad], "o" if why == "tbt" else "s",
            linestyle="", markerfacecolor="white", markeredgecolor="#62707d", markersize=4.6, zorder=3,
            label=WHY_NOT.get(why, why), markevery=thinned(bad),
        )  # fmt: skip
    plan = (solution[across], _value(solution, by_time, size))
    ring: dict[str, Any] = {"markersize": 12, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.5}
    axes.plot(*plan, "o", linestyle="", zorder=4, label="the plan", **ring)


def _ticks(axes: Axes, values: Sequence[int]) -> None:
    """Whole numbers; on a scale of powers of two where there are several of them."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if min(values) > 0 and max(values) >= 16 * min(values):
        axes.set_xscale("log", base=2)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if value < 1e6 else f"{value:.3g}"))
