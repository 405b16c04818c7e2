"""The slots curve, the three points it names, and one memory budget over layers."""

from __future__ import annotations

import csv
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.placement import PlacementInstance, solve
from moeopt.placement.budgets import memory_budget
from moeopt.placement.curve import CurvePoint, feasible_redundant, named, slots_curve, with_slots
from moeopt.registry import Progress
from moeopt.report.curve import FORMATS, write_curve

LOADS = [[40, 9, 7, 5, 3, 2, 2, 1], [9, 9, 8, 8, 7, 7, 6, 6]]


def template(**rules: Any) -> PlacementInstance:
    return PlacementInstance(LOADS, **({"gpus": 4, "slots": 8, "name": "two layers"} | rules))


def point(redundant: int, mean: float) -> CurvePoint:
    return CurvePoint(redundant, redundant + 8, redundant, mean, mean, 1.0, None, (mean,), (mean,), "x")


def test_every_point_is_the_plan_of_its_size() -> None:
    curve = slots_curve(template(), method="search", expert_bytes=10.0)
    assert [p.redundant for p in curve.points] == feasible_redundant(template())[: len(curve.points)]
    for mine in curve.points:
        own = solve(with_slots(template(), mine.slots), method="search")
        assert own.solution is not None
        assert mine.imbalance_mean == own.solution["imbalance_mean"]
        assert mine.imbalance_worst == max(mine.imbalance)
        assert 1 <= mine.bound_mean <= mine.imbalance_mean * (1 + 1e-12)
        assert mine.gpu_bytes == 10.0 * 2 * mine.slots_per_gpu
        assert mine.max_load == tuple(layer["max_load"] for layer in own.solution["layers"])
    assert json.loads(json.dumps(curve.to_dict()))["points"][0]["redundant"] == 0


def test_feasible_numbers_end_where_a_gpu_would_hold_an_expert_twice() -> None:
    assert feasible_redundant(template()) == [0, 4, 8, 12, 16, 20, 24]
    assert feasible_redundant(template(nodes=2, groups=2)) == [0, 4, 8]  # a node holds four experts
    assert feasible_redundant(PlacementInstance([[1] * 64], gpus=3, slots=66))[:2] == [2, 5]
    assert feasible_redundant(PlacementInstance([[1, 1, 1]], gpus=2, slots=4), uneven=True) == [0, 1, 2, 3]


def test_the_knee_lies_farthest_below_the_chord() -> None:
    points = [point(0, 3.0), point(4, 1.5), point(8, 1.2), point(12, 1.19), point(16, 1.0)]
    best, within, knee = named(points)
    assert (best, within) == (4, 4)
    depth = [3.0 + (1.0 - 3.0) * p.redundant / 16 - p.imbalance_mean for p in points]  # unscaled: the same order
    assert knee == int(np.argmax(depth)) == 1
    assert named([point(0, 1.009), point(4, 1.002), point(8, 1.0)]) == (2, 0, None)  # all within 1 %
    assert named([point(0, 2.0), point(4, 1.0)]) == (1, 1, None)
    assert named([point(0, 3.0), point(4, 2.9), point(8, 1.0)])[2] is None  # above the chord


def test_the_smallest_number_within_one_percent_is_named() -> None:
    points = [point(0, 2.0), point(4, 1.009), point(8, 1.0), point(12, 1.0)]
    assert named(points)[:2] == (2, 1)


def test_the_curve_ends_where_no_more_can_be_won_and_says_so() -> None:
    curve = slots_curve(PlacementInstance([[1] * 64], gpus=4, slots=64))
    assert len(curve.points) == 6 and curve.complete and "no larger number can win more" in curve.notes[0]
    assert curve.knee is None and curve.points[curve.within].redundant == 0
    whole = slots_curve(PlacementInstance([[1] * 64], gpus=4, slots=64), redundant=[0, 64], method="lpt")
    assert [p.redundant for p in whole.points] == [0, 64] and whole.notes == ()


def test_numbers_that_do_not_fill_the_gpus_are_refused_with_those_that_do() -> None:
    with pytest.raises(InstanceError, match="Use 4 or 8"):
        slots_curve(template(), redundant=[0, 5])
    with pytest.raises(InstanceError, match="equally many slots"):
        slots_curve(PlacementInstance([[1, 1, 1]], slots=[1, 3]))


