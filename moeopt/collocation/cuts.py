"""What can enter a unit or a node: minimum cuts of the link graph between the GPUs outside and those inside."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster
    from moeopt.collocation.instance import CollocationInstance

Ints = NDArray[np.int64]
Folded = tuple[tuple[tuple[int, int, int], ...], tuple[int, ...], tuple[int, ...]]
"""Edges between classes with their capacities, the classes that a flow comes from, and those it goes to."""


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
    network = Network.of(instance.cluster)
    gpus = instance.cluster.gpus
    found: list[float] = []
    known: dict[Folded, float] = {}
    for one in range(int(part.max()) + 1):
        inside = part == one
        if inside.all():
            found.append(0.0)
            continue
        both = [network.folded(inside, back=back) for back in (False, True)]
        for folded in both:
            if folded not in known:
                known[folded] = _flow(folded)
        found.append(max(known[folded] for folded in both))
        if not found[-1]:
            raise InstanceError([no_path(instance.cluster, gpus[int(inside.argmax())], gpus[int(inside.argmin())])])
    return found


@dataclass(frozen=True, eq=False)
class Network:
    """Edges with capacities in whole bytes/s, rounded up so that bounds hold; links that share a port through one edge.

    Parameters
    ----------
    tail, head, capacity
        (A,) of each edge.
    size
        Vertices; the first of them are the GPUs.
    """

    tail: Ints
    head: Ints
    capacity: NDArray[Any]
    size: int

    @classmethod
    def of(cls, cluster: Cluster) -> Network:
        """What is healthy of a link graph."""
        edges: dict[tuple[str, str], int] = {}
        for src, dst, data in cluster.graph.edges(data=True):
            if not data["healthy"] or data["bytes_per_s"] <= 0:
                continue
            tail = src
            if data["port"] is not None:
                tail = f"{src} port {data['port']}"
                edges[src, tail] = ceil(data["bytes_per_s"])
            edges[tail, dst] = ceil(data["bytes_per_s"])
        number = {name: place for place, name in enumerate(cluster.gpus)}
        for pair in edges:
            for name in pair:
                number.setdefault(name, len(number))
        ends = np.array([(number[tail], number[head]) for tail, head in edges], dtype=np.int64).reshape(-1, 2)
        whole = np.int64 if sum(edges.values()) < 1 << 62 else object  # sums stay exact
        capacity = np.array(list(edges.values()), dtype=whole)
        return cls(ends[:, 0], ends[:, 1], capacity, len(number))

    def folded(self, inside: NDArray[np.bool_], *, back: bool) -> Folded:
        """The flow into some GPUs (G,), or `back` out of them, between classes of vertices that are alike.

        Classes are split until every vertex of one has the same capacity to each other class, and from it. Then a
        flow between classes, dealt to edges by their capacities, is one between vertices, and the other way round.
        """
        kind = np.zeros(self.size, dtype=np.int64)
        kind[: len(inside)] = np.where(inside, 2, 1)
        kind = self._refined(kind)
        if not self._alike(kind):  # a hash met another
            kind = np.arange(self.size)
        key, which = np.unique(kind[self.tail] * self.size + kind[self.head], return_inverse=True)
        total = np.zeros(len(key), dtype=self.capacity.dtype)
        np.add.at(total, which.reshape(-1), self.capacity)
        sources, targets = (tuple(np.unique(kind[: len(inside)][some]).tolist()) for some in (~inside, inside))
        edges = tuple((*divmod(int(one), self.size), int(most)) for one, most in zip(key, total, strict=True))
        return (edges, targets, sources) if back else (edges, sources, targets)

    def _refined(self, kind: Ints) -> Ints:
        """Classes split by a hash of what vertices have to each class, until none is."""
        count, rng = 0, np.random.default_rng(0)
        keys: NDArray[Any] = kind
        sizes, size = np.unique(self.capacity, return_inverse=True)
        weight = rng.integers(1, 1 << 63, len(sizes), dtype=np.uint64)[size.reshape(-1)]
        while True:
            _, kind = np.unique(keys, return_inverse=True)
            if kind.max() + 1 == count:
                return kind
            count = int(kind.max()) + 1
            mark = rng.integers(1, 1 << 63, (2, count), dtype=np.uint64)
            sums = kind.astype(np.uint64) * rng.integers(1, 1 << 63, dtype=np.uint64)
            np.add.at(sums, self.tail, weight * mark[0][kind[self.head]])
            np.add.at(sums, self.head, weight * mark[1][kind[self.tail]])
            keys = sums

    def _alike(self, kind: Ints) -> bool:
        """Whether every vertex of a class has the same capacity to each class, and from it."""
        members = np.bincount(kind)
        for near, far in ((self.tail, self.head), (self.head, self.tail)):
            key, which = np.unique(near * self.size + kind[far], return_inverse=True)
            each = np.zeros(len(key), dtype=self.capacity.dtype)
            np.add.at(each, which.reshape(-1), self.capacity)
            pair = kind[key // self.size] * self.size + key % self.size
            kinds, first, count = np.unique(pair, return_index=True, return_counts=True)
            if (count != members[kinds // self.size]).any() or (
                each != each[first][np.searchsorted(kinds, pair)]
            ).any():
                return False
        return True


def _flow(folded: Folded) -> float:
    """The largest flow, in whole numbers."""
    import networkx as nx

    edges, sources, targets = folded
    graph = nx.DiGraph()
    graph.add_nodes_from(("source", "target"))
    graph.add_edges_from((tail, head, {"capacity": most}) for tail, head, most in edges if tail != head)
    graph.add_edges_from(("source", one) for one in sources)  # without a capacity: no limit
    graph.add_edges_from((one, "target") for one in targets)
    return float(nx.maximum_flow_value(graph, "source", "target"))
