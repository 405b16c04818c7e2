"""Any plan that keeps the rules: a linear programme whose corners are whole (a flow), with groups a small whole one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance

MOST_S = 20.0
"""Seconds the whole programme with groups may take."""


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
    """(S,) experts in slots, -1 where one stays empty, keeping every rule; ``None`` when no plan exists.

    With `cost` (E, G) of a replica, the plan of least total cost. `allowed` (E, G) are the pairs it may use, by default
    those that are not forbidden.

    Without groups a flow from experts over (expert, node) pairs to GPUs: an expert sends a replica to ``f + 1``
    different nodes and the rest anywhere. With groups whole variables say on which node a group lies.

    >>> instance = PlacementInstance([[3, 2, 1]], gpus=2, slots=4, nodes=2, min_replicas=[2, 1, 1])
    >>> sorted(fill(instance).tolist()).count(0) >= 2
    True
    """
    counts = hosts(instance, cost=cost, allowed=allowed)
    if counts is None:
        return None
    out = np.full(instance.num_slots, -1, dtype=np.int64)
    for gpu in range(instance.num_gpus):
        held = np.repeat(np.arange(instance.num_experts), counts[:, gpu])
        start = instance.slot_start[gpu]
        out[start : start + len(held)] = held
    return out


def hosts(
    instance: PlacementInstance,
    *,
    cost: NDArray[np.float64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64] | None:
    """(E, G) replicas by the rules, at least cost if one is given; ``None`` when none fit. See `fill`."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    slots = np.array(instance.slots)
    most = 1.0 if instance.distinct else float(instance.num_slots)
    usable = allowed_pairs(instance) if allowed is None else allowed
    upper = np.where(usable & (slots > 0), most, 0.0)
    lower = np.zeros_like(upper)
    for expert, gpu in instance.pin:
        lower[expert, gpu] = 1.0
    if (lower > upper).any():
        return None
    node = np.unique(instance.node, return_inverse=True)[1]
    num_nodes, apart = int(node.max()) + 1, instance.survive_nodes > 0
    per_expert = sparse.kron(sparse.eye(num_experts), np.ones((1, num_gpus)))
    per_gpu = sparse.kron(np.ones((1, num_experts)), sparse.eye(num_gpus))
    per_node = sparse.kron(sparse.eye(num_experts), sparse.csr_array(np.equal.outer(np.arange(num_nodes), node) * 1.0))
    groups = np.unique(np.array(instance.groups), return_inverse=True)[1] if instance.hierarchical else None
    num_groups = 0 if groups is None else int(groups.max()) + 1
    pairs, seats, homes = num_experts * num_gpus, num_experts * num_nodes * apart, num_groups * num_nodes
    total = pairs + seats + homes

    def rows(at: int, block: Any) -> Any:
        """A block of columns from `at` on, zeros around it."""
        after = total - at - block.shape[1]
        return sparse.hstack([sparse.csr_array((block.shape[0], at)), block, sparse.csr_array((block.shape[0], after))])

    rules = [
        LinearConstraint(rows(0, per_expert), np.maximum(np.array(instance.min_replicas), 1), np.inf),
        LinearConstraint(rows(0, per_gpu), slots if instance.fill == "all" else 0, slots),
    ]
    if apart:  # a seat on a node is worth at most 1 and at most the replicas there
        seat = sparse.eye(num_experts * num_nodes)
        per_seat = sparse.kron(sparse.eye(num_experts), np.ones((1, num_nodes)))
        rules.append(LinearConstraint(rows(pairs, seat) - rows(0, per_node), -np.inf, 0))
        rules.append(LinearConstraint(rows(pairs, per_seat), instance.survive_nodes + 1, np.inf))
    if groups is not None:
        member = sparse.csr_array(np.equal.outer(groups, np.arange(num_groups)) * 1.0)
        of_group = sparse.kron(member, sparse.eye(num_nodes))
        once = sparse.kron(sparse.eye(num_groups), np.ones((1, num_nodes)))
        share = sparse.kron(np.ones((1, num_groups)), sparse.eye(num_nodes))
        room = float(instance.num_slots)
        rules.append(LinearConstraint(rows(0, per_node) - room * rows(pairs + seats, of_group), -np.inf, 0))
        rules.append(LinearConstraint(rows(pairs + seats, once), 1, 1))
        rules.append(LinearConstraint(rows(pairs + seats, share), num_groups // num_nodes, num_groups // num_nodes))
    whole = np.concatenate([np.full(pairs, groups is not None), np.zeros(seats, bool), np.ones(homes, bool)])
    low = np.concatenate([lower.ravel(), np.zeros(seats + homes)])
    high = np.concatenate([upper.ravel(), np.ones(seats + homes)])
    limit = {"time_limit": MOST_S} if groups is not None else {}
    box = Bounds(low, high)
    price = np.zeros(total)
    if cost is not None:
        price[:pairs] = cost.ravel()
    answer = milp(price, constraints=rules, bounds=box, integrality=whole * 1, options=limit)
    if answer.x is not None and np.abs(answer.x[:pairs] - np.rint(answer.x[:pairs])).max() > 1e-6:  # not a corner
        answer = milp(price, constraints=rules, bounds=box, integrality=np.ones(total), options=limit)
    if answer.x is None:
        return None
    return np.array(np.rint(answer.x[:pairs]).reshape(num_experts, num_gpus), dtype=np.int64)


def fill_conflicts(instance: PlacementInstance) -> list[dict[str, Any]]:
    """What keeps an instance with pins, least replicas or survival from having any plan."""
    allowed = allowed_pairs(instance) & (np.array(instance.slots) > 0)
    least = np.array(instance.min_replicas)
    found: list[dict[str, Any]] = []

    def add(rule: str, message: str, shortfall: int | None) -> None:
        found.append({"rule": rule, "message": message, "shortfall": shortfall})

    for expert in np.flatnonzero(~allowed.any(axis=1)):
        add("forbid", f"expert {expert} is forbidden on every GPU", 1)
    wanted = np.maximum(least, instance.survive_nodes + 1)
    if (short := int(wanted.sum()) - instance.num_slots) > 0:
        rule = "min_replicas" if instance.survive_nodes == 0 else "min_replicas, survive_nodes"
        message = f"{int(wanted.sum())} replicas are asked for, there are {instance.num_slots} slots"
        add(f"{rule}, slots", message, short)
    for expert in np.flatnonzero(allowed.any(axis=1)):
        hosts = int(allowed[expert].sum())
        if instance.distinct and least[expert] > hosts:
            message = f"expert {expert} must have {least[expert]} replicas and may lie on {hosts} GPUs, one on each"
            add("min_replicas, distinct", message, int(least[expert]) - hosts)
        nodes = len(set(np.array(instance.node)[allowed[expert]].tolist()))
        if instance.survive_nodes and nodes < instance.survive_nodes + 1:
            need = instance.survive_nodes + 1
            message = f"expert {expert} must lie on {need} nodes to survive, and may lie on GPUs of {nodes}"
            add("survive_nodes", message, need - nodes)
    if instance.hierarchical and instance.survive_nodes:
        add("survive_nodes, groups", "groups keep each expert on one node, which it then cannot survive", 1)
    if instance.distinct and instance.fill == "all":
        for gpu in range(instance.num_gpus):
            usable = int(allowed[:, gpu].sum())
            if usable < instance.slots[gpu]:
                short = instance.slots[gpu] - usable
                message = (
                    f"GPU {gpu} has {instance.slots[gpu]} slots to fill and only {usable} experts may lie there: "
                    f"forbid and fill='all' contradict each other"
                )
                add("forbid, fill", message, short)
    if not found and fill(instance) is None:
        rules = [name for name, there in _in_force(instance).items() if there]
        message = f"{', '.join(rules)} leave no way to give each expert its replicas and to fill every slot"
        add(", ".join(rules), message, None)
    return found


def _in_force(instance: PlacementInstance) -> dict[str, bool]:
    return {
        "pin": bool(instance.pin),
        "forbid": bool(instance.forbid),
        "min_replicas": max(instance.min_replicas) > 1,
        "survive_nodes": instance.survive_nodes > 0,
        "groups": instance.hierarchical,
        "slots": True,
    }
