"""Awkward input that has broken planners before, and the figures that published examples give."""

from __future__ import annotations

import math
from typing import Any

import pytest

from moeopt import microbatch
from moeopt.errors import InstanceError
from moeopt.microbatch import Linear, MicrobatchInstance, Transfer, published, verify
from moeopt.result import Result, Status

TIMES: dict[str, Any] = {"attention": 10, "dispatch": 4, "experts": 10}


def refusal(times: Any = TIMES, **fields: Any) -> str:
    with pytest.raises(InstanceError) as caught:
        MicrobatchInstance(times, **{"layers": 4, **fields})
    return str(caught.value)


def names(text: str, *words: str) -> None:
    missing = [word for word in words if word.lower() not in text.lower()]
    assert not missing, f"{missing} not in: {text}"


def sweep_times(result: Result) -> list[float]:
    assert result.solution is not None
    return [row["time_s"] for row in result.solution["sweep"]]


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["simulate", "closed_form", "exact", "auto", "lpt"])
def test_thirty_two_layers_take_896_906_978_and_1298(method: str) -> None:
    """vllm-project/vllm issue 56126; the value at m = 3 is where transfers are hidden."""
    result = microbatch.solve(MicrobatchInstance(TIMES, layers=32, m=[1, 2, 3, 4]), method=method)
    assert sweep_times(result) == [896, 906, 978, 1298]
    assert result.solution is not None and result.solution["fewest_m"]["ours"] == 3


def test_a_single_candidate_is_no_overlap_and_says_so() -> None:
    result = microbatch.solve(MicrobatchInstance(TIMES, layers=32, m=[1]))
    assert result.solution is not None and result.solution["time_s"] == 896
    assert any("no overlap with m = 1" in note for note in result.notes)


def test_forty_layers_of_the_lecture_s_exercise() -> None:
    times = {"attention": 0.4e-3, "dispatch": 0.3e-3, "experts": 0.5e-3}
    result = microbatch.solve(MicrobatchInstance(times, layers=40, m=[2, 3, 4]))
    assert sweep_times(result) == [60.5e-3, 61.0e-3, 81.0e-3]
    assert result.solution is not None
    assert result.solution["fewest_m"] == {"ours": 3, "published": 4, "micro_batch": 1}
    assert result.solution["published"]["valid"] and result.solution["m"] == 4
    assert result.solution["runner_up"]["m"] == 3
    assert result.status is Status.OPTIMAL


def test_two_layers_and_four_micro_batches_take_ten_and_keep_both_sides_busy_for_eight() -> None:
    result = microbatch.solve(MicrobatchInstance({"attention": 1, "dispatch": 0.5, "experts": 1}, layers=2, m=4))
    assert result.solution is not None
    assert result.solution["time_s"] == 10.0
    assert [result.solution["utilisation"][side] for side in result.solution["sides"]] == [0.8, 0.8]
    assert len(result.solution["timeline"]["items"]) == 2 * 4 * 4


def test_the_published_formula_is_flagged_where_it_is_wrong() -> None:
    times = {"attention": 1, "dispatch": 0.3, "experts": 1}
    result = microbatch.solve(MicrobatchInstance(times, layers=56, m=1))
    assert result.solution is not None
    found = result.solution["published"]
    assert (found["time_s"], found["valid"], result.solution["time_s"]) == (57.6, False, 145.6)


def test_hop_b_in_both_modes_of_latency() -> None:
    times = {"attention": Linear(0, 2.0), "exchange": Linear(4.0, 0.7)}
    both = {}
    for latency in ("per-message", "amortised"):
        instance = MicrobatchInstance(times, layers=1, pattern="hop-b", m=[1, 8], batches=8, latency=latency)  # type: ignore[arg-type]
        both[latency] = sweep_times(microbatch.solve(instance))
    assert both["per-message"] == [16 + 9.6, pytest.approx(2 + 8 * 4.7)]  # a message's latency eats the gain
    assert both["amortised"] == [16 + 9.6, pytest.approx(16 + 1.2)]


