"""Speed of one user against throughput of a GPU: the front of configurations, and what is bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from moeopt.report.plots.canvas import FAINT, INK, Plot, new_figure, style, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"colocated": "#10355e", "decode": "#c8502f", "apart": "#3f8f7b", "long": "#8a5aa8"}
MARKERS = {"colocated": "o", "decode": "s", "apart": "^", "long": "D"}


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
    caption = "Each point is a configuration of one replica; hollow ones miss a service level, ringed ones are bought."
    title = "Speed of one user against throughput of a GPU"
    return Plot(title, svg, f"{title}: {len(solution['pareto'])} configurations on the front{named}.", caption)


def _figure(solution: Mapping[str, Any]) -> Figure:
    from matplotlib.ticker import FuncFormatter

    points = solution["pareto"]
    figure = new_figure(4.6)
    axes = figure.subplots()
    axes.grid(color=FAINT, linewidth=0.4)
    _others(axes, solution)
    _front(axes, points)
    for demand in solution["demands"]:
        if demand["tpot_slo_s"] is not None:
            limit = 1 / demand["tpot_slo_s"]
            axes.axvline(limit, color=INK, linewidth=0.8, linestyle=":")
            axes.annotate(
                f" TPOT {demand['tpot_slo_s'] * 1e3:g} ms", (limit, 1.0), xycoords=("data", "axes fraction"), va="top"
            )
    axes.set_xlabel("output tokens a second of one user (1 / TPOT)")
    axes.set_ylabel("output tokens a second of one GPU that decodes")
    axes.set_xscale("log")
    for one in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        one(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.set_ylim(0, 1.12 * max((point["gpu_tokens_per_s"] for point in points), default=1.0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _others(axes: Any, solution: Mapping[str, Any]) -> None:
    """Usable configurations that decode and are not on the front, faint."""
    front = {point["config"] for point in solution["pareto"]}
    for family, colour in COLOURS.items():
        rows = [row for row in solution["ranking"] if row["family"] == family and row["config"] not in front]
        rows = [row for row in rows if row["tpot_s"] and row["tokens_per_s_gpu"] and row["behind"] is not None]
        axes.plot(
            [1 / row["tpot_s"] for row in rows],
            [row["tokens_per_s_gpu"] for row in rows],
            MARKERS[family],
            color=colour,
            alpha=0.25,
            markersize=3,
            markeredgewidth=0,
        )


def _front(axes: Any, points: Sequence[Mapping[str, Any]]) -> None:
    axes.plot(
        [point["user_tokens_per_s"] for point in points],
        [point["gpu_tokens_per_s"] for point in points],
        color=FAINT,
        linewidth=1.4,
        drawstyle="steps-pre",
        zorder=1,
    )
    shown: set[str] = set()
    bought = [point for point in points if point["bought"]]
    for point, above in zip(bought, range(len(bought)), strict=True):
        at = (point["user_tokens_per_s"], point["gpu_tokens_per_s"])
        name = point["label"].removeprefix(point["label"].split()[0]).strip()
        axes.annotate(
            name,
            at,
            xytext=(14, 14 * above + 4),
            textcoords="offset points",
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.7},
            zorder=5,
        )
        axes.plot(
            *at,
            "o",
            markersize=12,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=1.4,
            linestyle="",
            label="bought" if not above else None,
            zorder=4,
        )
    for point in points:
        family = point["label"].split()[0]
        within = point["within_slo"]
        name = family if family not in shown and within else None
        shown |= {family} if within else set()
        axes.plot(
            point["user_tokens_per_s"],
            point["gpu_tokens_per_s"],
            MARKERS.get(family, "o"),
            color=COLOURS.get(family, INK),
            markersize=6,
            markerfacecolor=COLOURS.get(family, INK) if within else "white",
            label=name,
            zorder=3,
        )
