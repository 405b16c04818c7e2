"""Free split: the search balances even parts, so the public rule's hosting gets its best shares as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from moeopt.placement.heuristics import eplb
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.shares import best_shares
from moeopt.registry import Context, Outcome
from moeopt.result import Stop


def with_rival(instance: PlacementInstance, context: Context, outcome: Outcome[Placement]) -> Outcome[Placement]:
    """Layer by layer the better of the outcome's hosting and the public rule's, each with its best shares.

    Where time is up or the public rule does not apply, the outcome stays as it is.
    """
    deadline = context.deadline
    late = outcome.stop is Stop.INTERRUPTED or deadline.passed()
    if outcome.plan is None or instance.constrained or late:
        return outcome
    mine, ours = best_shares(instance, outcome.plan, deadline.share(3))
    hosting = eplb.eplb(instance, context).plan if mine.shares is not None else None
    if hosting is None:
        return replace(outcome, plan=mine)
    rival, theirs = best_shares(instance, hosting, deadline.share(2))
    if mine.shares is None or rival.shares is None:  # no time to tell which is better with its best shares
        return replace(outcome, plan=mine)
    better = np.array([other < own for other, own in zip(theirs, ours, strict=True)])
    held = np.where(better[:, None], rival.slot_expert, mine.slot_expert)
    shares = [other if take else own for take, other, own in zip(better, rival.shares, mine.shares, strict=True)]
    return replace(outcome, plan=Placement.of(held, shares))
