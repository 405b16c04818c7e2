"""Free split: the search balances even parts, so the public rule's hosting gets its best shares as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from moeopt.placement.heuristics import eplb
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.shares import with_best_shares
from moeopt.placement.verify import evaluate
from moeopt.registry import Context, Outcome
from moeopt.result import Stop


def with_rival(instance: PlacementInstance, context: Context, outcome: Outcome[Placement]) -> Outcome[Placement]:
    """Layer by layer the better of the outcome's hosting and the public rule's, each with its best shares.

    Where time is up or the public rule does not apply, the outcome stays as it is.
    """
    hosting = eplb.eplb(instance, context).plan
    late = outcome.stop is Stop.INTERRUPTED or context.deadline.passed()
    if outcome.plan is None or hosting is None or instance.constrained or late:
        return outcome
    mine = with_best_shares(instance, outcome.plan, context.deadline)
    rival = with_best_shares(instance, hosting, context.deadline)
    assert mine.shares is not None and rival.shares is not None
    pairs = zip(evaluate(instance, rival).max_load, evaluate(instance, mine).max_load, strict=True)
    better = np.array([theirs < ours for theirs, ours in pairs])
    held = np.where(better[:, None], rival.slot_expert, mine.slot_expert)
    shares = [theirs if take else ours for take, theirs, ours in zip(better, rival.shares, mine.shares, strict=True)]
    return replace(outcome, plan=Placement.of(held, shares))
