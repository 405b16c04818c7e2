"""Every line describes the plan that is answered, and the sweep has the best known of every candidate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from moeopt import microbatch
from moeopt.limits import Limits
from moeopt.microbatch import MicrobatchInstance, MicrobatchPlan, verify
from moeopt.microbatch.describe import cycle
from moeopt.result import Status
from tests.microbatch import strategies

DUAL = {"attention": 1, "dispatch": 15, "experts": 8, "combine": 2}
TIGHT = {"attention": 4, "dispatch": 4, "experts": 6}
FOUR = {"attention": 0.4, "dispatch": 0.3, "experts": 0.5}


def solution(instance: MicrobatchInstance, **options: Any) -> dict[str, Any]:
    found = microbatch.solve(instance, **options).solution
    assert found is not None
    return dict(found)


def test_the_cycle_of_an_order_of_its_own_is_what_one_more_layer_costs() -> None:
    found = {
        layers: solution(MicrobatchInstance(DUAL, layers=layers, pattern="dual", m=2)) for layers in (4, 5, 6, 7, 20)
    }
    assert {layers: one["time_s"] for layers, one in found.items()} == {4: 149, 5: 185, 6: 221, 7: 257, 20: 725}
    assert {one["cycle_s"] for one in found.values()} == {36}
    assert {one["sweep"][0]["cycle_s"] for one in found.values()} == {36}


def test_a_published_formula_is_held_against_the_plan() -> None:
    published = solution(MicrobatchInstance(DUAL, layers=4, pattern="dual", m=2))["published"]
    assert published["error"] == (published["time_s"] - 149) / 149


def test_the_sweep_and_the_second_best_have_the_best_order_known() -> None:
    found = solution(MicrobatchInstance(DUAL, layers=4, pattern="dual", m=[1, 2, 3]))
    assert [(row["time_s"], row["order"]) for row in found["sweep"]] == [(104, "fcfs"), (149, "own"), (211, "own")]
    assert (found["time_s"], found["runner_up"]["m"], found["runner_up"]["time_s"]) == (211, 2, 149)
    assert found["runner_up"]["order"] == "own"


def test_a_limit_that_only_another_order_keeps_bars_nothing() -> None:
    found = solution(MicrobatchInstance(DUAL, layers=4, pattern="dual", m=[1, 2], tbt_slo_s=150.0))
    assert (found["m"], [row["why_not"] for row in found["sweep"]]) == (2, ["", ""])


@given(strategies.instances())
def test_no_row_is_better_than_the_answer_and_none_is_worse_than_its_order(instance: MicrobatchInstance) -> None:
    result = microbatch.solve(instance)
    assert result.solution is not None and result.objective is not None
    rows = {(row["m"], row["batch"]): row for row in result.solution["sweep"]}
    assert rows[result.plan.m, result.plan.batch]["time_s"] == result.solution["time_s"]
    per_token = instance.objective == "throughput"
    worths = [row["time_s"] / (row["batch"] if per_token else 1) for row in rows.values()]
    assert min(worths) >= result.objective * (1 - 1e-12)
    for row in rows.values():
        if row["sequences"] is not None:
            plan = MicrobatchPlan(row["m"], row["batch"], tuple(map(tuple, row["sequences"])))
            assert float(verify.evaluate(instance, plan).time) == row["time_s"]


@given(strategies.instances(patterns=("ping-pong", "dual"), max_m=2, alike=True))
def test_the_cycle_of_listed_sequences_is_that_of_the_formula(instance: MicrobatchInstance) -> None:
    longer = MicrobatchInstance.from_dict({**instance.to_dict(), "layers": 6})
    for one in longer.candidates:
        plan = MicrobatchPlan(one.m, one.batch)
        done, _ = verify.schedule(longer, plan)
        listed = MicrobatchPlan(one.m, one.batch, done.sequences)
        assert cycle(longer, one, listed) == pytest.approx(cycle(longer, one, plan))


def test_that_overlap_does_not_pay_is_said_only_where_it_was_tried() -> None:
    alone = solution(MicrobatchInstance(FOUR, layers=4, m=1))
    assert (alone["overlap"], alone["overlap_reason"]) == (None, "only m = 1 was looked at")
    short = solution(MicrobatchInstance(FOUR, layers=4), limits=Limits(time_s=1e-6))
    assert len(short["sweep"]) == 1
    assert (short["overlap"], short["overlap_reason"]) == (None, "only m = 1 was looked at")
    without = solution(MicrobatchInstance(FOUR, layers=4, m=[2, 3]))
    assert (without["overlap"], without["overlap_reason"]) == (None, "m = 1 was not looked at")
    tried = solution(MicrobatchInstance(FOUR, layers=4, batches=8))
    assert tried["overlap"] == {"gain": 0.0, "pays_from": None}


def test_a_limit_that_no_order_keeps_is_infeasible_by_a_solver_s_word() -> None:
    instance = MicrobatchInstance(TIGHT, layers=2, pattern="shared-link", m=2, tbt_slo_s=43.0)
    served = microbatch.solve(instance)
    assert (served.status, served.lower_bound) == (Status.UNKNOWN, None)
    result = microbatch.solve(instance, method="exact")
    assert (result.status, result.bound_kind) == (Status.INFEASIBLE, "solver")
    assert result.conflicts[0]["best"] == pytest.approx(44) and result.lower_bound == pytest.approx(22)
    assert "44 s with m = 2 and a batch of 2" in result.conflicts[0]["message"]


def test_the_best_possible_is_the_bound_of_every_order() -> None:
    result = microbatch.solve(MicrobatchInstance(TIGHT, layers=2, pattern="shared-link", m=2, tbt_slo_s=41.0))
    assert (result.status, result.conflicts[0]["best"], result.conflicts[0]["shortfall"]) == (Status.INFEASIBLE, 42, 1)


def test_a_plan_behind_the_best_order_known_says_so() -> None:
    instance = MicrobatchInstance({"attention": 3, "dispatch": 3, "experts": 2, "combine": 1}, layers=1, m=3)
    done, _ = verify.schedule(instance, MicrobatchPlan(3, 3))
    backwards = tuple(tuple(reversed(row)) for row in done.sequences)

    def mine(instance: MicrobatchInstance, limits: Any, seed: int) -> Any:
        """The same, the last first; with one layer that is no slower."""
        return MicrobatchPlan(3, 3, backwards)

    microbatch.register("mine", mine)
    try:
        result = microbatch.solve(instance, method="mine")
        assert result.solution is not None and result.solution["sweep"][0]["order"] == "fcfs"
        assert result.solution["sequences"] is not None
    finally:
        del microbatch.METHODS["mine"]


def test_reasons_have_their_numbers() -> None:
    second = solution(MicrobatchInstance(FOUR, layers=40, m=[2, 3, 4]))["runner_up"]
    assert second["why"]["kind"] == "ends" and "3 parts of 1 token " in second["reason"]
    times = {"attention": 1, "dispatch": 0.2, "experts": 1}
    second = solution(MicrobatchInstance(times, layers=40, m=[1, 2], batches=4))["runner_up"]
    assert second["why"] == {"kind": "transfers", "tokens": 2, "theirs": pytest.approx(2 / 2.4), "ours": None}
