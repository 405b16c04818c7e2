"""An end to the time: a plan all the same, bounds that hold, and no more than one look at the clock too late."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance, own_hull
from moeopt.collocation.heuristics import repair, spectral
from moeopt.collocation.heuristics.nets import layer_net
from moeopt.collocation.heuristics.pace import SLICE, paced
from moeopt.limits import Deadline, Limits
from moeopt.result import Status, Stop
from tests.collocation.strategies import instances

LATE = "time was up before the bounds were done"
RNG = np.random.default_rng(0)
IDS = np.argsort(RNG.random((2, 400, 64)), axis=2)[:, :, :4]


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


@pytest.mark.parametrize("fields", [
    {"nodes": 8, "gpus": 8},
    {"nodes": 4, "gpus": 8, "slots": 80},
    {"cluster": reference("4x2-h100"), "slots": 72, "source": RNG.integers(0, 8, 400)},
])  # fmt: skip
@pytest.mark.parametrize("method", ["auto", "exact"])
def test_what_there_is_no_time_for_is_left_out(fields: dict[str, object], method: str) -> None:
    instance = CollocationInstance(IDS, experts=64, **fields)
    if collocation.METHODS[method].applies(instance) is not None:
        return
    result = collocation.solve(instance, method=method, limits=Limits(time_s=1e-6))
    assert result.stop is Stop.TIME and result.iterations == 0
    assert collocation.evaluate(instance, result.plan).objective == pytest.approx(result.objective)
    for row, certificate in enumerate(result.certificate["layers"]):
        assert certificate["kind"] == "trivial" and collocation.recheck(instance, row, certificate) == []
    full = collocation.solve(instance, method="id_order")
    assert result.lower_bound <= full.lower_bound  # nothing of the short run is kept for the next


def test_a_bound_cut_short_is_still_proved() -> None:
    instance = CollocationInstance(IDS, experts=64, nodes=8, gpus=8)
    best = collocation.bound(instance, 0)
    some = collocation.bound(instance, 0, Deadline(0.6))
    assert some.value <= best.value * 2 and collocation.recheck(instance, 0, some.certificate) == []


def test_slices_grow_from_one_round_and_none_begins_without_time() -> None:
    net, seen = layer_net(CollocationInstance(IDS, experts=64, nodes=8, gpus=8), 0), []
    assert paced(seen.append, 3 * SLICE, net, True, Deadline(60.0)) == sum(seen) == 3 * SLICE
    assert seen[0] == 1 and max(seen) <= SLICE
    assert paced(seen.append, 5, net, False, Deadline(1e-9)) == 0
    seen.clear()
    assert paced(seen.append, 1200, net, True, Deadline(None)) == 1200 and seen == [1200]
    seen.clear()
    assert paced(seen.append, 1200, net, True, Deadline(None, lambda: True)) == 0


def test_no_start_is_made_that_there_is_no_time_to_search_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "embedded", None)
    instance = CollocationInstance(IDS, experts=64, nodes=4, gpus=8)
    result = collocation.solve(instance, method="search", limits=Limits(time_s=1e-6))
    assert result.stop is Stop.TIME and collocation.faults(instance, result.plan) == []


@pytest.mark.parametrize("method", ["search", "spectral"])
def test_swaps_towards_the_load_cap_end_with_the_time(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "MOMENT_S", 0.0)
    counted = Counter()
    tokens = repair._tokens

    def counting(*given: object) -> object:
        counted["all"] += 1
        return tokens(*given)

    monkeypatch.setattr(repair, "_tokens", counting)
    instance = CollocationInstance(IDS, experts=64, nodes=4, gpus=8, slots=256, max_imbalance=1.0001)
    result = collocation.solve(instance, method=method, limits=Limits(time_s=1e-6))
    assert result.status is Status.UNKNOWN and counted["all"] <= 4 * instance.num_layers


@pytest.mark.parametrize("slots", [64, 96])
def test_no_code_is_loaded_that_there_is_no_time_for(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = CollocationInstance(IDS, experts=64, nodes=4, gpus=8, slots=slots)
    full = collocation.bound(instance, 0)
    monkeypatch.setattr(Deadline, "allows_import", lambda *_: False)
    monkeypatch.setattr(spectral, "embedded", None)
    monkeypatch.setattr(own_hull, "best_prices", None)
    result = collocation.solve(instance, method="search", limits=Limits(iterations=1, time_s=60.0))
    assert collocation.faults(instance, result.plan) == []
    monkeypatch.undo()
    for row, certificate in enumerate(result.certificate["layers"]):
        assert collocation.recheck(instance, row, certificate) == []
    assert 0 < Fraction(result.certificate["layers"][0]["value"]) <= full.value


@pytest.mark.parametrize("fill", ["all", "at_most"])
def test_a_search_that_ends_at_once_is_no_worse_than_experts_in_order(fill: str) -> None:
    ids = np.repeat(np.arange(16).reshape(8, 2), 20, axis=0)[None]  # neighbours are selected together
    instance = CollocationInstance(ids, experts=16, nodes=8, gpus=8, slots=16, fill=fill)
    order = collocation.solve(instance, method="id_order").objective
    assert collocation.solve(instance, method="search", limits=Limits(time_s=1e-6)).objective == order
