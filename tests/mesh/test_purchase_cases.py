"""Purchases that are known by hand, and what is said where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from moeopt import mesh
from moeopt.errors import InstanceError, NotApplicable, PlanError
from moeopt.limits import Limits
from moeopt.mesh import METHODS, Config, Demand, Memory, MeshInstance, Shape, Slo, Workload
from moeopt.result import Status
from tests.mesh.oracle import best
from tests.mesh.strategies import LLMS, config, gpu_type

TINY = Path(__file__).parents[2] / "instances" / "tiny" / "mesh"
POOLS = ("prefill", "decode")


def budget(stock: int | None = 32, objective: Any = "goodput", rate: float | None = None) -> MeshInstance:
    """Prefill replicas of 8 GPUs and decode replicas of 2, each good for 10 requests a second."""
    pools = (config(0, "prefill", {"H100": 8}, 10, name="P"), config(0, "decode", {"H100": 2}, 10, name="D"))
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=rate))
    return MeshInstance((demand,), (gpu_type("H100", stock),), objective, POOLS, configs=pools)


@pytest.mark.parametrize("method", ["per_price", "covering", "exact", "auto"])
def test_gpus_are_a_cap_and_idle_ones_are_named(method: str) -> None:
    result = mesh.solve(budget(), method=method)
    assert result.solution is not None
    assert {pool["label"]: pool["replicas"] for pool in result.solution["pools"]} == {"P": 3, "D": 3}
    assert (result.solution["rate_per_s"], result.solution["total_gpus"]) == (30.0, 30)
    assert result.solution["idle_gpus"] == {"H100": 2}
    assert any("2 of 32 H100 stay idle" in note for note in result.notes)
    assert result.status is Status.OPTIMAL and result.objective == pytest.approx(1 / 30, rel=1e-15)


def test_the_rate_of_a_budget_needs_just_that_budget() -> None:
    needed = mesh.solve(budget(None, "gpus", 30.0))
    assert (needed.objective, needed.status, needed.bound_kind) == (30.0, Status.OPTIMAL, "certified")
    assert mesh.solve(budget(None, "gpus", 30.000001)).objective == 40.0
    assert mesh.solve(budget(30, "goodput")).solution["rate_per_s"] == 30.0  # type: ignore[index]
    assert mesh.solve(budget(29, "goodput")).solution["rate_per_s"] == 20.0  # type: ignore[index]


def test_what_more_gpus_would_serve_is_said() -> None:
    told = mesh.solve(budget()).solution["sensitivity"]  # type: ignore[index]
    assert told["curve"] == [[10, 10.0], [20, 20.0], [30, 30.0]] and told["next_gpus"] == 40
    assert told["gpu_worth"] == {"H100": pytest.approx(1.0)}


def three(slo: Slo) -> MeshInstance:
    times = {"A": (0.9, 0.012, 5000), "B": (0.4, 0.020, 4000), "C": (0.3, 0.014, 2500)}
    listed = tuple(
        config(0, "colocated", {"H100": 8}, tokens / 10, name=name, ttft_s=ttft, tpot_s=tpot, tokens_per_s=tokens)
        for name, (ttft, tpot, tokens) in times.items()
    )
    return MeshInstance(
        (Demand(LLMS[0], Workload(100, 10), slo),), (gpu_type("H100", 8),), "goodput", ("colocated",), configs=listed
    )


def test_a_service_level_nobody_keeps_names_the_closest_and_stays() -> None:
    instance = three(Slo(tpot_s=0.005))
    result = mesh.solve(instance)
    assert result.status is Status.INFEASIBLE
    (conflict,) = result.conflicts
    assert all(word in conflict["message"] for word in ("5 ms", "12 ms", "A", "left as it was given"))
    assert (conflict["rule"], conflict["closest"], conflict["best"]) == ("tpot_s", "A", 0.012)
    assert instance.demands[0].slo.tpot_s == 0.005
    assert mesh.solve(three(Slo(tpot_s=0.012))).plan.pools[0].config.name == "A"
    assert mesh.solve(three(Slo(ttft_s=0.5))).plan.pools[0].config.name == "B"


def test_both_service_levels_are_named_where_both_are_too_short() -> None:
    result = mesh.solve(three(Slo(ttft_s=0.1, tpot_s=0.005)))
    assert [conflict["rule"] for conflict in result.conflicts] == ["tpot_s", "ttft_s"]


def test_service_levels_that_no_single_configuration_keeps_at_once() -> None:
    result = mesh.solve(three(Slo(ttft_s=0.3, tpot_s=0.012)))
    assert result.status is Status.INFEASIBLE
    assert "every one of 3 configurations" in result.conflicts[0]["message"]


def two_demands(objective: Any = "price") -> MeshInstance:
    """Two LLMs on a stock of cheap and dear GPUs: the cheap ones do not go round."""
    listed = (
        config(0, "colocated", {"cheap": 3}, 4, name="small-cheap"),
        config(0, "colocated", {"dear": 2}, 5, name="small-dear"),
        config(1, "prefill", {"cheap": 2}, 3, name="large-prefill-cheap"),
        config(1, "prefill", {"dear": 1}, 3, name="large-prefill-dear"),
        config(1, "decode", {"cheap": 4}, 3, name="large-decode-cheap"),
        config(1, "decode", {"cheap": 1, "dear": 1}, 2, name="large-apart"),
    )
    demands = (Demand(LLMS[0], Workload(100, 10, rate_per_s=10)), Demand(LLMS[1], Workload(100, 10, rate_per_s=5)))
    gpus = (gpu_type("cheap", 12, 1.0), gpu_type("dear", 6, 2.25))
    return MeshInstance(demands, gpus, objective, ("colocated", *POOLS), configs=listed)


@pytest.mark.parametrize("objective", ["gpus", "price", "goodput", "time"])
@pytest.mark.parametrize("method", ["covering", "exact"])
def test_two_types_for_two_demands_equal_brute_force(objective: str, method: str) -> None:
    instance = two_demands(objective)
    if objective == "time":
        instance = replace(instance, configs=tuple(replace(one, tpot_s=0.02) for one in instance.configs or ()))
    known = best(instance, 6)
    assert known is not None
    result = mesh.solve(instance, method=method)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(float(known[0]), rel=1e-12)
    assert result.solution is not None and result.solution["total_gpus"] == known[1]
    certificate = dict(result.certificate or {})
    assert mesh.recheck(instance, certificate.get("certified", certificate)) == []


def test_prices_bound_a_purchase_that_is_too_large_for_tables() -> None:
    small = two_demands()
    demands = tuple(
        replace(one, workload=replace(one.workload, rate_per_s=(one.workload.rate_per_s or 0) * 1009))
        for one in small.demands
    )
    gpus = tuple(gpu.with_stock(50_011) for gpu in small.gpus)
    large = replace(small, demands=demands, gpus=gpus)
    with pytest.raises(
        NotApplicable, match="of at most 8,192 rows, and here there would be 138,638,850; exact and auto"
    ):
        mesh.solve(large, method="covering")
    result = mesh.solve(large)
    assert result.certificate is not None and result.bound_kind is not None
    certified = result.certificate.get("certified", result.certificate)
    assert certified["kind"] == "dual" and mesh.recheck(large, certified) == []
    assert result.gap is not None and result.gap < 1e-3
    assert result.objective == pytest.approx(float(Fraction(certified["value"])), rel=1e-3)
    dearer = [[d, phase, str(2 * Fraction(price))] for d, phase, price in certified["served"]]
    assert mesh.recheck(large, {**certified, "served": dearer})


def test_a_stock_that_is_too_small_says_what_it_serves_and_what_would_do() -> None:
    result = mesh.solve(budget(20, "gpus", 30.0))
    assert result.status is Status.INFEASIBLE
    assert "20 H100 serve at most 20 requests/s, 30 are wanted" in result.conflicts[0]["message"]
    assert "30 GPUs or more would be needed" in result.conflicts[0]["message"]
    none = mesh.solve(budget(9))
    assert none.status is Status.INFEASIBLE and "no replica of every phase" in none.conflicts[0]["message"]
    least = mesh.solve(budget(7))
    assert "needs 8 H100 (P), more than the stock" in least.conflicts[0]["message"]


def test_memory_that_nothing_fits_names_bytes_and_no_service_level() -> None:
    memory = Memory(671e9, 0, 0, 0, 0, 0, usable=253.8e9)
    lone = config(0, "colocated", {"H100": 2}, 1, name="two cards", tpot_s=0.1, memory={"H100": memory})
    slow = Demand(LLMS[0], Workload(100, 10), Slo(tpot_s=0.2))
    result = mesh.solve(
        MeshInstance((slow,), (gpu_type("H100", 2),), "goodput", ("colocated",), configs=(lone,)), method="per_price"
    )
    message = result.conflicts[0]["message"]
    assert result.status is Status.INFEASIBLE and result.conflicts[0]["rule"] == "memory"
    assert "671 GB" in message and "253.8 GB" in message and "ms" not in message.split()


def test_a_missing_phase_is_an_answer_and_no_crash() -> None:
    only = (config(0, "prefill", {"H100": 8}, 10, name="P"),)
    result = mesh.solve(replace(budget(), configs=only))
    assert "no configuration serves the decode of demand 0" in result.conflicts[0]["message"]


def test_decode_alone_is_bought_where_no_family_prefills() -> None:
    only = (config(0, "decode", {"H100": 2}, 10, name="D"),)
    result = mesh.solve(replace(budget(), configs=only, families=("decode",)))
    assert result.solution is not None and result.solution["rate_per_s"] == 160.0
    assert any("only decode is bought" in note for note in result.notes)


def test_time_takes_the_fastest_that_the_stock_can_hold() -> None:
    listed = (
        config(0, "prefill", {"H100": 4}, 1, name="P"),
        config(0, "decode", {"H100": 16}, 1, name="fast", tpot_s=0.005),
        config(0, "decode", {"H100": 8}, 1, name="middling", tpot_s=0.01),
        config(0, "decode", {"H100": 2}, 9, name="slow", tpot_s=0.04),
    )
    instance = replace(budget(16, "time"), configs=listed)
    for method in ("covering", "exact"):
        result = mesh.solve(instance, method=method)
        assert (result.objective, result.status) == (0.01, Status.OPTIMAL)
        assert result.solution is not None and result.solution["total_gpus"] == 12
        reasons = {row["label"]: row["why_not"] for row in result.solution["ranking"]}
        assert "the stock does not serve" in reasons["fast"] and "40 ms a token" in reasons["slow"]


def test_every_loser_has_a_reason() -> None:
    result = mesh.solve(two_demands())
    assert result.solution is not None
    bought = {pool["label"] for pool in result.solution["pools"]}
    rows = result.solution["ranking"]
    assert {row["label"] for row in rows} == {one.name for one in two_demands().configs or ()}
    for row in rows:
        assert bool(row["why_not"]) != (row["label"] in bought)


def test_colocated_can_be_the_answer() -> None:
    whole = config(0, "colocated", {"H100": 8}, 10, name="C")
    instance = replace(budget(), families=("colocated", *POOLS), configs=(*(budget().configs or ()), whole))
    result = mesh.solve(instance)
    assert result.solution is not None
    assert result.solution["rate_per_s"] == 40.0
    told = result.solution["families"]
    assert told["used"] == ["colocated"]
    assert told["alone"]["colocated"]["objective"] < told["alone"]["pools"]["objective"]


@pytest.mark.parametrize("method", ["covering", "exact"])
def test_whole_requests_and_pools_share_the_work(method: str) -> None:
    whole = config(0, "colocated", {"H100": 2}, 1, name="C")
    instance = replace(budget(12), families=("colocated", *POOLS), configs=(*(budget().configs or ()), whole))
    result = mesh.solve(instance, method=method)  # pools on 10 GPUs serve 10, and one more whole one
    assert result.solution is not None and result.solution["rate_per_s"] == 11.0


def test_one_configuration_a_phase_may_cost_more_and_says_so() -> None:
    listed = tuple(config(0, "decode", {"A": gpus}, rate, name=name) for gpus, rate, name in REPLICAS)
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=13))
    instance = MeshInstance((demand,), (gpu_type("A"),), "gpus", ("decode",), configs=listed)
    result = mesh.solve(instance)
    assert result.objective == 10.0  # 5 + 4 + 4 on 4 + 3 + 3
    assert result.solution is not None
    assert result.solution["simplest"]["objective"] == 12.0 and len(result.solution["simplest"]["pools"]) == 1
    assert mesh.solve(instance, method="uniform").objective == 12.0


REPLICAS = [(3, 4, "three"), (4, 5, "four")]


@pytest.mark.parametrize("stock", range(6, 40))
def test_one_configuration_a_phase_is_the_best_of_its_kind(stock: int) -> None:
    listed = [(0, 2, 3), (0, 5, 8), (1, 1, 2), (1, 4, 9)]  # phase, GPUs, rate
    configs = tuple(config(0, POOLS[phase], {"A": gpus}, rate, name=f"{phase}-{gpus}") for phase, gpus, rate in listed)
    instance = MeshInstance(
        (Demand(LLMS[0], Workload(100, 10)),), (gpu_type("A", stock),), "goodput", POOLS, configs=configs
    )
    known = max(
        min(p * one[2], (stock - p * one[1]) // two[1] * two[2])
        for one in listed[:2]
        for two in listed[2:]
        for p in range(stock // one[1] + 1)
    )
    found = mesh.solve(instance, method="uniform")
    assert found.solution is not None and found.solution["rate_per_s"] == known


def test_a_tie_goes_to_the_fewest_gpus() -> None:
    listed = (
        config(0, "decode", {"A": 4}, 10, name="four at 1"),
        config(0, "decode", {"B": 2}, 10, name="two at 2"),
    )
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=10))
    gpus = (gpu_type("A", None, 1), gpu_type("B", None, 2))
    instance = MeshInstance((demand,), gpus, "price", ("decode",), configs=listed)
    for method in ("covering", "exact"):
        result = mesh.solve(instance, method=method)
        assert (result.objective, result.solution["total_gpus"]) == (4.0, 2)  # type: ignore[index]


def test_given_configurations_are_checked_all_at_once() -> None:
    pools = budget().configs or ()
    wrong = (
        replace(pools[0], demand=3),
        replace(pools[1], gpus={"H200": 2}),
        replace(pools[1], prefill_per_s=1.0, name="x"),
        replace(pools[1], decode_per_s=float("nan"), name="y"),
        pools[1],
        pools[1],
        config(0, "colocated", {"H100": 1}, 1, name="z"),
    )
    with pytest.raises(InstanceError) as caught:
        replace(budget(), configs=wrong)
    message = str(caught.value)
    for words in ("is not one of the 1 demands", "is no type of GPU here", "does not serve that phase", "nan"):
        assert words in message
    assert "is the same as configuration" in message and "is not among the families" in message


def test_whole_requests_have_one_rate() -> None:
    lame = Config(0, "colocated", Shape("colocated", "H100"), 1, {"H100": 1}, prefill_per_s=3, decode_per_s=2)
    with pytest.raises(InstanceError, match=r"has one rate\. Use 2 for both"):
        replace(budget(), families=("colocated",), configs=(lame,))


def test_plans_may_be_given_by_place_or_label() -> None:
    by_label = mesh.evaluate(budget(), {"P": 1, "D": 1})
    assert by_label == mesh.evaluate(budget(), [(0, 1), (1, 1)])
    for raw in ({"Q": 1}, {0: 1.5}, [(9, 1)], 3, {"pools": [{"replicas": 1}]}):
        with pytest.raises(PlanError):
            mesh.evaluate(budget(), raw)


def test_a_policy_of_ones_own_is_judged_like_ours() -> None:
    mesh.register("mine", lambda instance, limits, seed: {"P": 2, "D": 8})
    try:
        rows = {row.method: row.result for row in mesh.compare(budget(), ["mine", "auto"]).rows}
        assert rows["mine"] is not None and rows["mine"].solution is not None
        assert rows["mine"].solution["rate_per_s"] == 20.0 and rows["mine"].status is Status.FEASIBLE
        assert rows["mine"].gap == pytest.approx(1 / 3)
    finally:
        del METHODS["mine"]


def test_baselines_that_do_not_apply_say_why() -> None:
    with pytest.raises(NotApplicable, match="attention and experts on GPUs of their own"):
        mesh.solve(budget(), method="megascale")
    with pytest.raises(NotApplicable, match="neither a stock nor a plan bounds them here; exact and auto"):
        mesh.solve(unlimited(), method="covering")


def unlimited() -> MeshInstance:
    """GPUs that cost nothing and of which there are any number."""
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=3))
    free = config(0, "decode", {"A": 1}, 1, name="free")
    return MeshInstance((demand,), (gpu_type("A", None, 0.0),), "price", ("decode",), configs=(free,))


def test_gpus_for_nothing_cost_nothing() -> None:
    result = mesh.solve(unlimited())
    assert (result.objective, result.status) == (0.0, Status.OPTIMAL)


def test_a_time_limit_leaves_the_best_so_far() -> None:
    result = mesh.solve(budget(), method="exact", limits=Limits(time_s=1e-3))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE) and result.objective is not None


OPTIMA = json.loads((TINY / "optima.json").read_text()) if (TINY / "optima.json").exists() else {}


@pytest.mark.parametrize("name", sorted(OPTIMA))
def test_instances_solved_by_hand(name: str) -> None:
    from moeopt.mesh.document import load_instance

    instance = load_instance(TINY / name)
    for method, known in METHODS.items():
        if known.applies(instance) is not None:
            continue
        result = mesh.solve(instance, method=method)
        assert result.objective is None or result.objective >= OPTIMA[name] * (1 - 1e-12)
        if method in ("covering", "exact", "auto"):
            assert (result.objective, result.status) == (pytest.approx(OPTIMA[name], rel=1e-12), Status.OPTIMAL)


def test_the_programme_of_the_smallest_instance_is_in_the_models(tmp_path: Path) -> None:
    from moeopt.backends import write_lp
    from moeopt.mesh.document import load_instance
    from moeopt.mesh.exact import build

    write_lp(build(load_instance(TINY / "pair.json")).to_pulp()[0], tmp_path / "mesh.lp")
    kept = Path(__file__).parents[2] / "models" / "mesh.lp"
    assert (tmp_path / "mesh.lp").read_text() == kept.read_text()
