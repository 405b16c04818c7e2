"""Well-formed rules that cannot hold together: what `solve` answers INFEASIBLE with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from moeopt.placement.shape import slots_of_nodes

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance


def conflicts(instance: PlacementInstance) -> list[dict[str, Any]]:
    """Well-formed rules that cannot hold together: what `solve` answers INFEASIBLE with.

    Each conflict has ``rule``, ``message`` and, where it makes sense, ``shortfall``.
    """
    found: list[dict[str, Any]] = []
    if instance.hierarchical:
        share = instance.num_experts // len(instance.node_ids)
        for node, total in slots_of_nodes(instance):
            if total < share:
                message = (
                    f"node {node} has memory for {total} of the {share} experts that its groups have: "
                    f"{share - total} experts too many"
                )
                found.append({"rule": "memory_bytes, groups", "message": message, "shortfall": share - total})
    elif instance.num_slots < instance.num_experts and (instance.lost or instance.retire):
        left = instance.num_gpus - len({*instance.lost, *instance.retire})
        short = instance.num_experts - instance.num_slots
        message = (
            f"the {left} GPUs that are left have {instance.num_slots} slots, {instance.num_experts} experts need one "
            f"each: {short} experts too many"
        )
        found.append({"rule": "lost, retire, slots", "message": message, "shortfall": short})
    elif instance.num_slots < instance.num_experts:
        assert instance.memory_bytes is not None and instance.expert_bytes is not None
        needed = instance.num_experts * instance.expert_bytes
        short = instance.num_experts - instance.num_slots
        message = (
            f"{_size(needed)} needed for one replica of each of {instance.num_experts} experts, "
            f"{_size(sum(instance.memory_bytes))} available in {instance.num_slots} slots: {short} experts too many"
        )
        found.append({"rule": "memory_bytes", "message": message, "shortfall": short})
    forbidden = set(instance.forbid)
    for expert, gpu in instance.pin:
        for what in ((expert, gpu), (None, gpu)):
            if what in forbidden:
                which = "every expert" if what[0] is None else f"expert {expert}"
                message = (
                    f"expert {expert} is pinned to GPU {gpu}, and {which} is forbidden there: "
                    "pin and forbid contradict each other"
                )
                found.append({"rule": "pin, forbid", "message": message, "shortfall": 1})
    for gpu, pinned in sorted(Counter(gpu for _, gpu in instance.pin).items()):
        if pinned > instance.slots[gpu]:
            message = f"{pinned} experts are pinned to GPU {gpu}, which has {instance.slots[gpu]} slots"
            found.append({"rule": "pin, slots", "message": message, "shortfall": pinned - instance.slots[gpu]})
    several = max(instance.min_replicas) > 1 or instance.survive_nodes > 0
    if not found and (instance.constrained or several):
        from moeopt.placement.feasible import fill_conflicts

        found.extend(fill_conflicts(instance))
    return found


def _size(count: float) -> str:
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:.4g} {unit}"
    return f"{count:.4g} bytes"
