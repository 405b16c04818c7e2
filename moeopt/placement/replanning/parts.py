"""Instances derived from one: without the budgets, or with one layer alone; the data is shared, not copied."""

from __future__ import annotations

from typing import Any

from moeopt.placement.instance import PlacementInstance

BUDGETS: dict[str, Any] = {
    "current": None,
    "current_gpu": None,
    "max_moves": None,
    "max_moves_per_layer": None,
    "move_cost": 0.0,
}


def without_budgets(instance: PlacementInstance) -> PlacementInstance:
    """The same instance as if nothing ran yet."""
    return instance.changed(**BUDGETS)


def layer_alone(instance: PlacementInstance, row: int) -> PlacementInstance:
    """One layer of it, as if nothing ran yet."""
    changes: dict[str, Any] = {**BUDGETS, "loads": instance.loads[row : row + 1], "layers": (instance.layers[row],)}
    if instance.window_loads is not None:
        changes["window_loads"] = instance.window_loads[:, row : row + 1]
    return instance.changed(**changes)
