"""A solve ended from another thread: the best plan so far, and nothing else changed by the hook."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from moeopt import placement
from moeopt.limits import Limits
from moeopt.placement import PlacementInstance
from moeopt.result import Stop


def loads(layers: int, experts: int) -> np.ndarray:
    return np.random.default_rng(5).zipf(1.6, (layers, experts)).clip(max=1000)


@pytest.mark.parametrize("method", ["search", "replan", "exact"])
def test_a_worker_thread_ends_when_the_event_is_set(method: str) -> None:
    current = [[*range(24), *range(8)]] * 30 if method == "replan" else None
    instance = PlacementInstance(loads(30, 24), gpus=8, slots=32, current=current)
    event, found = threading.Event(), []
    limits = Limits(stop=event.is_set, gap=0.0)

    def work() -> None:
        found.append(placement.solve(instance, method=method, limits=limits, on_progress=lambda _: event.set()))

    thread = threading.Thread(target=work)
    thread.start()
    late = threading.Timer(2.0, event.set)
    late.start()  # one layer may take longer than anybody waits: proved, or swept by interpreted kernels
    thread.join(60)
    late.cancel()
    assert not thread.is_alive() and found[0].stop is Stop.INTERRUPTED
    assert placement.faults(instance, found[0].plan) == []


@pytest.mark.parametrize("method", ["search", "replan"])
def test_a_hook_that_says_no_changes_nothing(method: str) -> None:
    current = [[*range(16), 0, 1, 2, 3]] * 3 if method == "replan" else None
    instance = PlacementInstance(loads(3, 16), gpus=4, slots=20, current=current)
    free, hooked = (placement.solve(instance, method=method, limits=limits) for limits in (None, Limits(stop=bool)))
    assert np.array_equal(free.plan.slot_expert, hooked.plan.slot_expert) and free.stop is hooked.stop


def test_a_comparison_leaves_out_what_comes_after_the_stop() -> None:
    event = threading.Event()
    instance = PlacementInstance(loads(6, 16), gpus=4, slots=20)
    limits = Limits(stop=event.is_set, gap=0.0)
    found = placement.compare(instance, ["search", "lpt"], limits=limits, on_progress=lambda _: event.set())
    assert found.interrupted and found.not_run == ("lpt",)


def test_replan_tells_how_far_it_is() -> None:
    seen = []
    instance = PlacementInstance(loads(2, 16), gpus=4, slots=20, current=[[*range(16), 0, 1, 2, 3]] * 2)
    placement.replan(instance, on_progress=seen.append)
    assert seen
