"""What a file says that is not yet a cluster: hosts and switches without GPUs, a matrix of costs or of peer access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from moeopt.cluster.faults import Fault, find_faults

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster


@dataclass(frozen=True, eq=False)
class Described:
    """A topology file that has no GPU level, or no bandwidths.

    Parameters
    ----------
    form
        What the file is, in words: ``Slurm topology.conf``.
    name
        Of the file or of what it describes.
    facts
        What it says, ready for JSON.
    notes
        What it leaves open.
    graph
        Nodes as in a `Cluster`, with hosts in place of servers; ``bytes_per_s`` is None where the file has none. None
        for a matrix.
    cost
        (R, R) rank-cost matrix, source in the row; None for anything else.
    found
        Faults that the reader saw; `faults` adds those of the graph.
    """

    form: str
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    graph: nx.DiGraph | None = None
    cost: NDArray[np.float64] | None = None
    found: tuple[Fault, ...] = ()

    def __repr__(self) -> str:
        return f"Described({self.form!r}, {self.name!r})"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Ids of the hosts, in the order of the file."""
        if self.graph is None:
            return ()
        return tuple(one for one, kind in self.graph.nodes(data="kind") if kind == "host")

    def faults(self) -> list[Fault]:
        """Everything that looks broken, each named with its place."""
        if self.graph is None:
            return list(self.found)
        known = nx.DiGraph()
        known.add_nodes_from(self.graph.nodes(data=True))
        known.add_edges_from(edge for edge in self.graph.edges(data=True) if edge[2]["bytes_per_s"] is not None)
        seen = {(fault.kind, frozenset(fault.where)) for fault in self.found}
        more = find_faults(known, ())
        return [*self.found, *(fault for fault in more if (fault.kind, frozenset(fault.where)) not in seen)]

    def cluster(self, machine: str, *, oversubscription: float = 1.0) -> Cluster:
        """A cluster in which every host is a machine of the catalogue, on the switches of the file.

        Parameters
        ----------
        machine
            Name of a machine with one server, as ``h100``.
        oversubscription
            Where the file has no bandwidths: what comes up to a switch, over what its uplinks carry.

        Raises
        ------
        InstanceError
            The file has no hosts, or no such machine; or a figure that no source confirms.
        """
        from moeopt.cluster.joining import join

        return join(self, machine, oversubscription)


def switch_link(graph: nx.DiGraph, lower: str, upper: str, kind: str) -> None:
    """Join two nodes both ways by a link whose bandwidth the file does not say."""
    for src, dst in ((lower, upper), (upper, lower)):
        graph.add_edge(src, dst, bytes_per_s=None, alpha_s=0.0, kind=kind, port=None, healthy=True)


def levels(graph: nx.DiGraph) -> list[list[str]]:
    """Switches by their height above the hosts, lowest first.

    >>> graph = nx.DiGraph()
    >>> graph.add_node("a", kind="host"); graph.add_node("s", kind="leaf"); graph.add_node("c", kind="spine")
    >>> switch_link(graph, "a", "s", "nic"); switch_link(graph, "s", "c", "uplink")
    >>> levels(graph)
    [['s'], ['c']]
    """
    kinds = dict(graph.nodes(data="kind"))
    done = {one for one, kind in kinds.items() if kind in ("host", "nic")}
    layer, found = set(done), []
    while layer:
        above = [one for one in graph if one not in done and any(below in layer for below in graph[one])]
        if above:
            found.append(above)
        done.update(above)
        layer = set(above)
    return found


def reached(graph: nx.DiGraph) -> list[dict[str, list[str]]]:
    """Hosts below each switch, by level as in `levels`: the nested groups of hosts that the switches make."""
    hosts = {one for one, kind in graph.nodes(data="kind") if kind == "host"}
    below: dict[str, set[str]] = {}
    found = []
    ports = [port for port, kind in graph.nodes(data="kind") if kind == "nic"]
    height = dict.fromkeys([*hosts, *ports], 0)
    for level, switches in enumerate(levels(graph), 1):
        height.update(dict.fromkeys(switches, level))
        for switch in switches:
            own: set[str] = set()
            for lower in graph[switch]:
                if height.get(lower, level) >= level:
                    continue
                if lower in hosts:
                    own.add(lower)
                elif graph.nodes[lower]["kind"] == "nic":
                    own.update(host for host in graph[lower] if host in hosts)
                else:
                    own |= below.get(lower, set())
            below[switch] = own
        found.append({switch: sorted(below[switch]) for switch in switches})
    return found
