"""What can enter a unit: minimum cuts of the link graph between the GPUs outside and those inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance

MOST_FLOWS = 64
"""Beyond so many units alike ones are taken to have the cut of the first of their size."""


def unit_cuts(instance: CollocationInstance) -> list[float]:
    """(U,) bytes/s into each unit, or out of it where that is more: no routing gets more through.

    The way back carries what the way out does in the other direction, so that with unequal directions the larger one
    counts, which keeps the bound valid.
    """
    assert instance.cluster is not None
    network = _network(instance)
    gpus = instance.cluster.gpus
    found = []
    for unit in range(instance.num_units):
        inside = [gpus[g] for g in range(len(gpus)) if instance.unit[g] == unit]
        outside = [gpus[g] for g in range(len(gpus)) if instance.unit[g] != unit]
        found.append(max(_flow(network, outside, inside), _flow(network, inside, outside)) if outside else 0.0)
    return found


def _network(instance: CollocationInstance) -> nx.DiGraph:
    """Capacities in whole bytes/s, links that share a port through one edge."""
    assert instance.cluster is not None
    found = nx.DiGraph()
    for src, dst, data in instance.cluster.graph.edges(data=True):
        if not data["healthy"] or data["bytes_per_s"] <= 0:
            continue
        tail = src
        if data["port"] is not None:
            tail = f"{src} port {data['port']}"
            found.add_edge(src, tail, capacity=round(data["bytes_per_s"]))
        found.add_edge(tail, dst, capacity=round(data["bytes_per_s"]))
    return found


def _flow(network: nx.DiGraph, sources: list[str], targets: list[str]) -> float:
    graph = network.copy()
    graph.add_edges_from(("source", one) for one in sources)  # without a capacity: no limit
    graph.add_edges_from((one, "target") for one in targets)
    if "source" not in graph or "target" not in graph:
        return 0.0
    return float(nx.maximum_flow_value(graph, "source", "target"))
