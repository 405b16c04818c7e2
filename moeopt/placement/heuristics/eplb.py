"""The public rule: greedy replica counts, then largest first onto the lightest GPU with a free slot.

With groups, whole groups go to nodes by the same packing first, and the rule works inside each node. Three methods:
`lpt` avoids second copies on a GPU while packing; `eplb` packs without looking and swaps them away afterwards;
`eplb_raw` is the published rule to the slot (float32, first of equals), second copies and all.
Source: DeepSeek-AI, EPLB, 2025.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.lpt import pack
from moeopt.placement.deals import gpus_of_node, group_members
from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.registry import Context, Outcome


def lpt(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Greedy counts, then each replica, heaviest first, to the lightest GPU with a free slot that lacks the expert."""
    return _finish(instance, balanced(instance, avoid_doubles=instance.distinct))


def eplb(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """The public rule in double precision, with second copies on a GPU swapped away."""
    return _finish(instance, balanced(instance, avoid_doubles=False))


def _finish(instance: PlacementInstance, slot_expert: NDArray[np.int32]) -> Outcome[Placement]:
    fixed, notes = replace_doubles(instance, slot_expert)
    return Outcome(Placement.of(fixed), notes=[*instance.notes, *notes])


def balanced(
    instance: PlacementInstance, *, avoid_doubles: bool, rows: NDArray[np.int64] | None = None
) -> NDArray[np.int32]:
    """(L, S) the rule, node by node where groups are kept; with `rows` of these layers alone."""
    rows = np.arange(instance.num_layers) if rows is None else rows
    if not instance.hierarchical:
        counts = instance.greedy_counts[rows]
        return pack(instance.weights[rows] / counts, counts, instance.slots, instance.speed, distinct=avoid_doubles)
    out = np.empty((len(rows), instance.num_slots), dtype=np.int32)
    for node, members in zip(instance.node_ids, deal_groups(instance), strict=True):
        experts = members[rows]
        gpus = gpus_of_node(instance, node)
        slots, speed = [instance.slots[gpu] for gpu in gpus], [instance.speed[gpu] for gpu in gpus]
        weights = instance.weights[rows[:, None], experts]
        most = sum(count > 0 for count in slots) if instance.distinct else None
        counts = greedy_counts(weights, sum(slots), most)
        inside = pack(weights / counts, counts, slots, speed, distinct=avoid_doubles)
        out[:, slots_of(instance, gpus)] = np.take_along_axis(experts, inside.astype(np.int64), axis=1)
    return out


def slots_of(instance: PlacementInstance, gpus: list[int]) -> NDArray[np.int64]:
    """Slots of some GPUs, GPU after GPU."""
    start = instance.slot_start
    return np.concatenate([np.arange(start[gpu], start[gpu + 1]) for gpu in gpus])


def deal_groups(instance: PlacementInstance) -> list[NDArray[np.int64]]:
    """Per node (L, E/N) the experts of the groups that largest-first packing puts there."""
    assert instance.groups is not None
    members = group_members(instance)
    num_nodes, num_groups = len(instance.node_ids), len(members)
    sums = instance.weights[:, members].sum(axis=2)  # (L, Q)
    ones = np.ones(sums.shape, dtype=np.int64)
    speed = [sum(instance.speed[gpu] for gpu in gpus_of_node(instance, node)) for node in instance.node_ids]
    dealt = pack(sums, ones, [num_groups // num_nodes] * num_nodes, speed, distinct=False)  # (L, Q) by node
    per_node = dealt.reshape(len(sums), num_nodes, -1)
    return [members[np.sort(per_node[:, node], axis=1)].reshape(len(sums), -1) for node in range(num_nodes)]


def raw_applies(instance: PlacementInstance) -> str | None:
    """What the published rule cannot work with."""
    if instance.distinct:
        return "the published rule may put two copies of an expert on one GPU; set distinct=false, or use eplb"
    if not instance.uniform:
        return "the published rule needs equal slots and equal speeds; use eplb"
    if float(instance.weights.sum(axis=1).max()) > float(np.finfo(np.float32).max):
        return "the published rule computes in float32, which these loads exceed; use eplb"
    if instance.constrained:
        return "the published rule knows no pin and no forbid; use search"
    if len({instance.node.count(node) for node in instance.node_ids}) > 1:
        return "the published rule needs as many GPUs on every node; use eplb"
    if instance.hierarchical and instance.node != tuple(sorted(instance.node)):
        return "the published rule needs the GPUs in order of their nodes; use eplb"
    return None


def eplb_raw(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """The published rule to the slot: float32, first of equals, second copies on a GPU allowed."""
    weights = np.maximum(instance.loads, float(instance.floor)).astype(np.float32)
    num_nodes = len(instance.node_ids) if instance.hierarchical else 1
    num_layers = instance.num_layers
    if num_nodes > 1:
        members = group_members(instance)
        sums = weights[:, members].sum(axis=2)
        experts = members[_raw_pack(sums.astype(np.float32), num_nodes)].reshape(num_layers * num_nodes, -1)
    else:
        experts = np.tile(np.arange(instance.num_experts), (num_layers, 1))
    inside = weights.reshape(num_layers, 1, -1).repeat(num_nodes, axis=1).reshape(len(experts), -1)
    loads = np.take_along_axis(inside, experts, axis=1)
    phys, counts = _raw_replicate(loads, instance.num_slots // num_nodes)
    pieces = np.take_along_axis(np.divide(loads, counts, dtype=np.float32), phys, axis=1)
    order = _raw_pack(pieces, instance.num_gpus // num_nodes)
    placed = np.take_along_axis(experts, np.take_along_axis(phys, order, axis=1), axis=1)
    return Outcome(Placement.of(placed.reshape(num_layers, -1)), notes=list(instance.notes))


def _raw_replicate(loads: NDArray[np.float32], num_slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, num_slots) expert of each replica in the order they are made, and (rows, E) counts."""
    rows = np.arange(len(loads))
    num_experts = loads.shape[1]
    counts = np.ones(loads.shape, dtype=np.int64)
    phys = np.empty((len(loads), num_slots), dtype=np.int64)
    phys[:, :num_experts] = np.arange(num_experts)
    for slot in range(num_experts, num_slots):
        chosen = (loads / counts.astype(np.float32)).argmax(axis=1)
        phys[:, slot] = chosen
        counts[rows, chosen] += 1
    return phys, counts


def _raw_pack(pieces: NDArray[np.float32], num_packs: int) -> NDArray[np.int64]:
    """(rows, items) items pack after pack; one item a pack keeps them in their order, as published."""
    num_items = pieces.shape[1]
    if num_items == num_packs:
        return np.tile(np.arange(num_items), (len(pieces), 1))
    ones = np.ones(pieces.shape, dtype=np.int64)
    room = [num_items // num_packs] * num_packs
    return pack(pieces, ones, room, distinct=False).astype(np.int64)
