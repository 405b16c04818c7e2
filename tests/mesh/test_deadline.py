"""Deadlines: what was enumerated in time is judged like everything else, and says that it is not all."""

from __future__ import annotations

import json
import time
from threading import Event
from typing import Any

import pytest

from moeopt.limits import Limits
from moeopt.llm import find
from moeopt.mesh.families import every
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.public import GpuType, MeshInstance, Slo, Workload, demand_of, solve


def question() -> MeshInstance:
    """Mixtral on a server."""
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    return MeshInstance((demand,), (GpuType.of("H200", stock=8),), "goodput")


def test_unknown_with_stop_time_when_nothing_was_enumerated() -> None:
    result = solve(question(), limits=Limits(time_s=1e-6))
    assert (result.status, result.stop, result.solution) == ("UNKNOWN", "TIME", None)
    assert any("time ran out" in note for note in result.notes)
    assert plan_faults(question(), json.loads(result.to_json()))[0] == []


def test_enumerating_is_stopped_by_whoever_asks() -> None:
    asked = Event()
    asked.set()
    assert solve(question(), limits=Limits(stop=asked.is_set)).stop == "INTERRUPTED"


def test_plan_of_finished_families_is_given_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(context: Any) -> Any:
        raise every.OutOfTime

    monkeypatch.setitem(every._FAMILIES, "colocated", late)
    result = solve(question(), limits=Limits(time_s=600))
    monkeypatch.undo()
    assert result.solution is not None and result.objective is not None
    assert (result.status, result.stop, result.lower_bound) == ("FEASIBLE", "TIME", 0.0)
    families = {pool["config"]["family"] for pool in result.solution["pools"]}
    assert families <= {"prefill", "decode"}
    whole = solve(question())
    assert whole.objective is not None and whole.objective <= result.objective
    document = json.loads(result.to_json())
    faults, aside = plan_faults(question(), document)
    assert faults == [] and "solution.ranking" in aside
    document["stop"] = "FINISHED"
    assert any("time ran out" in fault for fault in plan_faults(question(), document)[0])


def test_limited_instance_is_enumerated_again_without_a_limit() -> None:
    instance = question()
    assert solve(instance, limits=Limits(time_s=1e-6)).status == "UNKNOWN"
    assert solve(instance).canonical() == solve(question()).canonical()


def test_families_come_in_their_order_whatever_was_looked_at_first() -> None:
    unlimited = every.configs(question())
    limited, whole = every.within(question(), every.Deadline(3600.0))
    assert whole and limited == unlimited


def test_deadline_is_kept() -> None:
    start_s = time.perf_counter()
    demand = demand_of(find("deepseek-v3"), Workload(4096, 1024), slo=Slo(tpot_s=0.05))
    solve(MeshInstance((demand,), (GpuType.of("H800", stock=320),), "goodput"), limits=Limits(time_s=0.01))
    assert time.perf_counter() - start_s < 5  # a generous roof: seconds are measured by benchmarks
