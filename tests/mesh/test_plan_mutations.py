"""Every number of a plan document, changed: what can be recomputed is found, and the rest has no meaning of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moeopt.llm import find
from moeopt.mesh import bounds, describe
from moeopt.mesh.plan_faults import ALWAYS, plan_faults
from moeopt.mesh.public import Demand, GpuType, MeshInstance, Slo, Workload, demand_of, solve
from tests.mesh.strategies import LLMS, config, gpu_type

Place = tuple[Any, ...]
PER_KEY = 2
"""Rows of a list that are changed: all are made alike."""


def measured(objective: Any) -> MeshInstance:
    found = [
        config(0, "colocated", {"A": 3}, 1.7, tpot_s=0.02, ttft_s=0.3, name="whole"),
        config(0, "prefill", {"A": 5}, 10 / 3, ttft_s=0.2, name="prefill"),
        config(0, "decode", {"A": 2, "B": 1}, 11.0, tpot_s=0.01, name="decode"),
        config(0, "decode", {"B": 2}, 1.0, tpot_s=0.5, name="slow"),
    ]
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=4.0), Slo(1.0, 0.05))
    types = (gpu_type("A", 17, 1.5), gpu_type("B", 6, 0.5))
    return MeshInstance((demand,), types, objective, ("colocated", "prefill", "decode"), configs=found)


def modelled(objective: Any) -> MeshInstance:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512, rate_per_s=4.0), slo=Slo(tpot_s=0.03, ttft_s=2.0))
    types = (GpuType.of("H200", stock=16, price=3.0),)
    return MeshInstance((demand,), types, objective, ("prefill", "decode"), most_pp=1)


def places(here: Any, path: Place = ()) -> Iterator[Place]:
    """Paths of all values of a document."""
    if isinstance(here, dict | list):
        for key in here if isinstance(here, dict) else range(min(len(here), PER_KEY)):
            yield from places(here[key], (*path, key))
    else:
        yield path


def others(value: Any) -> list[Any]:
    """What is written instead."""
    if isinstance(value, bool) or value is None:
        return [1, "x"]
    if isinstance(value, str):
        return [f"{value}x", None, 1]
    return [value * (1 + 1e-6) + 1, value * 2 + (value == 0), -value or -1.0, float("nan"), None, str(value)]


def missed(instance: MeshInstance, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Place, Any]]:
    """Changes that nobody finds."""
    document = json.loads(solve(instance).to_json())
    assert plan_faults(instance, document)[0] == []
    monkeypatch.setattr(describe, "solution", _once(describe.solution))
    monkeypatch.setattr(bounds, "recheck", _once(bounds.recheck))
    written = instance.to_dict()
    monkeypatch.setattr(MeshInstance, "to_dict", lambda self: written)
    found = []
    checked = {key: value for key, value in document.items() if key not in (*ALWAYS, "notes")}
    for turn, path in enumerate(places(checked)):
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        value = holder[path[-1]]
        kinds = others(value)
        for other in (kinds[turn % len(kinds)],):  # kinds of changes take turns: thousands of all would take minutes
            holder[path[-1]] = other
            if not plan_faults(instance, document)[0]:
                found.append((path, other))
        holder[path[-1]] = value
    return found


def _once(function: Any) -> Any:
    """The same, computed once for equal arguments."""
    known: dict[str, Any] = {}

    def called(instance: MeshInstance, second: Any, *rest: Any) -> Any:
        key = (
            repr(second) if isinstance(second, dict) else repr([(one.config.key, one.replicas) for one in second.pools])
        )
        if key not in known:
            known[key] = function(instance, second, *rest)
        return known[key]

    return called


@pytest.mark.parametrize("objective", ["goodput", "price", "gpus", "time"])
def test_every_changed_number_of_a_plan_of_measured_configurations_is_found(
    monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    assert missed(measured(objective), monkeypatch) == []


def test_every_changed_number_of_a_modelled_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missed(modelled("goodput"), monkeypatch) == []
