"""Tiers: nested groups of GPUs, from the fastest links outwards, with what a GPU can send at each of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from moeopt.cluster.checks import port_owners
from moeopt.cluster.graph import usable
from moeopt.cluster.kinds import SCALE_UP, SWITCHES
from moeopt.cluster.paths import through_port

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Tier:
    """One tier: groups of GPUs that reach each other over links of this tier and those within.

    Parameters
    ----------
    name
        What joins the groups: ``NVLink``, ``PCIe switch``, ``socket``, ``host``, ``leaf``, ``spine``.
    groups
        GPU indices, each GPU once; groups of a tier lie within those of the next.
    bytes_per_s
        What a GPU sends in one direction to the rest of its group outside the group it has one tier further in, all
        GPUs of that inner group sending at once: the least over groups. Shared ports and thin uplinks count.
    alpha_s
        Latency between two GPUs that this tier joins.
    """

    name: str
    groups: Groups
    bytes_per_s: float
    alpha_s: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """GPUs of each group."""
        return tuple(map(len, self.groups))


def find_tiers(cluster: Cluster) -> tuple[Tier, ...]:
    """Tiers of a cluster; none where no two GPUs are joined.

    Links are added from near to far and groups are what they join, so groups nest by construction. A kind of link
    that joins nothing new makes no tier: the PCIe of a box with NVSwitch, or spines above rails.

    >>> from moeopt.cluster.graph import Cluster
    >>> pairs = Cluster.from_links(4, [(0, 1, 300e9), (2, 3, 300e9), (1, 2, 25e9)])
    >>> [(tier.groups, tier.bytes_per_s) for tier in pairs.tiers()]
    [(((0, 1), (2, 3)), 300000000000.0), (((0, 1, 2, 3),), 12500000000.0)]
    """
    graph = cluster.graph
    levels = _levels(graph)
    joined = nx.Graph()
    joined.add_nodes_from(graph)
    inner: Groups = tuple((gpu,) for gpu in range(cluster.num_gpus))
    found = []
    for level in sorted(set(levels.values())):
        joined.add_edges_from(edge for edge, own in levels.items() if own == level)
        groups = _groups(cluster, joined)
        if groups == inner:
            continue
        inside = [edge for edge, own in levels.items() if own <= level]
        share = _share(cluster, joined, inside, inner, groups)
        found.append(Tier(level[1], groups, share, _alpha(cluster, inner, groups)))
        inner = groups
    return tuple(found)


def _levels(graph: nx.DiGraph) -> dict[tuple[str, str], tuple[tuple[int, float], str]]:
    """How far out each link is, and the name of the tier it makes."""
    heights = _heights(graph)
    found = {}
    for src, dst, data in graph.edges(data=True):
        if usable(data) and src != dst:
            found[src, dst] = _level(src, dst, data, graph.nodes, heights)
    return found


def _level(
    src: str, dst: str, data: dict[str, Any], nodes: Any, heights: dict[str, int]
) -> tuple[tuple[int, float], str]:
    kind, ends = data["kind"], {nodes[src]["kind"], nodes[dst]["kind"]}
    if kind in SCALE_UP:
        return (0, 0.0), "NVLink" if kind == "nvlink" else "xGMI"
    if kind == "link":
        return (1, -data["bytes_per_s"]), "link"
    if kind == "pcie":
        return ((3, 0.0), "socket") if "host" in ends else ((2, 0.0), "PCIe switch")
    if kind == "smp":
        return (4, 0.0), "host"
    if kind == "nic":
        return (5, 0.0), "leaf" if ends & set(SWITCHES) else "network"
    height = max(heights.get(src, 1), heights.get(dst, 1))
    return (6, float(height)), "spine" if height <= 2 else "core"


def _heights(graph: nx.DiGraph) -> dict[str, int]:
    """Steps of a switch from the nearest network port, 1 for a leaf; 2 for a spine."""
    nodes = graph.nodes
    layer = {one for one in nodes if nodes[one]["kind"] == "leaf"}
    found = dict.fromkeys(layer, 1)
    while layer:
        above = {to for one in layer for to in graph[one] if nodes[to]["kind"] == "spine" and to not in found}
        found.update(dict.fromkeys(above, found[next(iter(layer))] + 1))
        layer = above
    return found


def _groups(cluster: Cluster, joined: nx.Graph) -> Groups:
    order = {gpu: index for index, gpu in enumerate(cluster.gpus)}
    parts = (sorted(order[one] for one in part if one in order) for part in nx.connected_components(joined))
    return tuple(sorted(tuple(part) for part in parts if part))


def _pairs(inner: Groups, groups: Groups) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Each inner group with the GPUs that its outer group has besides."""
    outer = {gpu: group for group in groups for gpu in group}
    for part in inner:
        rest = sorted(set(outer[part[0]]) - set(part))
        if rest:
            yield part, rest


