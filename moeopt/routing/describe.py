"""A result's solution and certificate as JSON-ready data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from moeopt.routing import splits
from moeopt.routing.bounds import Cut, confined
from moeopt.routing.fractional import settled
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.locality import local_tokens
from moeopt.routing.plan import Routing
from moeopt.routing.verify import Evaluation


def certificate(instance: RoutingInstance, cuts: Sequence[Cut]) -> dict[str, Any]:
    """The cut of every layer, as `verify.recheck` reads it."""
    rows = [
        {"layer": layer, "kind": cut.kind, "gpus": list(cut.gpus), "value": str(cut.value)}
        for layer, cut in zip(instance.layers, cuts, strict=True)
    ]
    return {"layers": rows}


def solution(
    instance: RoutingInstance, plan: Routing, judged: Evaluation, cuts: Sequence[Cut], gaps: Sequence[float]
) -> dict[str, Any]:
    """Figures of every layer, and the shares."""
    layers = []
    imbalance = judged.imbalance
    evens, several, stayed = even_loads(instance), len(set(instance.node)) > 1, 0.0
    for row, layer in enumerate(instance.layers):
        top, cut = float(judged.max_load[row]), cuts[row]
        tokens = float(instance.loads[row].sum(dtype=np.float64))
        local = local_tokens(instance, row, plan.shares[row], plan.in_tokens) if several else tokens
        stayed += local
        layers.append(
            {
                "layer": layer,
                "max_load": top,
                "ideal": float(judged.ideal[row]),
                "imbalance": imbalance[row],
                "lower_bound": min(float(cut.value), top),
                "gap": gaps[row],
                "even_max_load": evens[row],
                **({"local_tokens": local, "crossing_tokens": max(tokens - local, 0.0)} if several else {}),
                "cut": {"gpus": list(cut.gpus), "experts": confined(instance, row, cut.gpus)[1]},
            }
        )
    tokens = float(instance.loads.sum(dtype=np.float64))
    total, even = float(judged.objective), float(np.sum(evens))
    return {
        "layers": layers,
        "imbalance_mean": float(np.mean(imbalance)),
        "even_objective": even,
        **({"local_share": stayed / tokens if tokens else 1.0} if several else {}),
        "unit": "tokens" if plan.in_tokens else "share",
        "gain_over_even": max(even - total, 0.0) / even if even else 0.0,
        "shares": [[list(triple) for triple in row] for row in plan.shares],
    }


def even_loads(instance: RoutingInstance) -> list[float]:
    """(L,) cost of the busiest GPU with even parts, rounded."""
    found = []
    for hosting, task in zip(instance.hostings, instance.tasks, strict=True):
        load = settled(hosting, task).astype(np.float64)
        place = hosting.on_shared
        expert = hosting.expert[place]
        weight, paid = task.amount[expert].astype(np.float64), float(task.floor) * hosting.copies[place]
        cost = weight * splits.even(hosting)[place]
        np.add.at(load, hosting.gpu[place], np.maximum(cost - paid, 0.0))
        found.append(float((load / task.speed.astype(np.float64)).max()) * float(task.worth))
    return found
