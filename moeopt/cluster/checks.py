"""What a link graph must be to be one at all: kinds that are known, numbers that are numbers."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx

from moeopt.cluster.kinds import LINK_KINDS, NODE_KINDS
from moeopt.errors import Violations

LEAST, LARGEST = 1e-24, 1e24
"""Of bytes/s and seconds but 0: times that are made of them stay within the range of a double."""
MOST_GPUS = 100_000
"""Larger clusters are refused where they are made of hosts and a machine."""


def check_graph(graph: nx.DiGraph, source: str = "") -> None:
    """Refuse what no cluster can be, every violation at once; faults of real machines are not refused.

    >>> graph = nx.DiGraph([("a", "t", {"kind": "nic", "bytes_per_s": -1, "alpha_s": 0, "port": None, "healthy": True})])
    >>> graph.add_node("a", kind="nic"); graph.add_node("t", kind="leaf")
    >>> check_graph(graph)
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: bytes_per_s[a to t] = -1: must be a finite number >= 0. Give bytes/s in that direction; 0 is a link that carries nothing.
    """  # noqa: E501
    check = Violations(source)
    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        check.add("graph", type(graph).__name__, rule="must be a networkx.DiGraph", fix="Sum parallel cables")
        check.raise_if_any()
    _nodes(graph, check)
    for src, dst, data in graph.edges(data=True):
        _edge(f"{src} to {dst}", data, check)
    check.raise_if_any()
    for port, owners in port_owners(graph).items():
        if not owners:
            rule = "is shared by links that have no node in common"
            check.add("port", port, rule=rule, fix="A port belongs to one node: name two ports")
    check.raise_if_any()


def port_owners(graph: nx.DiGraph) -> dict[str, list[str]]:
    """For each shared port the nodes that all its links have in common: the one that it is of, first."""
    found: dict[str, list[str]] = {}
    for src, dst, port in graph.edges(data="port"):
        if port is not None:
            found[port] = [one for one in found.get(port, (src, dst)) if one in (src, dst)]
    return found


def _nodes(graph: nx.DiGraph, check: Violations) -> None:
    seen: dict[int, str] = {}
    for name, data in graph.nodes(data=True):
        kind = data.get("kind")
        if kind not in NODE_KINDS:
            check.add("kind", kind, rule=f"is not one of {', '.join(NODE_KINDS)}", fix="Use one of these", where=name)
        if kind != "gpu":
            continue
        index = data.get("index")
        if not _whole(index) or not _whole(data.get("node")):
            rule = "a GPU needs a whole index and a whole node, its server, both >= 0"
            check.add("gpu", f"index {index!r}, node {data.get('node')!r}", rule=rule, fix="Number them", where=name)
        elif index in seen:
            check.add("index", index, rule=f"is also that of {seen[index]}", fix="Number GPUs once each", where=name)
        else:
            seen[index] = name
    if not check.found and sorted(seen) != list(range(len(seen))):
        missing = next(index for index in range(len(seen)) if index not in seen)
        check.add("index", max(seen), rule=f"GPUs are numbered 0 to G-1, and {missing} is missing", fix="Number anew")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _edge(where: str, data: dict[str, Any], check: Violations) -> None:
    kind = data.get("kind")
    if kind not in LINK_KINDS:
        rule = f"is not one of {', '.join(LINK_KINDS)}"
        check.add("kind", kind, rule=rule, fix="Use one of these", where=where)
    fixes = {
        "bytes_per_s": "Give bytes/s in that direction; 0 is a link that carries nothing",
        "alpha_s": "Give seconds, as 2e-6",
    }
    for name, fix in fixes.items():
        value: Any = data.get(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            check.refuse(name, value, rule="must be a finite number >= 0", fix=fix, where=where)
        elif value and not LEAST <= value <= LARGEST:
            rule = f"no link has this: 0, or {LEAST:.0e} to {LARGEST:.0e}"
            check.add(name, value, rule=rule, fix=fix, where=where)
    port, healthy = data.get("port"), data.get("healthy")
    if not (port is None or isinstance(port, str)) or not isinstance(healthy, bool):
        check.add("link", f"port {port!r}, healthy {healthy!r}", rule="port is a text or None, healthy a truth value",
                  fix="See moeopt.cluster.add_link", where=where)  # fmt: skip
