"""An end to the time: a plan all the same, bounds that hold, and no more than one look at the clock too late."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance
from moeopt.collocation.heuristics.search import SLICE
from moeopt.limits import Deadline, Limits
from moeopt.result import Status, Stop
from tests.collocation.strategies import instances

LATE = "time was up before the bounds were done"


@given(instances())
@settings(max_examples=30, deadline=None)
def test_without_any_time_plans_are_legal_and_bounds_hold(instance: CollocationInstance) -> None:
    result = collocation.solve(instance, limits=Limits(stop=lambda: True))
    assert result.objective is not None and result.lower_bound is not None
    assert collocation.faults(instance, result.plan) == []
    assert result.lower_bound <= result.objective
    assert result.iterations <= instance.num_layers * SLICE
    if result.status is not Status.OPTIMAL:
        assert result.stop is Stop.INTERRUPTED
    for row, certificate in enumerate(result.certificate["layers"]):
        assert collocation.recheck(instance, row, certificate) == []


def crowded() -> CollocationInstance:
    rng = np.random.default_rng(1)
    ids = np.array([[rng.choice(24, size=4, replace=False) for _ in range(120)] for _ in range(2)])
    return CollocationInstance(ids, experts=24, cluster=reference("4x2-h100"), slots=32)


@pytest.mark.parametrize("calls", [0, 3, 30])
def test_a_bound_that_is_cut_short_follows_from_its_certificate(calls: int) -> None:
    instance, seen = crowded(), []
    full = collocation.bound(instance, 0)

    def stop() -> bool:
        seen.append(1)
        return len(seen) > calls

    cut = collocation.bound(instance, 0, Deadline(None, stop))
    assert 0 < cut.value <= full.value
    assert collocation.recheck(instance, 0, cut.certificate) == []
    assert (cut.certificate["kind"] == "trivial") == (calls == 0)


def test_a_limit_is_said_and_replicas_keep_to_it() -> None:
    instance = crowded()
    result = collocation.solve(instance, limits=Limits(stop=lambda: True))
    assert result.stop is Stop.INTERRUPTED and any(note.startswith(LATE) for note in result.notes)
    free = collocation.solve(instance, limits=Limits(iterations=50))
    assert not any(note.startswith(LATE) for note in free.notes)
