"""What the deep search is given: a layer, or the experts of one node in it, scaled, with the rules that hold there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.packing import FORBIDDEN, PINNED
from moeopt.placement.deals import gpus_of_node
from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.heuristics.deep import Part
from moeopt.placement.instance import PlacementInstance


def scale_of(instance: PlacementInstance, row: int) -> float:
    """What a layer's loads are divided by: its ideal, 1 for an idle layer."""
    return float(instance.ideal[row]) or 1.0


def part_of(
    instance: PlacementInstance,
    row: int,
    experts: NDArray[np.int64],
    gpus: list[int],
    rule: NDArray[np.int8] | None = None,
) -> Part:
    """The search for some experts on some GPUs in one layer; `rule` spares to compute `rules_of` again."""
    scale = scale_of(instance, row)
    rule = rules_of(instance) if rule is None else rule
    constant = () if instance.base is None else tuple((instance.base[row][gpus] / scale).tolist())
    several = "min_replicas" in instance.extras
    return Part(
        costs_of(instance)[row, experts] / scale,
        floor_of(instance) / scale,
        tuple(instance.slots[gpu] for gpu in gpus),
        tuple(instance.speed[gpu] for gpu in gpus),
        rule[np.ix_(experts, np.array(gpus))] if rule.size else rule,
        instance.distinct,
        instance.fill == "at_most",
        constant,
        tuple(instance.min_replicas[expert] for expert in experts) if several else (),
        tuple(instance.node[gpu] for gpu in gpus) if instance.survive_nodes else (),
        instance.survive_nodes + 1,
    )


def costs_of(instance: PlacementInstance) -> NDArray[np.float64]:
    """(L, E) what is divided over replicas: loads that are raised to the floor first, or each replica is."""
    return instance.loads.astype(np.float64) if instance.floor_rule == "per_replica" else instance.weights


def floor_of(instance: PlacementInstance) -> float:
    """What a replica costs at least, tokens."""
    return float(instance.floor) if instance.floor_rule == "per_replica" else 0.0


def rules_of(instance: PlacementInstance) -> NDArray[np.int8]:
    """(E, G) 0, `PINNED` or `FORBIDDEN`; (0, 0) where there are none."""
    if not instance.constrained:
        return np.zeros((0, 0), dtype=np.int8)
    rule = np.where(allowed_pairs(instance), 0, FORBIDDEN).astype(np.int8)
    for expert, gpu in instance.pin:
        rule[expert, gpu] = PINNED
    return rule


def deal_of(instance: PlacementInstance, held: NDArray[np.integer]) -> list[tuple[NDArray[np.int64], list[int]]]:
    """Per node, ascending, the experts that a plan (S,) has there and the node's GPUs."""
    assert instance.groups is not None
    groups, nodes = np.array(instance.groups), np.array(instance.node)
    filled = held >= 0
    at = nodes[instance.gpu_of_slot[filled]]
    return [
        (np.flatnonzero(np.isin(groups, groups[held[filled][at == node]])), gpus_of_node(instance, node))
        for node in instance.node_ids
    ]
