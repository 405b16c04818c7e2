"""What a result says about its moves, ready for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from moeopt.errors import PlanError
from moeopt.placement import verify
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import list_moves
from moeopt.placement.plan import Placement
from moeopt.placement.replanning.keep_slots import old_slots
from moeopt.placement.replanning.parts import without_budgets


def described(instance: PlacementInstance, plan: Placement, solution: dict[str, Any]) -> None:
    """Put the moves into a solution: in all and per layer, and for each the expert, a source, the GPU and the slot.

    The source is a GPU of the running plan, on the same node where one has the expert; -1 is storage: no GPU has it.
    """
    total = 0
    for row, (held, layer) in enumerate(zip(plan.slot_expert, solution["layers"], strict=True)):
        moved = list_moves(instance, held, row)
        layer["moves"] = len(moved)
        layer["moved"] = [[move.expert, move.source, move.gpu, move.slot] for move in moved]
        total += len(moved)
    solution["moves"] = total
    solution["imbalance_now"] = imbalance_now(instance)
    if instance.expert_bytes is not None:
        solution["moved_bytes"] = total * instance.expert_bytes


def running_plan(instance: PlacementInstance) -> Placement:
    """The running plan in the slots of today."""
    return Placement.of(np.stack([old_slots(instance, row) for row in range(instance.num_layers)]))


def imbalance_now(instance: PlacementInstance) -> float | None:
    """Imbalance over all layers if the running plan stays, ``None`` where it breaks today's rules."""
    try:
        return verify.evaluate(without_budgets(instance), running_plan(instance)).imbalance_total
    except PlanError:
        return None


def cannot_stay(instance: PlacementInstance) -> str:
    """Which of today's rules the running plan breaks, the first of them; empty where it could stay."""
    plan = running_plan(instance)
    hollow = int((plan.slot_expert < 0).sum())
    try:
        verify.evaluate(without_budgets(instance), plan)
    except PlanError as error:
        if hollow and instance.fill == "all":
            slots = "1 slot" if hollow == 1 else f"{hollow:,} slots"
            return f"it leaves {slots} empty; fill = all wants an expert in each, fill = at_most does not"
        return error.faults[0]
    return ""
