"""What can enter a unit or a node: minimum cuts of the link graph between the GPUs outside and those inside."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance

Ints = NDArray[np.int64]

MOST_FLOWS = 64
"""Beyond so many units alike ones are taken to have the cut of the first of their size."""


def least_cuts(instance: CollocationInstance, part: Ints) -> list[float]:
    """(P,) bytes/s into each part of the GPUs, or out of it where that is more: no routing gets more through.

    `part` (G,) is the part of each GPU.
    The way back carries what the way out does in the other direction, so that with unequal directions the larger one
    counts, which keeps the bound valid.

    Raises
    ------
    InstanceError
        Nothing leads from a part to the others or back, with the GPUs that have no path.
    """
    from moeopt.cluster.paths import no_path
    from moeopt.errors import InstanceError

    assert instance.cluster is not None
    network = _network(instance)
    gpus = instance.cluster.gpus
    found = []
    for one in range(int(part.max()) + 1):
        inside = [gpus[g] for g in range(len(gpus)) if part[g] == one]
        outside = [gpus[g] for g in range(len(gpus)) if part[g] != one]
        found.append(max(_flow(network, outside, inside), _flow(network, inside, outside)) if outside else 0.0)
        if outside and not found[-1]:
            raise InstanceError([no_path(instance.cluster, inside[0], outside[0])])
    return found


def _network(instance: CollocationInstance) -> nx.DiGraph:
    """Capacities in whole bytes/s, rounded up so that bounds hold; links that share a port through one edge."""
    assert instance.cluster is not None
    found = nx.DiGraph()
    for src, dst, data in instance.cluster.graph.edges(data=True):
        if not data["healthy"] or data["bytes_per_s"] <= 0:
            continue
        tail = src
        if data["port"] is not None:
            tail = f"{src} port {data['port']}"
            found.add_edge(src, tail, capacity=ceil(data["bytes_per_s"]))
        found.add_edge(tail, dst, capacity=ceil(data["bytes_per_s"]))
    return found


def _flow(network: nx.DiGraph, sources: list[str], targets: list[str]) -> float:
    graph = network.copy()
    graph.add_edges_from(("source", one) for one in sources)  # without a capacity: no limit
    graph.add_edges_from((one, "target") for one in targets)
    if "source" not in graph or "target" not in graph:
        return 0.0
    return float(nx.maximum_flow_value(graph, "source", "target"))
