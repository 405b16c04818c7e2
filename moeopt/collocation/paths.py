"""Which links the copies from GPU to GPU travel over, and how much each link carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(eq=False)
class Paths:
    """Least-cost paths of a cluster, split evenly where there are several; links that share a port count as one.

    Parameters
    ----------
    names, bytes_per_s, alpha_s, kinds
        Of the links met so far, in the order in which they were met.
    """

    cluster: Cluster
    names: list[str] = field(default_factory=list)
    bytes_per_s: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    _number: dict[str, int] = field(default_factory=dict)
    _paths: dict[tuple[int, int], tuple[list[int], list[float]]] = field(default_factory=dict)
    _alpha: dict[tuple[int, int], float] = field(default_factory=dict)
    _table: tuple[Ints, Ints, Ints, Floats] | None = None  # of all paths met: source, target, link, part

    def loads(self, copies: NDArray[np.int64]) -> Floats:
        """Copies on every link met so far, of copies (G, G) from GPU to GPU; what a GPU keeps is no copy."""
        pairs = np.argwhere(copies)
        self.find([(a, b) for a, b in pairs.tolist() if a != b and (a, b) not in self._paths])
        if self._table is None:
            known = sorted(self._paths)
            number = [len(self._paths[pair][0]) for pair in known]
            ends = np.repeat(np.array(known, dtype=np.int64).reshape(-1, 2), number, axis=0)
            links = np.array([link for pair in known for link in self._paths[pair][0]], dtype=np.int64)
            parts = np.array([part for pair in known for part in self._paths[pair][1]])
            self._table = ends[:, 0], ends[:, 1], links, parts
        src, dst, links, parts = self._table
        found: Floats = np.bincount(links, parts * copies[src, dst], len(self.names)).astype(np.float64)
        return found

    def alpha(self, copies: NDArray[np.int64]) -> float:
        """Largest latency of a pair that has copies."""
        pairs = [(int(a), int(b)) for a, b in np.argwhere(copies) if a != b]
        self.find(pairs)
        return max((self._alpha[pair] for pair in pairs), default=0.0)

    def find(self, pairs: list[tuple[int, int]]) -> None:
        """Look up the paths of pairs not met before."""
        from moeopt.cluster.paths import Routes, no_path
        from moeopt.errors import InstanceError

        gpus = self.cluster.gpus
        wanted: dict[int, list[int]] = {}
        for a, b in pairs:
            if (a, b) not in self._paths:
                wanted.setdefault(a, []).append(b)
        if wanted:
            self._table = None
        for a, targets in wanted.items():
            routes = Routes(self.cluster.graph, gpus[a])
            for b in targets:
                if gpus[b] not in routes.cost:
                    raise InstanceError([no_path(self.cluster, gpus[a], gpus[b])])
                self._paths[a, b] = self._split(routes.before, gpus[b])
                self._alpha[a, b] = routes.alpha_s[gpus[b]]

    def _split(self, before: dict[str, list[str]], target: str) -> tuple[list[int], list[float]]:
        """Links on the way to `target`, and the share of the copies each carries."""
        share, links, parts = {target: 1.0}, [], []
        while share:  # breadth first from the target: layers of equal cost need no order, as shares only add up
            ahead: dict[str, float] = {}
            for at, part in share.items():
                for previous in before[at]:
                    links.append(self._link(previous, at))
                    parts.append(part / len(before[at]))
                    ahead[previous] = ahead.get(previous, 0.0) + part / len(before[at])
            share = ahead
        return links, parts

    def _link(self, src: str, dst: str) -> int:
        data = self.cluster.graph[src][dst]
        name = link_name(src, dst, data)
        if name not in self._number:
            self._number[name] = len(self.names)
            self.names.append(name)
            self.bytes_per_s.append(float(data["bytes_per_s"]))
            self.kinds.append(str(data["kind"]))
        return self._number[name]


def link_name(src: str, dst: str, data: Mapping[str, Any]) -> str:
    """What a link is called; links from a node that share a port are one."""
    return f"{src} > {dst}" if data["port"] is None else f"{src} > port {data['port']}"
