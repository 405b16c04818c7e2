"""The link graph of a cluster: GPUs, switches and network ports, and what each link carries in each direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from moeopt.cluster.checks import check_graph
from moeopt.cluster.kinds import SCALE_UP
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.cluster.faults import Fault
    from moeopt.cluster.tiers import Tier
    from moeopt.cost.links import Link


@dataclass(frozen=True, eq=False)
class Cluster:
    """GPUs and the links between them; what is broken is kept and named by `faults`, what is no number is refused.

    Parameters
    ----------
    name
        What the cluster is called.
    graph
        Directed. Nodes are texts with ``kind`` (`moeopt.cluster.kinds.NODE_KINDS`); GPUs have ``index`` (0 to G-1, each
        once) and ``node``, their server; others may have ``node``, ``index`` and a ``label``, network ports also
        ``bytes_per_s``, what their cable carries. Links have
        ``bytes_per_s`` (in that direction, >= 0), ``alpha_s`` (>= 0), ``kind`` (`LINK_KINDS`), ``port`` (links with
        the same text share one port, whose bandwidth each of them has; or None) and ``healthy`` (False: known to be
        down). The caller's graph is copied.
    notes
        What was assumed, and what the source does not say.

    Raises
    ------
    InstanceError
        An unknown kind, a bandwidth or latency that is no finite number >= 0, indices other than 0 to G-1; all at once.

    Notes
    -----
    Bandwidths are those of data sheets unless a reader says otherwise; see `derated`.

    >>> pairs = Cluster.from_links(4, [(0, 1, 400e9), (2, 3, 400e9)], name="two pairs")
    >>> pairs.gpus, pairs.link(0, 1).bytes_per_s
    (('gpu0', 'gpu1', 'gpu2', 'gpu3'), 400000000000.0)
    >>> print(pairs.faults()[0])
    disconnected: GPUs {0, 1} and {2, 3} have no path between them
    """

    name: str
    graph: nx.DiGraph
    notes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = field(init=False)
    node_of: NDArray[np.int64] = field(init=False, repr=False)
    domain_of: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_graph(self.graph)
        graph = nx.freeze(self.graph.copy())
        nodes = graph.nodes
        gpus = sorted((one for one in nodes if nodes[one]["kind"] == "gpu"), key=lambda one: nodes[one]["index"])
        object.__setattr__(self, "graph", graph)
        object.__setattr__(self, "notes", tuple(self.notes))
        object.__setattr__(self, "gpus", tuple(gpus))
        object.__setattr__(self, "node_of", _fixed([nodes[gpu]["node"] for gpu in gpus]))
        given = [nodes[gpu].get("domain") for gpu in gpus]
        known = [one for one in given if one is not None]
        domains = known if len(known) == len(gpus) else _domains(graph, gpus)
        object.__setattr__(self, "domain_of", _fixed(domains))

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, {self.num_gpus} GPUs, {self.num_nodes} nodes)"

    @property
    def num_gpus(self) -> int:
        """G."""
        return len(self.gpus)

    @property
    def num_nodes(self) -> int:
        """N, servers that have GPUs."""
        return len(np.unique(self.node_of))

    @property
    def nics(self) -> tuple[str, ...]:
        """Network ports, in the order of the graph."""
        return tuple(one for one, kind in self.graph.nodes(data="kind") if kind == "nic")

    def gpu(self, which: int | str) -> str:
        """The id of a GPU, which may be given by its index.

        Raises
        ------
        InstanceError
            There is none.
        """
        if isinstance(which, str):
            if which in self.gpus:
                return which
        elif 0 <= which < self.num_gpus:
            return self.gpus[which]
        rule = f"is no GPU of {self.name}, which has {self.num_gpus}"
        raise InstanceError([Violation("gpu", "", repr(which), rule, f"Use 0 to {self.num_gpus - 1}")])

    def tiers(self) -> tuple[Tier, ...]:
        """Nested groups of GPUs from the fastest links outwards; see `moeopt.cluster.tiers`."""
        return self._tiers

    @cached_property
    def _tiers(self) -> tuple[Tier, ...]:
        from moeopt.cluster.tiers import find_tiers

        return find_tiers(self)

    def link(self, src: int | str, dst: int | str) -> Link:
        """What the least-cost paths from one GPU to another carry together, and their latency; nobody else sending.

        Raises
        ------
        InstanceError
            The same GPU twice, no such GPU, or no path, with the parts that the GPUs are in.
        """
        from moeopt.cluster.paths import link_between

        return link_between(self, self.gpu(src), self.gpu(dst))

    def bytes_per_s(self) -> NDArray[np.float64]:
        """(G, G) bandwidth of `link` for every pair; infinite from a GPU to itself, 0 where no path is."""
        from moeopt.cluster.paths import bandwidths

        return bandwidths(self)

    def rank_cost(self, *, message_bytes: float | None = None) -> NDArray[np.float64]:
        """(G, G) cost of a token from row to column, 0 to itself; see `moeopt.cluster.costs.rank_cost`."""
        from moeopt.cluster.costs import rank_cost

        return rank_cost(self, message_bytes=message_bytes)

    def faults(self) -> list[Fault]:
        """Everything that looks broken, each named with its place; see `moeopt.cluster.faults`."""
        from moeopt.cluster.faults import find_faults

        return find_faults(self.graph, self.gpus)

    def derated(self, efficiency: Mapping[str, float]) -> Cluster:
        """The same cluster with bandwidths times an efficiency by kind of link: ``{"nvlink": 0.8, "nic": 0.8}``."""
        graph = nx.DiGraph(self.graph)
        for _, _, data in graph.edges(data=True):
            data["bytes_per_s"] *= efficiency.get(data["kind"], 1.0)
        said = ", ".join(f"{kind} {value:g}" for kind, value in efficiency.items())
        return Cluster(self.name, graph, (*self.notes, f"bandwidths are times an efficiency: {said}"))

    def to_dict(self) -> dict[str, Any]:
        """The document, schema ``moeopt/cluster/1``."""
        from moeopt.cluster.document import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], source: str = "") -> Cluster:
        """A cluster from its document.

        Raises
        ------
        InstanceError
            An unknown field or version, or a broken rule; every violation at once.
        """
        from moeopt.cluster.document import from_dict

        return from_dict(document, source)

    @classmethod
    def from_links(
        cls,
        gpus: int,
        links: Iterable[Sequence[float]],
        *,
        name: str = "links",
        nodes: Sequence[int] | None = None,
        alpha_s: float = 2e-6,
        both_ways: bool = True,
    ) -> Cluster:
        """A cluster of `gpus` GPUs with direct links ``(src, dst, bytes_per_s)``, over which GPUs also forward.

        Parameters
        ----------
        nodes
            Server of each GPU; all in one if missing.
        both_ways
            Each link carries its bandwidth in both directions; otherwise only from src to dst.

        Raises
        ------
        InstanceError
            A GPU that does not exist, or a bandwidth that is negative or no number; all at once.

        >>> ring = Cluster.from_links(3, [(0, 1, 5e9), (1, 2, 5e9), (2, 0, 5e9)], both_ways=False)
        >>> ring.link(1, 0).bytes_per_s, [fault.kind for fault in ring.faults()]
        (5000000000.0, ['one-way', 'one-way', 'one-way'])
        """
        check = Violations()
        graph = nx.DiGraph()
        for gpu in range(gpus):
            add_node(graph, f"gpu{gpu}", "gpu", index=gpu, node=0 if nodes is None else int(nodes[gpu]))
        for place, (src, dst, bytes_per_s) in enumerate(links):
            for end in (src, dst):
                if not 0 <= end < gpus or end != int(end):
                    check.add("links", end, rule=f"is no GPU of 0 to {gpus - 1}", where=f"row {place}")
            add_link(graph, f"gpu{int(src)}", f"gpu{int(dst)}", bytes_per_s, "link", alpha_s, both_ways=both_ways)
        check.raise_if_any()
        return cls(name, graph)


def add_node(graph: nx.DiGraph, name: str, kind: str, **attributes: Any) -> str:
    """Add a node and give its id back.

    Ids are `name`; `kind` is gpu, nic, switch or the like, `attributes` are kept at the node.

    >>> graph = nx.DiGraph()
    >>> add_node(graph, "gpu0", "gpu", host=0), graph.nodes["gpu0"]["kind"]
    ('gpu0', 'gpu')
    """
    graph.add_node(name, kind=kind, **attributes)
    return name


def add_link(
    graph: nx.DiGraph,
    src: str,
    dst: str,
    bytes_per_s: float,
    kind: str,
    alpha_s: float,
    *,
    port: str | None = None,
    healthy: bool = True,
    both_ways: bool = True,
) -> None:
    """Add a link, by default the same in both directions; parallel cables are summed.

    From `src` to `dst`, and back where `both_ways`: `kind` names the technology, `alpha_s` is the latency in seconds,
    `port` what the link shares with others of that name, and a link that is not `healthy` is a fault.

    >>> graph = nx.DiGraph()
    >>> add_link(graph, "a", "b", 25e9, "nvlink", 1e-6); add_link(graph, "a", "b", 25e9, "nvlink", 1e-6)
    >>> graph["b"]["a"]["bytes_per_s"]
    50000000000.0
    """
    for tail, head in ((src, dst), (dst, src))[: 2 if both_ways and src != dst else 1]:
        before = graph.get_edge_data(tail, head)
        total = bytes_per_s + (before["bytes_per_s"] if before else 0.0)
        graph.add_edge(tail, head, bytes_per_s=total, alpha_s=alpha_s, kind=kind, port=port, healthy=healthy)


def usable(data: Mapping[str, Any]) -> bool:
    """Whether a link carries anything."""
    return bool(data["healthy"]) and data["bytes_per_s"] > 0


def _domains(graph: nx.DiGraph, gpus: Sequence[str]) -> list[int]:
    """NVLink domain of each GPU: what is joined by links of a scale-up fabric, numbered by first GPU."""
    fast = nx.Graph()
    fast.add_nodes_from(gpus)
    fast.add_edges_from((u, v) for u, v, data in graph.edges(data=True) if data["kind"] in SCALE_UP and usable(data))
    found: dict[str, int] = {}
    for gpu in gpus:
        if gpu not in found:
            number = len(set(found.values()))
            found.update(dict.fromkeys(nx.node_connected_component(fast, gpu), number))
    return [found[gpu] for gpu in gpus]


def _fixed(values: Sequence[int]) -> NDArray[np.int64]:
    array = np.array(values, dtype=np.int64)
    array.flags.writeable = False
    return array
