"""The imbalance of single forward passes: measured on recorded ones, or the floor that counting noise sets.

A plan balances sums over a window. In one pass a GPU gets about ``top_k b`` selections, which scatter by their square
root even where all sums are equal; the busiest of G GPUs stands `expected_maximum` deviations above the mean.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.cost.noise import expected_maximum
from moeopt.errors import InstanceError, Violations
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement
from moeopt.placement.rules import windows as checked_windows
from moeopt.result import Result

Floats = NDArray[np.float64]

FAR_BELOW = 0.1
"""A gap is called far below the noise when it is at most this part of it."""


def noise_floor(num_gpus: int, top_k: int, batch_tokens: int) -> float:
    """Imbalance of a pass that perfect balance of the sums still has: ``1 + z_G / sqrt(top_k b)``.

    Parameters
    ----------
    num_gpus, top_k, batch_tokens
        G; experts a token selects; tokens b that a GPU has in one pass.

    Notes
    -----
    Selections are taken as independent (Poisson counts, normal for many). Tokens of one request are alike in practice,
    so real passes scatter more; where an engine halves the tokens of a replicated expert exactly, somewhat less.

    >>> round(noise_floor(32, 8, 128), 4)
    1.0647
    """
    return 1.0 + expected_maximum(num_gpus) / math.sqrt(top_k * batch_tokens)


def per_step_imbalance(instance: PlacementInstance, plan: Placement, steps: Any) -> Floats:
    """(L,) mean over single passes of the busiest GPU's cost over the ideal of that pass.

    Parameters
    ----------
    steps
        (T, L, E) selections of T single passes, the layers and experts those of the instance. An idle pass counts 1.

    Raises
    ------
    InstanceError
        The shape is another, an entry is no load, or the split is an engine's own rule.

    Notes
    -----
    Costs are summed in whole numbers (over the common multiple of the replica counts) below 2**53, where doubles hold
    them exactly; beyond that, and with shares, to some 1e-16 of themselves.

    >>> instance = PlacementInstance([[2, 2]], gpus=2, slots=2)
    >>> per_step_imbalance(instance, Placement.of([[0, 1]]), [[[2, 0]], [[0, 2]]]).tolist()
    [2.0]
    """
    passes = _checked(instance, steps)
    floor = float(instance.floor_tokens)
    speed = np.array(instance.speed)
    found = np.empty(instance.num_layers)
    counts = plan.replicas(instance.num_experts)
    carriers = np.array([count > 0 for count in instance.slots], dtype=np.float64)
    for row in range(instance.num_layers):
        loads = passes[:, row].astype(np.float64)
        weights = np.maximum(loads, floor)
        on, unit = _parts(instance, plan, row)
        if instance.floor_rule == "per_replica" and floor and plan.shares is None:
            costs = np.maximum(loads / counts[row], floor) @ _copies(instance, plan, row)
            unit = 1.0
        elif instance.floor_rule == "per_replica" and floor:
            copies = _copies(instance, plan, row)
            costs = np.maximum(loads[:, :, None] * on[None], floor * copies[None]).sum(axis=1)
        else:
            costs = weights @ on
        totals = weights.sum(axis=1)
        base = _base(instance, loads, floor)
        costs = costs + base[:, None] * unit * carriers
        ideal = (totals + base * carriers.sum()) / speed.sum()
        busiest = (costs / speed).max(axis=1)
        ratios = np.divide(busiest, ideal * unit, out=np.ones_like(ideal), where=ideal > 0)
        found[row] = math.fsum(ratios.tolist()) / len(ratios)
    return found


def measured(instance: PlacementInstance, result: Result, steps: Any, name: str) -> Result:
    """The result with the imbalance of single passes under its plan, layer by layer; as it is where it has none.

    Parameters
    ----------
    steps
        As `per_step_imbalance` takes them.
    name
        What they are called in the result.

    >>> from moeopt.placement import solve
    >>> instance = PlacementInstance([[2, 2]], gpus=2, slots=2)
    >>> found = measured(instance, solve(instance, method="lpt"), [[[2, 0]], [[0, 2]]], "passes")
    >>> found.solution["per_step"], found.solution["layers"][0]["per_step_imbalance"]
    ({'measured_on': 'passes', 'steps': 2}, 2.0)
    """
    if result.solution is None or result.plan is None:
        return result
    values = per_step_imbalance(instance, result.plan, steps)
    layers = [
        {**layer, "per_step_imbalance": float(value)}
        for layer, value in zip(result.solution["layers"], values, strict=True)
    ]
    said = {"measured_on": name, "steps": len(steps)}
    return replace(result, solution={**result.solution, "layers": layers, "per_step": said})


def _checked(instance: PlacementInstance, steps: Any) -> NDArray[Any]:
    """(T, L, E) passes, with hosted shared experts added."""
    from moeopt.placement.shared import hosted

    check = Violations()
    if instance.engine_split:
        rule = "is the engine's own rule, and single passes are measured for even parts and given shares"
        check.add("split", instance.split, rule=rule, fix="Use split even")
        check.raise_if_any()
    found = np.asarray(steps)
    if found.ndim == 2:
        found = found[None]
    if found.ndim != 3:
        check.add("steps", f"shape {found.shape}", rule="must have three axes, passes x layers x experts", fix="Stack")
        raise InstanceError(check.found)
    checked_windows(found, check, instance.layers)
    wanted = (instance.num_layers, instance.num_experts - instance.num_hosted)
    if found.shape[1:] != wanted:
        rule = f"must be passes x {wanted[0]} layers x {wanted[1]} experts"
        check.add("steps", f"shape {found.shape}", rule=rule, fix="Give the passes of the layers that are planned")
    check.raise_if_any()
    if instance.num_hosted:
        assert instance.top_k is not None
        return hosted(found.astype(np.float64), instance.num_hosted, instance.top_k)
    return found


def _parts(instance: PlacementInstance, plan: Placement, row: int) -> tuple[Floats, float]:
    """(E, G) part of each expert's tokens on each GPU times a unit that makes even parts whole numbers."""
    if plan.shares is not None:
        on = np.zeros((instance.num_experts, instance.num_gpus))
        for expert, gpu, share in plan.shares[row]:
            on[expert, gpu] += share
        return on / on.sum(axis=1, keepdims=True), 1.0
    counts = plan.replicas(instance.num_experts)[row]
    common = math.lcm(*set(counts.tolist()))
    if common > 2**40:
        return _copies(instance, plan, row) / counts[:, None], 1.0
    return _copies(instance, plan, row) * (common // counts)[:, None], float(common)


def _copies(instance: PlacementInstance, plan: Placement, row: int) -> Floats:
    """(E, G) replicas of each expert on each GPU."""
    on = np.zeros((instance.num_experts, instance.num_gpus))
    held = plan.slot_expert[row]
    np.add.at(on, (held[held != EMPTY], instance.gpu_of_slot[held != EMPTY]), 1.0)
    return on


def _base(instance: PlacementInstance, loads: Floats, floor: float) -> Floats:
    """(T,) what a GPU carries for its copies of shared experts in each pass."""
    if instance.exact_base is None or instance.top_k is None:
        return np.zeros(len(loads))
    gpus = sum(count > 0 for count in instance.slots)
    tokens = loads.sum(axis=1) / instance.top_k
    per_replica = instance.floor_rule == "per_replica"
    each: Floats = np.maximum(tokens / gpus, floor) if per_replica else np.maximum(tokens, floor) / gpus
    return each * instance.num_shared
