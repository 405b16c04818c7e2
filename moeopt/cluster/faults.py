"""What looks broken in a link graph, each fault named with its place and what to do about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from moeopt.cluster.graph import usable

KINDS = (
    *("zero-bandwidth", "down", "one-way", "self-loop", "ring", "asymmetric", "degraded", "missing", "duplicate"),
    "disconnected",
)

SAME = 0.01
"""Bandwidths that differ by less than this part are the same."""


@dataclass(frozen=True)
class Fault:
    """One fault: its kind (`KINDS`), the nodes it is about, what is wrong, and what to do.

    >>> print(Fault("self-loop", ("gpu0", "gpu0"), "gpu0 has a link to itself", "Leave the row out"))
    self-loop: gpu0 has a link to itself
    """

    kind: str
    where: tuple[str, ...]
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def find_faults(graph: nx.DiGraph, gpus: Sequence[str]) -> list[Fault]:
    """All faults of a graph, by kind in the order of `KINDS`.

    A link is degraded when it is slower than most links between nodes of its kinds; direct links between GPUs are
    left out, as many boxes have one cable between some pairs and two between others.
    """
    found = [*_links(graph), *_degraded(graph), *_missing(graph, gpus), *_parts(graph, gpus)]
    return sorted(found, key=lambda fault: KINDS.index(fault.kind))


def giga(bytes_per_s: float) -> str:
    """A bandwidth for people.

    >>> giga(12.5e9)
    '12.5 GB/s'
    """
    return f"{bytes_per_s / 1e9:.4g} GB/s"


def _links(graph: nx.DiGraph) -> Iterator[Fault]:
    for src, dst, data in graph.edges(data=True):
        if src == dst:
            yield Fault("self-loop", (src, dst), f"{src} has a link to itself", "Leave it out, it carries nothing")
            continue
        back = graph.get_edge_data(dst, src)
        if not data["healthy"]:
            yield Fault("down", (src, dst), f"the link from {src} to {dst} is down", "Repair it, or leave it out")
        elif data["bytes_per_s"] == 0:
            yield Fault("zero-bandwidth", (src, dst), f"the link from {src} to {dst} has 0 bytes/s",
                        "Repair it, or leave it out")  # fmt: skip
        elif back is None:
            yield Fault("one-way", (src, dst), f"{src} has a link to {dst}, and none comes back",
                        "Add the other direction, or check the file")  # fmt: skip
        elif usable(back) and src < dst and _differ(data["bytes_per_s"], back["bytes_per_s"]):
            there, here = giga(data["bytes_per_s"]), giga(back["bytes_per_s"])
            yield Fault("asymmetric", (src, dst), f"{src} to {dst} has {there}, and back {here}",
                        "Check both ends; plans use each direction as it is")  # fmt: skip


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > SAME * max(one, other)


def _degraded(graph: nx.DiGraph) -> Iterator[Fault]:
    peers: dict[tuple[str, str, str], list[tuple[str, str, float]]] = defaultdict(list)
    for src, dst, data in graph.edges(data=True):
        ends = graph.nodes[src]["kind"], graph.nodes[dst]["kind"]
        if ends != ("gpu", "gpu") and src != dst and usable(data):
            peers[(*ends, data["kind"])].append((src, dst, data["bytes_per_s"] / data.get("cables", 1)))
    for (tail, head, kind), links in peers.items():
        usual, times = Counter(speed for *_, speed in links).most_common(1)[0]
        if 2 * times <= len(links):
            continue  # no speed is the usual one
        for src, dst, speed in links:
            if speed < usual and _differ(speed, usual):
                usually = f"most links from {tail} to {head} ({kind}) {giga(usual)}"
                text = f"{src} to {dst} has {giga(speed)}{_each(graph, src, dst)}, {usually}"
                yield Fault("degraded", (src, dst), text, "Check the cable and its lanes")


def _each(graph: nx.DiGraph, src: str, dst: str) -> str:
    return " a cable" if graph[src][dst].get("cables", 1) > 1 else ""


def _missing(graph: nx.DiGraph, gpus: Sequence[str]) -> Iterator[Fault]:
    """GPUs without a link to the NVSwitch that most GPUs of their server have one to."""
    for switch, kind in graph.nodes(data="kind"):
        if kind != "nvswitch" or graph.nodes[switch].get("node") is None:
            continue
        beside = [gpu for gpu in gpus if graph.nodes[gpu]["node"] == graph.nodes[switch]["node"]]
        without = [gpu for gpu in beside if not graph.has_edge(gpu, switch)]
        if 2 * len(without) < len(beside):
            for gpu in without:
                text = f"{gpu} has no link to {switch}, which most GPUs of its server have"
                yield Fault("missing", (gpu, switch), text, "See nvidia-smi nvlink --status")


def _parts(graph: nx.DiGraph, gpus: Sequence[str]) -> Iterator[Fault]:
    working = nx.DiGraph()
    working.add_nodes_from(graph)
    working.add_edges_from((u, v) for u, v, data in graph.edges(data=True) if usable(data))
    order = {gpu: index for index, gpu in enumerate(gpus)}
    for components, said in (
        (nx.weakly_connected_components(working), "have no path between them"),
        (nx.strongly_connected_components(working), "reach each other in one direction at most"),
    ):
        parts = sorted(sorted(order[one] for one in part if one in order) for part in components)
        parts = [part for part in parts if part]
        if len(parts) > 1:
            named = [f"{{{', '.join(map(str, part[:8]))}{', ...' if len(part) > 8 else ''}}}" for part in parts]
            rest = f" and {len(named) - 5} more parts" if len(named) > 6 else ""
            shown = named if not rest else named[:5]
            text = f"GPUs {', '.join(shown[:-1])} and {shown[-1]}{rest} {said}"
            where = tuple(gpus[part[0]] for part in parts)
            yield Fault("disconnected", where, text, "Look for a switch or cable that the file leaves out")
            return
