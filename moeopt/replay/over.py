"""Policies and their budgets of moves: who moved more, and what is said of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import count_moves
from moeopt.placement.plan import Placement
from moeopt.replay.answer import Row
from moeopt.replay.policies import Policy


def within_budget(policy: Policy, history: PlacementInstance, before: Placement, plan: Placement | None) -> bool | None:
    """Whether a re-plan kept to the policy's budget; ``None`` where it has none.

    >>> history = PlacementInstance([[[2, 1]], [[1, 2]]], gpus=2, slots=2)
    >>> plans = Placement.of([[0, 1]]), Placement.of([[1, 0]])
    >>> within_budget(Policy("lpt", "lpt", 1, None), history, *plans)
    False
    """
    if policy.max_moves is None and policy.max_moves_per_layer is None:
        return None
    if plan is None:
        return True
    running = history.changed(current=before.slot_expert, current_gpu=tuple(history.gpu_of_slot.tolist()))
    counts = count_moves(running, plan.slot_expert)
    total, each = policy.max_moves, policy.max_moves_per_layer
    return (total is None or sum(counts) <= total) and (each is None or max(counts) <= each)


def over(row: Row, max_moves_per_layer: int | None) -> str:
    """How far a policy went over its budget; empty where it held it or has none."""
    if row.budget_held is not False:
        return ""
    most = max(replan.moves for replan in row.replans)
    if row.max_moves is not None and most > row.max_moves:
        return f"up to {most:,} moves, allowed {row.max_moves:,}"
    return f"more than {max_moves_per_layer} in a layer"


def budget_notes(rows: Iterable[Row], budgetless: Collection[str], max_moves_per_layer: int | None) -> list[str]:
    """Who moved more than the budget, and how it is asked without one."""
    found = []
    for row in rows:
        said = over(row, max_moves_per_layer)
        free = row.policy in budgetless
        if free and not said:
            found.append(f"{row.policy} knows no budget of moves: it was run without one, and held it")
        elif said:
            why = f"{row.policy} knows no budget of moves, and was " if free else f"{row.policy} was "
            hint = f"; {row.method}@none or {row.method}@100% may be" if max_moves_per_layer is None else ""
            found.append(f"{why}over it ({said}): it is scored, but not called best{hint}")
    return found
