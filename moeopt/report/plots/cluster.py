"""A link graph drawn in rows: spines and leaves above, ports, PCIe and GPUs below, NVSwitch under the GPUs.

Widths of lines go with bandwidth, colours with the kind of link; what is faulty is red.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from moeopt.report import words
from moeopt.report.plots.canvas import WIDTH_IN, Plot, label, style, to_svg
from moeopt.report.plots.cluster_boxes import BAD, DIM, draw_grounds, draw_nodes
from moeopt.report.plots.cluster_layout import Box, Layout, place
from moeopt.report.plots.cluster_parts import Parts, parts_of
from moeopt.report.plots.files import as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from moeopt.cluster import Cluster, Described

COLOURS = {"nvlink": "#009e73", "xgmi": "#009e73", "link": "#009e73", "pcie": "#8b939c", "smp": "#b07d3b",
           "nic": "#0072b2", "uplink": "#56a4d8"}  # fmt: skip
WORDS = {"nvlink": "NVLink", "xgmi": "xGMI", "link": "link", "pcie": "PCIe", "smp": "between sockets",
         "nic": "port to switch", "uplink": "switch to switch"}  # fmt: skip
DASHES = (0, (2.5, 1.8))
THICK = 3.4
"""Points of the widest link."""


def cluster_plot(what: Cluster | Described, prefix: str) -> Plot:
    """Draw a cluster, or hosts and switches, for a page."""
    with style():
        svg = to_svg(_figure(what), prefix)
    title = f"Links of {label(what.name).strip()}"
    return Plot(title, svg, f"{title}. {said(what)}", said(what))


def cluster_svg(what: Cluster | Described) -> str:
    """The graph as an SVG file of its own."""
    return as_svg(lambda: _figure(what))


def cluster_png(what: Cluster | Described) -> bytes:
    """The graph as a PNG file, 2,000 points wide."""
    return as_png(lambda: _figure(what), 200)


def said(what: Cluster | Described) -> str:
    """The figure in a sentence or two."""
    from moeopt.cluster import Cluster

    faults = what.faults()
    broken = f" {words.count(len(faults), 'fault')}: {faults[0].text}" if faults else ""
    broken += ", and more." if len(faults) > 1 else "." if faults else ""
    if isinstance(what, Cluster):
        tiers = "; ".join(f"{tier.name} joins {max(tier.sizes)} at {tier.bytes_per_s / 1e9:.4g} GB/s a GPU"
                          for tier in what.tiers())  # fmt: skip
        size = f"{words.count(what.num_gpus, 'GPU')} in {words.count(what.num_nodes, 'node')}"
        return f"{size}; {tiers or 'nothing joins them'}.{broken}"
    return f"{what.form} with {words.count(len(what.hosts), 'host')}.{broken}"


def _figure(what: Cluster | Described) -> Figure:
    from matplotlib.figure import Figure

    parts = parts_of(what)
    found = place(parts, WIDTH_IN)
    span = found.right - found.left
    left, right = found.left - 0.085 * span - 0.1, found.right + 0.015 * span
    inch = WIDTH_IN / (right - left)
    unit = min(max(inch, 0.34), 0.62)  # inches of a row's unit: rows keep their height when GPUs get narrow
    top, bottom = found.top + 0.25, found.bottom - 0.15 - _arcs(parts, found)
    legend, head = 0.36, 0.42
    height = (top - bottom) * unit + legend + head
    figure = Figure(figsize=(WIDTH_IN, height))
    axes = figure.add_axes((0.0, legend / height, 1.0, 1 - (legend + head) / height))
    middle, half = (left + right) / 2, max(right - left, WIDTH_IN) / 2  # few GPUs are not blown up
    axes.set_xlim(middle - half, middle + half)
    axes.set_ylim(bottom, top)
    axes.axis("off")
    scale = max((data["bytes_per_s"] or 0.0 for *_, data in parts.graph.edges(data=True)), default=0.0)
    small = WIDTH_IN / (2 * half) * 72  # points of a GPU's width
    draw_grounds(axes, found, parts, small)
    _links(axes, parts, found, scale)
    draw_nodes(axes, parts, found, small)
    edge = middle - half * 0.985 if right - left >= WIDTH_IN else left
    for y, name in found.rows:
        axes.text(edge, y, name, ha="left", va="center", fontsize=8, color=DIM)
    figure.text(0.012, 1 - 0.2 / height, label(what.name, 60).strip(), fontsize=9.5, fontweight="bold", va="center")
    figure.text(0.988, 1 - 0.2 / height, _head(what, parts), fontsize=8, color=DIM, ha="right", va="center")
    _legend(figure, parts, scale, height)
    return figure


def _head(what: Any, parts: Parts) -> str:
    if hasattr(what, "gpus"):
        domains = sum(size > 1 for size in Counter(map(int, what.domain_of)).values())
        text = f"{words.count(what.num_gpus, 'GPU')}, {words.count(what.num_nodes, 'node')}, "
        fast = "xGMI" if any(data["kind"] == "xgmi" for *_, data in what.graph.edges(data=True)) else "NVLink"
        text += words.count(domains, f"{fast} domain") if domains else "no NVLink"
    else:
        text = f"{what.form}, {words.count(len(what.hosts), 'host')}"
    if parts.left_out:
        text += f"; {words.count(parts.left_out, 'host' if parts.base == 'host' else 'server')} not drawn"
    return text


def _arcs(parts: Parts, found: Layout) -> float:
    """Room below the GPUs for links from GPU to GPU."""
    nodes = parts.graph.nodes
    spans = [abs(found.boxes[u].x - found.boxes[v].x) for u, v in parts.graph.edges
             if nodes[u]["kind"] == nodes[v]["kind"] == "gpu" and u != v]  # fmt: skip
    return 0.75 * _deep(max(spans)) if spans else 0.0


def _deep(span: float) -> float:
    return 0.32 * min(span, 12.0) + 0.25


def _width(speed: float | None, scale: float) -> float:
    return 0.9 if speed is None or scale == 0 else 0.5 + (THICK - 0.5) * math.sqrt(speed / scale)


def _fault_of(parts: Parts, src: str, dst: str) -> str | None:
    return parts.bad.get((src, dst)) or parts.bad.get((dst, src))


def _links(axes: Axes, parts: Parts, found: Layout, scale: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    nodes = parts.graph.nodes
    for src, dst, data in parts.graph.edges(data=True):
        bad = _fault_of(parts, src, dst)
        back = parts.graph.has_edge(dst, src)
        if src not in found.boxes or dst not in found.boxes or src == dst or (back and src > dst):
            continue
        one, other = found.boxes[src], found.boxes[dst]
        speeds = [data["bytes_per_s"], parts.graph[dst][src]["bytes_per_s"]] if back else [data["bytes_per_s"]]
        known = [speed for speed in speeds if speed is not None]
        width = _width(min(known) if known else None, scale)
        broken = bad in ("zero-bandwidth", "down", "missing")
        colour = BAD if bad else COLOURS[data["kind"]]
        look: dict[str, Any] = {
            "color": colour,
            "linewidth": max(width, 1.4) if bad else width,
            "zorder": 4 if bad else 2,
            "solid_capstyle": "butt",
            "linestyle": DASHES if broken else "-",
        }
        if nodes[src]["kind"] == nodes[dst]["kind"] == "gpu":
            _arc(axes, one, other, look)
            continue
        start, end = _ends(one, other)
        if bad == "one-way":
            arrow = FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=9, color=colour, linewidth=1.4, zorder=4
            )
            axes.add_patch(arrow)
            continue
        axes.plot([start[0], end[0]], [start[1], end[1]], **look)
        if broken:
            axes.plot([(start[0] + end[0]) / 2], [(start[1] + end[1]) / 2], marker="x", color=BAD, markersize=5.5,
                      markeredgewidth=1.6, zorder=5)  # fmt: skip
    for where, kind in parts.bad.items():
        if kind == "missing" and where[0] in found.boxes and where[1] in found.boxes:
            start, end = _ends(found.boxes[where[0]], found.boxes[where[1]])
            axes.plot([start[0], end[0]], [start[1], end[1]], color=BAD, linewidth=1.4, linestyle=DASHES, zorder=4)


def _ends(one: Box, other: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """From edge to edge; onto a wide bar straight down."""
    low, high = (one, other) if one.y <= other.y else (other, one)
    if low.y == high.y:
        left, right = (one, other) if one.x <= other.x else (other, one)
        return (left.x + left.width / 2, left.y), (right.x - right.width / 2, right.y)
    bottom, top = low.x, high.x
    if low.width > 2.0 > high.width:  # an NVSwitch below its GPUs
        bottom = top
    elif high.width > 2.0 > low.width:
        top = min(max(bottom, high.x - high.width / 2 + 0.1), high.x + high.width / 2 - 0.1)
    return (bottom, low.y + low.height / 2), (top, high.y - high.height / 2)


def _arc(axes: Axes, one: Box, other: Box, look: dict[str, Any]) -> None:
    """A link from GPU to GPU, below them; the further apart the deeper."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, right = (one, other) if one.x <= other.x else (other, one)
    deep = _deep(right.x - left.x)
    foot = left.y - left.height / 2
    shift = 0.22 * left.width
    points = [
        (left.x + shift, foot),
        (left.x + shift, foot - deep),
        (right.x - shift, foot - deep),
        (right.x - shift, foot),
    ]
    curve = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    axes.add_patch(PathPatch(curve, facecolor="none", edgecolor=look["color"], linewidth=look["linewidth"],
                             linestyle=look["linestyle"], zorder=look["zorder"]))  # fmt: skip


