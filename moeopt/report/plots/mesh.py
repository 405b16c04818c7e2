"""Speed of one user against throughput of a GPU: the front of configurations, and what is bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.report.plots.canvas import FAINT, INK, Plot, new_figure, style, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"colocated": "#10355e", "decode": "#c8502f", "apart": "#3f8f7b", "long": "#8a5aa8"}
MARKERS = {"colocated": "o", "decode": "s", "apart": "^", "long": "D"}
FRONTS = {True: ("whole requests on each GPU", "--"), False: ("decoding alone", "-")}
"""Fronts by whether their replicas prefill besides: name and line, which tell them apart without colours."""
NAMED = tuple(name for name, _ in FRONTS.values())
MOST_NAMES = 7
"""Shapes of a front that are named at most, as far as there is room."""


def pareto_svg(solution: Mapping[str, Any]) -> str:
    """The front as an SVG file of its own."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = StringIO()
    with style():
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(_figure(solution)).print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def pareto_png(solution: Mapping[str, Any]) -> bytes:
    """The front as a PNG file, 1,500 points wide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = BytesIO()
    with style():
        figure = _figure(solution)
        figure.set_dpi(150)
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def pareto_plot(solution: Mapping[str, Any], prefix: str) -> Plot:
    """The front for a page; ids begin with `prefix`."""
    with style():
        svg = to_svg(_figure(solution), prefix)
    bought = [point["label"] for point in solution["pareto"] if point["bought"]]
    named = f"; bought: {', '.join(bought)}" if bought else ""
    caption = "Each point is a configuration at one batch; hollow ones miss a service level, ringed ones are bought."
    title = "Speed of one user against throughput of a GPU"
    return Plot(title, svg, f"{title}: {len(solution['pareto'])} points on the front{named}.", caption)


def _figure(solution: Mapping[str, Any]) -> Figure:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    points = solution["pareto"]
    figure = new_figure(4.6)
    axes = figure.subplots()
    axes.grid(color=FAINT, linewidth=0.4)
    _others(axes, solution)
    fronts = [(whole, [one for one in points if (_family(one) == "colocated") is whole]) for whole in (False, True)]
    for whole, listed in fronts:
        for demand in dict.fromkeys(one["demand"] for one in listed):
            _line(axes, [one for one in listed if one["demand"] == demand], whole)
    _bought(axes, solution)
    speeds = [point["user_tokens_per_s"] for point in points]
    _levels(axes, solution)
    axes.set_xlabel("output tokens a second of one user (1 / TPOT)")
    axes.set_ylabel("output tokens a second of one GPU")
    if speeds and max(speeds) > 4 * min(speeds):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0, 1.5)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8))
    for one in (axes.xaxis.set_major_formatter, axes.yaxis.set_major_formatter):
        one(FuncFormatter(lambda value, place: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"))
    axes.set_ylim(0, 1.16 * max((point["gpu_tokens_per_s"] for point in points), default=1.0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    _names(figure, axes, solution, fronts)
    return figure


def _family(point: Mapping[str, Any]) -> str:
    return str(point["label"].split()[0])


def _name(label: str) -> str:
    """A shape without its family, short enough for a figure.

    >>> _name("decode PP2 x TP4 = EP4"), _name("apart 6 x TP1 attention on H200, 4 x TP2 experts on H200, m = 2")
    ('PP2 x TP4 = EP4', '6 x TP1 H200 + 4 x TP2 H200, m2')
    """
    text = label.removeprefix(label.split()[0]).strip()
    for long, short in ((" attention on", ""), (" experts on", ""), (", m = ", ", m"), (" = EP1", "")):
        text = text.replace(long, short)
    first, comma, rest = text.partition(", ")
    return f"{first} + {rest}" if comma and " x TP" in rest else text


def _levels(axes: Any, solution: Mapping[str, Any]) -> None:
    """Service levels, each with its name at the foot of its line."""
    levels = {demand["tpot_slo_s"] for demand in solution["demands"]} - {None}
    for level in sorted(levels):
        axes.axvline(1 / level, color=INK, linewidth=0.9, linestyle=":")
        text = f"TPOT {level * 1e3:g} ms"
        axes.annotate(
            text,
            (1 / level, 0.99),
            xycoords=("data", "axes fraction"),
            xytext=(-3, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
        )


def _others(axes: Any, solution: Mapping[str, Any]) -> None:
    """Usable configurations that decode, at their largest batch, and are on no front."""
    front = {point["config"] for point in solution["pareto"]}
    rows = [row for row in solution["ranking"] if row["config"] not in front and row["behind"] is not None]
    rows = [row for row in rows if row["tpot_s"] and row["tokens_per_s_gpu"] and row["decode_per_s"]]
    if rows:
        across, up = [1 / row["tpot_s"] for row in rows], [row["tokens_per_s_gpu"] for row in rows]
        axes.plot(across, up, "x", color="#a9afb6", markersize=2.5, markeredgewidth=0.6, label="others, largest batch")


def _line(axes: Any, points: Sequence[Mapping[str, Any]], whole: bool) -> None:
    """One front, from batch to batch; what breaks a service level is hollow."""
    across, up = ([point[key] for point in points] for key in ("user_tokens_per_s", "gpu_tokens_per_s"))
    name, dashes = FRONTS[whole]
    colour = COLOURS.get(_family(points[0]), INK) if points else INK
    axes.plot(across, up, color=colour, linewidth=1.3, linestyle=dashes, zorder=2, label=name)
    for family in dict.fromkeys(map(_family, points)):
        for within in (True, False):
            some = [point for point in points if _family(point) == family and point["within_slo"] is within]
            if some:
                axes.plot(
                    [point["user_tokens_per_s"] for point in some],
                    [point["gpu_tokens_per_s"] for point in some],
                    MARKERS.get(family, "o"),
                    color=COLOURS.get(family, INK),
                    markersize=3.6,
                    markeredgewidth=0.7,
                    markerfacecolor=COLOURS.get(family, INK) if within else "white",
                    label=f"{family}{'' if within else ', beyond a service level'}",
                    zorder=3,
                )


def _decoding(solution: Mapping[str, Any]) -> list[tuple[float, float, str]]:
    """Speed, throughput and name of what is bought and decodes."""
    found = []
    for pool in solution["pools"]:
        config, gpus = pool["config"], sum(pool["gpus"].values())
        if config["tpot_s"] and pool["decode_per_s"] > 0 and gpus:
            each = config["tokens_per_s"] * pool["replicas"] / gpus
            found.append(
                (1 / config["tpot_s"], each, f"{pool['replicas']} x {_name(pool['label'])}, batch {config['batch']}")
            )
    return found


def _bought(axes: Any, solution: Mapping[str, Any]) -> None:
    """Rings around what is bought."""
    listed = _decoding(solution)
    if listed:
        across, up = zip(*((one[0], one[1]) for one in listed), strict=True)
        look = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.4}
        axes.plot(across, up, "o", linestyle="", label="bought", zorder=4, **look)


def _names(figure: Figure, axes: Any, solution: Mapping[str, Any], fronts: Sequence[tuple[bool, Any]]) -> None:
    """Names of what is bought, and of shapes along the fronts where nothing else is in the way."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    taken: list[Any] = []
    dots = [dot for line in axes.lines for dot in _dots(axes, line)]
    asked = [(x, y, name, True) for x, y, name in _decoding(solution)]
    for _, listed in fronts:
        asked += [
            (
                point["user_tokens_per_s"],
                point["gpu_tokens_per_s"],
                f"{_name(point['label'])}, batch {point['batch']}",
                False,
            )
            for point in _spread(listed)
            if not point["bought"]
        ]
    for x, y, name, bold in asked:
        for across, up in ((9, 7), (9, -13), (-9, 9), (12, 20), (-9, -14), (14, -26), (20, 34)):
            text = axes.annotate(
                name,
                (x, y),
                xytext=(across, up),
                textcoords="offset points",
                fontsize=8 if bold else 7,
                fontweight="bold" if bold else "normal",
                ha="left" if across > 0 else "right",
                arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkB": 6 if bold else 2},
                zorder=5,
            )
            text.set_in_layout(False)
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer).padded(2)  # without the line to its point
            inside = (
                axes.bbox.x0 <= box.x0
                and box.x1 <= axes.bbox.x1
                and axes.bbox.y0 <= box.y0
                and box.y1 <= figure.bbox.y1
            )
            if (
                inside
                and not any(box.overlaps(other) for other in taken)
                and not any(box.contains(*dot) for dot in dots)
            ):
                taken.append(box)
                break
            text.remove()


def _dots(axes: Any, line: Any) -> Any:
    """Places of a line's marks in the figure, and others on the way between them."""
    marks = axes.transData.transform(line.get_xydata())
    if line.get_linestyle() == "None" or len(marks) < 2 or not line.get_label().startswith(NAMED):
        return marks if line.get_linestyle() == "None" else []
    parts = np.linspace(0, 1, 12)[:, None, None]
    return (marks[:-1] + parts * (marks[1:] - marks[:-1])).reshape(-1, 2)


def _spread(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Points of a front that stand for it: its ends, and shapes in between, evenly along it."""
    if len(points) <= MOST_NAMES:
        return list(points)
    places = {round(place * (len(points) - 1) / (MOST_NAMES - 1)) for place in range(MOST_NAMES)}
    return [points[place] for place in sorted(places)]
