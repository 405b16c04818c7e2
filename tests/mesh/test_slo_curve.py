"""Plans at other service levels: each is the best at its limits, and looser ones are never worse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from moeopt import mesh
from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.llm import find
from moeopt.mesh import Demand, GpuType, MeshInstance, Slo, Workload
from moeopt.mesh.plan_faults import plan_faults
from tests.mesh.strategies import LLMS, config, gpu_type


def given(objective: Any = "price", slo: Slo = Slo(ttft_s=1.0, tpot_s=0.02)) -> MeshInstance:
    """Quicker replicas serve less."""
    listed = tuple(
        config(0, "colocated", {"H100": 2}, rate, name=f"C{rate}", ttft_s=rate / 10, tpot_s=rate / 500)
        for rate in (4, 8, 10, 14, 20)
    )
    rate = 40.0 if objective in ("price", "gpus") else None
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=rate), slo)
    return MeshInstance((demand,), (gpu_type("H100", 32, 2.0),), objective, ("colocated",), configs=listed)


@pytest.mark.parametrize("objective", ["price", "gpus", "goodput", "time"])
def test_each_point_is_the_best_plan_at_its_limits(objective: str) -> None:
    one = given(objective)
    curve = mesh.slo_curve(one, factors=(0.25, 0.5, 1, 2))
    assert [(point.level, point.factor) for point in curve] == [
        (level, factor) for level in ("tpot_s", "ttft_s") for factor in (0.25, 0.5, 1, 2)
    ]
    for point in curve:
        (limit,) = point.limits_s
        assert limit == pytest.approx(point.factor * {"tpot_s": 0.02, "ttft_s": 1.0}[point.level])
        demand = replace(one.demands[0], slo=replace(one.demands[0].slo, **{point.level: limit}))
        result = mesh.solve(replace(one, demands=(demand,)))
        assert (point.status, point.objective) == (str(result.status), result.objective)
        if result.objective is None:
            assert point.why_not and not point.pools
        else:
            assert point.lower_bound == pytest.approx(result.lower_bound)
            assert point.total_gpus == result.solution["total_gpus"]  # type: ignore[index]
            assert point.rate_per_s == pytest.approx(result.solution["rate_per_s"])  # type: ignore[index]
    for level in ("tpot_s", "ttft_s"):
        values = [point.objective for point in curve if point.level == level and point.objective is not None]
        assert values == sorted(values, reverse=True)


def test_only_levels_that_are_asked_for_are_varied() -> None:
    curve = mesh.slo_curve(given(slo=Slo(tpot_s=0.02)))
    assert {point.level for point in curve} == {"tpot_s"} and len(curve) == 5
    with pytest.raises(InstanceError, match="no service level is asked for"):
        mesh.slo_curve(given(slo=Slo()))
    with pytest.raises(InstanceError, match="must be finite numbers > 0"):
        mesh.slo_curve(given(), factors=(0,))


def test_enumerated_plans_get_dearer_with_tighter_levels_and_time_may_run_out() -> None:
    demand = Demand(find("mixtral-8x7b"), Workload(1024, 128, rate_per_s=20.0), Slo(tpot_s=0.02))
    one = MeshInstance((demand,), (GpuType.of("H100"),), "gpus", ("colocated",), most_pp=1)
    done: list[tuple[int, int]] = []
    curve = mesh.slo_curve(one, factors=(0.1, 0.5, 1, 2), on_point=lambda *at: done.append(at))
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert curve[0].status == "INFEASIBLE" and "tpot_s = 2 ms" in curve[0].why_not
    values = [point.objective for point in curve[1:] if point.objective is not None]
    assert len(values) == 3 and values == sorted(values, reverse=True)
    none = mesh.slo_curve(one, limits=Limits(time_s=1e-9))
    assert {point.why_not for point in none} == {"time ran out"}


def test_a_document_whose_curve_contradicts_itself_is_at_fault() -> None:
    one = given()
    document: Any = json.loads(mesh.solve(one).to_json())
    document["slo_curve"] = [point.to_dict() for point in mesh.slo_curve(one)]
    faults, aside = plan_faults(one, document)
    assert faults == [] and "slo_curve" in aside
    document["slo_curve"][2]["objective"] += 1  # TPOT as asked for
    assert any("slo_curve[tpot_s x 1].objective" in fault for fault in plan_faults(one, document)[0])
    document["slo_curve"][2]["objective"] -= 1
    document["slo_curve"][4]["objective"] += 100
    assert any("is worse than at 1.5" in fault for fault in plan_faults(one, document)[0])
    del document["slo_curve"][0]["pools"]
    assert plan_faults(one, document)[0]
