"""First tokens beyond what is sensible are said, with a plan that has them ten times sooner."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from moeopt import mesh
from moeopt.limits import Limits
from moeopt.llm import find
from moeopt.mesh import Demand, GpuType, MeshInstance, Slo, Workload
from moeopt.mesh.late import SENSIBLE_S
from moeopt.mesh.plan_faults import plan_faults
from tests.mesh.strategies import LLMS, config, gpu_type


def instance(slow_s: float, quick_s: float, slo: Slo = Slo(), objective: Any = "goodput") -> MeshInstance:
    """A slow replica that serves more, and a quick one."""
    listed = (
        config(0, "colocated", {"H100": 4}, 8, name="slow", ttft_s=slow_s, tpot_s=0.02),
        config(0, "colocated", {"H100": 4}, 6, name="quick", ttft_s=quick_s, tpot_s=0.02),
    )
    rate = 10.0 if objective == "gpus" else None
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=rate), slo)
    return MeshInstance((demand,), (gpu_type("H100", 16),), objective, ("colocated",), configs=listed)


def said(one: MeshInstance) -> list[str]:
    return [note for note in mesh.solve(one).notes if "TTFT" in note or "first token" in note]


def test_a_late_first_token_is_said_with_what_a_tenth_of_it_costs() -> None:
    first, second = said(instance(100.0, 9.0))
    assert "the first token of small takes 100 s in the mean: no limit was set (ttft_s, --ttft)" in first
    assert second == "with a TTFT of at most 10 s there is a plan of 24 requests/s instead of 32 requests/s: 4 x quick"
    _, second = said(instance(100.0, 9.0, objective="gpus"))
    assert "a plan of 8 GPUs instead of 8 GPUs: 2 x quick" in second


def test_where_nothing_is_ten_times_sooner_that_is_said() -> None:
    assert said(instance(100.0, 11.0))[1] == "with a TTFT of at most 10 s there is no plan"


@pytest.mark.parametrize(("slow_s", "slo"), [(SENSIBLE_S, Slo()), (100.0, Slo(ttft_s=200.0))])
def test_sensible_times_and_limits_are_not_remarked_on(slow_s: float, slo: Slo) -> None:
    assert said(instance(slow_s, 1.0, slo)) == []


def test_a_document_without_the_note_is_at_fault() -> None:
    one = instance(100.0, 9.0)
    document: Any = json.loads(mesh.solve(one).to_json())
    assert plan_faults(one, document)[0] == []
    document["notes"] = []
    assert any("takes 100 s in the mean" in fault for fault in plan_faults(one, document)[0])


def test_a_long_context_has_a_plan_with_a_tenth_of_its_ttft() -> None:
    demand = Demand(find("mixtral-8x7b"), Workload(500_000, 1000))
    one = MeshInstance((demand,), (GpuType.of("H100", stock=16),), "goodput", ("prefill", "decode"), most_pp=4)
    notes = said(one)
    assert len(notes) == 2 and "with a TTFT of at most" in notes[1] and "requests/s instead of" in notes[1]
    for time_s in (0.02, 0.2):  # nothing is claimed by what was cut off; a quick machine has done all of it
        short = mesh.solve(replace(one), limits=Limits(time_s=time_s))
        assert [note for note in short.notes if "instead of" in note] in ([], [notes[1]])
