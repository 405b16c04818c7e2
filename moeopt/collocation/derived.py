"""What a collocation instance derives from its fields: GPUs and nodes, units, the objective, the running plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import checks
from moeopt.collocation.transports import Transport
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.cluster.described import Described
    from moeopt.cluster.graph import Cluster

Ints = NDArray[np.int64]


def from_pairs(table: Ints | None) -> Ints | None:
    """Something of the shape of a trace: its rows are made from the pairs themselves."""
    return None if table is None else np.zeros((len(table), 1, 1), dtype=np.int64)


def gpus(cluster: Cluster | Described | None, nodes: Any, gpus: Any, check: Violations) -> Ints:
    costs = getattr(cluster, "cost", None)
    found = None if cluster is None or costs is None else _nodes_of_costs(cluster.name, costs, check)
    if costs is not None and found is None:
        return np.zeros(len(costs), dtype=np.int64)
    if cluster is not None and (nodes is not None or gpus is not None):
        check.add(
            "cluster",
            getattr(cluster, "name", cluster),
            rule="says nodes and gpus itself",
            fix="Leave them out",
        )
    if found is not None:
        return found
    if cluster is not None:
        if hasattr(cluster, "node_of"):
            return np.unique(np.asarray(cluster.node_of), return_inverse=True)[1].reshape(-1).astype(np.int64)
        rule, fix = "must be a Cluster", "Build it: cluster.reference('4x8-h100') or cluster.read_topology(FILE)"
        if hasattr(cluster, "form"):
            rule, fix = f"({cluster.form}) says no GPUs", "Give read_topology the machine, as machine='h100'"
        check.refuse("cluster", cluster, rule=rule, fix=fix)
        check.raise_if_any()
    if nodes is None and gpus is None:
        check.add("cluster", None, rule="a cluster, or nodes and gpus, is needed", fix="Give nodes=4, gpus=32")
        return np.zeros(1, dtype=np.int64)
    count = len(nodes) if isinstance(nodes, Sequence | np.ndarray) and np.shape(checks.array(nodes)) else nodes
    total = checks.whole("gpus", count if gpus is None else gpus, 1, check)
    if total > checks.MAX_GPUS:
        check.add("gpus", total, rule=f"at most {checks.MAX_GPUS} are taken", fix="Plan a part of the cluster")
        return np.zeros(1, dtype=np.int64)
    return checks.node_of(1 if nodes is None else nodes, total, check)


def _nodes_of_costs(name: str, costs: NDArray[np.float64], check: Violations) -> Ints | None:
    from moeopt.cluster.costs import nodes_of_costs

    node = nodes_of_costs(costs)
    if node is None:
        fix = f"Say them: gpus={len(costs)} and nodes, without a cluster"
        check.add("cluster", name, rule="is a rank-cost matrix that shows no nodes", fix=fix)
    return node


def without_links(name: str, node: Ints) -> str:
    """What is said where the cluster was a rank-cost matrix."""
    sizes = np.bincount(node)
    each = f"{sizes[0]}" if (sizes == sizes[0]).all() else f"{sizes.min()} to {sizes.max()}"
    copies = f"copies between its {len(sizes)} nodes of {each} GPUs are counted, and no time"
    return f"{name} has costs and no links: {copies}"


def units(node: Ints, cluster: Cluster | None, way: Transport) -> Ints:
    if way.merge == "gpu":
        return np.arange(len(node))
    if cluster is not None:
        domain = np.unique(np.asarray(cluster.domain_of), return_inverse=True)[1].reshape(-1)
        if domain.max() < node.max():  # a rack-scale domain of several servers is one unit
            return domain.astype(np.int64)
    return node


def objective(
    wanted: str, way: Transport, cluster: Cluster | None, sources: bool, pairs: bool, check: Violations
) -> str:
    still = not way.merges and not sources
    if wanted == "auto":
        return "tokens" if still else "copies" if cluster is None or pairs else "time"
    if still and wanted != "tokens":
        rule = f"with {way.name} nothing is merged and every GPU has as many tokens: no plan changes the bytes"
        check.add("objective", wanted, rule=rule, fix="Use tokens, or give source")
    elif wanted == "time" and cluster is None:
        check.add("objective", "time", rule="needs a link graph", fix="Give a cluster")
    elif wanted == "time" and pairs:
        check.add("objective", "time", rule="cannot be told from pairs", fix="Give ids")
    elif wanted == "tokens" and way.merges:
        rule = f"with {way.name} copies are merged"
        check.add("objective", "tokens", rule=rule, fix="Use max_imbalance to hold tokens even")
    return wanted


def current(given: Any, layers: int, slots: int, experts: int, check: Violations) -> Ints | None:
    if given is None:
        return None
    found = checks.array(given)
    if found.ndim == 1:
        found = found[None]
    if found.shape != (layers, slots) or found.dtype.kind not in "iu":
        seen = f"{found.dtype} of shape {found.shape}"
        check.add("current", seen, rule=f"must be {layers} layers x {slots} slots", fix="Give the plan that runs")
        return None
    for layer, slot in np.argwhere((found < -1) | (found >= experts))[: checks.NAMED]:
        rule, where = f"must be -1 or an expert below {experts}", f"layer {layer}, slot {slot}"
        check.add("current", found[layer, slot], rule=rule, fix="Give the plan that runs", where=where)
    return found.astype(np.int64)
