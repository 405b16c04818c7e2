"""The end of the time at any moment: a judged plan with a valid bound, or none and what is missing; never an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.limits import Deadline, Limits
from moeopt.llm import find
from moeopt.mesh import MeshInstance, bounds, faults, partial, solve
from moeopt.mesh.clock import OutOfTime, watching
from moeopt.mesh.goodput.plans import simulate_plan
from moeopt.mesh.market import market_of
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.public import GpuType, Slo, Workload, demand_of
from moeopt.result import Result
from tests.mesh.strategies import instances


def after(looks: int) -> Callable[[], bool]:
    """Says yes once it was asked so often, as a clock that runs out there."""
    left = [looks]

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    return stop


def fresh(instance: MeshInstance) -> MeshInstance:
    """The same question, of which nothing is known yet."""
    return MeshInstance(**{item.name: getattr(instance, item.name) for item in fields(instance) if item.init})


def holds(instance: MeshInstance, result: Result, best: float | None) -> None:
    """What is true of an answer whenever its time ended; `best` is the optimum, where there is a plan."""
    document = json.loads(result.to_json())
    assert plan_faults(instance, document)[0] == []
    if result.plan is None:
        assert result.status in ("UNKNOWN", "INFEASIBLE")
        assert result.status == "INFEASIBLE" or result.stop == "INTERRUPTED"
        return
    assert best is not None and not faults(instance, result.plan)
    assert result.lower_bound is not None and result.objective is not None
    assert result.lower_bound <= best * (1 + 1e-12) and best <= result.objective * (1 + 1e-12)
    said = [note for note in document["notes"] if note.startswith(partial.LEFT_OUT)]
    assert result.stop == "INTERRUPTED" or not said


@settings(max_examples=25)
@given(instances(per_family=1), st.integers(0, 120), st.sampled_from(["auto", "per_price"]))
def test_an_end_at_any_look_at_the_clock_leaves_an_answer_that_verifies(
    instance: MeshInstance, looks: int, method: str
) -> None:
    best = solve(instance).objective
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial, "GRACE_S", 0.0)
        holds(instance, solve(fresh(instance), method=method, limits=Limits(stop=after(looks))), best)


@pytest.mark.parametrize("looks", [0, 3, 30, 300, 1000])
@pytest.mark.parametrize("objective", ["goodput", "price", "time"])
def test_of_an_llm_on_two_types_too(monkeypatch: pytest.MonkeyPatch, objective: Any, looks: int) -> None:
    monkeypatch.setattr(partial, "GRACE_S", 0.0)
    rate = 5.0 if objective == "price" else None
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512, rate_per_s=rate), slo=Slo(tpot_s=0.03))
    types = (GpuType.of("H200", stock=16, price=3), GpuType.of("H20", stock=16, price=1))
    instance = MeshInstance((demand,), types, objective, ("prefill", "decode"), most_pp=1)
    holds(instance, solve(instance, limits=Limits(stop=after(looks))), solve(instance).objective)


def test_an_answer_in_short_time_is_not_remembered() -> None:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=16),), "goodput", ("prefill", "decode"), most_pp=1)
    whole = solve(instance).canonical()
    for looks in (0, 20, 60, 200):
        again = fresh(instance)
        solve(again, limits=Limits(stop=after(looks)))
        assert solve(again).canonical() == whole


def test_whoever_interrupts_before_the_end_still_gets_the_answer_described() -> None:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=16),), "goodput", ("prefill", "decode"), most_pp=1)
    solve(instance)
    result = solve(instance, limits=Limits(stop=lambda: True))
    assert result.solution is not None and result.solution["ranking"] and result.solution["pareto"]


def test_parts_are_left_out_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "GRACE_S", 0.0)
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=16),), "goodput", ("prefill", "decode"), most_pp=1)
    partial.enumerated(instance, Deadline(3600.0))
    document = json.loads(solve(instance, limits=Limits(stop=lambda: True)).to_json())
    assert partial.left_out(document)
    named = [note for note in document["notes"] if note.startswith(partial.LEFT_OUT)]
    document["notes"] = [note for note in document["notes"] if note not in named]
    assert plan_faults(instance, document)[0]
    document["notes"], document["stop"] = named, "FINISHED"
    assert plan_faults(instance, document)[0]


def test_a_simulation_ends_with_the_clock() -> None:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=8),), "goodput", ("prefill", "decode"), most_pp=1)
    plan = solve(instance).plan
    with pytest.raises(OutOfTime), watching(Deadline(None, after(5))):
        simulate_plan(instance, plan, requests=50)


def test_a_floor_of_time_is_what_was_proved_until_then() -> None:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512, rate_per_s=300.0), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=64),), "time", most_pp=1)
    market = market_of(instance)
    whole = bounds.time_bound(market).value
    floors: list[Fraction] = []
    for looks in (0, 1, 5, 20, 100, 10**9):
        market.pruned.memo.clear()
        with watching(Deadline(None, after(looks))):
            found = bounds.time_bound(market)
        assert bounds.recheck(instance, found.certificate) == []
        floors.append(found.value)
    assert floors[-1] == whole and all(one <= whole for one in floors)


@pytest.mark.parametrize(("limits", "word"), [(Limits(stop=lambda: True), "it was interrupted"),
                                              (Limits(time_s=1e-9), "time ran out")])  # fmt: skip
def test_notes_say_which_end_it_was(monkeypatch: pytest.MonkeyPatch, limits: Limits, word: str) -> None:
    monkeypatch.setattr(partial, "GRACE_S", 0.0)
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=16),), "goodput", ("prefill", "decode"), most_pp=1)
    result = solve(instance, limits=limits)
    assert result.stop == ("INTERRUPTED" if limits.stop else "TIME")
    ends = [note for note in result.notes if "time ran out" in note or "interrupted" in note]
    assert ends and all(note.startswith(word) for note in ends)
    assert plan_faults(instance, json.loads(result.to_json()))[0] == []


def test_optimal_beside_interrupted_is_proved_and_names_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that says yes once plan and bound are there: what is known and what ended the answer are two questions."""
    monkeypatch.setattr(partial, "GRACE_S", 0.0)
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=16),), "goodput", ("decode",), most_pp=1)
    asked: list[bool] = []
    whole = solve(instance, limits=Limits(stop=lambda: bool(asked.append(True))))
    assert whole.status == "OPTIMAL" and whole.stop != "INTERRUPTED"
    both = []
    for looks in range(len(asked) - 1, len(asked) // 2, -max(len(asked) // 20, 1)):
        result = solve(fresh(instance), limits=Limits(stop=after(looks)))
        if (result.status, result.stop) == ("OPTIMAL", "INTERRUPTED"):
            both.append(result)
            assert result.objective == whole.objective == result.lower_bound
            assert result.certificate is not None and bounds.recheck(instance, result.certificate) == []
            assert plan_faults(instance, json.loads(result.to_json()))[0] == []
            assert any(note.startswith("it was interrupted, so these are left out: ") for note in result.notes)
    assert both
