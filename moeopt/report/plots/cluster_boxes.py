"""Boxes and grounds of a link graph, with their names as far as there is room."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from moeopt.report.plots.canvas import FAINT, INK, label
from moeopt.report.plots.cluster_layout import Layout
from moeopt.report.plots.cluster_parts import Parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILL = {"gpu": "#ffffff", "nvswitch": "#d5efe6", "pcie": "#eceef1", "nic": "#dbe9f5", "leaf": "#cfe2f3",
        "spine": "#b9d3ea", "host": "#f4e9d8", "server": "#ffffff"}  # fmt: skip
EDGE = {"gpu": "#3c434b", "nvswitch": "#3f9d7f", "pcie": "#8b939c", "nic": "#5b8fbd", "leaf": "#3f78ad",
        "spine": "#2c5c8a", "host": "#b07d3b", "server": "#3c434b"}  # fmt: skip
BAD, GROUND, DIM = "#d03a1e", "#f6f7f9", "#62707d"


def draw_nodes(axes: Axes, parts: Parts, found: Layout, small: float) -> None:
    """Boxes with what is written on them; `small` is a GPU's width in points."""
    from matplotlib.patches import FancyBboxPatch

    loose = ("disconnected", "self-loop", "duplicate")
    about = {one for where, kind in parts.bad.items() for one in where if kind in loose or len(where) == 1}
    about |= {where[0] for where, kind in parts.bad.items() if kind == "missing"}
    for one, box in found.boxes.items():
        data = parts.graph.nodes[one]
        kind = data["kind"]
        bad = one in about
        round_ = min(0.08, box.width / 5)
        axes.add_patch(
            FancyBboxPatch(
                (box.x - box.width / 2 + round_, box.y - box.height / 2 + round_),
                box.width - 2 * round_, box.height - 2 * round_,
                boxstyle=f"round,pad={round_}", facecolor=FILL[kind], edgecolor=BAD if bad else EDGE[kind],
                linewidth=1.5 if bad else 0.8, zorder=6,
            )
        )  # fmt: skip
        room = box.width * small
        text = _text(kind, data, room)
        if text:
            size = min(8.0, room / max(2, *map(len, text.split("\n"))) / 0.62)
            axes.text(box.x, box.y, text, ha="center", va="center", fontsize=max(size, 4.5), color=INK, zorder=7,
                      linespacing=1.1)  # fmt: skip


def _text(kind: str, data: dict[str, Any], room: float) -> str:
    index = data.get("index")
    said_label = data.get("label")
    if kind == "gpu":
        return str(index) if room >= 7 else ""
    if kind == "nvswitch":
        return "NVSwitch" if room >= 42 else ""
    if kind in ("leaf", "spine", "host", "server"):
        if kind == "server":
            return str(said_label) if room >= 24 else str(index) if room >= 7 else ""
        text = label(str(said_label), 24).strip() if said_label else f"{kind} {index}"
        if room >= 3.1 * len(text):
            return text
        short = str(index) if index is not None and kind != "host" else ""
        return short if room >= 3.1 * len(short) else ""
    return ""


def draw_grounds(axes: Axes, found: Layout, parts: Parts, small: float) -> None:
    """The grounds of servers, and names below hosts."""
    from matplotlib.patches import Rectangle

    for one in found.servers:
        corner, width = (one.left, one.bottom), one.right - one.left
        axes.add_patch(Rectangle(corner, width, one.top - one.bottom, facecolor=GROUND, edgecolor=FAINT,
                                 linewidth=0.6, zorder=0))  # fmt: skip
        text = f"node {one.node}" if width * small > 34 else str(one.node)
        axes.text(one.left + width / 2, one.name_y, text, ha="center", va="center", fontsize=7.5, color=DIM, zorder=1)
    if parts.base == "host":
        _host_names(axes, found, parts, small)


def _host_names(axes: Axes, found: Layout, parts: Parts, small: float) -> None:
    """Below the hosts of a switch, the first and the last of them."""
    groups: dict[Any, list[str]] = defaultdict(list)
    for one in parts.row():
        groups[parts.group(one)].append(one)
    for own in groups.values():
        first, last = (str(parts.graph.nodes[one].get("label") or "") for one in (own[0], own[-1]))
        same = next((place for place, signs in enumerate(zip(first, last, strict=False)) if len(set(signs)) > 1), 0)
        same = len(first[:same].rstrip("0123456789"))
        text = first if len(own) == 1 else f"{first}-{last[same:]}"
        if found.boxes[own[0]].width * small >= 3.1 * len(first):
            continue  # they have their names on them
        left, right = found.boxes[own[0]].x - 0.5, found.boxes[own[-1]].x + 0.5
        size = min(7.5, (right - left) * small / len(text) / 0.6) if text else 0.0
        if size >= 4.5:
            axes.text((left + right) / 2, -0.52, text, ha="center", va="center", fontsize=size, color=DIM)
