"""The optimal splits: fractional, in whole tokens, and the most local of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.registry import Context, Outcome
from moeopt.result import Stop
from moeopt.routing import bounds, splits
from moeopt.routing.bounds import Cut
from moeopt.routing.fractional import Optimum, compiled_in_time, optimum
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.integral import WholeOptimum, whole_optimum
from moeopt.routing.locality import most_local
from moeopt.routing.plan import Routing

Layer = tuple[NDArray[Any], Cut, int]
"""(Q,) shares or whole tokens, the proof, and cuts or flows that it took."""


def newton(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """Water-filling, then Newton's method on cuts with max-flows in whole numbers."""

    def solve(row: int, compiled: bool) -> Layer:
        found = _optimum(instance, row, compiled)
        parts = splits.from_parts(instance.hostings[row], instance.tasks[row], found.part, found.of)
        cut = whole_cut(instance, row, found.gpus) if instance.whole else Cut(found.gpus, found.value)
        return _parts(instance, row, parts), cut, found.cuts

    return _layers(instance, context, solve)


def integer(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """Whole tokens: the least cost at which every cut has room."""

    def solve(row: int, compiled: bool) -> Layer:
        found = _whole(instance, row, compiled)
        tokens = splits.whole_parts(instance.hostings[row], instance.tasks[row], found.part)
        return tokens, _cut(found), found.flows

    return _layers(instance, context, solve)


def local_first(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """The optimal cost first, then the fewest tokens that leave their node."""

    def solve(row: int, compiled: bool) -> Layer:
        hosting = instance.hostings[row]
        parts: NDArray[Any]
        if instance.whole:
            whole = _whole(instance, row, compiled)
            value, cut, steps = whole.value, _cut(whole), whole.flows
        else:
            found = _optimum(instance, row, compiled)
            value, cut, steps = found.value, Cut(found.gpus, found.value), found.cuts
        amounts = most_local(instance, row, value, compiled=compiled)
        if instance.whole:
            parts = instance.loads[row][hosting.expert]  # right for experts on one GPU
            parts[hosting.on_shared] = amounts
            return parts, cut, steps
        parts, first = splits.even(hosting), hosting.pairs.first.tolist()
        for low, high in pairwise(first):
            total = sum(amounts[low:high])
            if total:
                parts[hosting.on_shared[low:high]] = [amount / total for amount in amounts[low:high]]
        return parts, cut, steps

    return _layers(instance, context, solve)


def auto(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """What the instance asks for."""
    if len(set(instance.node)) > 1:
        return local_first(instance, context)
    return integer(instance, context) if instance.whole else newton(instance, context)


def not_whole(instance: RoutingInstance) -> str | None:
    """Why whole tokens are not asked for."""
    return None if instance.whole else "the instance lets tokens be cut; build it with whole=True"


def whole_cut(instance: RoutingInstance, row: int, gpus: tuple[int, ...]) -> Cut:
    """What a set of GPUs proves for whole tokens."""
    return Cut(gpus, bounds.cut_value(instance, row, gpus, whole=True), "whole-cut")


def _optimum(instance: RoutingInstance, row: int, compiled: bool) -> Optimum:
    return optimum(instance.hostings[row], instance.tasks[row], compiled=compiled)


def _whole(instance: RoutingInstance, row: int, compiled: bool) -> WholeOptimum:
    near = _optimum(instance, row, compiled)
    return whole_optimum(instance.hostings[row], instance.tasks[row], near, compiled=compiled)


def _cut(found: WholeOptimum) -> Cut:
    return Cut(found.gpus, found.value, "whole-cut" if found.by_tokens else "cut")


def _parts(instance: RoutingInstance, row: int, shares: NDArray[np.float64]) -> NDArray[Any]:
    return splits.whole_tokens(instance, row, shares) if instance.whole else shares


def _layers(instance: RoutingInstance, context: Context, solve: Callable[[int, bool], Layer]) -> Outcome[Routing]:
    """Layer by layer; what the time does not allow is split evenly and bounded by the mean."""
    compiled = compiled_in_time(context.deadline)
    rows: list[NDArray[Any]] = []
    cuts: list[Cut] = []
    steps, late = 0, 0
    for row in range(instance.num_layers):
        if late or context.deadline.passed():
            late += 1
            rows.append(_parts(instance, row, splits.even(instance.hostings[row])))
            cuts.append(bounds.mean(instance, row))
            continue
        parts, cut, count = solve(row, compiled)
        rows.append(parts)
        cuts.append(cut)
        steps += count
        context.report(row + 1, instance.num_layers)
    notes = [f"the time was up: {late} of {instance.num_layers} layers are split evenly"] if late else []
    stop = Stop.TIME if late else Stop.FINISHED
    return Outcome(splits.listed(instance, rows), stop, steps, bounds=cuts, notes=notes)
