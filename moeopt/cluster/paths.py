"""Paths between GPUs: the cheapest by kind of link, what they carry together, and how long the first byte takes."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from moeopt.cluster.checks import port_owners
from moeopt.cluster.graph import usable
from moeopt.cluster.kinds import COST
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster
    from moeopt.cost.links import Link


def max_flow(capacities: Mapping[tuple[str, str], float], source: str, target: str) -> float:
    """Largest flow from source to target; capacities may be fractions.

    Parameters
    ----------
    capacities
        Of each directed edge, finite and >= 0.

    Raises
    ------
    InstanceError
        A negative capacity or one that is no number, naming the edge.

    Notes
    -----
    Strength: exact but for rounding. Shortest augmenting paths (Edmonds and Karp, J. ACM 19, 1972): at most V E / 2 of
    them, whatever the capacities.

    >>> max_flow({("s", "a"): 0.1, ("s", "b"): 0.2, ("a", "t"): 0.2, ("b", "t"): 0.2}, "s", "t")
    0.30000000000000004
    >>> max_flow({("s", "t"): 0}, "s", "t")
    0.0
    """
    check = Violations()
    for (src, dst), capacity in capacities.items():
        if not (isinstance(capacity, int | float) and math.isfinite(capacity) and capacity >= 0):
            rule = "capacities are finite and >= 0"
            check.add("capacity", capacity, rule=rule, fix="Repair the link", where=f"{src} to {dst}")
    check.raise_if_any()
    left: dict[str, dict[str, float]] = {source: {}, target: {}}
    for (src, dst), capacity in capacities.items():
        left.setdefault(src, {})[dst] = left.get(src, {}).get(dst, 0.0) + capacity
        left.setdefault(dst, {}).setdefault(src, 0.0)
    total = 0.0
    while source != target:
        parent = _augmenting(left, source, target)
        if target not in parent:
            break
        steps, at = [], target
        while at != source:
            steps.append((parent[at], at))
            at = parent[at]
        room = min(left[u][v] for u, v in steps)
        for u, v in steps:
            left[u][v] -= room
            left[v][u] += room
        total += room
    return total


def _augmenting(left: dict[str, dict[str, float]], source: str, target: str) -> dict[str, str]:
    parent = {source: source}
    queue = deque([source])
    while queue and target not in parent:
        at = queue.popleft()
        for to, room in left[at].items():
            if room > 0 and to not in parent:
                parent[to] = at
                queue.append(to)
    return parent


class Routes:
    """Least-cost paths from one GPU to everything; other GPUs do not forward, except over kind ``link``.

    With `nearest` the search ends beyond the nearest of these: what is farther may be missing or too dear.
    """

    def __init__(self, graph: nx.DiGraph, source: str, nearest: Collection[str] = ()) -> None:
        self.graph, self.source = graph, source
        self.cost: dict[str, int] = {source: 0}
        self.before: dict[str, list[str]] = {source: []}
        self.width: dict[str, float | None] = {source: math.inf}  # None: several paths, a flow has to say
        self.alpha_s: dict[str, float] = {source: 0.0}
        done: set[str] = set()
        heap, most = [(0, source)], math.inf
        kinds = graph.nodes
        while heap:
            cost, at = heapq.heappop(heap)
            if at in done:
                continue
            if cost > most:
                break
            if at in nearest:
                most = cost
            done.add(at)
            forwards = at == source or kinds[at]["kind"] != "gpu"
            for to, data in graph[at].items():
                if to in done or not usable(data) or not (forwards or data["kind"] == "link"):
                    continue
                reached = cost + COST[data["kind"]]
                if reached < self.cost.get(to, reached + 1):
                    self.cost[to], self.before[to] = reached, [at]
                    heapq.heappush(heap, (reached, to))
                    self.alpha_s[to] = self.alpha_s[at] + data["alpha_s"]
                    wide = self.width[at]
                    self.width[to] = None if wide is None else min(wide, data["bytes_per_s"])
                elif reached == self.cost[to]:
                    self.before[to].append(at)
                    self.alpha_s[to] = max(self.alpha_s[to], self.alpha_s[at] + data["alpha_s"])
                    self.width[to] = None

    def bytes_per_s(self, target: str) -> float:
        """What all least-cost paths carry together; 0 where there is none."""
        if target not in self.cost:
            return 0.0
        wide = self.width[target]
        return self._flow(target) if wide is None else wide

    def edges(self, target: str) -> list[tuple[str, str]]:
        """Links on the least-cost paths to `target`, from there backwards."""
        found, queue, seen = [], deque([target]), {target}
        while queue:
            at = queue.popleft()
            for before in self.before.get(at, ()):
                found.append((before, at))
                if before not in seen:
                    seen.add(before)
                    queue.append(before)
        return found

    def _flow(self, target: str) -> float:
        owners = port_owners(self.graph)
        capacities: dict[tuple[str, str], float] = {}
        for src, dst in self.edges(target):
            data = self.graph[src][dst]
            for tail, head in through_port(src, dst, data["port"], owners):
                capacities[tail, head] = data["bytes_per_s"]
        return max_flow(capacities, self.source, target)


def through_port(src: str, dst: str, port: str | None, owners: dict[str, list[str]]) -> list[tuple[str, str]]:
    """A link as edges of a flow: by itself, or over a vertex for its port, so that what passes is limited once.

    >>> through_port("gpu0", "leaf1", "p", {"p": ["gpu0"]}), through_port("leaf1", "gpu0", "p", {"p": ["gpu0"]})
    ([('gpu0', 'out of p'), ('out of p', 'leaf1')], [('leaf1', 'into p'), ('into p', 'gpu0')])
    """
    if port is None:
        return [(src, dst)]
    middle = f"out of {port}" if owners[port][0] == src else f"into {port}"
    return [(src, middle), (middle, dst)]


def link_between(cluster: Cluster, src: str, dst: str) -> Link:
    """See `Cluster.link`."""
    from moeopt.cost.links import Link

    if src == dst:
        rule = "is asked for its link to itself"
        raise InstanceError([Violation("gpu", "", src, rule, "Give two GPUs")])
    routes = Routes(cluster.graph, src)
    if dst not in routes.cost:
        raise InstanceError([no_path(cluster, src, dst)])
    return Link(round(routes.alpha_s[dst], 15), routes.bytes_per_s(dst))


def no_path(cluster: Cluster, src: str, dst: str) -> Violation:
    """The violation of a pair of GPUs without a path, with the parts that the cluster falls into."""
    from moeopt.cluster.faults import find_faults

    parts = [fault.text for fault in find_faults(cluster.graph, cluster.gpus) if fault.kind == "disconnected"]
    why = parts[0] if parts else "what joins them passes through other GPUs, which forward nothing"
    a, b = cluster.graph.nodes[src]["index"], cluster.graph.nodes[dst]["index"]
    rule = f"no path leads from GPU {a} to GPU {b}: {why}"
    return Violation("links", f"{src} to {dst}", "none", rule, "A switch may be missing in the file")


def bandwidths(cluster: Cluster) -> NDArray[np.float64]:
    """(G, G) bytes/s of `Cluster.link`; infinite on the diagonal, 0 where no path is."""
    found = np.full((cluster.num_gpus, cluster.num_gpus), np.inf)
    for row, src in enumerate(cluster.gpus):
        routes = Routes(cluster.graph, src)
        found[row] = [math.inf if dst == src else routes.bytes_per_s(dst) for dst in cluster.gpus]
    return found


def latencies(cluster: Cluster) -> NDArray[np.float64]:
    """(G, G) seconds of `Cluster.link`; infinite where no path is."""
    found = np.zeros((cluster.num_gpus, cluster.num_gpus))
    for row, src in enumerate(cluster.gpus):
        alpha: dict[str, Any] = Routes(cluster.graph, src).alpha_s
        found[row] = [alpha.get(dst, math.inf) for dst in cluster.gpus]
    return found
