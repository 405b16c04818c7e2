"""Where the parts of a link graph are drawn: rows from spines down to GPUs, servers side by side."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx

from moeopt.report.plots.cluster_parts import Parts

GAP = 0.9
"""Between servers, in widths of a GPU."""
MIDDLE = "between sockets"
ROW = {"uplink": 1.5, "rails": 1.9, "near": 1.05}
"""Heights between rows."""
NAMES = {"spine": "spine", "leaf": "leaf", "nic": "port", "pcie": "PCIe", "gpu": "GPU", "nvswitch": "NVSwitch",
         "host": "host", "server": "node"}  # fmt: skip


@dataclass
class Box:
    """A node as it is drawn: centre and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass
class Ground:
    """The ground of a server, and where its name stands."""

    node: int
    left: float
    right: float
    bottom: float
    top: float
    name_y: float


@dataclass
class Layout:
    """Boxes of nodes, the heights and names of rows, and the ground of each server."""

    boxes: dict[str, Box] = field(default_factory=dict)
    rows: list[tuple[float, str]] = field(default_factory=list)
    servers: list[Ground] = field(default_factory=list)
    width: float = 1.0
    top: float = 0.0
    bottom: float = 0.0
    left: float = 0.0
    right: float = 1.0
    inch: float = 1.0


def place(parts: Parts, width_in: float) -> Layout:
    """Find a place for every node of the graph that is drawn on so many inches."""
    graph = parts.graph
    found = Layout()
    base = _base(parts, found)
    found.inch = width_in / (found.width + 2)
    tree = parts.tree
    y = 0.0
    pcie = _depths(graph)
    deepest = max(pcie.values(), default=0)
    if base:
        kinds = list(dict.fromkeys(NAMES[graph.nodes[one]["kind"]] for one in base))
        found.rows.append((0.0, ", ".join(kinds)))
    inside = {one: depth for one, depth in pcie.items() if graph.nodes[one]["kind"] == "pcie"}
    for depth in sorted(set(inside.values()), reverse=True):
        y += ROW["near"]
        row = [one for one, own in inside.items() if own == depth]
        _over(graph, found, row, y, width=0.8, height=0.3)
        found.rows.append((y, NAMES["pcie"] if depth == deepest or len(set(inside.values())) == 1 else ""))
    hosts = [one for one in pcie if graph.nodes[one]["kind"] == "host"] if parts.base != "host" else []
    middles = [one for one in hosts if graph.nodes[one].get("label") == MIDDLE]
    hosts = [one for one in hosts if one not in middles]
    if hosts:
        y += ROW["near"]
        _over(graph, found, hosts, y, width=min(1.2, 0.9 * found.width / len(hosts)), height=0.34)
        found.rows.append((y, NAMES["host"]))
    if middles:
        y += 0.8 * ROW["near"]
    for one in middles:  # a bar over the hosts that it joins
        ends = [found.boxes[to].x for to in graph[one] if to in found.boxes] or [0.0]
        found.boxes[one] = Box((min(ends) + max(ends)) / 2, y, max(ends) - min(ends) + 1.2, 0.26)
    if not tree:
        ports = [one for one, kind in graph.nodes(data="kind") if kind == "nic"]
        if ports:
            y += ROW["near"]
            _ports(graph, found, ports, y)
            found.rows.append((y, NAMES["nic"]))
    _nvswitches(graph, found)
    _grounds(parts, found, y)
    _switches(parts, found, y)
    found.left = min([box.x - box.width / 2 for box in found.boxes.values()] + [one.left for one in found.servers])
    found.right = max([box.x + box.width / 2 for box in found.boxes.values()] + [one.right for one in found.servers])
    found.top = max(
        [box.y + box.height for box in found.boxes.values()] + [ground.top + 0.1 for ground in found.servers]
    )
    low = [box.y - box.height for box in found.boxes.values()] + [ground.bottom - 0.1 for ground in found.servers]
    found.bottom = min(low) - (0.35 if parts.base == "host" else 0.0)
    return found


