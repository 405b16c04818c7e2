"""Why a plan takes its time: every cut, every link's load, and what free routes would make of the same copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt import kinds
from moeopt.collocation import bounds, free_routes, seconds, verify
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance
    from moeopt.collocation.verify import Counts, LayerValue

DAMAGED = ("zero-bandwidth", "down", "one-way", "asymmetric", "degraded", "missing")
"""Faults of a link graph after which least-cost paths may not be the best ways."""


@kinds.expects(instance="moeopt.collocation.instance:CollocationInstance")
def explain(instance: CollocationInstance, plan: Any, *, layer: int | None = None) -> dict[str, Any]:
    """Cuts, links and routes of one layer of a plan on a link graph.

    Parameters
    ----------
    plan
        As `evaluate` takes it.
    layer
        Its id; by default that which takes longest.

    Returns
    -------
    dict
        ``layer``; ``cuts``, every unit, the weakest first; ``links``, every link with copies on the way out over the
        fixed least-cost paths, the busiest first; ``free_routes``, see `routes_of`.

    Raises
    ------
    InstanceError
        There is no link graph, or no such layer.

    >>> from moeopt import collocation
    >>> from moeopt.cluster import reference
    >>> tokens = [[0, 2], [1, 3]] * 8
    >>> instance = collocation.CollocationInstance(tokens, experts=4, cluster=reference("2x2-h100"))
    >>> found = collocation.explain(instance, [0, 1, 2, 3])
    >>> found["cuts"][0]["unit"], found["links"][0]["kind"]
    (0, 'nic')
    """
    if instance.cluster is None or instance.pairs is not None:
        rule = "is needed to explain times, with tokens on it"
        raise InstanceError([Violation("cluster", "", "none", rule, "Give a link graph and a trace")])
    if layer is not None and layer not in instance.layers:
        rule = f"is no layer of the instance, which has {instance.layers[0]} to {instance.layers[-1]}"
        raise InstanceError([Violation("layer", "", str(layer), rule, "Use one of these")])
    judged = verify.evaluate(instance, plan, capped=False).layers
    row = worst_layer(judged) if layer is None else instance.layers.index(layer)
    counts = judged[row].counts
    return {
        "layer": instance.layers[row],
        "cuts": cuts_of(instance, counts),
        "links": seconds.link_table(instance, counts, most=None),
        "free_routes": routes_of(instance, counts, rows=True),
    }


def worst_layer(judged: Any) -> int:
    """The layer whose busiest link takes longest, the first of equals."""
    layers: list[LayerValue] = list(judged)
    return max(range(len(layers)), key=lambda row: (layers[row].seconds or 0.0, -row))


def cuts_of(instance: CollocationInstance, counts: Counts) -> list[dict[str, Any]]:
    """Every unit by the time its boundary takes: bytes into or out of it over its minimum cut, on the way out."""
    sent = seconds.traffic(instance, counts)
    every = sent.away + sent.within
    each = seconds.scale(instance, counts) * instance.transport.copy_bytes(instance.hidden)[0]
    rows = []
    for one, capacity in enumerate(bounds.cuts(instance)):
        inside = instance.unit == one
        into, out = int(every[~inside][:, inside].sum()), int(every[inside][:, ~inside].sum())
        size = max(into, out) * each
        rows.append(
            {"unit": one, "bytes": size, "bytes_per_s": capacity, "seconds": size / capacity if capacity else 0.0}
        )
    return sorted(rows, key=lambda row: (-row["seconds"], row["unit"]))


def damage(instance: CollocationInstance) -> list[str]:
    """What is broken in the link graph."""
    if "_damage" not in instance.__dict__:
        found = [] if instance.cluster is None else instance.cluster.faults()
        instance.__dict__["_damage"] = [str(fault) for fault in found if fault.kind in DAMAGED]
    told: list[str] = instance.__dict__["_damage"]
    return told


def routes_of(instance: CollocationInstance, counts: Counts, *, rows: bool = False) -> dict[str, Any]:
    """The busiest link of one layer, dispatch and combine one after the other, by fixed paths and by free routes.

    Returns
    -------
    dict
        ``fixed_s``: least-cost paths, which the objective is made of. ``free_s`` and ``free_lower_bound_s``: any
        routes on which GPUs pass nothing on, and what none of them gets below; ``forwarding_s`` and
        ``forwarding_lower_bound_s``: GPUs pass on too. ``damage``: what is broken. With `rows`, ``links`` on the way
        out with both times. ``why_not`` in place of times where the programme would be too large.
    """
    assert instance.cluster is not None
    found: dict[str, Any] = {"fixed_s": seconds.busiest(instance, counts), "damage": damage(instance)}
    size = free_routes.size_of(instance.cluster)
    if size > free_routes.MOST_FLOWS:
        found["why_not"] = f"{size:,} flows are more than the {free_routes.MOST_FLOWS:,} that are looked at"
        return found
    sent = seconds.traffic(instance, counts)
    both, each = sent.away + sent.within, seconds.scale(instance, counts)
    sizes = instance.transport.copy_bytes(instance.hidden)
    for name, forwarding in (("free", False), ("forwarding", True)):
        value = bound = 0.0
        for turn, table in enumerate((both, both.T)):
            flow = free_routes.free_routes(instance.cluster, np.ascontiguousarray(table), forwarding=forwarding)
            if flow is None:  # the fixed paths exist, so a solver failed
                found["why_not"] = "the solver of the programme gave no answer"
                return found
            value += flow.seconds * each * sizes[turn]
            bound += flow.lower_bound * each * sizes[turn]
            if rows and turn == 0 and name == "free":
                found["links"] = _beside(instance, counts, flow.loads)
        found |= {f"{name}_s": value, f"{name}_lower_bound_s": min(bound, value)}
    return found


def _beside(instance: CollocationInstance, counts: Counts, loads: dict[str, float]) -> list[dict[str, Any]]:
    """Links on the way out with seconds by fixed paths and by free routes, the busiest of either first."""
    fixed = {row["link"]: row["seconds"] for row in seconds.link_table(instance, counts, most=None)}
    each = seconds.scale(instance, counts) * instance.transport.copy_bytes(instance.hidden)[0]
    assert instance.cluster is not None
    from moeopt.collocation.paths import link_name

    speed = {
        link_name(src, dst, data): float(data["bytes_per_s"])
        for src, dst, data in instance.cluster.graph.edges(data=True)
    }
    rows = [
        {"link": name, "fixed_s": fixed.get(name, 0.0), "free_s": loads.get(name, 0.0) * each / speed[name]}
        for name in dict.fromkeys([*fixed, *loads])
    ]
    return sorted(rows, key=lambda row: (-max(row["fixed_s"], row["free_s"]), row["link"]))
