"""The busiest link if routes were free: a multicommodity flow of copies, with prices of links that prove it.

Copies are those of a plan, from GPU to GPU; what is free is their way, which may be split anyhow. The least time of the
busiest link is a linear programme with a flow for each source. Its dual prices links: for prices ``p >= 0`` with
``sum B p = 1`` every routing takes at least the sum over copies of their cheapest way under `p`. That is worked out
again by shortest paths, so that the bound does not rest on the solver.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.paths import link_name

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

Floats = NDArray[np.float64]

MOST_FLOWS = 200_000
"""Beyond so many (source, link) pairs the programme is not built."""


@dataclass(frozen=True, eq=False)
class FreeRoutes:
    """What free routes come to.

    Parameters
    ----------
    seconds
        Of the busiest link under the flow found, copies over bytes/s.
    lower_bound
        What no routing gets below, by the prices of links.
    loads
        Copies on every link, by name; links that share a port are one.
    """

    seconds: float
    lower_bound: float
    loads: dict[str, float] = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Network:
    """Usable links: ends as numbers of nodes, the group of links that share a port, and what the group carries."""

    nodes: list[str]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    group: NDArray[np.int64]
    names: list[str]
    bytes_per_s: Floats
    direct: NDArray[np.bool_]
    is_gpu: NDArray[np.bool_]

    def allowed(self, source: int, forwarding: bool) -> NDArray[np.int64]:
        """Links that copies of a source may take: other GPUs pass on over kind ``link``, or all if `forwarding`."""
        if forwarding:
            return np.arange(len(self.tail))
        return np.flatnonzero(~self.is_gpu[self.tail] | (self.tail == source) | self.direct)


def _network(cluster: Cluster) -> _Network:
    from moeopt.cluster.graph import usable

    nodes = list(cluster.graph)
    number = {node: place for place, node in enumerate(nodes)}
    edges = [(src, dst, data) for src, dst, data in cluster.graph.edges(data=True) if usable(data) and src != dst]
    named = [link_name(src, dst, data) for src, dst, data in edges]
    names = list(dict.fromkeys(named))
    place = {name: at for at, name in enumerate(names)}
    speed = np.zeros(len(names))
    for name, (_, _, data) in zip(named, edges, strict=True):
        speed[place[name]] = data["bytes_per_s"]
    return _Network(
        nodes,
        np.array([number[src] for src, _, _ in edges], dtype=np.int64),
        np.array([number[dst] for _, dst, _ in edges], dtype=np.int64),
        np.array([place[name] for name in named], dtype=np.int64),
        names,
        speed,
        np.array([data["kind"] == "link" for _, _, data in edges], dtype=bool),
        np.array([cluster.graph.nodes[node]["kind"] == "gpu" for node in nodes], dtype=bool),
    )


def size_of(cluster: Cluster) -> int:
    """(Source, link) pairs of the programme."""
    return cluster.num_gpus * int(cluster.graph.number_of_edges())


def free_routes(cluster: Cluster, copies: NDArray[np.int64], *, forwarding: bool = False) -> FreeRoutes | None:
    """Least time of the busiest link over all ways of `copies` (G, G) from GPU to GPU.

    Parameters
    ----------
    forwarding
        Whether GPUs pass on what is not for them, as NCCL's PXN does; else as the least-cost paths have it.

    Returns
    -------
    FreeRoutes or None
        In copies over bytes/s, to be scaled by bytes a copy; ``None`` where some pair has no way at all.

    Notes
    -----
    Strength: exact to the tolerance of the solver (HiGHS, 1e-7); the bound is re-computed from prices.

    >>> from moeopt.cluster import Cluster
    >>> square = Cluster.from_links(4, [(0, 1, 1.0), (1, 3, 1.0), (0, 2, 1.0), (2, 3, 3.0)])
    >>> copies = np.zeros((4, 4), dtype=np.int64); copies[0, 3] = 6
    >>> found = free_routes(square, copies)
    >>> round(found.seconds, 6), round(found.lower_bound, 6)
    (3.0, 3.0)
    """
    from scipy.optimize import linprog

    network = _network(cluster)
    gpu_at = np.array([network.nodes.index(gpu) for gpu in cluster.gpus], dtype=np.int64)
    wanted = copies.astype(np.float64)
    np.fill_diagonal(wanted, 0.0)
    total = float(wanted.sum())
    if not total:
        return FreeRoutes(0.0, 0.0, {})
    wanted /= total  # numbers near 1 for the solver
    scale = float(network.bytes_per_s.max())
    sources = np.flatnonzero(wanted.sum(axis=1))
    links = [network.allowed(int(gpu_at[source]), forwarding) for source in sources]
    matrices = _rows(network, links, scale)
    needs = np.zeros((len(sources), len(network.nodes)))
    for row, source in enumerate(sources):
        needs[row, gpu_at] = wanted[source]
        needs[row, gpu_at[source]] = -wanted[source].sum()
    cost = np.zeros(matrices["equal"].shape[1])
    cost[-1] = 1.0
    answer = linprog(
        cost,
        A_ub=matrices["limits"],
        b_ub=np.zeros(len(network.names)),
        A_eq=matrices["equal"],
        b_eq=needs.reshape(-1),
        method="highs",
    )
    if answer.x is None:
        return None
    loads = matrices["limits"][:, :-1] @ np.clip(answer.x[:-1], 0.0, None) * total
    prices = np.clip(-np.asarray(answer.ineqlin.marginals), 0.0, None)
    bound = _priced(network, wanted, gpu_at, sources, prices, forwarding) * total
    return FreeRoutes(
        float((loads / network.bytes_per_s).max()),
        bound,
        {name: float(load) for name, load in zip(network.names, loads, strict=True) if load > 1e-9 * total},
    )


def _rows(network: _Network, links: list[NDArray[np.int64]], scale: float) -> dict[str, Any]:
    """Sparse rows of the programme: flows of each source are conserved, and links carry at most their part of time."""
    from scipy import sparse

    sizes = [len(mine) for mine in links]
    every = np.concatenate(links)
    columns = np.arange(len(every))
    width, height = len(every) + 1, len(network.nodes)
    block = np.repeat(np.arange(len(links)), sizes) * height
    ones = np.ones(len(every))
    equal = sparse.csr_matrix(
        (
            np.concatenate([ones, -ones]),
            (np.concatenate([block + network.head[every], block + network.tail[every]]), np.tile(columns, 2)),
        ),
        shape=(len(links) * height, width),
    )
    groups = len(network.names)
    limits = sparse.csr_matrix(
        (
            np.concatenate([ones, -network.bytes_per_s / scale]),
            (
                np.concatenate([network.group[every], np.arange(groups)]),
                np.concatenate([columns, np.full(groups, width - 1)]),
            ),
        ),
        shape=(groups, width),
    )
    return {"equal": equal, "limits": limits}


def _priced(
    network: _Network,
    wanted: Floats,
    gpu_at: NDArray[np.int64],
    sources: NDArray[np.int64],
    prices: Floats,
    forwarding: bool,
) -> float:
    """The bound that prices prove: copies along their cheapest ways, over what all links earn in a unit of time."""
    whole = float(prices @ network.bytes_per_s)
    if not whole:
        return 0.0
    outgoing: list[list[tuple[int, int]]] = [[] for _ in network.nodes]
    for link, tail in enumerate(network.tail):
        outgoing[tail].append((link, int(network.head[link])))
    found = 0.0
    for source in sources:
        start = int(gpu_at[source])
        mine = set(network.allowed(start, forwarding).tolist())
        far = np.full(len(network.nodes), np.inf)
        far[start] = 0.0
        heap = [(0.0, start)]
        while heap:
            so_far, at = heapq.heappop(heap)
            if so_far > far[at]:
                continue
            for link, head in outgoing[at]:
                reached = so_far + float(prices[network.group[link]])
                if link in mine and reached < far[head]:
                    far[head] = reached
                    heapq.heappush(heap, (reached, head))
        found += float(sum(wanted[source, gpu] * far[gpu_at[gpu]] for gpu in np.flatnonzero(wanted[source])))
    return found / whole
