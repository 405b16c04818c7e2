"""A short ranking has what readers need, and is held against the full one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moeopt import mesh
from moeopt.llm import find
from moeopt.mesh import Demand, GpuType, MeshInstance, Slo, Workload
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.short import BRIEF, LONG, kind_of, shortened


@pytest.fixture(scope="module")
def instance() -> MeshInstance:
    demand = Demand(find("deepseek-v3"), Workload(3596, 1000), Slo(tpot_s=0.05))
    families: Any = ("prefill", "decode")
    return MeshInstance((demand,), (GpuType.of("H800", stock=320),), "goodput", families, most_pp=2)


@pytest.fixture(scope="module")
def full(instance: MeshInstance) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(mesh.solve(instance).to_json())
    return document


@pytest.fixture
def short(full: dict[str, Any]) -> dict[str, Any]:
    again: dict[str, Any] = json.loads(json.dumps(full))
    return again | {"solution": shortened(again["solution"])}


def test_every_shape_stays_with_time_batch_memory_and_reason(full: Any, short: Any) -> None:
    rows, all_rows = short["solution"]["ranking"], full["solution"]["ranking"]
    assert len(all_rows) > LONG and short["solution"]["ranking_left_out"] == len(all_rows) - len(rows)
    assert len(json.dumps(rows)) < 0.6 * len(json.dumps(all_rows))
    assert {kind_of(row["label"]) for row in rows} == {kind_of(row["label"]) for row in all_rows}
    assert [row for row in rows if row["bought"]] == [row for row in all_rows if row["bought"]]
    for label in ("decode TP4 x DP80 = EP320", "decode DP144 = EP144", "decode DP320 = EP320"):
        (row,) = [one for one in rows if one["label"] == label]
        assert row["tpot_s"] > 0 and row["batch"] > 0 and row["memory_bytes"]["H800"] > 0 and row["why_not"]


def test_a_short_document_is_true_and_what_is_wrong_with_it_is_found(
    instance: MeshInstance, full: Any, short: Any
) -> None:
    assert plan_faults(instance, full)[0] == [] and plan_faults(instance, short)[0] == []
    rows = short["solution"]["ranking"]
    brief = next(place for place, row in enumerate(rows) if set(row) == set(BRIEF))

    def faults(**changed: Any) -> str:
        return "; ".join(plan_faults(instance, short | {"solution": short["solution"] | changed})[0])

    changed = [*rows[:brief], {**rows[brief], "batch": 1}, *rows[brief + 1 :]]
    assert f"ranking[{brief}].batch = 1" in faults(ranking=changed)
    wrong = short["solution"]["ranking_left_out"] + 1
    assert f"ranking_left_out = {wrong}: recomputed {wrong - 1}" in faults(ranking_left_out=wrong)
    assert "is there twice" in faults(ranking=[*rows, rows[brief]])
    assert "rows are not in their order" in faults(ranking=[rows[brief], *rows[:brief], *rows[brief + 1 :]])
    assert "is missing, which is bought" in faults(ranking=[row for row in rows if not row["bought"]])
    assert "is not part of it" in faults(ranking=[{**rows[0], "config": 10**6}, *rows[1:]])


def test_a_ranking_that_is_not_long_stays_whole() -> None:
    solution = {"ranking": [{"bought": False}] * LONG, "ranking_left_out": 0}
    assert shortened(solution) == solution
