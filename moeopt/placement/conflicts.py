"""Well-formed rules that cannot hold together: what `solve` answers INFEASIBLE with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from moeopt.placement.damage import FLOW_PAIRS, fewest_moves, running
from moeopt.placement.feasible import hosts
from moeopt.placement.lasting import replica_conflicts
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
                    f"{_too_many(share - total)}"
                )
                found.append({"rule": "memory_bytes, groups", "message": message, "shortfall": share - total})
    elif instance.num_slots < instance.num_experts and (instance.lost or instance.retire):
        left = instance.num_gpus - len({*instance.lost, *instance.retire})
        short = instance.num_experts - instance.num_slots
        message = (
            f"the {_left(left)} left {'has' if left == 1 else 'have'} {instance.num_slots} slots, "
            f"{instance.num_experts} experts need one each: {_too_many(short)}; {_enough(instance, left)}"
        )
        found.append({"rule": "lost, retire, slots", "message": message, "shortfall": short})
    elif instance.num_slots < instance.num_experts:
        assert instance.memory_bytes is not None and instance.expert_bytes is not None
        needed = instance.num_experts * instance.expert_bytes
        short = instance.num_experts - instance.num_slots
        message = (
            f"{_size(needed)} needed for one replica of each of {instance.num_experts} experts, "
            f"{_size(sum(instance.memory_bytes))} available in {instance.num_slots} slots: {_too_many(short)}"
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
    if not found:
        found.extend(replica_conflicts(instance))
    fewest = fewest_moves(instance) if instance.gone else None
    if not found:
        found.extend(_budget(instance, fewest))
    several = max(instance.min_replicas) > 1 or instance.survive_nodes > 0
    if not found and (instance.constrained or (several and instance.hierarchical)):
        from moeopt.placement.feasible import fill_conflicts

        found.extend(fill_conflicts(instance))
    if not found and instance.current is not None and fewest is None:  # a closed form has been asked already
        from moeopt.placement.replanning.shortfall import budget_conflicts

        found.extend(budget_conflicts(instance))
    return found


def _left(count: int) -> str:
    return "one GPU that is" if count == 1 else f"{count} GPUs that are"


def _too_many(short: int) -> str:
    return f"{short} {'expert' if short == 1 else 'experts'} too many"


def _enough(instance: PlacementInstance, left: int) -> str:
    """Slots that would do on the GPUs that are left."""
    each = -(-instance.num_experts // left)
    more = each * left - instance.num_experts
    return f"{each} a GPU would do ({more} redundant experts make {each * left})"


def _budget(instance: PlacementInstance, fewest: list[int] | None) -> list[dict[str, Any]]:
    """Fewer moves allowed than restore every expert, `fewest` a layer where a closed form tells."""
    if not instance.gone or (instance.max_moves is None and instance.max_moves_per_layer is None):
        return []
    if fewest is None:
        fewest = _fewest_by_flow(instance)
    if fewest is None:
        return []
    found = []
    if instance.max_moves is not None and sum(fewest) > instance.max_moves:
        short = sum(fewest) - instance.max_moves
        message = f"restoring every expert takes {sum(fewest)} moves, max_moves allows {instance.max_moves}"
        found.append({"rule": "lost, retire, max_moves", "message": message, "shortfall": short})
    most = instance.max_moves_per_layer
    if most is not None and max(fewest) > most:
        row = fewest.index(max(fewest))
        message = (
            f"layer {instance.layers[row]}: restoring every expert takes {fewest[row]} moves, max_moves_per_layer "
            f"allows {most}"
        )
        found.append({"rule": "lost, retire, max_moves_per_layer", "message": message, "shortfall": fewest[row] - most})
    return found


def _fewest_by_flow(instance: PlacementInstance) -> list[int] | None:
    """The same where pins, least replicas or smaller GPUs leave a choice; ``None`` for groups and at large sizes."""
    if instance.current is None or instance.hierarchical or instance.num_experts * instance.num_gpus > FLOW_PAIRS:
        return None
    known = [running(instance, layer).known for layer in range(instance.num_layers)]
    counts = [hosts(instance, cost=(~there).astype(float)) for there in known]
    return [int(((c > 0) & ~there).sum()) for c, there in zip(counts, known, strict=True) if c is not None]


def _size(count: float) -> str:
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:.4g} {unit}"
    return f"{count:.4g} bytes"