def _base(parts: Parts, found: Layout) -> list[str]:
    """GPUs (with ports beside them in a tree), servers or hosts in a row, servers apart."""
    x, last = 0.0, None
    row = parts.row()
    for one in row:
        group = parts.group(one)
        if last is not None and group != last:
            x += GAP * parts.gap
        last = group
        size = {"gpu": 0.74, "nic": 0.56}.get(parts.graph.nodes[one]["kind"], 0.74)
        found.boxes[one] = Box(x, 0.0, size, 0.62 if size > 0.6 else 0.4)
        x += 1.0
    found.width = max(x, 1.0)
    return row


def _depths(graph: nx.DiGraph) -> dict[str, int]:
    """Steps of each PCIe switch or socket from the top of its tree."""
    inner = [one for one, kind in graph.nodes(data="kind") if kind in ("pcie", "host")]
    tree = graph.subgraph(inner).to_undirected()
    found: dict[str, int] = {}
    for part in nx.connected_components(tree):
        tops = [one for one in part if graph.nodes[one]["kind"] == "host"] or [
            min(part, key=lambda one: (graph.nodes[one].get("index") or 0, one))
        ]
        depth = dict.fromkeys(tops, 0)
        layer = list(tops)
        while layer:
            layer = [
                to for one in layer for to in tree[one] if to not in depth and not depth.update({to: depth[one] + 1})
            ]
        found.update(depth)
    return found


def _over(graph: nx.DiGraph, found: Layout, row: list[str], y: float, *, width: float, height: float) -> None:
    """Put each node of a row over what is below it."""
    wanted = {}
    for one in row:
        under = [found.boxes[to].x for to in graph[one] if to in found.boxes and found.boxes[to].y < y]
        wanted[one] = (min(under) + max(under)) / 2 if under else None
    middle = found.width / 2
    for one in row:  # what has nothing below goes where its neighbours are
        if wanted[one] is None:
            beside = [wanted[to] for to in graph[one] if wanted.get(to) is not None]
            wanted[one] = sum(x for x in beside if x is not None) / len(beside) if beside else middle
    apart = _apart({one: x for one, x in wanted.items() if x is not None}, width + 0.12)
    for one, x in apart.items():
        found.boxes[one] = Box(x, y, width, height)


def _apart(wanted: dict[str, float], least: float) -> dict[str, float]:
    """Positions at least so far apart, as near to the wanted ones as a sweep from the left and a shift make them."""
    order = sorted(wanted, key=lambda one: wanted[one])
    found: dict[str, float] = {}
    last = None
    for one in order:
        x = wanted[one] if last is None else max(wanted[one], last + least)
        found[one], last = x, x
    shift = sum(found[one] - wanted[one] for one in order) / len(order) if order else 0.0
    return {one: x - shift for one, x in found.items()}


def _ports(graph: nx.DiGraph, found: Layout, ports: list[str], y: float) -> None:
    """Ports over the PCIe switch, socket or GPU that they are behind."""
    behind: dict[str, list[str]] = defaultdict(list)
    for port in ports:
        near = [
            one for one in graph[port] if graph.nodes[one]["kind"] in ("pcie", "host", "gpu") and one in found.boxes
        ]
        behind[near[0] if near else ""].append(port)
    for under, own in behind.items():
        box = found.boxes.get(under)
        gpus = [one for one in graph[under] if graph.nodes[one]["kind"] == "gpu"] if under else []
        room = max(len(gpus), 1) * 1.0
        step = min(room / len(own), 1.0)
        middle = found.width / 2 if box is None else box.x
        for place, port in enumerate(own):
            x = middle + (place - (len(own) - 1) / 2) * step
            found.boxes[port] = Box(x, y, min(0.56, 0.72 * step), 0.4)


