"""Budgets too small for the moves that any legal plan needs."""

from __future__ import annotations

from typing import Any

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import EMPTY, new_pairs
from moeopt.placement.replanning.keep_slots import old_slots
from moeopt.placement.replanning.start import allowed_homes, forced_moves, legal, starting_plan


def budget_conflicts(instance: PlacementInstance) -> list[dict[str, Any]]:
    """What no plan within the budgets can do: the running plan is not legal today, and mending it takes more moves.

    A conflict is a proof: counts of what is missing, and on flat placements the fewest moves of any legal plan, a flow.
    Where groups or nodes that may fail make that a heuristic, nothing is claimed here.
    """
    if instance.current is None or (instance.max_moves is None and instance.max_moves_per_layer is None):
        return []
    least = [0 if legal(instance, old_slots(instance, row), row) else None for row in range(instance.num_layers)]
    counted = [forced_moves(instance, row) if known is None else 0 for row, known in enumerate(least)]
    found = _too_few(instance, counted)
    if found or not any(known is None for known in least) or instance.hierarchical or instance.survive_nodes:
        return found
    for row, known in enumerate(least):
        if known is None:
            plan = starting_plan(instance, row, allowed_homes(instance, row))
            if plan is not None:
                counted[row] = len(new_pairs(instance, plan, row))
    return _too_few(instance, counted)


def _too_few(instance: PlacementInstance, counted: list[int]) -> list[dict[str, Any]]:
    found = []
    most, each = instance.max_moves, instance.max_moves_per_layer
    why, ways = _reason(instance)
    if each is not None:
        for layer, count in zip(instance.layers, counted, strict=True):
            if count > each:
                message = f"layer {layer}: {why}: at least {count} replicas must move, {each} a layer may{ways}"
                found.append({"rule": "current, max_moves_per_layer", "message": message, "shortfall": count - each})
    if most is not None and sum(counted) > most:
        message = (
            f"{why}: at least {sum(counted):,} replicas must move in all, {most:,} may: {sum(counted) - most:,} too few"
        )
        if ways:
            message += f"{ways}, or allow max_moves = {sum(counted)} (--max-moves)"
        found.append({"rule": "current, max_moves", "message": message, "shortfall": sum(counted) - most})
    return found


def _reason(instance: PlacementInstance) -> tuple[str, str]:
    """Which rule the running plan breaks, where it is that of empty slots, and what else could be asked for."""
    empty: set[int] = set()
    if instance.fill == "all":
        gpu = instance.gpu_of_slot
        for row in range(instance.num_layers):
            empty.update(gpu[old_slots(instance, row) == EMPTY].tolist())
    if not empty:
        return "the running plan breaks today's rules", ""
    ids = ", ".join(map(str, sorted(empty)))
    why = f"the running plan has empty slots on GPUs {ids}, which fill = all does not allow"
    return why, f". Name them as lost (--lost {ids.replace(' ', '')}) if they are, or fill = at_most (--fill at_most)"