def test_halves_read_the_weights_twice_until_the_batch_is_large() -> None:
    times = {
        "attention": Linear(20e-6, 1e-6),
        "dispatch": Transfer(5e-6, 8 * 7168, 40e9),
        "experts": Linear(100e-6, 1e-6),
        "combine": Transfer(5e-6, 16 * 7168, 40e9),
    }
    instance = MicrobatchInstance(
        times, layers=58, pattern="dual", m=[1, 2], batches=range(16, 513, 16), objective="throughput"
    )
    solution = microbatch.solve(instance).solution
    assert solution is not None
    start = solution["overlap"]["pays_from"]
    assert start is not None and 16 < start <= 512
    rows = {(row["m"], row["batch"]): row["time_s"] for row in solution["sweep"]}
    assert rows[2, start] < rows[1, start] and rows[2, start - 16] >= rows[1, start - 16]


def test_more_chunks_stop_to_pay_where_each_costs_a_latency() -> None:
    times = {"dispatch": Linear(0.05, 1 / 64), "experts": Linear(0.05, 1 / 64)}
    instance = MicrobatchInstance(times, layers=1, pattern="chunks", m=[1, 2, 4, 8, 16, 32, 64], batches=64)
    result = microbatch.solve(instance)
    assert result.solution is not None and result.solution["m"] == 4
    assert result.solution["time_s"] == pytest.approx(1.5)
    assert result.solution["runner_up"]["m"] in (2, 8)


def test_throughput_under_a_limit_on_the_step_takes_the_largest_batch_that_keeps_it() -> None:
    times = {"attention": Linear(1e-4, 1e-6), "dispatch": Linear(1e-5, 1e-6), "experts": Linear(2e-4, 1e-6)}
    free = MicrobatchInstance(times, layers=60, m=[1, 2, 3, 4], batches=range(48, 1200, 48))
    tight = MicrobatchInstance(times, layers=60, m=[1, 2, 3, 4], batches=range(48, 1200, 48), tbt_slo_s=0.05)
    best, held = microbatch.solve(free).solution, microbatch.solve(tight).solution
    assert best is not None and held is not None
    assert held["time_s"] <= 0.05 < best["time_s"]
    allowed = [row for row in held["sweep"] if row["time_s"] <= 0.05]
    assert held["throughput"] == max(row["throughput"] for row in allowed)
    assert all(row["why_not"] == "tbt" for row in held["sweep"] if row["time_s"] > 0.05)


def test_another_order_can_beat_first_come_first_served_and_is_found() -> None:
    times = {"attention": 3, "dispatch": 3, "experts": 2, "combine": 1}
    instance = MicrobatchInstance(times, layers=1, pattern="shared-link", m=3)
    served, best = (microbatch.solve(instance, method=name) for name in ("simulate", "exact"))
    assert served.solution is not None and best.solution is not None
    assert (served.solution["time_s"], served.status) == (16, Status.FEASIBLE)
    assert (best.solution["time_s"], best.status) == (15, Status.OPTIMAL)
    assert best.solution["sequences"] is not None
    assert verify.evaluate(instance, best.plan).time == 15


def test_orders_by_lap_beat_first_come_first_served_where_it_pays_to_wait() -> None:
    times = {"attention": 1, "dispatch": 15, "experts": 8, "combine": 2}
    instance = MicrobatchInstance(times, layers=4, pattern="dual", m=2)
    found = {name: microbatch.solve(instance, method=name).solution for name in ("simulate", "lpt", "search", "exact")}
    assert {name: solution["time_s"] for name, solution in found.items() if solution} == {
        "simulate": 161,
        "lpt": 161,
        "search": 149,
        "exact": 149,
    }


# --- refused ----------------------------------------------------------------------------------------------------------


def test_negative_time_is_refused_by_its_letter() -> None:
    """ai-dynamo/aiconfigurator pull request 1597: a difference of two clocks."""
    names(refusal({"attention": 10, "dispatch": -1, "experts": 10}), "T_c", "-1", "two clocks")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, "4", 1e12])
def test_times_that_are_no_times_are_refused(value: Any) -> None:
    names(refusal({**TIMES, "experts": value}), "times[experts, T_e]")


