"""What holds for every micro-batch method: the list of laws, looped over all that are registered.

Struck from the list: permuting micro-batches (their sizes follow from m and the batch, there is nothing to permute);
``extra load never helps`` for first come first served on a shared resource, where a longer stage can change the order
for the better: it is tested for the bounds and for work served in turn. ``exact`` may start a solver's process and is
tried on one example in twenty.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from moeopt import microbatch
from moeopt.errors import InstanceError, PlanError
from moeopt.microbatch import METHODS, MicrobatchInstance, MicrobatchPlan, bounds, closed_forms, verify
from moeopt.result import Result, Status
from tests.microbatch import strategies
from tests.microbatch.oracle import least_time

ROOT = Path(__file__).parents[2]


def applicable(instance: MicrobatchInstance) -> Iterator[str]:
    for name, method in METHODS.items():
        quick = name != "exact" or int(instance.sha256, 16) % 20 == 0
        if quick and method.claim != "plug-in" and method.applies(instance) is None:
            note(f"method {name}")
            yield name


def solved(instance: MicrobatchInstance) -> Iterator[tuple[str, Result]]:
    for name in applicable(instance):
        yield name, microbatch.solve(instance, method=name)


def small(instance: MicrobatchInstance) -> bool:
    """Whether all orders can be tried."""
    return max(instance.graph(one).num_items for one in instance.candidates) <= 12


def optimum(instance: MicrobatchInstance) -> Fraction:
    """By trying every order of every candidate."""
    values = [verify.worth(instance, one, Fraction(least_time(instance.graph(one)))) for one in instance.candidates]
    return min(values)


@given(strategies.instances())
def test_every_solution_is_accepted_and_its_figures_are_the_referee_s(instance: MicrobatchInstance) -> None:
    for _, result in solved(instance):
        judged = verify.evaluate(instance, result.plan)
        assert result.objective == float(judged.objective)
        assert result.solution is not None
        assert result.solution["time_s"] == float(judged.time)
        assert all(0 <= part <= 1 for part in result.solution["utilisation"].values())
        ends = [row[-1] for row in result.solution["timeline"]["items"]]
        assert max(ends, default=0.0) == result.solution["time_s"]
        result.to_json()


@given(strategies.instances(), st.data())
def test_damaged_plans_are_refused(instance: MicrobatchInstance, data: st.DataObject) -> None:
    plan = microbatch.solve(instance).plan
    with pytest.raises(PlanError, match="candidates"):
        verify.evaluate(instance, MicrobatchPlan(plan.m + 100, plan.batch))
    done, _ = verify.schedule(instance, plan)
    rows = [list(row) for row in done.sequences]
    broken = data.draw(st.sampled_from(rows))
    lost = broken.pop()
    with pytest.raises(PlanError, match="each of its"):
        verify.evaluate(instance, MicrobatchPlan(plan.m, plan.batch, tuple(map(tuple, rows))))
    broken += [broken[-1] if broken else lost, lost]
    with pytest.raises(PlanError, match="each of its"):
        verify.evaluate(instance, MicrobatchPlan(plan.m, plan.batch, tuple(map(tuple, rows))))
    if instance.graph(candidate_of(plan)).num_items > len(rows[0]) > 1 and instance.layers > 1:
        backwards = tuple(tuple(reversed(row)) for row in done.sequences)
        with pytest.raises(PlanError, match="wait for one another"):
            verify.evaluate(instance, MicrobatchPlan(plan.m, plan.batch, backwards))


def candidate_of(plan: MicrobatchPlan) -> microbatch.Candidate:
    return microbatch.Candidate(plan.m, plan.batch)


@given(strategies.instances())
def test_bounds_lie_below_everything_and_their_certificates_hold(instance: MicrobatchInstance) -> None:
    for _, result in solved(instance):
        assert result.lower_bound is not None and result.objective is not None
        assert result.lower_bound <= result.objective
        certificate = dict(result.certificate or {})
        assert verify.recheck(instance, certificate.get("certified", certificate)) == []
        if result.status is Status.OPTIMAL:
            tolerance = 1e-9 if result.bound_kind == "certified" else 1e-6
            assert result.objective - result.lower_bound <= tolerance * result.objective


@given(strategies.instances())
def test_certificates_that_claim_more_are_refused(instance: MicrobatchInstance) -> None:
    certificate = dict(microbatch.solve(instance).certificate or {})
    worse = {**certificate, "value": str(Fraction(certificate["value"]) + 1)}
    assert verify.recheck(instance, worse)
    rows = [
        [m, batch, kind, where, str(Fraction(value) * 2 + 1)] for m, batch, kind, where, value in worse["candidates"]
    ]
    assert verify.recheck(instance, {**worse, "candidates": rows})
    assert "no argument" in verify.recheck(instance, {**worse, "candidates": []})[0]


@given(strategies.instances(max_m=3, max_layers=3, whole=True))
def test_no_order_beats_a_bound(instance: MicrobatchInstance) -> None:
    for one in instance.candidates:
        graph = instance.graph(one)
        if graph.num_items <= 9:
            least = least_time(graph)
            assert all(argument.seconds <= least for argument in bounds.arguments(graph))
            assert bounds.bound(instance, one).seconds <= least


@given(strategies.instances())
def test_short_cuts_of_bounds_say_what_the_stage_graph_says(instance: MicrobatchInstance) -> None:
    for one in instance.candidates:
        general = max(argument.seconds for argument in bounds.arguments(instance.graph(one)))
        assert bounds.bound(instance, one).seconds == general


@settings(max_examples=20)
@given(strategies.instances(max_m=3, max_layers=2, whole=True))
def test_exact_equals_trying_every_order(instance: MicrobatchInstance) -> None:
    if not small(instance):
        return
    best = optimum(instance)
    result = microbatch.solve(instance, method="exact")
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(float(best), rel=1e-6, abs=1e-9)
    for name in applicable(instance):
        other = microbatch.solve(instance, method=name)
        assert other.objective is not None and other.objective >= float(best) * (1 - 1e-12)


@given(strategies.instances(alike=True, patterns=("ping-pong", "chunks", "waves", "hop-b")))
def test_formula_first_come_first_served_and_bound_are_one(instance: MicrobatchInstance) -> None:
    for one in instance.candidates:
        form = closed_forms.form_of(instance, one)
        assert form is not None
        done, ticks = verify.schedule(instance, MicrobatchPlan(one.m, one.batch))
        assert Fraction(done.makespan) / ticks == form.time == bounds.bound(instance, one).seconds
    assert microbatch.solve(instance, method="closed_form").status is Status.OPTIMAL


@given(strategies.instances(), st.integers(2, 1000))
def test_times_k_times_as_long_take_k_times_as_long(instance: MicrobatchInstance, factor: int) -> None:
    graph = instance.graph(instance.candidates[0])
    scaled = {
        stage: [time * factor for time in row] for stage, row in instance.durations(instance.candidates[0]).items()
    }
    longer = verify.in_ticks(type(graph)(instance.kind.build(scaled), graph.layers, graph.scale))
    done, ticks = verify.schedule(instance, MicrobatchPlan(instance.candidates[0].m, instance.candidates[0].batch))
    other = microbatch_time(longer)
    assert other == factor * Fraction(done.makespan) / ticks


def microbatch_time(graph_and_ticks: tuple[object, int]) -> Fraction:
    from moeopt.microbatch.simulate import simulate

    graph, ticks = graph_and_ticks
    return Fraction(simulate(graph).makespan) / ticks  # type: ignore[arg-type]


@given(strategies.instances(), st.data())
def test_fewer_candidates_are_never_better(instance: MicrobatchInstance, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(instance.m), min_size=1, unique=True))
    document = {**instance.to_dict(), "m": kept}
    try:
        fewer = MicrobatchInstance.from_dict(document)
    except InstanceError:
        return  # a batch has no partner left
    for name in ("simulate", "lpt"):
        ours, theirs = (microbatch.solve(one, method=name).objective for one in (instance, fewer))
        assert ours is not None and theirs is not None and ours <= theirs


@given(strategies.instances(), st.data())
def test_longer_stages_never_lower_a_bound_or_a_time_in_turn(instance: MicrobatchInstance, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(instance.candidates))
    stage = data.draw(st.sampled_from(list(instance.times)))
    times = instance.durations(one)
    graph = instance.graph(one)
    longer = {**times, stage: [time + Fraction(1, 3) for time in times[stage]]}
    other = type(graph)(instance.kind.build(longer), graph.layers, graph.scale)
    low, high = (max(found.seconds for found in bounds.arguments(each)) for each in (graph, other))
    assert low <= high
    if graph.lap.in_turn:
        assert microbatch_time(verify.in_ticks(graph)) <= microbatch_time(verify.in_ticks(other))


@given(strategies.instances(), st.booleans())
def test_written_and_read_is_the_same(instance: MicrobatchInstance, named: bool) -> None:
    document = {**instance.to_dict(), "name": "x" if named else ""}
    again = MicrobatchInstance.from_dict(document)
    assert again.to_dict() == document
    assert again.sha256 == instance.sha256
    assert [again.graph(one).durations for one in again.candidates] == [
        instance.graph(one).durations for one in instance.candidates
    ]
    with pytest.raises(InstanceError, match="Did you mean layers"):
        MicrobatchInstance.from_dict({**document, "layer": 3})
    with pytest.raises(InstanceError, match="microbatch-instance/1"):
        MicrobatchInstance.from_dict({**document, "schema": "moeopt/microbatch-instance/2"})


@given(strategies.instances(max_m=3, max_layers=3), st.data())
def test_answers_are_steady_and_a_warm_start_never_ends_worse(
    instance: MicrobatchInstance, data: st.DataObject
) -> None:
    before = instance.to_dict()
    one = data.draw(st.sampled_from(instance.candidates))
    start = verify.evaluate(instance, MicrobatchPlan(one.m, one.batch)).objective
    for name, result in solved(instance):
        again = microbatch.solve(instance, method=name)
        assert again.canonical() == result.canonical()
        warm = microbatch.solve(instance, method=name, seed=5, warm_start=(one.m, one.batch))
        assert warm.objective is not None and result.objective is not None
        assert warm.objective <= min(float(start), result.objective)
    assert instance.to_dict() == before


FRESH = """
from moeopt import microbatch
times = {"attention": 0.4e-3, "dispatch": 0.3e-3, "experts": 0.5e-3}
instance = microbatch.MicrobatchInstance(times, layers=3, pattern="shared-link", m=[2, 3])
for method in ("simulate", "lpt", "exact", "auto"):
    print(microbatch.solve(instance, method=method).canonical().decode())
"""


def test_a_fresh_process_gives_the_same_bytes() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", FRESH],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout and runs[0].stdout.count("\n") == 4


@given(strategies.instances(max_layers=1, max_m=1))
def test_one_micro_batch_in_one_layer_takes_the_sum_of_its_times(instance: MicrobatchInstance) -> None:
    result = microbatch.solve(instance)
    one = candidate_of(result.plan)
    assert verify.evaluate(instance, result.plan).time == sum(instance.graph(one).durations)
    assert any("no overlap with m = 1" in note for note in result.notes)


def test_no_time_at_all_is_a_step_of_no_time() -> None:
    for pattern, kind in microbatch.PATTERNS.items():
        instance = MicrobatchInstance(dict.fromkeys(kind.stages, 0), layers=3, pattern=pattern, m=[1, 2, 3])
        for name, method in METHODS.items():
            if method.applies(instance) is not None:
                continue
            result = microbatch.solve(instance, method=name)
            assert (result.objective, result.status) == (0.0, Status.OPTIMAL), (pattern, name)
            assert result.solution is not None and result.solution["throughput"] is None
