"""Hosts of a fabric made into servers with GPUs, and servers put side by side."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import networkx as nx

from moeopt.cluster.building import NIC_S, NVLINK_S, UPLINK_S, add_server
from moeopt.cluster.catalogue import Machine, find_machine
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.cluster.described import Described

KEPT = ("bytes_per_s", "alpha_s", "kind", "port", "healthy")


def join(fabric: Described, name: str, oversubscription: float = 1.0) -> Cluster:
    """See `Described.cluster`.

    >>> from moeopt.cluster.readers.reading import parse_topology
    >>> slurm = parse_topology(b"SwitchName=a Nodes=n[1-2]\\nSwitchName=b Nodes=n3\\nSwitchName=c Switches=a,b", "t")
    >>> [(tier.name, tier.sizes) for tier in join(slurm, "h100").tiers()]
    [('NVLink', (8, 8, 8)), ('leaf', (16, 8)), ('spine', (24,))]
    """
    machine = find_machine(name)
    check = Violations()
    if fabric.graph is None or not fabric.hosts:
        check.add("machine", name, rule=f"is for files that name hosts, and this is a {fabric.form}",
                  fix="Leave the machine out")  # fmt: skip
    if machine.nics == 0 or machine.nic_bytes_per_s is None:
        check.add("machine", name, rule="has no network port whose speed a source confirms", fix="Take another machine")
    if machine.scale_up != "none" and machine.scale_up_bytes_per_s is None:
        check.add("machine", name, rule="no source confirms what its GPUs send each other", fix="Take another machine")
    if not oversubscription > 0:
        check.add("oversubscription", oversubscription, rule="must be above 0", fix="Use 1 for no blocking")
    check.raise_if_any()
    assert fabric.graph is not None
    graph = nx.DiGraph()
    notes = [f"every host is a {machine.name}: {machine.source}"]
    for switch, data in fabric.graph.nodes(data=True):
        if data["kind"] in ("leaf", "spine"):
            graph.add_node(switch, kind=data["kind"], index=data.get("index"), label=data.get("label"))
    for number, host in enumerate(fabric.hosts):
        _server(graph, fabric.graph, host, number, machine, notes)
    _uplinks(graph, fabric.graph, oversubscription, notes)
    return Cluster(f"{fabric.name} of {machine.name}", graph, tuple(dict.fromkeys(notes)))


def _server(graph: nx.DiGraph, fabric: nx.DiGraph, host: str, number: int, machine: Machine, notes: list[str]) -> None:
    rails: dict[int, list[str]] = defaultdict(list)
    assert machine.nic_bytes_per_s is not None
    gpus = add_server(graph, machine, number, machine.gpus, nic_bytes_per_s=machine.nic_bytes_per_s, domain=number,
                      rails=rails)  # fmt: skip
    own = fabric.nodes[host].get("domain")
    domain = f"nvswitch {own}" if own is not None else f"nvswitch{number}"
    if machine.scale_up == "nvswitch":
        assert machine.scale_up_bytes_per_s is not None
        if domain not in graph:
            add_node(graph, domain, "nvswitch", **({} if own is not None else {"node": number}))
        for gpu in gpus:
            del graph.nodes[gpu]["domain"]
            add_link(graph, gpu, domain, machine.scale_up_bytes_per_s, "nvlink", NVLINK_S)
    ports = [port for rail in sorted(rails) for port in rails[rail]]
    adapters = sorted((one for one in fabric[host] if fabric.nodes[one]["kind"] == "nic"),
                      key=lambda one: _natural(fabric.nodes[one]["label"]))  # fmt: skip
    if not adapters:
        switches = [one for one in fabric[host] if fabric.nodes[one]["kind"] in ("leaf", "spine")]
        for port in ports:
            for switch in switches:
                add_link(graph, port, switch, machine.nic_bytes_per_s / len(switches), "nic", NIC_S)
        return
    if len(adapters) != len(ports):
        notes.append(f"hosts have {len(adapters)} adapters, a {machine.name} {len(ports)}: they are paired by name")
    for port, adapter in zip(ports, adapters, strict=False):
        graph.nodes[port]["label"] = fabric.nodes[adapter]["label"]
        for switch, data in fabric[adapter].items():
            if data["kind"] == "nic" and data["bytes_per_s"] is not None:
                add_link(graph, port, switch, data["bytes_per_s"], "nic", NIC_S)


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", text)]


def _uplinks(graph: nx.DiGraph, fabric: nx.DiGraph, oversubscription: float, notes: list[str]) -> None:
    """Links between switches: as the file says, else what comes up from below, shared out over what is above."""
    from moeopt.cluster.described import levels

    guessed = False
    height = {one: level for level, switches in enumerate(levels(fabric), 1) for one in switches}
    for switch in sorted(height, key=lambda one: height[one]):
        links = {other: data for other, data in fabric[switch].items() if data["kind"] == "uplink" and other in graph}
        for other, data in links.items():
            if data["bytes_per_s"] is not None:
                graph.add_edge(switch, other, **{key: data[key] for key in KEPT})
        above = [
            one for one, data in links.items() if data["bytes_per_s"] is None and height.get(one, 0) > height[switch]
        ]
        total = sum(data["bytes_per_s"] for _, below, data in graph.out_edges(switch, data=True)
                    if height.get(below, 0) < height[switch])  # fmt: skip
        for one in above:
            guessed = True
            add_link(graph, switch, one, total / oversubscription / len(above), "uplink", UPLINK_S)
    if guessed:
        notes.append(f"uplinks carry what comes up from below, over {oversubscription:g}: the file has no bandwidths")


def side_by_side(servers: Sequence[Cluster | Described], name: str) -> Cluster:
    """Servers of one file each as one cluster; no cable is known between them.

    Raises
    ------
    InstanceError
        One of them is no cluster.
    """
    graph = nx.DiGraph()
    notes: list[str] = []
    for number, server in enumerate(servers):
        if not isinstance(server, Cluster):
            rule = f"is a {server.form}, which has no links"
            raise InstanceError([Violation("topology", "", server.name, rule, "Give nvidia-smi topo -m")])
        first = sum(kind == "gpu" for _, kind in graph.nodes(data="kind"))
        names = {one: f"gpu{first + server.graph.nodes[one]['index']}" for one in server.gpus}
        names |= {one: f"{one} of {number}" for one in server.graph if one not in names}
        for one, data in server.graph.nodes(data=True):
            moved = {"index": first + data["index"]} if data["kind"] == "gpu" else {}
            graph.add_node(names[one], **{**data, "node": number, **moved})
        graph.add_edges_from((names[src], names[dst], data) for src, dst, data in server.graph.edges(data=True))
        notes += server.notes
    if len(servers) > 1:
        notes.append("the files say nothing of cables between servers, so GPUs of different servers have no path")
    return Cluster(name, graph, tuple(dict.fromkeys(notes)))
