"""Labels of Kubernetes nodes: switches by cloud, NVLink domains, GPUs of each node."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx

from moeopt.cluster.described import Described, switch_link
from moeopt.cluster.faults import Fault
from moeopt.cluster.readers.slurm_tree import tiers_of
from moeopt.cluster.readers.text import refuse
from moeopt.errors import Violations

FAMILIES: dict[str, tuple[str, ...]] = {
    "AWS": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (3, 2, 1)),
    "GCP": tuple(f"cloud.google.com/gce-topology-{part}" for part in ("host", "subblock", "block")),
    "topograph": tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(8)),
    "topograph, old keys": tuple(f"network.topology.nvidia.com/{part}" for part in ("leaf", "spine", "core")),
}
"""Labels of switches, the nearest first."""

DOMAINS = ("nvidia.com/gpu.clique", "accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator")
GPU_COUNT, GPU_PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"


def nodes_of(document: Any) -> list[tuple[str, dict[str, str], dict[str, Any]]] | None:
    """Name, labels and capacity of each node of a document, or None where it has none.

    >>> nodes_of({"kind": "Node", "metadata": {"name": "a", "labels": {"x": "y"}}})
    [('a', {'x': 'y'}, {})]
    """
    rows = document
    if isinstance(document, dict):
        rows = document.get("items", document.get("Nodes", [document]))
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return None
    found = []
    for row in rows:
        meta = row.get("metadata") if isinstance(row.get("metadata"), dict) else {}
        labels = (meta or {}).get("labels", row.get("Topology", row.get("labels")))
        name = (meta or {}).get("name", row.get("Name", row.get("name")))
        if not isinstance(name, str) or not isinstance(labels, dict):
            return None
        status = row.get("status") if isinstance(row.get("status"), dict) else {}
        capacity = (status or {}).get("capacity")
        texts = {str(key): str(value) for key, value in labels.items()}
        found.append((name, texts, capacity if isinstance(capacity, dict) else {}))
    return found


def read_labels(document: Any, source: str, name: str) -> Described:
    """Hosts below switches as the labels say.

    Raises
    ------
    InstanceError
        No nodes, a node twice, or no label that says where a node is.

    >>> node = {"metadata": {"name": "a", "labels": {"cloud.google.com/gce-topology-block": "b1"}}}
    >>> read_labels({"items": [node]}, "nodes.json", "nodes").facts["hosts"]
    1
    """
    nodes = nodes_of(document)
    if nodes is None:
        raise refuse(source, type(document).__name__, "has no nodes with labels", "Give kubectl get nodes -o json")
    check = Violations(source)
    for host, times in Counter(host for host, *_ in nodes).items():
        if times > 1:
            check.add("nodes", host, rule=f"stands {times} times", fix="Name a node once")
    check.raise_if_any()
    family, keys = _family(nodes)
    domains = {host: labels[key] for host, labels, _ in nodes for key in DOMAINS[::-1] if labels.get(key)}
    if family is None and not domains:
        rule = "no label says where a node is"
        fix = f"Known are {', '.join(one[0] for one in FAMILIES.values())}, {DOMAINS[0]} and their like"
        raise refuse(source, ", ".join(sorted(nodes[0][1])[:4]) or "no labels", rule, fix)
    graph, faults = _graph(nodes, keys, domains)
    facts: dict[str, Any] = {"hosts": len(nodes), "labels": family or "NVLink domains only", "tiers": tiers_of(graph)}
    if domains:
        facts["nvlink_domains"] = len(set(domains.values()))
    gpus = [_gpus(labels, capacity) for _, labels, capacity in nodes]
    known = [count for count in gpus if count is not None]
    if known:
        facts["gpus"] = sum(known)
        facts["gpus_per_host"] = sorted(set(known))
    products = sorted({labels[GPU_PRODUCT] for _, labels, _ in nodes if labels.get(GPU_PRODUCT)})
    if products:
        facts["gpu_products"] = products
    note = "labels have no bandwidths: name the machine of the hosts to make it a cluster"
    return Described("Kubernetes node labels", name, facts, (note,), graph, found=tuple(faults))


def _family(nodes: list[tuple[str, dict[str, str], dict[str, Any]]]) -> tuple[str | None, list[str]]:
    """The family most nodes have, and its labels that are there, the nearest switch first."""
    counts = {
        name: sum(any(key in labels for key in keys) for _, labels, _ in nodes) for name, keys in FAMILIES.items()
    }
    name = max(counts, key=lambda one: counts[one])
    if not counts[name]:
        return None, []
    return name, [key for key in FAMILIES[name] if any(key in labels for _, labels, _ in nodes)]


def _gpus(labels: dict[str, str], capacity: dict[str, Any]) -> int | None:
    text = str(labels.get(GPU_COUNT, capacity.get("nvidia.com/gpu", "")))
    return int(text) if text.isdecimal() and len(text) < 6 else None


def _graph(
    nodes: list[tuple[str, dict[str, str], dict[str, Any]]], keys: list[str], domains: dict[str, str]
) -> tuple[nx.DiGraph, list[Fault]]:
    graph = nx.DiGraph()
    faults = []
    above: dict[str, str] = {}
    for index, (host, labels, _) in enumerate(nodes):
        at = f"host {host}"
        graph.add_node(at, kind="host", index=index, label=host, domain=domains.get(host))
        chain = [(level, labels[key]) for level, key in enumerate(keys) if labels.get(key)]
        if keys and not chain:
            text = f"{host} has no label of a switch, others have"
            faults.append(Fault("disconnected", (at,), text, "Label it, or leave it out"))
        for place, (level, value) in enumerate(chain):
            switch = f"switch {level} {value}"
            if switch not in graph:
                kind = "leaf" if place == 0 else "spine"
                graph.add_node(switch, kind=kind, index=graph.number_of_nodes(), label=value)
            if place and above.setdefault(at, switch) != switch:
                text = f"{graph.nodes[at]['label']} is below both {graph.nodes[above[at]]['label']} and {value}"
                faults.append(Fault("duplicate", (at, switch), text, "Labels do not nest: check the node that differs"))
            switch_link(graph, at, switch, "uplink" if place else "nic")
            at = switch
    return graph, faults
