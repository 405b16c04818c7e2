"""Slurm's switches and blocks as a graph of hosts, with what is wrong in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from moeopt.cluster.described import Described, levels, reached, switch_link
from moeopt.cluster.faults import Fault


@dataclass
class Switches:
    """What a file says: children and hosts of each switch, hosts of each block."""

    children: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, list[str]] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    real_names: dict[str, str] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)  # host to NVLink domain
    flat: bool = False


def describe(found: Switches, form: str, name: str, notes: Sequence[str] = ()) -> Described:
    """A graph of hosts and switches, or of hosts and the blocks they are in."""
    graph = nx.DiGraph()
    faults: list[Fault] = []
    lower = found.hosts | (found.blocks if not found.children and not found.hosts else {})
    names = [*found.children, *(one for one in lower if one not in found.children)]
    for index, switch in enumerate(names):
        kind = "leaf" if lower.get(switch) else "spine"
        graph.add_node(f"switch {switch}", kind=kind, index=index, label=found.real_names.get(switch, switch))
    _hosts(graph, lower, faults)
    _uplinks(graph, found, faults)
    for switch in names:
        if not lower.get(switch) and not found.children.get(switch):
            what = "block" if switch in found.blocks else "switch"
            faults.append(Fault("disconnected", (f"switch {switch}",), f"{what} {switch} has no hosts",
                                "Leave it out, or name its hosts"))  # fmt: skip
    roots = [one for one in names if not any(one in below for below in found.children.values())]
    if found.children and len(roots) > 1:
        named = f"{', '.join(roots[:6])}{', ...' if len(roots) > 6 else ''}"
        faults.append(Fault("disconnected", tuple(f"switch {one}" for one in roots),
                            f"{len(roots)} switches have none above them: {named}",
                            "Name the switch that joins them"))  # fmt: skip
    notes = [*notes, "the file has no GPUs and no bandwidths: name the machine of its hosts to make it a cluster"]
    return Described(form, name, _facts(graph, found), tuple(notes), graph, found=tuple(faults))


def _hosts(graph: nx.DiGraph, lower: Mapping[str, list[str]], faults: list[Fault]) -> None:
    for switch, hosts in lower.items():
        for host, times in Counter(hosts).items():
            name = f"host {host}"
            if times > 1 or (name in graph and graph.out_degree(name)):
                text = f"host {host} is named {'twice in' if times > 1 else 'again in'} {switch}"
                faults.append(Fault("duplicate", (name,), text,
                                    "Name a host once, below one switch"))  # fmt: skip
            if name not in graph:
                graph.add_node(name, kind="host", index=sum(k == "host" for _, k in graph.nodes(data="kind")),
                               label=host)  # fmt: skip
            switch_link(graph, name, f"switch {switch}", "nic")


def _uplinks(graph: nx.DiGraph, found: Switches, faults: list[Fault]) -> None:
    for switch, children in found.children.items():
        for child in children:
            if child == switch:
                faults.append(Fault("self-loop", (f"switch {switch}",) * 2, f"switch {switch} is below itself",
                                    "Leave it out"))  # fmt: skip
            elif f"switch {child}" not in graph:
                text = f"switch {child}, below {switch}, is not in the file"
                faults.append(Fault("disconnected", (f"switch {child}",), text, "A line is missing: add it"))
            else:
                switch_link(graph, f"switch {child}", f"switch {switch}", "uplink")
    tree = nx.DiGraph((switch, child) for switch, children in found.children.items() for child in children)
    tree.remove_edges_from(list(nx.selfloop_edges(tree)))
    if not nx.is_directed_acyclic_graph(tree):
        ring = [one for one, _ in nx.find_cycle(tree)]
        text = f"switches {', '.join(ring[:8])} are below each other in a ring"
        faults.append(Fault("ring", tuple(f"switch {one}" for one in ring), text, "Cut the ring"))


def _facts(graph: nx.DiGraph, found: Switches) -> dict[str, Any]:
    facts: dict[str, Any] = {"hosts": sum(kind == "host" for _, kind in graph.nodes(data="kind"))}
    if found.children or found.hosts:
        facts["switches"] = len({*found.children, *found.hosts})
    if found.blocks:
        facts["blocks"] = len(found.blocks)
        facts["block_sizes"] = list(found.sizes)
        facts["hosts_of_block"] = {block: len(hosts) for block, hosts in found.blocks.items()}
    if found.domains:
        facts["nvlink_domains"] = len(set(found.domains.values()))
    facts["tiers"] = tiers_of(graph)
    return facts


def tiers_of(graph: nx.DiGraph) -> list[dict[str, Any]]:
    """Levels of switches with the sizes of the groups of hosts below them."""
    groups = reached(graph)
    return [
        {"tier": level, "switches": len(switches), "hosts": sorted({len(groups[level - 1][one]) for one in switches})}
        for level, switches in enumerate(levels(graph), 1)
    ]
