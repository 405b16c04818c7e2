"""``ibnetdiscover``: every port of every device, each cable seen from both ends."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import networkx as nx

from moeopt.cluster.building import NIC_S, UPLINK_S
from moeopt.cluster.described import Described
from moeopt.cluster.faults import Fault, giga
from moeopt.cluster.readers.slurm_tree import tiers_of
from moeopt.cluster.readers.text import refuse

LANE = {
    "SDR": 2e9, "DDR": 4e9, "QDR": 8e9, "FDR10": 10e9, "FDR": 13.64e9, "EDR": 25e9, "HDR": 50e9, "NDR": 100e9,
    "XDR": 200e9,
}  # fmt: skip
"""bits/s of data of a lane in one direction."""

_HEAD = re.compile(r'^(Switch|Ca|Rt)\s+(\d+)\s+"([SHR]-[0-9a-fA-F]+)"\s*#?\s*(?:"([^"]*)")?')
_PORT = re.compile(r'^\[(\d{1,6})\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s*"([SHR]-[0-9a-fA-F]+)"\[(\d{1,6})\]')
_RATE = re.compile(r"\b(\d{1,2})x([A-Z]{3}\d{0,2})\b")


@dataclass
class _Device:
    kind: str
    guid: str
    label: str
    cables: dict[int, tuple[str, int, float | None]] = field(default_factory=dict)  # port to peer, its port, bytes/s


def is_dump(text: str) -> bool:
    """Whether it is such a dump."""
    return any(_HEAD.match(line) for line in text.split("\n"))


def read_ib(text: str, source: str, name: str) -> Described:
    """Devices and cables of a fabric.

    Raises
    ------
    InstanceError
        No device at all.

    >>> dump = 'Switch 2 "S-0a" # "leaf"\\n[1] "H-01"[1](1) # "n1 HCA-1" lid 1 4xHDR\\nCa 1 "H-01" # "n1 HCA-1"\\n' \\
    ...        '[1](1) "S-0a"[1] # lid 1 lmc 0 "leaf" lid 2 4xHDR\\n'
    >>> found = read_ib(dump, "ib.txt", "fabric")
    >>> found.facts["hosts"], found.facts["cables"], found.faults()
    (1, 1, [])
    """
    devices: dict[str, _Device] = {}
    current: _Device | None = None
    for line in text.split("\n"):
        head = _HEAD.match(line)
        if head is not None:
            current = devices.setdefault(head[3].lower(), _Device(head[1], head[3].lower(), head[4] or head[3]))
            continue
        port = _PORT.match(line)
        if port is not None and current is not None:
            current.cables[int(port[1])] = (port[2].lower(), int(port[3]), _speed(line))
    if not devices:
        raise refuse(source, text.strip()[:40], "has no switch and no host adapter", "Give what ibnetdiscover prints")
    skipped = [guid for guid, one in devices.items() if one.kind == "Ca" and "Aggregation Node" in one.label]
    for guid in skipped:
        del devices[guid]
    notes = [f"{len(skipped)} aggregation nodes of switches are left out"] if skipped else []
    return _described(devices, set(skipped), name, notes)


def _speed(line: str) -> float | None:
    """Bytes/s of the last rate that a line has."""
    found = [(int(width), LANE[lane]) for width, lane in _RATE.findall(line) if lane in LANE]
    return found[-1][0] * found[-1][1] / 8 if found else None


def _described(devices: dict[str, _Device], skipped: set[str], name: str, notes: list[str]) -> Described:
    graph = nx.DiGraph()
    ids = _nodes(graph, devices)
    cables = Counter[str]()
    faults: list[Fault] = []
    per_pair: dict[tuple[str, str], list[float]] = defaultdict(list)
    for device in devices.values():
        for port, (peer, far, speed) in device.cables.items():
            if peer in skipped:
                continue
            if peer not in devices:
                text = f"{device.label} port {port} goes to {peer}, which is not in the file"
                faults.append(Fault("one-way", (ids[device.guid],), text, "The dump was cut: make it again"))
                continue
            back = devices[peer].cables.get(far)
            if back is None or back[0] != device.guid:
                text = f"the cable of {device.label} port {port} is not seen from {devices[peer].label}"
                faults.append(Fault("one-way", (ids[device.guid], ids[peer]), text, "The dump was cut: make it again"))
            elif back[2] != speed and speed is not None and back[2] is not None and device.guid < peer:
                text = f"the cable of {device.label} port {port} has {giga(speed)} one way and {giga(back[2])} back"
                faults.append(Fault("asymmetric", (ids[device.guid], ids[peer]), text, "Check both ends"))
            per_pair[ids[device.guid], ids[peer]].append(speed or 0.0)
            if speed is None:
                notes.append("cables without a rate are taken to carry nothing")
            if device.guid < peer or back is None:
                cables[giga(speed or 0.0)] += 1
    for (src, dst), speeds in per_pair.items():
        ends = graph.nodes[src]["kind"], graph.nodes[dst]["kind"]
        kind, alpha = ("nic", NIC_S) if "nic" in ends else ("uplink", UPLINK_S)
        graph.add_edge(src, dst, bytes_per_s=sum(speeds), alpha_s=alpha, kind=kind, port=None, healthy=True,
                       cables=len(speeds))  # fmt: skip
    _host_links(graph)
    faults += _alone(devices, ids)
    facts = _facts(graph, cables)
    notes = [*dict.fromkeys(notes), "the file has no GPUs: name the machine of its hosts to make it a cluster"]
    return Described("ibnetdiscover", name, facts, tuple(notes), graph, found=tuple(faults))


def _nodes(graph: nx.DiGraph, devices: dict[str, _Device]) -> dict[str, str]:
    ids, hosts = {}, {}
    for device in devices.values():
        if device.kind != "Ca":
            continue
        host = device.label.split()[0] if device.label.split() else device.guid
        if host not in hosts:
            hosts[host] = f"host {host}"
            graph.add_node(hosts[host], kind="host", index=len(hosts) - 1, label=host)
    names = Counter(device.label for device in devices.values())
    for number, device in enumerate(devices.values()):
        name = device.label if names[device.label] == 1 else f"{device.label} ({device.guid})"
        ids[device.guid] = name
        if device.kind == "Ca":
            host = device.label.split()[0] if device.label.split() else device.guid
            graph.add_node(name, kind="nic", index=number, label=device.label, host=hosts[host])
        else:
            leaf = any(devices[peer].kind == "Ca" for peer, *_ in device.cables.values() if peer in devices)
            graph.add_node(name, kind="leaf" if leaf else "spine", index=number, label=device.label)
    return ids


def _host_links(graph: nx.DiGraph) -> None:
    """Join hosts and their ports, by links without a bandwidth."""
    for port, data in list(graph.nodes(data=True)):
        if data["kind"] == "nic":
            for src, dst in ((data["host"], port), (port, data["host"])):
                graph.add_edge(src, dst, bytes_per_s=None, alpha_s=0.0, kind="pcie", port=None, healthy=True)


def _alone(devices: dict[str, _Device], ids: dict[str, str]) -> list[Fault]:
    return [
        Fault("disconnected", (ids[device.guid],), f"{device.label} has no cable", "Check the port and its cable")
        for device in devices.values()
        if not device.cables
    ]


def _facts(graph: nx.DiGraph, cables: Counter[str]) -> dict[str, object]:
    kinds = Counter(kind for _, kind in graph.nodes(data="kind"))
    ports = Counter(data["host"] for _, data in graph.nodes(data=True) if data["kind"] == "nic")
    return {
        "hosts": kinds["host"],
        "nics": kinds["nic"],
        "nics_per_host": sorted(set(ports.values())),
        "leaves": kinds["leaf"],
        "spines": kinds["spine"],
        "cables": sum(cables.values()),
        "cable_speeds": dict(cables),
        "tiers": tiers_of(graph),
    }
