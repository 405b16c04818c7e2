"""Clusters built out of machines: boxes or racks, their ports on rails, and a spine above."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx

from moeopt import kinds
from moeopt.cluster.catalogue import Machine
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.errors import Violations

NVLINK_S, DIRECT_S, PCIE_S, SMP_S, NIC_S, UPLINK_S = 1e-6, 2e-6, 0.25e-6, 0.5e-6, 2e-6, 0.5e-6
"""Seconds of a link. GPU to GPU over NVSwitch they add up to 2 us, over two ports of a leaf to 5 us: `LINK_ALPHA_S` and
`IB_ALPHA_S` of `moeopt.cost.constants`."""

SMP_BYTES_PER_S = 16e9
"""What GPUs of two sockets send each other where nothing is known: about what libraries of collectives count with."""


def build(
    machine: Machine,
    count: int,
    gpus: int | None = None,
    *,
    name: str = "",
    nic_bytes_per_s: float | None = None,
    oversubscription: float = 1.0,
) -> Cluster:
    """See `moeopt.cluster.catalogue.reference`."""
    nic = machine.nic_bytes_per_s if nic_bytes_per_s is None else nic_bytes_per_s
    many = machine.gpus * machine.servers if gpus is None else gpus
    check = Violations()
    if nic_bytes_per_s is not None and kinds.number(check, "nic_bytes_per_s", nic_bytes_per_s) and nic_bytes_per_s <= 0:
        check.add("nic_bytes_per_s", nic_bytes_per_s, rule="must be above 0", fix="Leave it out for the data sheet's")
    kinds.number(check, "oversubscription", oversubscription)
    check.raise_if_any()
    if machine.scale_up != "none" and machine.scale_up_bytes_per_s is None:
        rule = "no source confirms what its GPUs send each other"
        check.add("cluster", machine.name, rule=rule, fix="Build the graph from your own figures")
    if count > 1 and (nic is None or machine.nics == 0):
        what = "it has no network port" if machine.nics == 0 else "no source confirms the speed of its ports"
        check.add("cluster", f"{count}x{machine.name}", rule=what, fix="Use one machine, or give nic_bytes_per_s")
    if not oversubscription > 0:
        check.add("oversubscription", oversubscription, rule="must be above 0", fix="Use 1 for no blocking")
    check.raise_if_any()
    graph = nx.DiGraph()
    rails: dict[int, list[str]] = defaultdict(list)
    number = first = 0
    for place in range(count):
        for own in _per_server(machine, many):
            add_server(graph, machine, number, own, nic_bytes_per_s=nic, domain=place, first=first, rails=rails)
            number, first = number + 1, first + own
        if machine.scale_up == "nvswitch":
            _nvswitch(graph, machine, place)
    if count > 1:
        assert nic is not None
        _rails(graph, rails, nic, oversubscription)
    notes = [f"{machine.name}: {machine.source}", *([machine.note] if machine.note else [])]
    return Cluster(name or f"{count}x{many}-{machine.name}", graph, tuple(notes))


def _per_server(machine: Machine, gpus: int) -> list[int]:
    """GPUs of each server in use: full ones first."""
    full, rest = divmod(gpus, machine.gpus)
    return [machine.gpus] * full + ([rest] if rest else [])


def add_server(
    graph: nx.DiGraph,
    machine: Machine,
    number: int,
    gpus: int,
    *,
    nic_bytes_per_s: float | None,
    domain: int,
    first: int,
    rails: dict[int, list[str]],
) -> list[str]:
    """Add one server, GPUs numbered from `first`, with PCIe switches and ports, these also into `rails`; gives GPUs."""
    found: list[str] = []
    switches: list[str] = []
    pcie = machine.pcie_bytes_per_s
    for local in range(gpus):
        if local % machine.gpus_per_pcie_switch == 0:
            switches.append(add_node(graph, f"pcie{number}.{len(switches)}", "pcie", index=len(switches), node=number))
        gpu = add_node(graph, f"gpu{first + local}", "gpu", index=first + local, node=number)
        if machine.scale_up == "nvswitch":
            graph.nodes[gpu]["domain"] = domain
        speed = pcie if pcie is not None else _ports_bytes_per_s(machine, nic_bytes_per_s)
        add_link(graph, gpu, switches[-1], speed, "pcie", PCIE_S)
        found.append(gpu)
    if machine.direct_links is not None:
        rate = machine.direct_links["link_bytes_per_s"]
        for one, other, links in machine.direct_links["links"]:
            if max(one, other) < gpus:
                add_link(graph, found[one], found[other], links * rate, "nvlink", DIRECT_S)
    if machine.scale_up != "nvswitch" and pcie is not None:
        _sockets(graph, switches, number, pcie)
    if nic_bytes_per_s is None:
        return found
    per_switch = machine.gpus // machine.gpus_per_pcie_switch
    for port in range(machine.nics):
        near = port * per_switch // machine.nics
        if near < len(switches):
            nic = add_node(graph, f"nic{number}.{port}", "nic", index=port, node=number)
            room = max(nic_bytes_per_s, pcie or 0.0)
            add_link(graph, switches[near], nic, room, "pcie", PCIE_S)
            rails[port].append(nic)
    return found


def _ports_bytes_per_s(machine: Machine, nic_bytes_per_s: float | None) -> float:
    """Where PCIe is not known, it is not what limits: as much as all ports of the server."""
    return machine.nics * (nic_bytes_per_s or 0.0)


def _sockets(graph: nx.DiGraph, switches: list[str], number: int, pcie: float) -> None:
    """Two sockets, each above half of the PCIe switches."""
    half = -(-len(switches) // 2)
    hosts = []
    for socket, own in enumerate((switches[:half], switches[half:])):
        if own:
            hosts.append(add_node(graph, f"host{number}.{socket}", "host", index=socket, node=number))
            for switch in own:
                add_link(graph, switch, hosts[-1], pcie, "pcie", PCIE_S)
    if len(hosts) == 2:
        add_link(graph, hosts[0], hosts[1], SMP_BYTES_PER_S, "smp", SMP_S)


def _nvswitch(graph: nx.DiGraph, machine: Machine, domain: int) -> None:
    assert machine.scale_up_bytes_per_s is not None
    nodes = graph.nodes
    gpus = [one for one in nodes if nodes[one]["kind"] == "gpu" and nodes[one].get("domain") == domain]
    switch = add_node(graph, f"nvswitch{domain}", "nvswitch", index=domain, domain=domain)
    if machine.servers == 1:
        nodes[switch]["node"] = nodes[gpus[0]]["node"]
    for gpu in gpus:
        add_link(graph, gpu, switch, machine.scale_up_bytes_per_s, "nvlink", NVLINK_S)


def _rails(graph: nx.DiGraph, rails: dict[int, list[str]], nic_bytes_per_s: float, oversubscription: float) -> None:
    leaves = []
    for rail, ports in sorted(rails.items()):
        leaf = add_node(graph, f"leaf{rail}", "leaf", index=rail)
        for port in ports:
            add_link(graph, port, leaf, nic_bytes_per_s, "nic", NIC_S)
        leaves.append((leaf, len(ports)))
    if len(leaves) > 1:
        spine = add_node(graph, "spine0", "spine", index=0)
        for leaf, many in leaves:
            add_link(graph, leaf, spine, many * nic_bytes_per_s / oversubscription, "uplink", UPLINK_S)
