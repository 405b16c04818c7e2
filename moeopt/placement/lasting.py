"""Rules on replicas and nodes that cannot be kept, said in numbers; and what a failure would lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError, Violations
from moeopt.kinds import expects
from moeopt.placement.checks import choice
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import as_placement

if TYPE_CHECKING:
    from moeopt.placement.plan import Placement


def replica_conflicts(instance: PlacementInstance) -> list[dict[str, Any]]:
    """What keeps `min_replicas` and `survive_nodes` from being kept; empty when they can be."""
    if max(instance.min_replicas) == 1 and not instance.survive_nodes:
        return []
    found = [*_too_many(instance), *_too_few_nodes(instance)]
    if found:
        return found
    if not instance.constrained and _settled(instance):
        return []
    from moeopt.placement.flow import shortfall

    short = shortfall(instance)
    if not short:  # 0, or too large to tell: a method may still find no plan
        return []
    rules = ", ".join(_rules_in_force(instance))
    message = f"{rules} and slots cannot be kept together: {_replicas(short)} find no slot in any plan"
    return [{"rule": rules, "message": message, "shortfall": short}]


def _settled(instance: PlacementInstance) -> bool:
    """Whether the closed forms that were looked at decide alone: one of the two rules asks for nothing of its own."""
    if not instance.survive_nodes:
        return True
    return max(instance.min_replicas) <= instance.survive_nodes + 1 and instance.distinct


def _too_many(instance: PlacementInstance) -> list[dict[str, Any]]:
    """More replicas than GPUs, than slots, or than different GPUs have room for."""
    if max(instance.min_replicas) == 1:
        return []  # what nodes ask for is looked at on its own
    least = np.maximum(np.array(instance.min_replicas), instance.survive_nodes + 1)
    slots = np.array(instance.slots)
    usable = int((slots > 0).sum())
    if instance.distinct and int(least.max()) > usable:
        expert = int(least.argmax())
        message = (
            f"expert {expert} is to have {least[expert]} replicas on different GPUs, {usable} GPUs have slots: "
            f"{int(least[expert]) - usable} too many"
        )
        return [{"rule": "min_replicas, distinct", "message": message, "shortfall": int(least[expert]) - usable}]
    short = int(least.sum()) - int(slots.sum())
    if short > 0:
        asking = "min_replicas and survive_nodes ask" if instance.survive_nodes else "min_replicas asks"
        message = (
            f"{asking} for {int(least.sum())} replicas in all, there are {int(slots.sum())} slots: "
            f"{_replicas(short)} too many"
        )
        return [{"rule": "min_replicas, slots", "message": message, "shortfall": short}]
    if instance.distinct:
        falling = np.sort(least)[::-1]
        asked = np.cumsum(falling)
        room = np.minimum(slots[None, :], np.arange(1, len(least) + 1)[:, None]).sum(axis=1)
        worst = int(np.argmax(asked - room))
        short = int((asked - room)[worst])
        if short > 0:
            message = (
                f"the {worst + 1} experts with the most min_replicas ask for {int(asked[worst])} replicas on different "
                f"GPUs, which have room for {int(room[worst])}: {_replicas(short)} too many"
            )
            return [{"rule": "min_replicas, distinct, slots", "message": message, "shortfall": short}]
    return []


def _too_few_nodes(instance: PlacementInstance) -> list[dict[str, Any]]:
    """Fewer nodes than must remain, groups that stay on one, or nodes too small."""
    asked = instance.survive_nodes + 1
    if asked == 1:
        return []
    nodes, slots = np.array(instance.node), np.array(instance.slots)
    rooms = [int(slots[nodes == node].sum()) for node in instance.node_ids]
    usable = sum(room > 0 for room in rooms)
    if instance.hierarchical:
        message = (
            f"groups stay on one node each, and survive_nodes = {instance.survive_nodes} asks for every expert on "
            f"{asked} nodes: the rules contradict each other"
        )
        return [{"rule": "groups, survive_nodes", "message": message, "shortfall": asked - 1}]
    if usable < asked:
        message = (
            f"survive_nodes = {instance.survive_nodes} asks for every expert on {asked} nodes, there "
            f"{'is' if usable == 1 else 'are'} {usable}: {asked - usable} too few"
        )
        return [{"rule": "survive_nodes, nodes", "message": message, "shortfall": asked - usable}]
    room = sum(min(size, instance.num_experts) for size in rooms)
    short = asked * instance.num_experts - room
    if short > 0:
        message = (
            f"survive_nodes = {instance.survive_nodes} asks for {asked * instance.num_experts} replicas on different "
            f"nodes, which have room for {room} (at most one of each expert counts on a node): {_replicas(short)} "
            f"too many"
        )
        return [{"rule": "survive_nodes, slots", "message": message, "shortfall": short}]
    return []


def _rules_in_force(instance: PlacementInstance) -> list[str]:
    there = {
        "min_replicas": max(instance.min_replicas) > 1,
        "survive_nodes": instance.survive_nodes > 0,
        "pin": bool(instance.pin),
        "forbid": bool(instance.forbid),
    }
    return [name for name, asked in there.items() if asked]


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


@expects(instance=PlacementInstance)
def lost_if(
    instance: PlacementInstance, plan: Any, by: Literal["gpu", "node"] = "gpu"
) -> Mapping[int, Mapping[int, list[int]]]:
    """Which experts would be lost with each GPU, or node: those with no replica elsewhere.

    `by` says what fails.

    The plan is a `Placement`, an (L, S) array or nested lists.

    Returns
    -------
    Mapping
        GPU (or node) id to layer id to expert ids; layers that would lose none are left out.

    Raises
    ------
    PlanError
        The plan is of another shape.

    >>> from moeopt.placement import Placement, PlacementInstance
    >>> instance = PlacementInstance([[1, 1, 1]], gpus=2, slots=4)
    >>> lost_if(instance, Placement.of([[0, 1, 1, 2]]))
    {0: {0: [0]}, 1: {0: [2]}}
    """
    plan = as_placement(instance, plan)
    place = _places(instance, plan, by)
    ids = instance.node_ids if by == "node" else range(instance.num_gpus)
    found: dict[int, dict[int, list[int]]] = {number: {} for number in ids if by == "node" or instance.slots[number]}
    for layer, row in zip(instance.layers, plan.slot_expert, strict=True):
        pairs = np.unique(np.stack([row, place], axis=1)[row >= 0], axis=0)
        experts, first, times = np.unique(pairs[:, 0], return_index=True, return_counts=True)
        for expert, at in zip(experts[times == 1].tolist(), pairs[first[times == 1], 1].tolist(), strict=True):
            found[at].setdefault(layer, []).append(expert)
    return found


@expects(instance=PlacementInstance)
def survival(instance: PlacementInstance, plan: Any, by: Literal["gpu", "node"] = "node") -> NDArray[np.int64]:
    """(L, E) how many nodes, or GPUs, may fail whichever they are without the expert being lost; -1: it has no replica.

    `plan` is in any form that `lost_if` takes, and `by` says what fails.

    >>> from moeopt.placement import Placement, PlacementInstance
    >>> instance = PlacementInstance([[1, 1, 1]], gpus=2, slots=4)
    >>> survival(instance, Placement.of([[0, 1, 1, 2]]), by="gpu").tolist()
    [[0, 1, 0]]
    """
    plan = as_placement(instance, plan)
    place = _places(instance, plan, by)
    seen = np.zeros((instance.num_layers, instance.num_experts, int(place.max(initial=0)) + 1), dtype=bool)
    rows, slots = np.nonzero(plan.slot_expert >= 0)
    seen[rows, plan.slot_expert[rows, slots], place[slots]] = True
    return np.asarray(seen.sum(axis=2) - 1)


def _places(instance: PlacementInstance, plan: Placement, by: str) -> NDArray[np.int64]:
    """(S,) GPU or node of each slot."""
    check = Violations()
    choice("by", by, ("gpu", "node"), check)
    check.raise_if_any()
    if plan.slot_expert.shape != (instance.num_layers, instance.num_slots):
        raise PlanError([f"the plan is {plan.slot_expert.shape}, need {instance.num_layers} x {instance.num_slots}"])
    gpus: NDArray[np.int64] = instance.gpu_of_slot
    return np.array(instance.node)[gpus] if by == "node" else gpus
