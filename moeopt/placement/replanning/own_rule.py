"""Frontiers under rules that the kernel does not count by: whole sources of an engine, free shares."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.limits import Deadline
from moeopt.placement import engine_rule
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement, Share
from moeopt.placement.replanning.frontier import Frontier
from moeopt.placement.replanning.keep_slots import in_old_slots, old_slots
from moeopt.placement.replanning.parts import layer_alone
from moeopt.placement.replanning.start import legal
from moeopt.placement.verify import evaluate

Shares = dict[int, Sequence[Share]]
"""Shares of the points of a frontier, by their moves."""


def differs(instance: PlacementInstance) -> bool:
    """Whether plans are worth something else than with even parts."""
    return instance.split == "free" or engine_rule.fixed(instance)


def revalued(
    instance: PlacementInstance, row: int, frontier: Frontier, chosen: int, deadline: Deadline
) -> tuple[Frontier, Shares]:
    """The points of a layer by the instance's own rule, as the referee has it, and with a free split their shares.

    Each is judged in the slots it will have. The point `chosen` is always among them, then come the running plan and
    the two ends; the others follow while there is time, and not with a free split, where each takes a linear programme.
    """
    alone = layer_alone(instance, row)
    found, shares = Frontier(frontier.start), Shares()
    free = instance.split == "free"
    moves = frontier.moves().tolist()
    plans = [(count, in_old_slots(instance, frontier.plan(count), row)) for count in (chosen, moves[0], moves[-1])]
    running = old_slots(instance, row)
    if legal(instance, running, row):
        plans.insert(1, (0, running))
    if not free:
        plans += [(count, in_old_slots(instance, frontier.plan(count), row)) for count in moves[1:-1]]
    for place, (count, held) in enumerate(plans):
        if place and deadline.passed():
            break
        plan = Placement.of(held)
        if free:
            from moeopt.placement.shares import with_best_shares, with_even_shares

            plan = with_even_shares(alone, with_best_shares(alone, plan, deadline.share(len(plans) - place)))
        if found.add(count, float(evaluate(alone, plan).objective), held) and plan.shares is not None:
            shares[count] = plan.shares[0]
    return found, shares