def _grounds(parts: Parts, found: Layout, top: float) -> None:
    """A ground for each server; its name stands where no cables pass."""
    if not parts.grounds:
        return
    nodes = parts.graph.nodes
    spans: dict[int, list[float]] = defaultdict(list)
    low: dict[int, float] = defaultdict(lambda: -0.42)
    for one, box in found.boxes.items():
        node = nodes[one].get("node")
        if node is not None:
            spans[node] += [box.x - box.width / 2, box.x + box.width / 2]
            low[node] = min(low[node], box.y - box.height / 2 - 0.12)
    below = any(nodes[one]["kind"] == "leaf" for one in nodes)
    for node, ends in spans.items():
        bottom, high = low[node], top + 0.4
        if below:
            bottom -= 0.34
        else:
            high += 0.32
        name_y = bottom + 0.2 if below else high - 0.22
        found.servers.append(Ground(node, min(ends) - 0.16, max(ends) + 0.16, bottom, high, name_y))


def _wanted(graph: nx.DiGraph, row: list[str]) -> float:
    """Inches that the longest name of a row needs."""
    longest = max(len(str(graph.nodes[one].get("label") or "spine 00")) for one in row)
    return 0.072 * min(longest, 24) + 0.14


def _room(graph: nx.DiGraph, found: Layout, row: list[str], below: dict[str, list[str]]) -> float:
    """Width of the boxes of switches: that of the longest name, unless they would touch."""
    wanted = _wanted(graph, row) / found.inch
    middles = sorted(sum(found.boxes[to].x for to in below[one]) / len(below[one]) for one in row if below[one])
    apart = [right - left for left, right in pairwise(middles)]
    return max(0.5, min(wanted, 0.9 * min((one for one in apart if one > 0.5), default=wanted)))


def _switches(parts: Parts, found: Layout, y: float) -> None:
    """Leaves and spines, a row for each height above the ports."""
    graph = parts.graph
    switches = {one for one, kind in graph.nodes(data="kind") if kind in ("leaf", "spine")}
    layer = {to for one in found.boxes for to in graph[one] if to in switches} - set(found.boxes)
    layer = layer or switches
    first, level = True, 0
    while layer:
        row = sorted(layer, key=lambda one: (graph.nodes[one].get("index") or 0, one))
        below = {one: [to for to in graph[one] if to in found.boxes] for one in row}
        rails = first and len(row) > 1 and any(
            len({parts.graph.nodes[to].get("node") for to in below[one]} - {None}) > 1 for one in row
        )  # fmt: skip
        y += ROW["rails" if rails or len(row) > 4 else "uplink"]
        size = _room(graph, found, row, below)
        if rails:
            edge = 0.06 * found.width
            step = (found.width - 2 * edge) / len(row)
            wanted = _wanted(graph, row) / found.inch
            for place, one in enumerate(row):
                found.boxes[one] = Box(edge + (place + 0.5) * step - 0.5, y, min(wanted, 0.86 * step), 0.42)
        else:
            _over(graph, found, row, y, width=size, height=0.42)
        found.rows.append((y, ("leaf", "spine", "core")[min(level, 2)]))
        level += 1
        first = False
        layer = {to for one in row for to in graph[one] if to in switches} - set(found.boxes)
    for one in switches:
        if graph.nodes[one].get("wide"):
            found.boxes[one].x, found.boxes[one].width = found.width / 2 - 0.5, found.width - 0.2
    left = switches - set(found.boxes)
    for place, one in enumerate(sorted(left)):
        found.boxes[one] = Box(found.width + 0.6 + place, y, 0.8, 0.42)


def _nvswitches(graph: nx.DiGraph, found: Layout) -> None:
    """Bars below the GPUs that they join."""
    made = False
    for one, kind in graph.nodes(data="kind"):
        if kind != "nvswitch":
            continue
        over = [found.boxes[to] for to in graph[one] if to in found.boxes]
        if not over:
            continue
        made = True
        ends = [box.x - box.width / 2 for box in over] + [box.x + box.width / 2 for box in over]
        found.boxes[one] = Box((min(ends) + max(ends)) / 2, -1.12, max(ends) - min(ends), 0.36)
    if made:
        found.rows.append((-1.12, NAMES["nvswitch"]))