def _alpha(cluster: Cluster, inner: Groups, groups: Groups) -> float:
    from moeopt.cluster.paths import Routes

    for part, rest in _pairs(inner, groups):
        alpha = Routes(cluster.graph, cluster.gpus[part[0]]).alpha_s
        reached = [alpha[cluster.gpus[gpu]] for gpu in rest if cluster.gpus[gpu] in alpha]
        if reached:
            return round(min(reached), 15)
    return 0.0


def _share(cluster: Cluster, joined: nx.Graph, inside: list[tuple[str, str]], inner: Groups, groups: Groups) -> float:
    """Least, over inner groups, of what it can send to the rest of its outer group, by GPU."""
    part_of = {one: number for number, part in enumerate(nx.connected_components(joined)) for one in part}
    edges: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for edge in inside:
        edges[part_of[edge[0]]].append(edge)
    flows: dict[int, _Flows] = {}  # one for what each outer group is joined by: no other link matters to it
    known: dict[tuple[bytes, ...], float] = {}  # servers that are alike make the same flows
    least = math.inf
    for part, rest in _pairs(inner, groups):
        number = part_of[cluster.gpus[part[0]]]
        if number not in flows:
            flows[number] = _Flows(cluster, edges[number], known)
        least = min(least, flows[number].value(part, rest) / len(part))
    return least


class _Flows:
    """Maximum flows over some links; GPUs send and receive, and do not forward.

    Each GPU is two vertices, one that sends and one that receives, but for kind ``link``, over which GPUs forward.
    Vertices are numbered in the order of the graph's links, so that parts made alike have the same numbers; `known` has
    the values of flows by those.
    """

    def __init__(self, cluster: Cluster, inside: list[tuple[str, str]], known: dict[tuple[bytes, ...], float]) -> None:
        self.cluster, self.known = cluster, known
        graph, kinds = cluster.graph, cluster.graph.nodes
        forwards = any(graph[u][v]["kind"] == "link" for u, v in inside)
        owners = port_owners(graph) if any(graph[u][v]["port"] is not None for u, v in inside) else {}
        self.number: dict[str, int] = {}
        speeds: dict[tuple[int, int], float] = {}
        for u, v in inside:
            data = graph[u][v]
            for tail, head in through_port(u, v, data["port"], owners):
                gets = head in kinds and kinds[head]["kind"] == "gpu" and not forwards
                head = f"{head}, receiving" if gets else head
                speeds[self.vertex(tail), self.vertex(head)] = data["bytes_per_s"]
        own = [one for one in {end for edge in inside for end in edge} if kinds[one]["kind"] == "gpu"]
        self.sender = {gpu: self.vertex(gpu) for gpu in own}
        self.receiver = self.sender if forwards else {gpu: self.vertex(f"{gpu}, receiving") for gpu in own}
        self.ends, self.speeds = np.array(list(speeds)), np.array(list(speeds.values()))

    def vertex(self, name: str) -> int:
        """The number of a vertex; a new one where the name is new."""
        return self.number.setdefault(name, len(self.number))

    def value(self, sources: tuple[int, ...], targets: list[int]) -> float:
        """Bytes/s from some GPUs to others: exact where bandwidths have a common measure, else to six digits."""
        gpus = self.cluster.gpus
        out = np.array([self.sender[gpus[gpu]] for gpu in sources])
        into = np.array([self.receiver[gpus[gpu]] for gpu in targets])
        same = tuple(array.tobytes() for array in (self.ends, self.speeds, out, into))
        if same not in self.known:
            self.known[same] = self._flow(out, into)
        return self.known[same]

    def _flow(self, out: NDArray[np.int64], into: NDArray[np.int64]) -> float:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        size = len(self.number)
        source, target = size, size + 1
        most = 2**31 - 1  # scipy counts in 32 bits
        unit, exact = self.unit(most // 2)
        begin = np.stack([np.full_like(out, source), out], axis=1)
        ends = np.vstack([self.ends, begin, np.stack([into, np.full_like(into, target)], axis=1)])
        whole = np.maximum(np.rint(self.speeds / unit), 1).astype(np.int32)
        capacity = np.concatenate([whole, np.full(len(out) + len(into), most // 2, dtype=np.int32)])
        matrix = csr_array((capacity, (ends[:, 0], ends[:, 1])), shape=(size + 2, size + 2), dtype=np.int32)
        found = float(maximum_flow(matrix, source, target).flow_value * unit)
        return found if exact else float(f"{found:.6g}")

    def unit(self, most: int) -> tuple[float, bool]:
        """Bytes/s that count as one, so that all together stay below `most`; and whether that loses nothing."""
        total = float(self.speeds.sum())
        if (self.speeds == np.rint(self.speeds)).all():
            common = math.gcd(*map(int, self.speeds))
            if total / common < most:
                return float(common), True
        return total / most, False
