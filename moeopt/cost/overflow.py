"""What to do with tokens beyond an expert's capacity: four ways, their price, and whether the LLM's answer changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moeopt.cost.capacity import check_counts, expert_filling
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, whole
from moeopt.cost.exact import times
from moeopt.errors import Violations


@dataclass(frozen=True, slots=True)
class OverflowAction:
    """What one way of treating overflow costs.

    Parameters
    ----------
    name
        ``drop``, ``next_expert``, ``second_round`` or ``replica``.
    lost, moved
        Pairs that no expert computes; pairs that another expert or copy computes.
    rounds, copies
        Passes over the experts; further copies of experts.
    extra_s, extra_bytes
        Seconds beside the first pass; memory for copies.
    changes_output
        Where it acts, the LLM's answer is another one, and depends on who else is in the batch: a change of the LLM,
        not of the system.
    """

    name: str
    lost: int
    moved: int
    rounds: int
    copies: int
    extra_s: float
    extra_bytes: Number
    changes_output: bool


@checked
def overflow_actions(
    counts: Sequence[int], *, capacity: int, round_s: Number, expert_bytes: Number
) -> tuple[OverflowAction, ...]:
    """The four ways to treat what overflows, priced side by side; none of them is chosen here.

    Parameters
    ----------
    counts
        (E,) pairs by expert before any drop.
    capacity
        Places of every expert, >= 1.
    round_s
        Seconds of one more pass over the experts: dispatch, experts at capacity, combine.
    expert_bytes
        Memory of one copy of an expert, `moeopt.llm.expert_bytes`.

    Returns
    -------
    tuple of OverflowAction
        ``drop``: the residual path alone. ``next_expert``: into the places others leave empty, the rest is lost; at
        best, since the next-best experts must be among those. ``second_round``: as many passes as the fullest expert
        needs. ``replica``: as many copies as the load needs, each of one capacity.

    Raises
    ------
    InstanceError
        Broken counts, a capacity below 1, negative seconds or bytes.

    Notes
    -----
    Strength: exact counts, model of the seconds. Chapter on multi-node inference, 4.3 and 4.4.

    >>> for way in overflow_actions([12, 4, 2, 2], capacity=5, round_s=1e-3, expert_bytes=44_050_944):
    ...     print(way.name, way.lost, way.moved, way.extra_s, way.extra_bytes, way.changes_output)
    drop 7 0 0.0 0 True
    next_expert 0 7 0.0 0 True
    second_round 0 0 0.002 0 False
    replica 0 7 0.0 88101888 False
    """
    check = Violations()
    whole(check, capacity=capacity)
    not_negative(check, round_s=round_s, expert_bytes=expert_bytes)
    listed = check_counts(check, counts)
    check.raise_if_any()
    capacity = int(capacity)
    full = expert_filling(listed, capacity=capacity)
    moved = min(full.overflow, full.padding)
    needed = [max(-(-count // capacity), 1) for count in listed]
    rounds, copies = max(needed), sum(needed) - len(needed)
    return (
        OverflowAction("drop", full.overflow, 0, 1, 0, 0.0, 0, True),
        OverflowAction("next_expert", full.overflow - moved, moved, 1, 0, 0.0, 0, True),
        OverflowAction("second_round", 0, 0, rounds, 0, (rounds - 1) * float(round_s), 0, False),
        OverflowAction("replica", 0, full.overflow, 1, copies, 0.0, times(copies, expert_bytes), False),
    )