def test_numbers_that_break_a_rule_are_left_out_with_the_reason() -> None:
    pinned = slots_curve(template(pin=[(0, 0)], forbid=[(0, 1)]), method="search", redundant=[0, 4, 24])
    assert [p.redundant for p in pinned.points] == [0, 4]
    assert "24 redundant experts: INFEASIBLE" in pinned.notes[0]
    with pytest.raises(InstanceError, match="no number of redundant experts"):
        slots_curve(template(forbid=[(0, gpu) for gpu in range(4)]), method="search", redundant=[0, 4])
    with pytest.raises(InstanceError, match="has no meaning for a curve"):
        slots_curve(template(lost=[1]))


def test_a_deadline_ends_the_curve_with_what_there_is() -> None:
    loads = np.random.default_rng(0).integers(1, 1000, (8, 256))
    instance = PlacementInstance(loads, gpus=16, slots=256)
    seen: list[Progress] = []
    curve = slots_curve(instance, limits=Limits(time_s=0.05), on_progress=seen.append)
    assert curve.points and len(seen) == len(curve.points)
    assert curve.complete or "larger numbers were not looked at" in curve.notes[-1]


def brute(curve: Any, budget: float, size: float) -> float | None:
    totals = [
        math.fsum(curve.points[at].max_load[row] for row, at in enumerate(picked))
        for picked in itertools.product(range(len(curve.points)), repeat=len(curve.layers))
        if sum(curve.points[at].slots_per_gpu for at in picked) * size <= budget
    ]
    return min(totals, default=None)


def test_one_budget_over_layers_is_spent_best() -> None:
    rng = np.random.default_rng(4)
    loads = (1000 * rng.lognormal(0, 1.2, (4, 8))).astype(int)
    curve = slots_curve(PlacementInstance(loads, gpus=4, slots=8), redundant=[0, 4, 8, 12], method="lpt")
    for budget in range(6, 24):
        plan = memory_budget(curve, budget * 2.5, 2.5)
        best = brute(curve, budget * 2.5, 2.5)
        assert plan.fits == (best is not None)
        if best is None:
            continue
        assert plan.objective == pytest.approx(best, rel=1e-12)
        assert plan.gpu_bytes is not None and plan.gpu_bytes <= budget * 2.5
        assert plan.uniform_objective is None or plan.objective <= plan.uniform_objective * (1 + 1e-12)
        assert len(plan.redundant) == 4 and "every layer" in plan.note


def test_layers_may_have_experts_of_different_size() -> None:
    curve = slots_curve(template(), redundant=[0, 4], method="lpt")
    plan = memory_budget(curve, 3 * 1 + 2 * 5, [1, 5])
    assert plan.redundant == (4, 0) and plan.gpu_bytes == 13
    assert not memory_budget(curve, 11, [1, 5]).fits
    with pytest.raises(InstanceError, match="one a layer, 2"):
        memory_budget(curve, 11, [1, 5, 5])
    with pytest.raises(InstanceError, match="expert_bytes"):
        memory_budget(curve, 11, 0)


@pytest.mark.parametrize("ending", FORMATS)
def test_the_curve_is_written_in_every_format(ending: str, tmp_path: Path) -> None:
    curve = slots_curve(template(), method="lpt", expert_bytes=4.2e7)
    file = tmp_path / f"curve{ending}"
    write_curve(file, curve)
    data = file.read_bytes()
    if ending == ".png":
        assert data.startswith(b"\x89PNG")
    elif ending in (".svg", ".html"):
        text = data.decode()
        assert "knee" in text and "memory of a GPU" in text and "<svg" in text
        assert text.count("<script") == 0 and (ending == ".svg" or "http" not in text)
    elif ending == ".csv":
        rows = list(csv.DictReader(data.decode().splitlines()))
        assert [int(row["redundant"]) for row in rows] == [p.redundant for p in curve.points]
        assert sum(int(row["within_1_percent"]) for row in rows) == 1
    else:
        assert json.loads(data)["schema"] == "moeopt/slots-curve/1"
    with pytest.raises(InstanceError):
        write_curve(file, curve)
    write_curve(file, curve, force=True)
    assert file.read_bytes() == data or ending == ".html"


@pytest.mark.parametrize("shared", ["replicated", "fused", "hosted"])
def test_a_curve_with_shared_experts_counts_their_slots_and_no_expert_twice(shared: str) -> None:
    slots = {"replicated": 4, "fused": 6, "hosted": 6}[shared]
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=slots, shared=shared, top_k=2)
    made = slots_curve(instance, method="lpt", expert_bytes=10.0)
    assert made.experts == (5 if shared == "hosted" else 4)
    least = made.points[0]
    assert least.redundant == (1 if shared == "hosted" else 0)
    assert least.slots_per_gpu == (3 if shared == "hosted" else 2)
    assert least.gpu_bytes == (20.0 if shared == "replicated" else 30.0)
    plain = solve(instance, method="lpt").objective
    assert least.max_load == (plain,)