def _legend(figure: Figure, parts: Parts, scale: float, height: float) -> None:
    from matplotlib.lines import Line2D

    speeds: dict[str, list[float]] = defaultdict(list)
    for src, dst, data in parts.graph.edges(data=True):
        if data["bytes_per_s"] and not _fault_of(parts, src, dst):
            speeds[data["kind"]].append(data["bytes_per_s"])
        else:
            speeds.setdefault(data["kind"], [])
    lines = []
    for kind in COLOURS:
        if kind in speeds:
            low, high = min(speeds[kind], default=None), max(speeds[kind], default=None)
            text = WORDS[kind].replace("port", "host") if parts.base == "host" else WORDS[kind]
            if low is not None and high is not None:
                text += f" {low / 1e9:.4g}" + (f" to {high / 1e9:.4g}" if high > low * 1.001 else "") + " GB/s"
            lines.append(Line2D([], [], color=COLOURS[kind], linewidth=_width(high, scale), label=text))
    if parts.bad:
        lines.append(
            Line2D([], [], color=BAD, linewidth=1.6, label=f"fault: {', '.join(sorted(set(parts.bad.values())))}")
        )
    if lines:
        figure.legend(handles=lines, loc="lower left", bbox_to_anchor=(0.008, 0.04 / height), ncols=len(lines),
                      handlelength=1.6, columnspacing=1.6, borderaxespad=0.0)  # fmt: skip
