"""One re-plan of a policy: what it moved, and why it did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moeopt.placement.plan import Placement


@dataclass(frozen=True)
class Replan:
    """One re-plan of a policy.

    Parameters
    ----------
    window, seen
        The first window that the plan serves; those that it was made from.
    plan
        The plan; ``None`` where the one before stays.
    moves
        (expert, GPU) pairs that it has and the one before lacks.
    budget_held
        Whether it moved no more than the budget; ``None`` without one.
    imbalance_now, imbalance_after
        Over all layers, in the windows seen: of the plan before, and of the plan made; ``None`` without one.
    status, stop
        Those of the result.
    note
        Why the plan before stays, or what was decided.
    stall_s, gain_s, break_even_steps
        Where times are given: what the move cost, what it saved until the next, steps after which it pays.
    """

    window: int
    seen: range
    plan: Placement | None
    moves: int
    budget_held: bool | None
    imbalance_now: float | None
    imbalance_after: float | None
    status: str
    stop: str
    note: str = ""
    stall_s: float | None = None
    gain_s: float | None = None
    break_even_steps: int | None = None
    runtime_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        names = ("moves", "budget_held", "imbalance_now", "imbalance_after", "status", "stop", "note")
        found: dict[str, Any] = {"window": self.window, "seen": [self.seen.start, self.seen.stop - 1]}
        found |= {name: getattr(self, name) for name in names}
        found |= {name: getattr(self, name) for name in ("stall_s", "gain_s", "break_even_steps", "runtime_s")}
        return found | plan_dict(self.plan)


def plan_dict(plan: Placement | None) -> dict[str, Any]:
    """A plan for JSON: the expert in each slot, and shares where the split is free."""
    if plan is None:
        return {"slot_expert": None}
    found: dict[str, Any] = {"slot_expert": plan.slot_expert.tolist()}
    if plan.shares is not None:
        found["shares"] = [[list(share) for share in row] for row in plan.shares]
    return found
