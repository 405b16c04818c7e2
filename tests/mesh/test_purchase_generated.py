"""Purchases over the configurations of the families: real questions, asked and asked back."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from moeopt import mesh
from moeopt.llm import find
from moeopt.mesh import Demand, GpuType, MeshInstance, Slo, Workload
from moeopt.mesh.market import configs_of, market_of
from moeopt.mesh.plan_faults import plan_faults
from moeopt.result import Result, Status

SERVICE = Demand(find("deepseek-v3"), Workload(4096, 1024), Slo(ttft_s=5.0, tpot_s=0.05))


@cache
def h800() -> tuple[MeshInstance, Result]:
    """DeepSeek-V3 on 320 H800 in pools."""
    instance = MeshInstance((SERVICE,), (GpuType.of("H800", stock=320),), "goodput", ("prefill", "decode"))
    return instance, mesh.solve(instance)


def test_a_large_service_is_bought_and_proved() -> None:
    instance, result = h800()
    assert (result.status, result.bound_kind) == (Status.OPTIMAL, "certified")
    assert mesh.recheck(instance, dict(result.certificate or {})) == []
    assert result.solution is not None
    used, idle = result.solution["total_gpus"], result.solution["idle_gpus"].get("H800", 0)
    assert used + idle == 320


def test_wide_experts_are_among_the_candidates_with_their_figures() -> None:
    rows = {row["label"]: row for row in h800()[1].solution["ranking"]}  # type: ignore[index]
    for label in ("decode TP4 x DP80 = EP320", "decode DP144 = EP144", "prefill DP32 = EP32"):
        row = rows[label]
        assert row["batch"] >= 1 and row["memory_bytes"]["H800"] > 0
        assert row["bought"] or row["why_not"]


def test_the_published_service_is_near_the_best() -> None:
    """EP32 for prefill and EP144 for decode, as DeepSeek tells of its own, on as many GPUs."""
    instance, result = h800()
    configs = configs_of(instance)
    best: dict[str, int] = {}
    for offer in market_of(instance).offers:
        config = configs[offer.place]
        for label in ("prefill DP32 = EP32", "decode DP144 = EP144"):
            rate = max(config.prefill_per_s, config.decode_per_s)
            known = configs[best[label]] if label in best else None
            if config.label == label and (known is None or rate > max(known.prefill_per_s, known.decode_per_s)):
                best[label] = offer.place
    plan = {best["prefill DP32 = EP32"]: 5, best["decode DP144 = EP144"]: 1}  # 304 of the 320 GPUs
    theirs = mesh.evaluate(instance, plan)
    per_gpu = float(theirs.theta) / sum(theirs.gpus.values())
    assert result.solution is not None
    ours = result.solution["rate_per_s"] / result.solution["total_gpus"]
    assert per_gpu >= 0.95 * ours


def test_rate_and_gpus_agree_for_a_node() -> None:
    """The requests that eight GPUs serve need eight GPUs."""
    demand = Demand(find("mixtral-8x7b"), Workload(2048, 512), Slo(ttft_s=2.0, tpot_s=0.03))
    eight = MeshInstance((demand,), (GpuType.of("H100", stock=8),), "goodput", ("colocated", "prefill", "decode"))
    served = mesh.solve(eight).solution
    assert served is not None
    wanted = replace(demand, workload=replace(demand.workload, rate_per_s=served["rate_per_s"]))
    needed = mesh.solve(replace(eight, demands=(wanted,), objective="gpus"))
    assert needed.objective == served["total_gpus"]
    assert needed.status is Status.OPTIMAL


def test_what_is_written_of_generated_plans_is_true() -> None:
    demand = Demand(find("mixtral-8x7b"), Workload(571, 159, rate_per_s=20.0), Slo(tpot_s=0.15))
    gpus = (GpuType.of("H20", stock=16, price=1.85), GpuType.of("L40S", stock=16, price=1.08))
    sides = {"attention": "H20", "experts": "L40S"}
    instance = MeshInstance((demand,), gpus, "price", ("prefill", "apart"), sides=sides)
    result = mesh.solve(instance)
    assert result.status is Status.OPTIMAL
    document: Any = json.loads(result.to_json())
    again = MeshInstance.from_dict(document["instance"]["document"])
    assert plan_faults(again, document)[0] == []
    for name in ("per_price", "megascale", "recipe"):
        other = mesh.solve(instance, method=name)
        assert other.objective is None or result.objective is None or other.objective >= result.objective


def test_what_does_not_fit_says_how_many_would() -> None:
    demand = replace(SERVICE, slo=Slo(tpot_s=0.01))
    result = mesh.solve(MeshInstance((demand,), (GpuType.of("H100", stock=8),), "goodput"))
    assert result.status is Status.INFEASIBLE
    (conflict,) = result.conflicts
    assert conflict["rule"] == "memory"
    assert "do not fit" in conflict["message"] and "10 such GPUs" in conflict["message"]
    assert "ms" not in conflict["message"].split()


@pytest.mark.parametrize("tpot_s", [0.001])
def test_a_service_level_below_the_limit_of_the_hardware_names_it(tpot_s: float) -> None:
    demand = replace(SERVICE, slo=Slo(tpot_s=tpot_s))
    result = mesh.solve(MeshInstance((demand,), (GpuType.of("H800", stock=32),), "goodput", ("decode",)))
    assert result.status is Status.INFEASIBLE
    (conflict,) = result.conflicts
    assert "tpot_s = 1 ms is below" in conflict["message"] and conflict["best"] > 0.005
    assert "the closest, decode" in conflict["message"]
