"""Any plan that keeps pins and prohibitions, by a linear programme whose corners are whole (it is a flow)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance


def allowed_pairs(instance: PlacementInstance) -> NDArray[np.bool_]:
    """(E, G) whether an expert may lie on a GPU."""
    allowed = np.ones((instance.num_experts, instance.num_gpus), dtype=bool)
    for expert, gpu in instance.forbid:
        allowed[slice(None) if expert is None else expert, gpu] = False
    return allowed


def fill(
    instance: PlacementInstance,
    *,
    cost: NDArray[np.float64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64] | None:
    """(S,) experts in slots, -1 where one stays empty, keeping every rule but groups; ``None`` when none exists.

    With `cost` (E, G) of a replica, the plan of least total cost: the programme's corners are whole. `allowed` (E, G)
    are the pairs it may use, by default those that are not forbidden.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    allowed = allowed_pairs(instance) if allowed is None else allowed
    most = 1.0 if instance.distinct else float(instance.num_slots)
    upper = np.where(allowed, most, 0.0)
    lower = np.zeros_like(upper)
    for expert, gpu in instance.pin:
        lower[expert, gpu] = 1.0
    if (lower > upper).any():
        return None
    per_expert = sparse.kron(sparse.eye(num_experts), np.ones((1, num_gpus)))
    per_gpu = sparse.kron(np.ones((1, num_experts)), sparse.eye(num_gpus))
    slots = np.array(instance.slots, dtype=float)
    least = np.array(instance.min_replicas, dtype=float)
    rows = {"A_ub": -per_expert, "b_ub": -least, "A_eq": per_gpu, "b_eq": slots}
    if instance.fill == "at_most":
        rows = {
            "A_ub": sparse.vstack([-per_expert, per_gpu]),
            "b_ub": np.concatenate([-least, slots]),
        }
    bounds = np.stack([lower.ravel(), upper.ravel()], axis=1)
    costs = np.zeros(num_experts * num_gpus) if cost is None else cost.ravel()
    answer = linprog(costs, bounds=bounds, method="highs-ds", **rows)
    if answer.status != 0:
        return None
    counts = np.rint(answer.x).astype(np.int64).reshape(num_experts, num_gpus)
    out = np.full(instance.num_slots, -1, dtype=np.int64)
    for gpu in range(num_gpus):
        held = np.repeat(np.arange(num_experts), counts[:, gpu])
        start = instance.slot_start[gpu]
        out[start : start + len(held)] = held
    return out


def fill_conflicts(instance: PlacementInstance) -> list[dict[str, Any]]:
    """What keeps a constrained instance from having any plan."""
    allowed = allowed_pairs(instance)
    found: list[dict[str, Any]] = []
    for expert in np.flatnonzero(~allowed.any(axis=1)):
        message = f"expert {expert} is forbidden on every GPU"
        found.append({"rule": "forbid", "message": message, "shortfall": 1})
    if instance.distinct and instance.fill == "all":
        for gpu in range(instance.num_gpus):
            usable = int(allowed[:, gpu].sum())
            if usable < instance.slots[gpu]:
                short = instance.slots[gpu] - usable
                message = (
                    f"GPU {gpu} has {instance.slots[gpu]} slots to fill and only {usable} experts may lie there: "
                    f"forbid and fill='all' contradict each other"
                )
                found.append({"rule": "forbid, fill", "message": message, "shortfall": short})
    if not found and fill(instance) is None:
        message = "pin, forbid and slots leave no way to give each expert a slot and to fill every slot"
        found.append({"rule": "pin, forbid, slots", "message": message, "shortfall": None})
    return found