@pytest.mark.parametrize(
    ("name", "value"), [("layers", 10**9), ("batches", 1_200_000), ("m", 10**30), ("micro_batch", 2e6)]
)
def test_a_number_too_large_is_told_the_largest(name: str, value: Any) -> None:
    with pytest.raises(InstanceError, match=rf"{name} = .* in 1..1,000,000. Use 1000000\.$"):
        MicrobatchInstance({"attention": 1e-3, "dispatch": 1e-3, "experts": 1e-3}, **{"layers": 2, name: value})


def test_everything_wrong_is_said_at_once() -> None:
    text = refusal(
        {"attention": -1, "dispatch": Transfer(0, 7168, 0), "expert": 1}, layers=0, m=[0, 2.5], tbt_slo_s=math.nan
    )
    names(
        text,
        "layers = 0",
        "T_a",
        "bandwidth",
        "0: a bandwidth",
        "expert: is not a stage",
        "m = 0",
        "m = 2.5",
        "tbt_slo_s",
        "missing",
    )


def test_more_micro_batches_than_tokens_are_refused() -> None:
    names(refusal(m=[2, 16], batches=[8]), "m = 16", "more micro-batches than tokens", "at most 8")


def test_a_batch_that_m_does_not_divide_is_refused_unless_said() -> None:
    names(refusal(m=[4], batches=[10]), "m = 4", "divides none", "8 or 12", "uneven")
    instance = MicrobatchInstance(TIMES, layers=4, m=[4], batches=[10], uneven=True)
    assert instance.candidates[0].sizes == (3, 3, 2, 2) and not instance.even
    names(str(microbatch.METHODS["closed_form"].applies(instance)), "uneven", "simulate")
    assert microbatch.solve(instance).solution is not None


def test_a_batch_without_a_partner_is_refused() -> None:
    names(refusal(m=[2, 4], batches=[8, 9]), "batches = 9", "into none of m = 2, 4")


def test_a_default_that_does_not_fit_is_left_out_with_a_note() -> None:
    instance = MicrobatchInstance(TIMES, layers=4, batches=[8])
    assert instance.m == (1, 2, 4)
    assert any("m = 3 is left out" in note for note in instance.notes)


def test_a_step_faster_than_possible_is_infeasible_and_says_the_best_possible() -> None:
    result = microbatch.solve(MicrobatchInstance(TIMES, layers=32, tbt_slo_s=800.0))
    assert result.status is Status.INFEASIBLE
    names(str(result.conflicts[0]["message"]), "800", "896", "m = 1", "best possible")


def test_memory_for_no_batch_is_infeasible_and_says_how_many_fit() -> None:
    instance = MicrobatchInstance(TIMES, layers=4, m=[2], batches=[8], bytes_per_sequence=1e9, memory_bytes=7e9)
    result = microbatch.solve(instance)
    assert result.status is Status.INFEASIBLE
    names(str(result.conflicts[0]["message"]), "room for 7", "8e+09")


def test_half_a_memory_rule_is_refused() -> None:
    names(refusal(memory_bytes=1e9), "bytes_per_sequence", "Give both")


@pytest.mark.parametrize("field", ["pattern", "latency", "objective"])
def test_unknown_words_are_refused(field: str) -> None:
    names(refusal(**{field: "quick"}), field, "quick")


def test_amortised_latency_is_for_hop_b_only() -> None:
    names(refusal(latency="amortised"), "hop-b")


# --- published rules --------------------------------------------------------------------------------------------------


def test_the_published_rule_has_no_answer_where_only_links_take_time() -> None:
    assert published.fewest_m(0, 1, 0, 1) is None
    assert published.fewest_m(0, 0, 0, 0) == 2


def test_a_policy_of_ones_own_is_judged_like_ours() -> None:
    def mine(instance: MicrobatchInstance, limits: Any, seed: int) -> Any:
        """The first candidate."""
        return instance.candidates[0].m, instance.candidates[0].batch

    microbatch.register("mine", mine)
    try:
        compared = microbatch.compare(MicrobatchInstance(TIMES, layers=32), ["lpt", "auto", "mine"])
        assert compared.best == "lpt"
        assert "mine" in str(compared)
        worse = compared.rows[-1].result
        assert worse is not None and worse.solution is not None
        assert "not the best of the candidates" in worse.solution["runner_up"]["reason"]
    finally:
        del microbatch.METHODS["mine"]
