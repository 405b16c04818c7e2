"""From the matrix of ``nvidia-smi topo`` to a link graph: PCIe as a tree of what is near, NVLink by its counts."""

from __future__ import annotations

import re
from collections import Counter

import networkx as nx

from moeopt.cluster.building import DIRECT_S, NVLINK_S, PCIE_S, SMP_BYTES_PER_S, SMP_S
from moeopt.cluster.described import Described
from moeopt.cluster.faults import Fault
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.cluster.nearest import nearest_nics
from moeopt.cluster.readers.smi import PATHS, Matrix, read_matrix

MOST_LINKS = 18
"""NVLinks of a GPU, the most there are: more between all pairs together must go over switches."""

LINK_BYTES_PER_S = 25e9
GRACE_LINK_BYTES_PER_S = 50e9
PCIE_BYTES_PER_S = {18: 64e9, 6: 16e9, 4: 16e9}
"""PCIe by the NVLinks that a GPU has, as these tell the generation; else `PCIE_DEFAULT`."""
PCIE_DEFAULT = 32e9


def read_smi(text: str, source: str, name: str) -> Cluster | Described:
    """A server from ``nvidia-smi topo -m``, or what a ``-p2p`` matrix says.

    Raises
    ------
    InstanceError
        See `moeopt.cluster.readers.smi.read_matrix`.
    """
    matrix = read_matrix(text, source)
    return _access(matrix, name) if matrix.is_access else _server(matrix, name)


def _access(matrix: Matrix, name: str) -> Described:
    words = {
        "OK": "peers read each other", "CNS": "chipset not supported", "GNS": "GPU not supported",
        "TNS": "topology not supported", "NS": "not supported", "DR": "disabled by the registry", "U": "unknown",
        "N/A": "not known",
    }  # fmt: skip
    gpus = matrix.gpus
    bad = [(one, other, matrix.cells[one][other]) for one in gpus for other in gpus if one != other]
    bad = [row for row in bad if row[2] not in ("OK", "X")]
    faults = [
        Fault("one-way" if matrix.cells[other][one] == "OK" else "disconnected", (one, other),
              f"{one} does not reach {other} directly: {words.get(word, word)}", "See nvidia-smi topo -m and IOMMU/ACS")
        for one, other, word in bad
    ]  # fmt: skip
    facts = {
        "gpus": len(gpus),
        "pairs": len(gpus) * (len(gpus) - 1),
        "pairs_with_access": len(gpus) * (len(gpus) - 1) - len(bad),
        "cells": dict(Counter(word for *_, word in bad)),
    }
    note = "a matrix of peer access has no links and no bandwidths: take nvidia-smi topo -m for these"
    return Described("nvidia-smi topo -p2p", name, facts, (note,), found=tuple(faults))


def _server(matrix: Matrix, name: str) -> Cluster:
    graph = nx.DiGraph()
    notes = list(matrix.notes)
    ids = {}
    for index, label in enumerate(matrix.gpus):
        ids[label] = add_node(graph, f"gpu{index}", "gpu", index=index, node=0)
    for index, label in enumerate(matrix.nics):
        ids[label] = add_node(graph, f"nic{index}", "nic", index=index, node=0, label=matrix.names.get(label, label))
    counts = {(one, other): _links(matrix.cells[one][other]) for one in ids for other in ids if one in matrix.cells}
    speed = PCIE_BYTES_PER_S.get(_nvlink(graph, matrix, ids, counts, notes), PCIE_DEFAULT)
    notes.append(f"PCIe is taken as {speed / 1e9:.0f} GB/s, which the matrix does not say")
    _tree(graph, matrix, ids, speed, notes)
    far = [matrix.names.get(nic, nic) for nic in matrix.nics if not _near(matrix, nic)]
    found = Cluster(name, graph, tuple(notes))
    if far:
        notes.append(_behind_sockets(found) if len(far) == len(matrix.nics) else
                     f"no GPU is near {', '.join(far)}: for storage or management, or behind sockets")  # fmt: skip
    return Cluster(name, graph, tuple(notes))


def _behind_sockets(cluster: Cluster) -> str:
    """Which ports count as nearest where the matrix says SYS from every GPU to every port."""
    nearest = {port for ports in nearest_nics(cluster) for port in ports}
    labels = [str(cluster.graph.nodes[port]["label"]) for port in cluster.nics if port in nearest]
    if len(labels) == len(cluster.nics):
        which = "all count as the nearest"
    else:
        which = f"{', '.join(labels)} count as the nearest, with the fewest switches on the way"
    return f"no GPU is near a port, all are behind sockets (SYS): {which}"


def _near(matrix: Matrix, nic: str) -> bool:
    return any(matrix.cell(gpu, nic) in ("PIX", "PXB", "PHB", "NODE") for gpu in matrix.gpus)


def _links(cell: str) -> int:
    return int(cell[2:]) if cell.startswith("NV") else 0


def _grace(matrix: Matrix) -> bool:
    """GPUs that are NUMA nodes themselves sit beside a Grace CPU."""
    return bool(matrix.affinity) and all(re.search(r"\s[0-9]+$", line) and "," in line and "N/A" not in line
                                         for line in matrix.affinity.values())  # fmt: skip


