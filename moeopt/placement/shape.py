"""Slots and shapes: how many replicas fit where, and the shapes no plan can have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.errors import Violations
from moeopt.placement.checks import listed, nearest_divisor, whole

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance


MAX_SLOTS = 2**24
"""The same for slots: one layer of a plan would take 64 MB."""


def slots(instance: PlacementInstance, value: Any, uneven: bool, check: Violations) -> tuple[int, ...]:
    """G slot counts, from a total, one by one, or from memory."""
    num_gpus, num_experts = len(instance.speed), instance.num_experts
    if value is None:
        if instance.memory_bytes is None or instance.expert_bytes is None:
            check.add("slots", "missing", rule="is needed", fix="Give all slots together, or one number a GPU")
            return (1,) * num_gpus
        most = num_experts // len(instance.node_ids) if instance.hierarchical else num_experts
        fitting = (_fitting(free, instance.expert_bytes) for free in instance.memory_bytes)
        return _bounded(tuple(min(count, most) if instance.distinct else count for count in fitting), check)
    if listed(value):
        counts = tuple(whole("slots", item, 0, check, where=f"GPU {gpu}") for gpu, item in enumerate(value))
        counts = _bounded(counts, check)
    else:
        counts = _deal(whole("slots", value, 1, check), num_gpus, num_experts, uneven, check)
    if instance.memory_bytes is not None and instance.expert_bytes is not None:
        for gpu, (count, free) in enumerate(zip(counts, instance.memory_bytes, strict=True)):
            most = _fitting(free, instance.expert_bytes)
            if count > most:
                rule = f"needs {count * instance.expert_bytes:g} bytes of {free:g}"
                check.add("slots", count, rule=rule, fix=f"Use at most {most}", where=f"GPU {gpu}")
    return counts


def _fitting(free: float, expert_bytes: float) -> int:
    """Experts that fit into the bytes of a GPU; beyond what a plan may have they are not counted."""
    return MAX_SLOTS + 1 if free / expert_bytes > MAX_SLOTS else int(free // expert_bytes)


def _bounded(counts: tuple[int, ...], check: Violations) -> tuple[int, ...]:
    """The counts, each in range: 0 where one is noted as too large."""
    for gpu, count in enumerate(counts):
        if count > MAX_SLOTS:
            rule = f"must be at most {MAX_SLOTS} in all"
            check.add("slots", count, rule=rule, fix="Check the number", where=f"GPU {gpu}")
    return tuple(count if count <= MAX_SLOTS else 0 for count in counts)


def _deal(total: int, num_gpus: int, num_experts: int, uneven: bool, check: Violations) -> tuple[int, ...]:
    each, rest = divmod(total, num_gpus)
    if rest and not uneven:
        near = [size for size in (each * num_gpus, (each + 1) * num_gpus) if size >= num_experts]
        if not near:
            near = [-(-num_experts // num_gpus) * num_gpus]
        best = min(near, key=lambda size: abs(size - total))
        shape = f"{best} slots, {best // num_gpus} a GPU"
        rule = f"must be a multiple of gpus = {num_gpus} for {num_experts} experts"
        fix = f"The nearest workable redundancy is {best - num_experts} ({shape}); or set uneven_slots"
        if total < num_experts:
            rule = f"must hold each of {num_experts} experts once, and be a multiple of gpus = {num_gpus}"
            fix = f"Use {shape}"
        check.add("slots", total, rule=rule, fix=fix)
        return (each,) * num_gpus
    return tuple(each + (gpu < rest) for gpu in range(num_gpus))


def refuse(instance: PlacementInstance, check: Violations) -> None:
    """Shapes no plan can have: refused here, with the nearest valid shape."""
    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    from_memory = instance.memory_bytes is not None
    if instance.num_slots < num_experts and not from_memory:
        least = -(-num_experts // num_gpus) * num_gpus
        rule = f"must hold each of {num_experts} experts once: at least {num_experts} slots are needed"
        check.add("slots", f"{instance.num_slots} in all", rule=rule, fix=f"Use {least} ({least // num_gpus} a GPU)")
    if instance.groups is not None and instance.group_rule == "hierarchical" and not instance.hierarchical:
        count, num_nodes = len(set(instance.groups)), len(instance.node_ids)
        if count % num_nodes:
            rule = f"must be a multiple of nodes = {num_nodes} with group_rule hierarchical"
            fix = f"Use {nearest_divisor(count, num_nodes)} nodes, or group_rule auto for a global placement"
            check.add("groups", count, rule=rule, fix=fix)
    if instance.num_slots > MAX_SLOTS:
        check.add("slots", instance.num_slots, rule=f"must be at most {MAX_SLOTS} in all", fix="Check the number")
    _slots_per_gpu(instance, check)
    _magnitudes(instance, check)


def _magnitudes(instance: PlacementInstance, check: Violations) -> None:
    """Every cost a plan can have, and their sum over layers, must be a finite double."""
    try:
        floor = float(instance.floor)
    except OverflowError:
        floor = math.inf
    with np.errstate(over="ignore"):
        total = float(instance.loads.astype(np.float64).sum())
        total += floor * (instance.num_layers * (instance.num_experts + instance.num_slots)) if floor else 0.0
        most = 2.0 * total / min(instance.speed) if total else 0.0
    if not math.isfinite(most) or not math.isfinite(sum(instance.speed)):
        rule = "costs must fit a double: all loads, floor_tokens * steps for every replica, divided by the least speed"
        check.add("loads", f"{total:g} in all", rule=rule, fix="Divide loads and floor_tokens by one number")
    elif not check.found:
        _prices(instance, most, check)


def _prices(instance: PlacementInstance, most: float, check: Violations) -> None:
    """What moves weigh and passes take, over all layers, must be a finite double too."""
    replicas = float(max(instance.num_slots, 1) * instance.num_layers)
    passes = float(instance.steps)
    for field, value, times, rule in (
        ("move_cost", instance.move_cost, replicas, "times all replicas, beside the loads,"),
        ("expert_bytes", instance.expert_bytes, replicas, "times all replicas"),
        ("c_slot", instance.c_slot, replicas * passes, "times all slots and steps"),
        ("c_tok", instance.c_tok, max(most, 1.0), "times all tokens"),
    ):
        if value and not math.isfinite(4.0 * (value * times + most * (field == "move_cost"))):
            fix = "Check the unit"
            check.add(field, value, rule=f"{rule} must fit a double", fix=fix)
    both = (instance.c_slot or 0.0) * replicas * passes + (instance.c_tok or 0.0) * max(most, 1.0)
    if not math.isfinite(both) and not check.found:
        check.add("c_slot", instance.c_slot, rule="with c_tok, the seconds must fit a double", fix="Check the unit")


def _slots_per_gpu(instance: PlacementInstance, check: Violations) -> None:
    if not instance.hierarchical:
        most, of_what = instance.num_experts, f"experts = {instance.num_experts}"
    else:
        most = instance.num_experts // len(instance.node_ids)
        of_what = f"the {most} experts of its node"
        for node, total in slots_of_nodes(instance):
            if total < most and instance.memory_bytes is None:
                rule = f"must hold {of_what}"
                check.add("slots", total, rule=rule, fix=f"Give the node {most} slots or more", where=f"node {node}")
    if not instance.distinct:
        return
    for count in sorted({count for count in instance.slots if count > most}):
        gpus = [gpu for gpu, slots in enumerate(instance.slots) if slots == count]
        where = f"GPU {gpus[0]}" if len(gpus) == 1 else f"{len(gpus)} GPUs, the first is GPU {gpus[0]}"
        rule = f"must be at most {of_what}: a GPU holds one replica of each"
        check.add("slots", count, rule=rule, fix=f"Use {most} or fewer", where=where)


def slots_of_nodes(instance: PlacementInstance) -> list[tuple[int, int]]:
    homes = list(zip(instance.slots, instance.node, strict=True))
    return [(node, sum(count for count, home in homes if home == node)) for node in instance.node_ids]
