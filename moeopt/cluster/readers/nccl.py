"""NCCL topology files: what ``NCCL_TOPO_DUMP_FILE`` wrote, what vendors ship, and pieces of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import networkx as nx

from moeopt.cluster.building import DIRECT_S, NIC_S, NVLINK_S, PCIE_S, SMP_S, UPLINK_S
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.cluster.readers.safe_xml import Element, read_xml
from moeopt.cluster.readers.text import refuse, whole

ROOTS = ("system", "cpu", "pci", "gpu")

LANE = {"2.5": 0.25e9, "5": 0.5e9, "8": 0.985e9, "16": 1.97e9, "32": 3.94e9, "64": 7.88e9}
"""Bytes/s of a PCIe lane in one direction, by GT/s."""
NVLINK = {"70": 25e9, "80": 25e9, "86": 14e9, "90": 25e9, "100": 50e9, "103": 50e9}
"""Bytes/s of an NVLink in one direction, by the ``sm`` of the GPU."""
XGMI = {"908": 24e9, "910": 36e9, "90a": 36e9, "942": 48e9, "950": 48e9}
"""Bytes/s of an xGMI link as RCCL counts with it, by ``gcn``."""
SMP = {"AuthenticAMD": 16e9, "GenuineIntel": 10e9, "IBM": 32e9}
"""Bytes/s between sockets as NCCL counts with them, by CPU vendor; 6 GB/s else."""
SXM = {"0x20b0": 300e9, "0x20b2": 300e9, "0x2330": 450e9, "0x2335": 450e9}
"""What A100, H100 and H200 on baseboards send over NVLink, by PCI device; eight of them are behind NVSwitch."""


@dataclass
class _Server:
    """What is read of one server, before links that need all of it."""

    graph: nx.DiGraph
    node: int
    notes: list[str]
    source: str
    gpus: dict[str, str] = field(default_factory=dict)  # bus id to node
    devices: dict[str, str] = field(default_factory=dict)  # PCI device of each GPU
    numbers: dict[str, int] = field(default_factory=dict)  # ``dev`` of each GPU that has one
    nics: list[tuple[str, float | None]] = field(default_factory=list)
    hosts: list[tuple[str, str]] = field(default_factory=list)
    made: int = 0
    wires: list[tuple[str, Element, Element]] = field(default_factory=list)


def read_nccl(texts: Sequence[tuple[str, str]], name: str) -> Cluster:
    """A cluster from one file a server, given as (source, text); a file may also have servers apart by ``host_hash``.

    Raises
    ------
    InstanceError
        Broken XML, a search result (``<graphs>``) in place of a topology, or no GPU.
    """
    graph = nx.DiGraph()
    notes: list[str] = []
    servers: list[_Server] = []
    for source, text in texts:
        for cpus in _by_host(_top(read_xml(text, source), source)):
            server = _Server(graph, len(servers), notes, source)
            for cpu in cpus:
                _cpu(server, cpu)
            if not server.gpus:
                raise refuse(source, "no <gpu>", "has no GPU, by tag or by PCI class",
                             "Dump it on a GPU node: NCCL_TOPO_DUMP_FILE=topo.xml")  # fmt: skip
            servers.append(server)
    for server in servers:
        _wires(server)
        _sockets(server)
    _fabric(graph, servers, notes)
    return Cluster(name, _numbered(graph, servers), tuple(dict.fromkeys(notes)))


def _numbered(graph: nx.DiGraph, servers: list[_Server]) -> nx.DiGraph:
    """The graph with GPUs numbered as the files do, server after server."""
    names: dict[str, str] = {}
    for server in servers:
        gpus, numbers = list(server.gpus.values()), server.numbers
        if len(set(numbers.values())) == len(gpus):
            gpus.sort(key=lambda gpu: numbers[gpu])
        for gpu in gpus:
            graph.nodes[gpu]["index"] = len(names)
            names[gpu] = f"gpu{len(names)}"
    return nx.relabel_nodes(graph, names)


def _top(elements: list[Element], source: str) -> list[Element]:
    """The CPUs, from whatever stands at the top; pieces get a CPU of their own."""
    tags = [element.tag for element in elements]
    if "graphs" in tags or "graph" in tags:
        rule = "is a result of NCCL's search (NCCL_GRAPH_FILE): rings and trees, no topology"
        raise refuse(source, "<graphs>", rule, "Give what NCCL_TOPO_DUMP_FILE writes")
    found = [child for element in elements for child in (element.children if element.tag == "system" else [element])]
    unknown = sorted({f"<{element.tag}>" for element in found} - {f"<{tag}>" for tag in ROOTS})
    if unknown or not found:
        rule = "is no NCCL topology: <system>, <cpu>, <pci> or <gpu> is expected"
        raise refuse(source, ", ".join(unknown) or "nothing", rule, "Give what NCCL_TOPO_DUMP_FILE writes")
    loose = [element for element in found if element.tag != "cpu"]
    cpus = [element for element in found if element.tag == "cpu"]
    return [*cpus, Element("cpu", {"numaid": "-1"}, loose)] if loose else cpus


def _by_host(cpus: list[Element]) -> list[list[Element]]:
    found: dict[str, list[Element]] = {}
    for cpu in cpus:
        found.setdefault(cpu.get("host_hash"), []).append(cpu)
    return list(found.values())


def _cpu(server: _Server, cpu: Element) -> None:
    label = f"NUMA {cpu.get('numaid')}" if cpu.get("numaid", "-1") != "-1" else "host"
    host = add_node(server.graph, f"host{server.node}.{len(server.hosts)}", "host", index=len(server.hosts),
                    node=server.node, label=label)  # fmt: skip
    server.hosts.append((host, cpu.get("vendor") or cpu.get("arch")))
    for child in cpu.children:
        _device(server, child, host)


def _device(server: _Server, element: Element, above: str) -> None:
    """A ``<pci>`` and what is below it; recursion is as deep as the XML, which is limited."""
    if element.tag == "gpu":
        _gpu(server, element, element, above)
        return
    if element.tag == "nic":
        _ports(server, element, element, above)
        return
    if element.tag != "pci":
        return
    kind = element.get("class")
    gpus, nics, below = element.find("gpu"), element.find("nic"), element.find("pci")
    if gpus or (kind.startswith(("0x0302", "0x0380", "0x0300")) and not below):
        _gpu(server, element, gpus[0] if gpus else element, above)
    elif nics or (kind.startswith(("0x0207", "0x0200", "0x0280")) and not below):
        for nic in nics or [element]:
            _ports(server, element, nic, above)
    elif below:
        server.made += 1
        switch = add_node(server.graph, f"pcie{server.node}.{server.made - 1}", "pcie", index=server.made - 1,
                          node=server.node)  # fmt: skip
        add_link(server.graph, switch, above, _slot(server, element), "pcie", PCIE_S)
        for child in below:
            _device(server, child, switch)
    elif not kind.startswith(("0x0680", "0x0604", "0x0108")):
        server.notes.append(f"{element.get('busid')}: a device of class {kind or 'not said'} is left out")


def _slot(server: _Server, element: Element) -> float:
    """Bytes/s of a PCIe link; where the file does not say, generation 4 with 16 lanes, noted."""
    rate = re.match(r"\s*([0-9]+(?:\.[0-9]+)?)", element.get("link_speed"))
    width = whole(element.get("link_width")) or 0
    lane = LANE.get(f"{float(rate[1]):g}") if rate else None
    if lane is None or not 1 <= width <= 64:
        server.notes.append("PCIe without a speed is taken as generation 4 with 16 lanes")
        return 16 * LANE["16"]
    return lane * width


def _gpu(server: _Server, pci: Element, gpu: Element, above: str) -> None:
    index = sum(kind == "gpu" for _, kind in server.graph.nodes(data="kind"))
    node = add_node(server.graph, f"gpu{index}", "gpu", index=index, node=server.node)
    add_link(server.graph, node, above, _slot(server, pci), "pcie", PCIE_S)
    bus = _bus(pci.get("busid")) or node
    if bus in server.gpus:
        raise refuse(server.source, bus, "two GPUs have this bus id", "Give one server a file")
    server.gpus[bus] = node
    server.devices[node] = pci.get("device").lower()
    dev = whole(gpu.get("dev"))
    if dev is not None:
        server.numbers[node] = dev
    server.wires.extend((node, gpu, wire) for wire in gpu.find("nvlink", "xgmi"))


def _ports(server: _Server, pci: Element, nic: Element, above: str) -> None:
    speed, nets = _slot(server, pci), nic.find("net")
    slot = _bus(pci.get("busid")) if len(nets) > 1 else None
    ports: list[Element | None] = [*nets] or [None]
    for net in ports:
        number = len(server.nics)
        label = pci.get("busid") if net is None else net.get("name")
        node = add_node(server.graph, f"nic{server.node}.{number}", "nic", index=number, node=server.node, label=label)
        add_link(server.graph, above, node, speed, "pcie", PCIE_S, port=slot)
        megabits = None if net is None else whole(net.get("speed"))
        server.nics.append((node, megabits / 8 * 1e6 if megabits else None))


def _bus(text: str) -> str:
    """A bus id with a domain of four digits, in small letters.

    >>> _bus("00000000:0F:00.0"), _bus("0f:00.0")
    ('0000:0f:00.0', '0000:0f:00.0')
    """
    parts = text.lower().split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    return ":".join([parts[0][-4:].zfill(4), *parts[1:]]) if len(parts) == 3 else text.lower()


def _wires(server: _Server) -> None:
    """NVLink and xGMI: to a switch, or from GPU to GPU."""
    graph, switch = server.graph, f"nvswitch{server.node}"
    for node, gpu, wire in server.wires:
        kind = "nvlink" if wire.tag == "nvlink" else "xgmi"
        rates, key = (NVLINK, gpu.get("sm")) if kind == "nvlink" else (XGMI, gpu.get("gcn"))
        rate = rates.get(key)
        if rate is None:
            rate = rates["80" if kind == "nvlink" else "910"]
            server.notes.append(f"{kind} of GPU type {key or 'not said'} is taken as {rate / 1e9:g} GB/s a link")
        elif kind == "xgmi":
            server.notes.append(f"xGMI is taken as {rate / 1e9:g} GB/s a link, as RCCL counts with")
        links = whole(wire.get("count", "1"))
        if links is None:
            server.notes.append(f"{wire.get('count')[:20]} links of {node} are no number: one is taken")
            links = 1
        target = server.gpus.get(_bus(wire.get("target")))
        if target is not None:
            if target == node:
                server.notes.append("GPUs have NVLinks to themselves, which some vendors write to steer NCCL's search")
            add_link(graph, node, target, links * rate, kind, DIRECT_S, both_ways=False)
        elif wire.get("tclass").startswith("0x0680"):
            if switch not in graph:
                add_node(graph, switch, "nvswitch", index=server.node, node=server.node)
            add_link(graph, node, switch, links * rate, "nvlink", NVLINK_S)
        else:
            server.notes.append(f"a link of {node} goes to {wire.get('target')}, which is not in the file: left out")
    if server.wires:
        return
    known = {SXM.get(device) for device in server.devices.values()}
    speed = known.pop() if len(known) == 1 else None
    if speed is not None and len(server.gpus) == 8:
        add_node(graph, switch, "nvswitch", index=server.node, node=server.node)
        for node in server.gpus.values():
            add_link(graph, node, switch, speed, "nvlink", NVLINK_S)
        device = next(iter(server.devices.values()))
        server.notes.append(f"the file has no NVLink (NCCL finds it when it runs): eight GPUs of PCI device {device} "
                            f"are taken to be behind NVSwitch with {speed / 1e9:g} GB/s each")  # fmt: skip
    else:
        server.notes.append("the file has no NVLink: NCCL would find it when it runs, so the GPUs may have some")


def _sockets(server: _Server) -> None:
    hosts = server.hosts
    if len(hosts) < 2:
        return
    speed = SMP.get(hosts[0][1], 6e9)
    server.notes.append(f"between sockets {speed / 1e9:g} GB/s are taken, as NCCL counts with")
    if len(hosts) == 2:
        add_link(server.graph, hosts[0][0], hosts[1][0], speed, "smp", SMP_S)
        return
    middle = add_node(server.graph, f"host{server.node}.smp", "host", index=len(hosts), node=server.node,
                      label="between sockets")  # fmt: skip
    for host, _ in hosts:
        add_link(server.graph, host, middle, speed, "smp", SMP_S / 2)


def _fabric(graph: nx.DiGraph, servers: list[_Server], notes: list[str]) -> None:
    """Cables of ports: to a rail a port number and a spine, where there are several servers."""
    if len(servers) < 2:
        for server in servers:
            for nic, speed in server.nics:
                if speed is not None:
                    graph.nodes[nic]["bytes_per_s"] = speed
        return
    rails: dict[int, float] = {}
    for server in servers:
        for rail, (nic, speed) in enumerate(server.nics):
            if speed is None:
                slot = next(iter(graph[nic].values()))["bytes_per_s"]
                notes.append("ports without a speed are taken to be as fast as their slot")
            cable = slot if speed is None else speed
            leaf = f"leaf{rail}" if f"leaf{rail}" in graph else add_node(graph, f"leaf{rail}", "leaf", index=rail)
            add_link(graph, nic, leaf, cable, "nic", NIC_S)
            rails[rail] = rails.get(rail, 0.0) + cable
    if len(rails) > 1:
        spine = add_node(graph, "spine0", "spine", index=0)
        for rail, total in rails.items():
            add_link(graph, f"leaf{rail}", spine, total, "uplink", UPLINK_S)
    notes.append("the files say nothing of the network: port i of every server is put on switch i, without blocking")