def _nvlink(
    graph: nx.DiGraph, matrix: Matrix, ids: dict[str, str], counts: dict[tuple[str, str], int], notes: list[str]
) -> int:
    """Add NVLinks; gives how many the GPU with the most of them has."""
    joined = {
        gpu
        for one in matrix.gpus
        for other in matrix.gpus
        for gpu in (one, other)
        if one != other and counts.get((one, other))
    }
    gpus = [gpu for gpu in matrix.gpus if gpu in joined]
    if not gpus:
        return 0
    rate = GRACE_LINK_BYTES_PER_S if _grace(matrix) else LINK_BYTES_PER_S
    ports = {gpu: max(counts[gpu, other] for other in gpus if other != gpu) for gpu in gpus}
    behind = (
        all(counts[one, other] == min(ports[one], ports[other]) for one in gpus for other in gpus if one != other)
        and sum(counts[gpus[0], other] for other in gpus[1:]) > MOST_LINKS
    )
    said = f"{rate / 1e9:.0f} GB/s of a link in a direction are assumed"
    if rate == GRACE_LINK_BYTES_PER_S:
        notes.append(f"{said}, as GPUs that are NUMA nodes are beside Grace; the domain may reach beyond this tray")
    elif max(ports.values()) == MOST_LINKS:
        notes.append(f"{said}: H100, H200 and H20 have them, B200 twice as much; the matrix does not name the GPU")
    else:
        notes.append(said)
    if not behind:
        for one in gpus:
            for other in gpus:
                if one != other and counts[one, other]:
                    add_link(graph, ids[one], ids[other], counts[one, other] * rate, "nvlink", DIRECT_S,
                             both_ways=False)  # fmt: skip
        return max(sum(counts[one, other] for other in gpus if other != one) for one in gpus)
    switch = add_node(graph, "nvswitch0", "nvswitch", index=0, node=0)
    for gpu in gpus:
        add_link(graph, ids[gpu], switch, ports[gpu] * rate, "nvlink", NVLINK_S)
    return max(ports.values())


def _tree(graph: nx.DiGraph, matrix: Matrix, ids: dict[str, str], speed: float, notes: list[str]) -> None:
    """PCIe switches, host bridges and sockets: at each distance, what is that near has one node above it."""
    tops = {label: {label} for label in matrix.labels}  # by representative
    node_of = dict(ids)
    made = {"pcie": 0, "host": 0}
    numa = {gpu: _numa(matrix.affinity.get(gpu, "")) for gpu in matrix.gpus}
    for word in PATHS[:4]:
        near = nx.Graph()
        near.add_nodes_from(tops)
        of = {label: top for top, members in tops.items() for label in members}
        for one in matrix.labels:
            for other in matrix.labels:
                cell = matrix.cell(one, other) or ""
                same = cell.startswith("NV") and numa.get(one) is not None and numa.get(one) == numa.get(other)
                if one < other and (cell == word or (word == "NODE" and same)):  # NVLink hides how PCIe joins a pair
                    near.add_edge(of[one], of[other])
        merged: dict[str, set[str]] = {}
        for part in sorted(sorted(part, key=matrix.labels.index) for part in nx.connected_components(near)):
            if len(part) == 1:
                merged[part[0]] = tops[part[0]]
                continue
            kind = "pcie" if word in ("PIX", "PXB") else "host"
            above = add_node(graph, f"{kind}0.{made[kind]}", kind, index=made[kind], node=0)
            made[kind] += 1
            for child in part:
                add_link(graph, node_of[child], above, speed, "pcie", PCIE_S)
            node_of[part[0]] = above
            merged[part[0]] = set().union(*(tops[child] for child in part))
        tops = merged
    _join_sockets(graph, [node_of[top] for top in tops], speed)
    wrong = [(one, other) for one in matrix.cells for other in matrix.cells if one < other
             and matrix.cells[one][other] != matrix.cells[other][one]]  # fmt: skip
    if wrong:
        pairs = ", ".join(f"{one} and {other}" for one, other in wrong[:6])
        notes.append(f"the matrix differs across its diagonal for {pairs}")


def _join_sockets(graph: nx.DiGraph, tops: list[str], speed: float) -> None:
    """Join what is left by links between sockets, over one node if there are more than two."""
    if len(tops) < 2:
        return
    hosts = []
    for place, top in enumerate(tops):
        host = top
        if graph.nodes[top]["kind"] != "host":
            host = add_node(graph, f"host0.s{place}", "host", index=place, node=0)
            add_link(graph, top, host, speed, "pcie", PCIE_S)
        hosts.append(host)
    if len(hosts) == 2:
        add_link(graph, hosts[0], hosts[1], SMP_BYTES_PER_S, "smp", SMP_S)
        return
    middle = add_node(graph, "host0.smp", "host", index=len(hosts), node=0, label="between sockets")
    for host in hosts:
        add_link(graph, host, middle, SMP_BYTES_PER_S, "smp", SMP_S / 2)


def _numa(line: str) -> str | None:
    """NUMA node of a row of affinities; of a list, the first, which is the socket of a Grace."""
    cells = line.split()
    if len(cells) < 2 or not re.match(r"[0-9]+", cells[1]):
        return None
    found = re.match(r"[0-9]+", cells[1])
    return found[0] if found else None
