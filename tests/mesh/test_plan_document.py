"""Plans as documents: what is written is true, and any untruth is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from moeopt import mesh
from moeopt.mesh import MeshInstance
from moeopt.mesh.document import load_instance
from moeopt.mesh.plan_faults import plan_faults
from tests.mesh import strategies

TINY = Path(__file__).parents[2] / "instances" / "tiny" / "mesh"
few = settings(max_examples=12)


def written(result: Any) -> Any:
    return json.loads(result.to_json())


@few
@given(strategies.instances())
def test_what_is_written_is_true(instance: MeshInstance) -> None:
    for name in ("per_price", "auto"):
        faults, aside = plan_faults(instance, written(mesh.solve(instance, method=name)))
        assert faults == []
        assert set(aside) >= {"method", "runtime_s"}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every number, word and truth value of a document."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in places(item, (*path, key))]
    if isinstance(value, list):
        return [found for place, item in enumerate(value) for found in places(item, (*path, place))]
    return [path]


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 0.01
    return 7 if value is None else f"{value}x"


@few
@given(strategies.instances(), st.data())
def test_any_number_that_is_changed_is_found(instance: MeshInstance, data: st.DataObject) -> None:
    document = written(mesh.solve(instance))
    free = {"method", "stop", "seed", "iterations", "runtime_s", "versions", "incumbents", "notes"}
    path = data.draw(st.sampled_from([path for path in places(document) if path[0] not in free]))
    note(path)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other(inner[path[-1]])
    faults, _ = plan_faults(instance, document)
    weaker = path[0] == "certificate" and path[1:2] != ("kind",)  # prices may change as long as they prove the bound
    assert faults or weaker


@pytest.mark.parametrize("name", ["pair", "two_types", "fastest"])
@pytest.mark.parametrize("method", ["per_price", "exact"])
def test_tiny_plans_are_true(name: str, method: str) -> None:
    instance = load_instance(TINY / f"{name}.json")
    assert plan_faults(instance, written(mesh.solve(instance, method=method)))[0] == []


def test_what_is_missing_or_unknown_is_named() -> None:
    instance = load_instance(TINY / "pair.json")
    document = written(mesh.solve(instance))
    del document["solution"]["idle_gpus"]
    document["solution"]["extra"] = 1
    faults, _ = plan_faults(instance, document)
    assert "solution.idle_gpus = missing: is needed" in faults
    assert "solution.extra: is not a field of this document" in faults
