"""Instances solved by hand, the exported programme, and the programme of the order."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings

from moeopt import microbatch
from moeopt.backends import BACKENDS, LinearModel, Worker, available_backends, solve_model, write_lp
from moeopt.backends import read_back as values_of
from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.microbatch import MicrobatchInstance, MicrobatchPlan, exact, order, verify
from moeopt.microbatch.document import load_instance
from moeopt.microbatch.simulate import simulate
from moeopt.result import Status, Stop
from tests.microbatch import strategies
from tests.microbatch.oracle import least_time

ROOT = Path(__file__).parents[2]
TINY = ROOT / "instances" / "tiny" / "microbatch"
OPTIMA = json.loads((TINY / "optima.json").read_text())["optima"]


@pytest.mark.parametrize("name", OPTIMA)
def test_instances_solved_by_hand(name: str) -> None:
    instance = load_instance(TINY / f"{name}.json")
    assert json.loads((TINY / f"{name}.json").read_text()) == json.loads(json.dumps(instance.to_dict()))
    best = microbatch.solve(instance, method="exact")
    assert best.status is Status.OPTIMAL
    assert best.objective == pytest.approx(OPTIMA[name], rel=1e-12)
    for method, known in microbatch.METHODS.items():
        if known.applies(instance) is None:
            result = microbatch.solve(instance, method=method)
            assert result.objective is not None and result.lower_bound is not None
            assert result.lower_bound <= OPTIMA[name] * (1 + 1e-12) and result.objective >= OPTIMA[name] * (1 - 1e-12)


def test_every_tiny_instance_has_an_optimum() -> None:
    assert {path.stem for path in TINY.glob("*.json")} - {"optima"} == set(OPTIMA)


def test_exported_programme_is_recreated_byte_for_byte_and_solved_by_all_to_the_same_optimum() -> None:
    problem = exact.build(load_instance(TINY / "pair.json")).problem
    kept = ROOT / "models" / "microbatch.lp"
    assert write_lp(problem) == kept.read_text()
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(kept))
    solver.run()
    assert solver.getInfo().objective_function_value == pytest.approx(OPTIMA["pair"])
    for backend in available_backends():
        answer = solve_model(LinearModel.from_pulp(problem), backend=backend)
        assert answer.objective == pytest.approx(OPTIMA["pair"])


def test_a_row_of_ones_own_can_be_added_to_the_programme() -> None:
    instance = load_instance(TINY / "hidden.json")
    model = exact.build(instance)
    problem, variables = model.to_pulp()
    problem += variables["z_4_4"] == 0, "not_four"
    linear = LinearModel.from_pulp(problem)
    answer = solve_model(linear)
    assert answer.values is not None
    assert exact.read_back(model, values_of(linear, answer.values)) == MicrobatchPlan(3, 3)


def test_start_values_satisfy_both_programmes() -> None:
    instance = load_instance(TINY / "better_order.json")
    model = exact.build(instance, scaled=True)
    linear = LinearModel.from_pulp(model.problem)
    start = exact.start_values(model, MicrobatchPlan(3, 3), instance)
    answer = solve_model(linear, start=[start[name] for name in linear.columns], limits=Limits(nodes=0))
    assert not any("not used" in note for note in answer.notes), answer.notes
    served, _ = verify.schedule(instance, MicrobatchPlan(3, 3))
    programme = order.build(served.graph, served.makespan, alike=True, scaled=True)
    linear = LinearModel.from_pulp(programme.problem)
    start = order.start_values(programme, served)
    answer = solve_model(linear, start=[start[name] for name in linear.columns], limits=Limits(nodes=0))
    assert not any("not used" in note for note in answer.notes), answer.notes


@pytest.mark.parametrize("backend", ["highs", "cbc"])
@settings(max_examples=10)
@given(instance=strategies.instances(max_m=3, max_layers=2, whole=True))
def test_back_ends_agree_on_the_best_order(backend: str, instance: MicrobatchInstance) -> None:
    if not BACKENDS[backend].available():
        pytest.skip(f"{backend} is not installed")
    one = instance.candidates[-1]
    served, ticks = verify.schedule(instance, MicrobatchPlan(one.m, one.batch))
    if served.graph.num_items > 12 or not served.makespan:
        return
    programme = order.build(served.graph, served.makespan, alike=len(set(one.sizes)) == 1, scaled=True)
    linear = LinearModel.from_pulp(programme.problem)
    answer = solve_model(linear, backend=backend)
    assert answer.objective is not None and answer.values is not None
    best = Fraction(least_time(instance.graph(one)))
    assert answer.objective * programme.scale / ticks == pytest.approx(float(best), rel=1e-6)
    sequences = order.read_back(programme, values_of(linear, answer.values))
    assert Fraction(simulate(served.graph, sequences=sequences).makespan) / ticks == best


def test_orders_that_are_too_large_are_left_open_and_said_so() -> None:
    times = {"attention": 0.4, "dispatch": 0.3, "experts": 0.5}
    result = microbatch.solve(MicrobatchInstance(times, layers=40, pattern="shared-link", m=[3, 4]), method="exact")
    assert result.status is Status.FEASIBLE and result.gap is not None and 0 < result.gap < 0.01
    assert any("was not searched" in note for note in result.notes)


def test_a_deadline_leaves_the_best_so_far() -> None:
    times = {"attention": 0.41, "dispatch": 0.32, "experts": 0.53}
    instance = MicrobatchInstance(times, layers=40, pattern="shared-link", m=range(1, 17))
    result = microbatch.solve(instance, method="simulate", limits=Limits(time_s=0.005))
    assert result.status is Status.FEASIBLE
    assert result.solution is not None and len(result.solution["sweep"]) < 16
    assert any("the time was up" in note for note in result.notes)


def test_a_worker_is_not_left_behind() -> None:
    with Worker() as worker:
        assert worker is not None
    microbatch.solve(load_instance(TINY / "one_link.json"), method="exact")


def test_a_limit_that_first_come_first_served_breaks_is_open_until_an_order_keeps_it() -> None:
    document = {**load_instance(TINY / "better_order.json").to_dict(), "tbt_slo_s": 15.5}
    instance = MicrobatchInstance.from_dict(document)
    served = microbatch.solve(instance, method="simulate")
    assert served.status is Status.UNKNOWN
    assert any("not proved" in note for note in served.notes)
    for method in ("exact", "auto"):
        result = microbatch.solve(instance, method=method)
        assert (result.status, result.objective) == (Status.OPTIMAL, 15.0)


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from moeopt.microbatch.heuristics import sweep

    instance = load_instance(TINY / "hidden.json")
    real, calls = sweep.form_of, []

    def pressed(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep, "form_of", pressed)
    result = microbatch.solve(instance)
    assert (result.stop, result.plan) == (Stop.INTERRUPTED, MicrobatchPlan(2, 2))
    assert "interrupted after 2 of 4 candidates" in result.notes


def test_candidates_that_time_does_not_reach_are_said() -> None:
    times = {"attention": 0.1, "dispatch": 0.05, "experts": 0.1}
    instance = MicrobatchInstance(times, layers=60, batches=range(12, 12 * 4001, 12))
    result = microbatch.solve(instance, limits=Limits(time_s=0.05))
    assert result.status is Status.FEASIBLE
    assert any("time was up" in note for note in result.notes)


def test_schedules_that_nobody_could_read_are_refused() -> None:
    times = {"attention": 1, "dispatch": 1, "experts": 1}
    scale = {"experts": [1] * 100}
    with pytest.raises(InstanceError, match="Use at most 50 layers at this m, or m of at most 500"):
        MicrobatchInstance(times, layers=100, m=[4, 1000], layer_scale=scale)
    with pytest.raises(InstanceError, match="Use at most 5,000"):
        MicrobatchInstance(times, layers=100, m=[4, 5001])
