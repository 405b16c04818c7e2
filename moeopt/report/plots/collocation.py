"""Traffic between nodes and the load of every link, before and after a collocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.report.plots.canvas import Plot, colours, image, new_figure, style, to_svg, whole_steps
from moeopt.report.plots.files import as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from moeopt.collocation import CollocationInstance
    from moeopt.result import Result

Floats = NDArray[np.float64]

BEFORE, AFTER = "#9aa1a9", "#0072b2"


def draw(instance: CollocationInstance, result: Result, path: str, *, force: bool = True) -> None:
    """Write the picture as ``.svg`` or ``.png``."""
    from moeopt.documents import write_file

    def figure() -> Figure:
        return _figure(instance, result)

    write_file(path, as_png(figure, 200) if path.lower().endswith(".png") else as_svg(figure), force=force)


def traffic_plot(instance: CollocationInstance, result: Result, prefix: str) -> Plot:
    """The same for a page."""
    with style():
        svg = to_svg(_figure(instance, result), prefix)
    before = "the running plan" if instance.current is not None else "experts in order"
    linked = instance.cluster is not None and instance.pairs is None
    caption = f"Copies between nodes with {before} and with {result.method}, mean over layers."
    caption += " Right, the seconds of every link on the way out, busiest first." if linked else ""
    advice = (result.solution or {}).get("advice", {}).get("reason", "")
    return Plot("Traffic before and after", svg, f"Copies between nodes before and after: {advice}.", caption)


def _figure(instance: CollocationInstance, result: Result) -> Figure:
    from moeopt.collocation.heuristics.simple import id_order
    from moeopt.collocation.plan import Collocation
    from moeopt.limits import Deadline, Limits
    from moeopt.registry import Context

    name = "running plan" if instance.current is not None else "experts in order"
    old = Collocation.of(instance.current) if instance.current is not None else None
    old = old or id_order(instance, Context(Limits(), 0, Deadline(None))).plan
    linked = instance.cluster is not None and instance.pairs is None
    figure = new_figure(3.2)
    panels: list[Any] = list(figure.subplots(1, 3 if linked else 2, squeeze=False)[0])
    tables = [_between_nodes(instance, plan) for plan in (old, result.plan)]
    top = max(float(table.max(initial=0.0)) for table in tables) or 1.0
    for axes, table, title in zip(panels, tables, (f"Before: {name}", f"After: {result.method}"), strict=False):
        shown = image(axes, table, cmap=colours(), vmin=0.0, vmax=top)
        axes.set_title(title)
        axes.set_xlabel("to node")
        axes.xaxis.set_major_locator(whole_steps())
        axes.yaxis.set_major_locator(whole_steps())
        axes.set_aspect("equal")
    panels[0].set_ylabel("from node")
    bar = figure.colorbar(shown, ax=panels[:2], pad=0.02, fraction=0.05, aspect=22)
    bar.set_label("copies a token of the node")
    bar.outline.set_visible(False)
    if linked:
        _links(panels[2], instance, [(name, old, BEFORE), (result.method, result.plan, AFTER)])
    return figure


def _between_nodes(instance: CollocationInstance, plan: Any) -> Floats:
    """(N, N) copies of a token from the node of the row to that of the column, mean over layers; 0 to itself."""
    from moeopt.collocation import seconds, verify

    group = instance.landing
    nodes = int(group.max()) + 1
    found = np.zeros((nodes, nodes))
    for row, held in enumerate(plan.slot_expert):
        counts = verify.count(instance, row, held)
        sent = seconds.traffic(instance, counts).away
        table = np.zeros((nodes, nodes))
        np.add.at(table, (group[:, None], group[None, :]), sent.astype(np.float64))
        own = np.bincount(group, minlength=nodes)[:, None] / len(group)
        found += table / (own * counts.tokens * counts.sources)
    return found / len(plan.slot_expert)


def _links(axes: Axes, instance: CollocationInstance, plans: list[tuple[str, Any, str]]) -> None:
    """Seconds of every link on the way out, all layers, busiest first."""
    from moeopt.collocation import seconds, verify

    paths = seconds.paths_of(instance)
    size = instance.transport.copy_bytes(instance.hidden)[0]
    for name, plan, colour in plans:
        total = np.zeros(0)
        for row, held in enumerate(plan.slot_expert):
            counts = verify.count(instance, row, held)
            sent = seconds.traffic(instance, counts)
            loads = paths.loads(sent.away + sent.within) * seconds.scale(instance, counts) * size
            total = np.pad(total, (0, len(loads) - len(total))) + loads
        times = np.sort(total / np.array(paths.bytes_per_s)[: len(total)])[::-1] * 1e3
        axes.step(np.arange(1, len(times) + 1), times, where="mid", color=colour, label=name, linewidth=1.4)
    axes.set_title("Links, dispatch of all layers")
    axes.set_xlabel("link, busiest first")
    axes.set_ylabel("ms")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0.5)
    axes.legend()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
