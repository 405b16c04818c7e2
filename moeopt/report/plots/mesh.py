"""Speed of one user against throughput of a GPU: the front of configurations, and what is bought."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moeopt.report.plots.canvas import FAINT, INK, Plot, new_figure, style, to_svg
from moeopt.report.plots.files import as_png, as_svg
from moeopt.report.plots.labels import Label, place_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"colocated": "#10355e", "decode": "#c8502f", "apart": "#3f8f7b", "long": "#8a5aa8"}
MARKERS = {"colocated": "o", "decode": "s", "apart": "^", "long": "D"}
NAMES = {
    "colocated": "colocated",
    "decode": "decode pools, with their prefill",
    "apart": "attention and experts apart, with prefill",
    "long": "cache over tokens, with prefill",
}
DASHES = ("-", "--", "-.", ":")
"""Lines of the fronts of several demands."""
WIDE = 30
"""Ratio of largest to least from which throughput is drawn by its logarithm."""
MOST_NAMES = 6
"""Shapes of the front that are named at most, beside what is bought and as far as there is room."""
Point = Mapping[str, Any]


def pareto_svg(solution: Mapping[str, Any]) -> str:
    """The front as an SVG file of its own."""
    return as_svg(lambda: _figure(solution))


def pareto_png(solution: Mapping[str, Any]) -> bytes:
    """The front as a PNG file, 1,500 points wide."""
    return as_png(lambda: _figure(solution))


def pareto_plot(solution: Mapping[str, Any], prefix: str) -> Plot:
    """The front for a page; ids begin with `prefix`."""
    with style():
        svg = to_svg(_figure(solution), prefix)
    bought = [one.name for one in _bought(solution, _placed(solution))]
    named = f"; bought: {', '.join(bought)}" if bought else ""
    caption = (
        "Each point is a configuration at one batch; GPUs that prefill for it count. The line joins those that no "
        "other beats in both; hollow ones miss a service level, ringed ones are bought. What is bought need not lie on "
        "the line: a few whole replicas that just carry the rate may be cheaper than fast ones that stand idle."
    )
    title = "Speed of one user against throughput of a GPU"
    joint = sum(point["joint"] for point in solution["pareto"])
    return Plot(title, svg, f"{title}: {joint} points on the front{named}.", caption)


def _figure(solution: Mapping[str, Any]) -> Figure:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    points = _placed(solution)
    figure = new_figure(4.9)
    axes = figure.subplots()
    axes.grid(color=FAINT, linewidth=0.4)
    for demand in dict.fromkeys(point["demand"] for point in points):
        _front(axes, solution, [point for point in points if point["demand"] == demand])
    _points(axes, points)
    bought = _bought(solution, points)
    ring: dict[str, Any] = {"markersize": 12, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.4}
    for pool in bought:
        colour, mark = COLOURS.get(pool.family, INK), MARKERS.get(pool.family, "o")
        axes.plot([pool.x], [pool.y], mark, linestyle="", color=colour, markersize=5.6, zorder=4)
        axes.plot([pool.x], [pool.y], "o", linestyle="", label=f"bought ({pool.family}): {pool.name}", zorder=5, **ring)
    axes.set_xlabel("output tokens a second of one user (1 / TPOT)")
    axes.set_ylabel("output tokens a second of one GPU,\nwhole requests: GPUs that prefill count")
    speeds = [*(point["user_tokens_per_s"] for point in points), *(one.x for one in bought)]
    each = [*(point["whole_tokens_per_s"] for point in points), *(one.y for one in bought)]
    if points and max(speeds) > 4 * min(speeds):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0, 1.5)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8))
    if points and max(each) > WIDE * min(each):
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_locator(LogLocator(base=2))
        axes.set_ylim(min(each) / 1.3, max(each) * 2.2)
    else:
        axes.set_ylim(0, 1.25 * max(each, default=1.0))
    if points:
        _room(axes, speeds)
    for one in (axes.xaxis.set_major_formatter, axes.yaxis.set_major_formatter):
        one(FuncFormatter(lambda value, place: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    _levels(axes, solution, figure)
    figure.legend(loc="outside lower center", ncols=3)
    _names(figure, axes, points, bought)
    return figure


def _room(axes: Any, speeds: Sequence[float]) -> None:
    """Space beside the outermost points, so that rings and names have some."""
    low, high = min(speeds), max(speeds)
    if axes.get_xscale() == "log":
        part = (high / low) ** 0.07
        axes.set_xlim(low / part, high * part)
    else:
        part = 0.07 * ((high - low) or high)
        axes.set_xlim(low - part, high + part)


def _name(label: str) -> str:
    """A shape without its family, short enough for a figure.

    >>> _name("decode PP2 x TP4 = EP4"), _name("apart 6 x TP1 attention on H200, 4 x TP2 experts on H200, m = 2")
    ('PP2 x TP4 = EP4', '6 x TP1 H200 + 4 x TP2 H200, m2')
    >>> _name("decode TP2 x DP84 = EP168"), _name("decode TP1 = EP1")
    ('TP2 x DP84 = EP168', 'TP1')
    """
    first = label.split()[0]
    text = label.removeprefix(first).strip() if first in COLOURS else label
    text = re.sub(r" = EP1\b", "", text)
    for long, short in ((" attention on", ""), (" experts on", ""), (", m = ", ", m")):
        text = text.replace(long, short)
    first, comma, rest = text.partition(", ")
    return f"{first} + {rest}" if comma and " x TP" in rest else text


def _levels(axes: Any, solution: Mapping[str, Any], figure: Figure) -> None:
    """Service levels: a line each, named above the frame where nothing else is."""
    levels = {demand["tpot_slo_s"] for demand in solution["demands"]} - {None}
    for level in sorted(levels):
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, 0.97 / level), max(high, 1.03 / level))
        axes.axvline(1 / level, color=INK, linewidth=0.9, linestyle=":")
        place = {"xycoords": ("data", "axes fraction"), "xytext": (0, 3), "textcoords": "offset points"}
        axes.annotate(f"TPOT {level * 1e3:g} ms", (1 / level, 1.0), ha="center", va="bottom", **place)


def _front(axes: Any, solution: Mapping[str, Any], points: Sequence[Point]) -> None:
    """The line through what no other point beats."""
    joint = sorted((point for point in points if point["joint"]), key=lambda point: point["user_tokens_per_s"])
    across, up = ([point[key] for point in joint] for key in ("user_tokens_per_s", "whole_tokens_per_s"))
    several = len(solution["demands"]) > 1
    of = f" of {solution['demands'][joint[0]['demand']]['llm']}" if several and joint else ""
    dashes = DASHES[joint[0]["demand"] % len(DASHES)] if joint else "-"
    axes.plot(across, up, dashes, color=INK, linewidth=1.1, zorder=2, label=f"front{of}")


def _points(axes: Any, points: Sequence[Point]) -> None:
    """Points by family: those beyond a service level hollow, those off the front small and faint."""
    for family in dict.fromkeys(point["family"] for point in points):
        mine = [point for point in points if point["family"] == family]
        colour, mark = COLOURS.get(family, INK), MARKERS.get(family, "o")
        said = NAMES.get(family, family)
        for joint, within in ((False, True), (False, False), (True, False), (True, True)):
            some = [point for point in mine if point["joint"] is joint and point["within_slo"] is within]
            if not some:
                continue
            across, up = ([point[key] for point in some] for key in ("user_tokens_per_s", "whole_tokens_per_s"))
            look = {"color": colour, "markersize": 4.6 if joint else 2.6, "markeredgewidth": 0.8}
            look |= {"markerfacecolor": colour if within else "white", "alpha": 1.0 if joint else 0.45}
            name = f"{said}{'' if within else ', beyond a service level'}{'' if joint else ', beaten'}"
            axes.plot(across, up, mark, linestyle="", label=name, zorder=3, **look)


class Bought(NamedTuple):
    """What is bought and decodes: speed, throughput with prefill, family, and replicas with shape and batch."""

    x: float
    y: float
    family: str
    name: str


def _placed(solution: Mapping[str, Any]) -> list[Point]:
    """Points that have a throughput of whole requests."""
    return [point for point in solution["pareto"] if point["whole_tokens_per_s"] is not None]


def _bought(solution: Mapping[str, Any], points: Sequence[Point]) -> list[Bought]:
    beside = {
        point["demand"]: 1 / point["whole_tokens_per_s"] - 1 / point["gpu_tokens_per_s"]
        for point in points
        if point["family"] != "colocated"
    }
    found = []
    for pool in solution["pools"]:
        config, gpus = pool["config"], sum(pool["gpus"].values())
        alone = 0.0 if config["family"] == "colocated" else beside.get(config["demand"])
        if config["tpot_s"] and pool["decode_per_s"] > 0 and gpus and alone is not None:
            demand = solution["demands"][config["demand"]]
            each = pool["decode_per_s"] * demand["output_tokens_per_s"] / demand["rate_per_s"] / gpus
            name = f"{pool['replicas']} x {_name(pool['label'])}, batch {config['batch']}"
            found.append(Bought(1 / config["tpot_s"], 1 / (1 / each + alone), config["family"], name))
    return found


def _names(figure: Figure, axes: Any, points: Sequence[Point], bought: Sequence[Bought]) -> None:
    """Names of what is bought, and of shapes along the front where there is room."""
    labels = [Label(one.x, one.y, one.name, bold=True) for one in bought]
    demands = dict.fromkeys(point["demand"] for point in points)
    for demand in demands:
        joint = [point for point in points if point["demand"] == demand and point["joint"]]
        labels += [
            Label(
                point["user_tokens_per_s"],
                point["whole_tokens_per_s"],
                f"{_name(point['label'])}, batch {point['batch']}",
            )
            for point in _spread(joint, max(MOST_NAMES // len(demands), 2))
            if not point["bought"]
        ]
    place_labels(figure, axes, labels)


def _spread(points: Sequence[Point], most: int) -> list[Point]:
    """Points of a front that stand for it: its ends, and shapes in between, evenly along it."""
    if len(points) <= most:
        return list(points)
    places = {round(place * (len(points) - 1) / (most - 1)) for place in range(most)}
    return [points[place] for place in sorted(places)]
