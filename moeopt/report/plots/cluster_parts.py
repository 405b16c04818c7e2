"""What of a link graph is drawn: all of it, or where that is too much, servers as one box each, and some left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import networkx as nx

if TYPE_CHECKING:
    from moeopt.cluster import Cluster, Described

MOST_GPUS, MOST_SERVERS, MOST_HOSTS = 80, 36, 140


@dataclass
class Parts:
    """The graph that is drawn.

    Parameters
    ----------
    graph
        With ``kind`` also ``server``: a box for all of a server, its ``label`` saying what is in it.
    base
        Name of the lowest row where it has no GPUs.
    tree
        Whether ports stand beside GPUs: a server by itself, with sockets.
    grounds
        Whether servers get a ground.
    left_out
        Servers or hosts that are not drawn.
    bad
        Links and nodes that a fault is about.
    """

    graph: nx.DiGraph
    base: str = "server"
    tree: bool = False
    grounds: bool = True
    gap: float = 1.0
    left_out: int = 0
    bad: dict[tuple[str, ...], str] = field(default_factory=dict)
    above: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.base == "host":
            self.above = _above(self.graph)

    def row(self) -> list[str]:
        """The lowest row, in order."""
        nodes = self.graph.nodes
        kinds = {"server": ("server",), "host": ("host",), "GPU": ("gpu",)}[self.base]
        found = [one for one in nodes if nodes[one]["kind"] in kinds]
        found.sort(key=lambda one: self.order(one))
        if not self.tree:
            return found
        ports = [one for one in nodes if nodes[one]["kind"] == "nic"]
        for port in ports:  # after the GPUs of the same switch
            near = [one for one in self.graph[port] if nodes[one]["kind"] in ("pcie", "host")]
            beside = [one for one in found if near and any(one == to for to in self.graph[near[0]])]
            at = found.index(beside[-1]) + 1 if beside else self.far(near, found)
            found.insert(at, port)
        return found

    def far(self, near: list[str], found: list[str]) -> int:
        """Where a port goes whose switch has no GPU: behind the last GPU of the same socket, else at the end."""
        if not near:
            return len(found)
        tree = self.graph.subgraph(
            one for one, kind in self.graph.nodes(data="kind") if kind in ("pcie", "gpu", "host", "nic")
        ).to_undirected()
        steps = nx.single_source_shortest_path_length(tree, near[0], cutoff=3)
        close = [place for place, one in enumerate(found) if one in steps]
        return max(close) + 1 if close else len(found)

    def order(self, one: str) -> tuple[Any, ...]:
        """Hosts by the switch above them, so that a tree has no crossings; all else by number."""
        data = self.graph.nodes[one]
        if self.base != "host":
            return (data.get("index") or 0,)
        return (*self.above[one], data.get("index") or 0)

    def group(self, one: str) -> Any:
        """What stands together in the lowest row."""
        data = self.graph.nodes[one]
        if self.base == "host":
            return self.above[one]
        return data.get("node") if self.base == "GPU" else data.get("domain", 0)


def _above(graph: nx.DiGraph) -> dict[str, tuple[Any, ...]]:
    """For each host the numbers of the switches over it, the highest first."""
    from moeopt.cluster.described import levels

    height = {one: level for level, switches in enumerate(levels(graph), 1) for one in switches}
    chain: dict[str, tuple[Any, ...]] = {}
    for one in sorted(graph, key=lambda one: -height.get(one, 0)):
        up = [to for to in graph[one] if height.get(to, 0) > height.get(one, 0)]
        own = (graph.nodes[one].get("index") or 0,) if one in height else ()
        first = min(up, key=lambda to: (graph.nodes[to].get("index") or 0, to), default=None)
        chain[one] = (*(chain[first] if first is not None else ()), *own)
    return {one: chain[one] for one, kind in graph.nodes(data="kind") if kind == "host"}


def parts_of(what: Cluster | Described) -> Parts:
    """What is drawn of a cluster, or of hosts and switches."""
    assert what.graph is not None
    bad = {fault.where: fault.kind for fault in what.faults()}
    if not hasattr(what, "gpus"):
        return _fabric(what.graph, bad)
    graph = nx.DiGraph(what.graph)
    kinds = Counter(kind for _, kind in graph.nodes(data="kind"))
    switches = kinds["leaf"] + kinds["spine"]
    if kinds["gpu"] <= MOST_GPUS:
        if switches:  # sockets would stand between ports and PCIe: they are left out where the network is drawn
            loose = [one for one, kind in graph.nodes(data="kind") if kind == "host"]
            alone = any(graph.nodes[to]["kind"] in ("gpu", "nic") for one in loose for to in graph[one])
            if not alone:
                graph.remove_nodes_from(loose)
        return Parts(graph, base="GPU", tree=not switches and kinds["host"] > 0, grounds=True, bad=bad)
    return _servers(what, graph, bad)


def _fabric(graph: nx.DiGraph, bad: dict[tuple[str, ...], str]) -> Parts:
    """Hosts below switches; ports of hosts are folded into them."""
    drawn = nx.DiGraph()
    hosts = [one for one, kind in graph.nodes(data="kind") if kind == "host"]
    kept = set(hosts[:MOST_HOSTS])
    for one, data in graph.nodes(data=True):
        if data["kind"] in ("leaf", "spine") or one in kept:
            drawn.add_node(one, **data)
    owner = {one: data["host"] for one, data in graph.nodes(data=True) if data["kind"] == "nic" and "host" in data}
    for src, dst, data in graph.edges(data=True):
        tail, head = owner.get(src, src), owner.get(dst, dst)
        if tail != head and tail in drawn and head in drawn:
            _add(drawn, tail, head, data)
    named = {tuple(owner.get(one, one) for one in where): kind for where, kind in bad.items()}
    return Parts(drawn, base="host", grounds=False, gap=0.7, left_out=len(hosts) - len(kept), bad=named)


def _add(graph: nx.DiGraph, src: str, dst: str, data: dict[str, Any]) -> None:
    """Add a link to what is drawn already between two boxes."""
    before = graph.get_edge_data(src, dst)
    speed = data["bytes_per_s"]
    if before is not None and before["bytes_per_s"] is not None and speed is not None:
        speed += before["bytes_per_s"]
    graph.add_edge(src, dst, **{**data, "bytes_per_s": speed})


def _servers(what: Any, graph: nx.DiGraph, bad: dict[tuple[str, ...], str]) -> Parts:
    """Each server a box, with the links that leave it."""
    numbers = sorted({int(one) for one in what.node_of})
    kept = set(numbers[:MOST_SERVERS])
    drawn = nx.DiGraph()
    gpus = Counter(int(one) for one in what.node_of)
    owner = {}
    domains: dict[int, int] = {}
    for number, domain in zip(what.node_of, what.domain_of, strict=True):
        domains.setdefault(int(number), int(domain))
    for one, data in graph.nodes(data=True):
        node = data.get("node")
        whole = data["kind"] in ("leaf", "spine") or (data["kind"] == "nvswitch" and node is None)
        if whole:
            drawn.add_node(one, **data)
        elif node in kept:
            owner[one] = f"server {node}"
    for node in numbers:
        if node in kept:
            drawn.add_node(
                f"server {node}",
                kind="server",
                index=node,
                domain=domains[node],
                label=f"node {node}\n{gpus[node]} GPUs",
            )
    for src, dst, data in graph.edges(data=True):
        tail, head = owner.get(src, src), owner.get(dst, dst)
        if tail != head and tail in drawn and head in drawn:
            _add(drawn, tail, head, data)
    named = {tuple(owner.get(one, one) for one in where): kind for where, kind in bad.items()}
    _bundle(drawn)
    return Parts(drawn, base="server", grounds=False, gap=0.6, left_out=len(numbers) - len(kept), bad=named)


def _bundle(graph: nx.DiGraph) -> None:
    """Leaves that all have the same servers, as rails have, become one box."""
    nodes = graph.nodes
    leaves = [one for one in nodes if nodes[one]["kind"] == "leaf"]
    below = {frozenset(to for to in graph[one] if nodes[to]["kind"] == "server") for one in leaves}
    if len(leaves) < 2 or len(below) != 1 or not next(iter(below)):
        return
    together = f"{len(leaves)} leaves"
    graph.add_node(together, kind="leaf", index=0, label=f"{len(leaves)} leaves, one a rail", wide=True)
    for src, dst, data in list(graph.edges(data=True)):
        tail, head = (together if one in leaves else one for one in (src, dst))
        if (tail, head) != (src, dst):
            _add(graph, tail, head, data)
    graph.remove_nodes_from(leaves)
