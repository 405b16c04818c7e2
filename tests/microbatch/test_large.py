"""Steps and lists that are too long to be gone through one by one; limits that bind while they are."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest
from hypothesis import given

from moeopt import microbatch
from moeopt.errors import InstanceError, PlanError
from moeopt.limits import Limits
from moeopt.microbatch import Linear, MicrobatchInstance, MicrobatchPlan, verify
from moeopt.microbatch.heuristics import search as searching
from moeopt.microbatch.periodic import TooLong, fcfs_laps
from moeopt.microbatch.written_plan import written_faults
from moeopt.result import Status, Stop
from tests.microbatch import strategies

FOUR: dict[str, Any] = {"attention": 0.4, "dispatch": 0.3, "experts": 0.5}
LINK = {"attention": 3, "dispatch": 3, "experts": 2, "combine": 1}


@given(strategies.instances(max_layers=40, max_m=5))
def test_layers_of_a_long_step_are_those_of_the_whole_schedule(instance: MicrobatchInstance) -> None:
    for one in instance.candidates if instance.layer_scale is None else ():
        done, _ = verify.schedule(instance, MicrobatchPlan(one.m, one.batch))
        laps = fcfs_laps(done.graph)
        whole = {shown[:3]: shown[3:] for shown in done.shown()}
        assert laps.makespan == done.makespan and laps.busy() == done.busy()
        assert {shown[:3]: shown[3:] for shown in laps.shown()} == {
            place: times for place, times in whole.items() if place[0] in laps.layers
        }


def test_a_million_layers_are_answered_where_they_repeat() -> None:
    result = microbatch.solve(MicrobatchInstance(FOUR, layers=10**6))
    assert result.status is Status.OPTIMAL and result.solution is not None
    assert result.solution["time_s"] == pytest.approx(4 * 0.5 * 10**6 + 1.0)
    drawn = result.solution["timeline"]
    assert {0, 1, 10**6 - 1} <= set(drawn["layers"]) == {row[2] for row in drawn["items"]}
    assert max(row[-1] for row in drawn["items"]) == result.solution["time_s"]
    assert written_faults(result.to_dict(), "plan")[0] == []


def test_a_long_step_that_does_not_repeat_itself_is_judged_by_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, plan = MicrobatchInstance({**FOUR, "dispatch": 1 / 3}, layers=10**6, m=3), MicrobatchPlan(3, 3)
    by_laps = verify.evaluate(instance, plan)

    def too_long(graph: object) -> None:
        raise TooLong

    monkeypatch.setattr(verify, "fcfs_laps", too_long)
    by_formula = verify.evaluate(instance, plan)
    assert by_formula.time == by_laps.time and by_formula.throughput == by_laps.throughput
    with pytest.raises(PlanError, match="and they do not repeat themselves"):
        verify.evaluate(MicrobatchInstance(LINK, layers=10**6, pattern="dual", m=3), plan)


@pytest.mark.parametrize("pattern", ["shared-link", "dual"])
def test_a_million_layers_without_a_formula_are_jumped_over(pattern: str) -> None:
    both = [
        microbatch.solve(MicrobatchInstance(LINK, layers=layers, pattern=pattern, m=3)).solution
        for layers in (10**6, 2 * 10**5, 10**5)
    ]
    times = [solution["time_s"] for solution in both if solution is not None]
    assert times[0] - times[1] == pytest.approx(8 * (times[1] - times[2]), rel=1e-6)


def test_a_long_step_of_layers_that_differ_is_refused_with_the_most_layers() -> None:
    with pytest.raises(InstanceError, match="Use at most 12,500 layers at this m"):
        MicrobatchInstance(FOUR, layers=10**5, m=4, layer_scale={"experts": [1] * 10**5})


def test_lpt_says_why_it_does_not_apply_to_a_long_step() -> None:
    reason = microbatch.METHODS["lpt"].applies(MicrobatchInstance(FOUR, layers=10**6))
    assert reason is not None and "16,000,000; use search" in reason


@pytest.mark.parametrize("many", [range(1, 10**12), range(1, 10**40), range(1, 10**6)])
def test_lists_without_end_are_refused(many: range) -> None:
    with pytest.raises(InstanceError, match=r"m = 1, 2, \.\.\.: must be at most 100,000 numbers"):
        MicrobatchInstance(FOUR, layers=4, m=many)
    with pytest.raises(InstanceError, match="must be at most 100,000 numbers"):
        MicrobatchInstance(FOUR, layers=4, batches=many)
    with pytest.raises(InstanceError, match="more than 2,000,000 pairs"):
        MicrobatchInstance(FOUR, layers=4, m=range(1, 2000), batches=range(1, 2000))


def test_many_candidates_are_told_apart_quickly() -> None:
    start = time.process_time()
    with pytest.raises(InstanceError, match="208,333 pairs"):
        MicrobatchInstance(FOUR, layers=3, batches=range(1, 100_001))
    assert time.process_time() - start < 60


@pytest.mark.parametrize("method", ["search", "simulate", "lpt", "exact"])
def test_a_limit_holds_in_sweeps_of_large_uneven_candidates(method: str) -> None:
    times = {"attention": Linear(1.0, 0.1), "dispatch": 0.3, "experts": 1.0}
    instance = MicrobatchInstance(times, layers=61, m=range(40, 101), batches=100_000, uneven=True)
    result = microbatch.solve(instance, method=method, limits=Limits(time_s=0.5))
    assert result.plan is not None and result.runtime_s < 60  # without limit: minutes
    assert result.lower_bound is not None and result.lower_bound > 0
    assert result.stop is Stop.TIME or result.status is Status.OPTIMAL


def test_a_hook_ends_a_sweep_with_the_best_so_far() -> None:
    event = Event()
    event.set()
    instance = MicrobatchInstance(FOUR, layers=61, pattern="shared-link", m=range(1, 40))
    for method in ("search", "simulate", "lpt", "exact"):
        result = microbatch.solve(instance, method=method, limits=Limits(stop=event.is_set))
        assert (result.stop, result.plan is not None) == (Stop.INTERRUPTED, True), method


def test_an_interrupt_while_orders_or_bounds_are_looked_at_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    instance = MicrobatchInstance(LINK, layers=3, pattern="shared-link", m=[2, 3])
    monkeypatch.setattr(searching, "orders", pressed)
    result = microbatch.solve(instance)
    assert (result.stop, result.plan is not None) == (Stop.INTERRUPTED, True)


def test_an_interrupt_while_the_answer_is_judged_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    from moeopt.microbatch import describe

    real, calls = describe.solution, []

    def pressed(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(describe, "solution", pressed)
    result = microbatch.solve(MicrobatchInstance(FOUR, layers=4))
    assert (result.stop, result.status) == (Stop.INTERRUPTED, Status.OPTIMAL)
    assert written_faults(result.to_dict(), "plan")[0] == []


def test_time_that_is_up_before_the_bounds_says_time() -> None:
    from moeopt.limits import Deadline
    from moeopt.microbatch.problem import _proved
    from moeopt.registry import Context

    instance = MicrobatchInstance(FOUR, layers=3, batches=range(12, 12 * 1001, 12))
    limits = Limits(time_s=1e-9)
    proved, why = _proved(instance, instance.candidates[0], Context(limits, 0, Deadline(1e-9)))
    assert (len(proved) < len(instance.candidates), why) == (True, Stop.TIME)


def test_functions_that_fail_are_named_with_their_stage_and_size() -> None:
    def broken(tokens: int) -> Any:
        raise ZeroDivisionError("no such size")

    with pytest.raises(InstanceError) as caught:
        MicrobatchInstance({**FOUR, "experts": broken, "attention": lambda tokens: "x"}, layers=3, batches=[4, 8])
    said = str(caught.value)
    assert "times[experts, the function's value at 1 tokens] = none: the function failed with ZeroDivisionError" in said
    assert "times[attention, the function's value at 1 tokens] = 'x': must be a number of seconds" in said


def test_all_faults_are_said_in_one_go() -> None:
    with pytest.raises(InstanceError) as caught:
        MicrobatchInstance(
            {"attention": -1, "dispatch": lambda tokens: "x", "experts": 1},
            layers=2,
            m=[3, 4],
            batches=[8],
            layer_scale={"experts": [1]},
            tbt_slo_s=-1,
        )
    said = str(caught.value)
    for part in ("T_a", "dispatch, the function", "m = 3", "layer_scale[experts]", "tbt_slo_s"):
        assert part in said, part


def test_the_largest_m_tried_is_noted_where_more_could_help() -> None:
    edge = "is the largest m tried"
    four = MicrobatchInstance(FOUR, layers=40)
    assert f"m = 4 {edge}; m = 5 may be better" in microbatch.solve(four).notes
    few = MicrobatchInstance(FOUR, layers=40, batches=4)  # constant times: cutting does not pay
    one = MicrobatchInstance(FOUR, layers=40, m=4)  # nobody asked for a range
    most = MicrobatchInstance({stage: Linear(0, 1.0) for stage in FOUR}, layers=4, batches=4)  # no more tokens to part
    for instance in (few, one, most):
        assert not any(edge in note for note in microbatch.solve(instance).notes)
