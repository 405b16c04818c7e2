"""A result's solution and certificate as JSON-ready data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from moeopt.routing import splits
from moeopt.routing.bounds import Cut, Prices
from moeopt.routing.fractional import settled
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.locality import local_tokens
from moeopt.routing.plan import Routing
from moeopt.routing.verify import Evaluation


def certificate(instance: RoutingInstance, cuts: Sequence[Cut], dual: Sequence[Prices]) -> dict[str, Any]:
    """The cut of every layer and its dual prices, as `verify.recheck` reads them."""
    rows = []
    for layer, cut, one in zip(instance.layers, cuts, dual, strict=True):
        prices = {"price": str(one.price), "experts": list(one.experts)}
        rows.append({"layer": layer, "kind": cut.kind, "gpus": list(cut.gpus), "value": str(cut.value), **prices})
    return {"layers": rows}


def solution(
    instance: RoutingInstance,
    plan: Routing,
    judged: Evaluation,
    cuts: Sequence[Cut],
    dual: Sequence[Prices],
    gaps: Sequence[float],
) -> dict[str, Any]:
    """Figures of every layer, and the shares."""
    layers = []
    imbalance = judged.imbalance
    each, whole = beside(instance, plan, float(judged.objective))
    for row, layer in enumerate(instance.layers):
        top, cut = float(judged.max_load[row]), cuts[row]
        layers.append(
            {
                "layer": layer,
                "max_load": top,
                "ideal": float(judged.ideal[row]),
                "imbalance": imbalance[row],
                "lower_bound": min(float(cut.value), top),
                "gap": gaps[row],
                **each[row],
                "cut": {"gpus": list(cut.gpus), "experts": dual[row].confined},
            }
        )
    return {
        "layers": layers,
        "imbalance_mean": float(np.mean(imbalance)),
        **whole,
        "unit": "tokens" if plan.in_tokens else "share",
        "shares": plan.shares,
    }


def beside(instance: RoutingInstance, plan: Routing, total: float) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Figures beside the loads, of every layer and of all: the even split, and tokens that can stay on their node.

    `total` is what the plan is worth.
    """
    evens, several, stayed = even_loads(instance), len(set(instance.node)) > 1, 0.0
    each: list[dict[str, float]] = []
    for row, even in enumerate(evens):
        each.append({"even_max_load": even})
        if several:
            tokens, local = float(instance.loads[row].sum(dtype=np.float64)), local_tokens(instance, row, plan)
            each[-1] |= {"local_tokens": local, "crossing_tokens": max(tokens - local, 0.0)}
            stayed += local
    tokens, even = float(instance.loads.sum(dtype=np.float64)), float(np.sum(evens))
    whole = {"even_objective": even, "gain_over_even": max(even - total, 0.0) / even if even else 0.0}
    return each, whole | ({"local_share": stayed / tokens if tokens else 1.0} if several else {})


def even_loads(instance: RoutingInstance) -> list[float]:
    """(L,) cost of the busiest GPU with even parts, rounded."""
    found = []
    for hosting, task in zip(instance.hostings, instance.tasks, strict=True):
        load = settled(hosting, task).astype(np.float64)
        place = hosting.on_shared
        cost = task.amount[hosting.expert[place]].astype(np.float64) * splits.even(hosting)[place]
        if task.floor:
            cost = np.maximum(cost - float(task.floor) * hosting.copies[place], 0.0)
        load += np.bincount(hosting.gpu[place], weights=cost, minlength=len(load))
        found.append(float((load / task.speed.astype(np.float64)).max()) * float(task.worth))
    return found
