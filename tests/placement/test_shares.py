"""Shares of a free split: under a deadline the referee's time is kept back, and nothing is lost or hidden."""

from __future__ import annotations

import numpy as np

from moeopt import placement
from moeopt.limits import Deadline, Limits
from moeopt.placement.load_plan import document_faults
from moeopt.placement.plan_document import read_result
from moeopt.placement.shares import best_shares, with_even_shares

LOADS = [[9, 4, 3, 2], [7, 7, 1, 1]]


def _instance() -> placement.PlacementInstance:
    return placement.PlacementInstance(LOADS, gpus=3, slots=6, split="free")


def _hosting(instance: placement.PlacementInstance) -> placement.Placement:
    found = placement.solve(instance, method="eplb").plan
    return placement.Placement(found.slot_expert)


def test_shares_stay_even_and_unwritten_when_no_time_is_left() -> None:
    instance = _instance()
    deadline = Deadline(1e-9)
    plan, tops = best_shares(instance, _hosting(instance), deadline)
    assert plan.shares is None
    assert deadline.passed()
    assert tops == placement.evaluate(instance, with_even_shares(instance, plan)).max_load


def test_best_shares_say_what_the_referee_says() -> None:
    instance = _instance()
    plan, tops = best_shares(instance, _hosting(instance), Deadline(None))
    assert plan.shares is not None
    assert tops == placement.evaluate(instance, plan).max_load


def test_a_free_split_out_of_time_is_noted_and_verifies_when_read_back() -> None:
    instance = _instance()
    result = placement.solve(instance, limits=Limits(time_s=1e-6))
    assert "the time was up before every layer had its best shares: the others have even parts" in result.notes
    document = read_result(result.to_dict(), "plan")
    assert document_faults(document, np.array(LOADS), instance.layers) == []


def test_a_warm_start_with_shares_is_never_lost_to_a_deadline() -> None:
    instance = _instance()
    best = placement.solve(instance)
    again = placement.solve(instance, limits=Limits(time_s=1e-6), warm_start=best.plan)
    assert again.objective <= best.objective
