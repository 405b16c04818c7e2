"""Baselines: even parts, one pass of water-filling, and the fixed rules of an engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import splitting
from moeopt.kernels.sources import sources_per_slot
from moeopt.registry import Context, Outcome
from moeopt.routing import splits
from moeopt.routing.fractional import compiled_in_time, settled
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.plan import Routing


def even(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """Every replica of an expert gets the same part."""
    return Outcome(splits.plan_of(instance, [splits.even(hosting) for hosting in instance.hostings]))


def waterfill(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """Experts one after another, heaviest first, each filled into its GPUs up to one level, once."""
    compiled = compiled_in_time(context.deadline)
    fill = splitting.fill if compiled else splitting.fill.plain()
    shares = []
    for hosting, task in zip(instance.hostings, instance.tasks, strict=True):
        pairs, weight = hosting.pairs, task.weight[hosting.shared].astype(np.float64)
        load, speed = settled(hosting, task).astype(np.float64), task.speed.astype(np.float64)
        part = np.zeros(len(pairs.gpu))
        for expert in np.argsort(-weight, kind="stable").tolist():
            low, high = int(pairs.first[expert]), int(pairs.first[expert + 1])
            own = np.array([0, high - low])
            fill(weight[expert : expert + 1], own, pairs.gpu[low:high], load, speed, part[low:high], load, 1)
        shares.append(_normal(hosting, weight, part, task))
    return Outcome(splits.plan_of(instance, shares))


def _normal(hosting, weight, part, task) -> NDArray[np.float64]:  # type: ignore[no-untyped-def]
    """(Q,) shares that sum to 1, from loads that rounding has touched."""
    pairs = hosting.pairs
    total = np.bincount(pairs.expert, weights=part, minlength=len(weight))
    exact = part * np.divide(weight, total, out=np.ones_like(weight), where=total > 0)[pairs.expert]
    return splits.from_loads(hosting, task, exact)


def engine_rule(prefer_node: bool):  # type: ignore[no-untyped-def]
    """A rule under which every source GPU sends all its tokens of an expert to one replica."""

    def run(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
        node = np.unique(instance.node, return_inverse=True)[1].astype(np.int64)
        node = node if prefer_node else np.zeros_like(node)
        order = np.argsort(instance.gpu_of_slot, kind="stable")
        counts = sources_per_slot(instance.slot_expert[:, order], instance.gpu_of_slot[order], node, np.bincount(node))
        shares = []
        for row, hosting in enumerate(instance.hostings):
            held, served = instance.slot_expert[row][order], counts[row]
            filled = held >= 0
            keys = held[filled].astype(np.int64) * instance.num_gpus + instance.gpu_of_slot[order][filled]
            place = np.searchsorted(hosting.expert * instance.num_gpus + hosting.gpu, keys)
            each = np.bincount(place, weights=served[filled], minlength=len(hosting.expert))
            shares.append(each / instance.num_gpus)
        return Outcome(splits.plan_of(instance, shares))

    return run


def evenly_spread(instance: RoutingInstance) -> str | None:
    """Why an engine's rule cannot be judged."""
    return None if instance.sources is None else "it is computed for tokens that come evenly from all GPUs"
