"""What the solvers of this process say at every end there is, in the same words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from moeopt.backends import BACKENDS
from moeopt.limits import Deadline, Limits

from .conftest import dense, knapsack, partition

EMPTY = np.zeros((0, 2))


def said(name, model, *, limits=None, deadline=None, **options):
    run = BACKENDS[name].run()
    given = {"seed": 0, "start": None, "floor": None, "options": options, "on_incumbent": None}
    return run(model, limits=limits or Limits(), deadline=deadline or Deadline(None), **given)


@pytest.fixture(params=["highs", "scipy"])
def name(request):
    return request.param


@pytest.mark.parametrize("integral", [True, False])
def test_impossible_without_end_and_without_rows(name, integral):
    apart = dense([1, 1], [[1, 1], [1, -1]], [5, 0], [math.inf, 0], 2.0, integral=integral)
    assert said(name, apart).outcome == "infeasible"
    free = dense([-1, -1], [[1, -1]], 0, 0, math.inf, integral=integral)
    assert said(name, free).outcome in ("unbounded", "stopped") or "unbounded" in said(name, free).notes[-1]
    loose = said(name, dense([1, -2], EMPTY, 0, 0, 3.0, integral=integral))
    assert loose.outcome == "optimal" and loose.values.tolist() == [0.0, 3.0]


def test_unbounded_and_infeasible_are_told_apart():
    """HiGHS's presolve says only that it is one of both."""
    free = dense([-1, 0], [[1, -1]], 0, 0, math.inf)
    assert said("highs", free).outcome == "unbounded"
    torn = dense([-1, 0], [[1, -1], [1, 0], [1, 0]], [0, 2, -math.inf], [0, math.inf, 1], math.inf)
    assert said("highs", torn).outcome == "infeasible"


def test_no_time_before_the_beginning_and_in_the_middle(name):
    before = said(name, knapsack(), deadline=Deadline(1e-9))
    assert before.outcome == "stopped" and before.stop == "TIME" and before.values is None
    middle = said(name, partition(), deadline=Deadline(0.3))
    assert middle.outcome == "stopped" and middle.stop == "TIME"


def test_the_limit_of_nodes_is_named(name):
    found = said(name, partition(), limits=Limits(nodes=1))
    assert found.outcome == "stopped" and found.stop == "NODES"


def test_highs_of_another_thread_is_waited_for_no_longer_than_there_is_time():
    from moeopt.backends import highs

    with highs.ONE_AT_A_TIME:
        found = said("highs", knapsack(), deadline=Deadline(0.05))
    assert found.notes == ("time was up before HiGHS was free",)
