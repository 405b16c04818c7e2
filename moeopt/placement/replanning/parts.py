"""Instances derived from one: without the budgets, or with one layer alone; the data is shared, not copied."""

from __future__ import annotations

import copy
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
    return _changed(instance, BUDGETS, stale=("sha256", "extras", "windows"))


def layer_alone(instance: PlacementInstance, row: int) -> PlacementInstance:
    """One layer of it, as if nothing ran yet."""
    changes: dict[str, Any] = {**BUDGETS, "loads": instance.loads[row : row + 1], "layers": (instance.layers[row],)}
    if instance.window_loads is not None:
        changes["window_loads"] = instance.window_loads[:, row : row + 1]
    return _changed(instance, changes)


def _changed(
    instance: PlacementInstance, changes: dict[str, Any], stale: tuple[str, ...] | None = None
) -> PlacementInstance:
    """A copy with other fields, rid of what was computed from them: `stale`, or everything."""
    other = copy.copy(instance)
    for key in [key for key in other.__dict__ if key not in instance.__dataclass_fields__]:
        if stale is None or key in stale:
            del other.__dict__[key]
    for key, value in changes.items():
        object.__setattr__(other, key, value)
    return other
