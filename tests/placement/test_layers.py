"""Layers planned apart: nothing is lost by it, and where they are planned does not matter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.errors import NotApplicable
from moeopt.limits import Limits
from moeopt.placement import PROBLEM, PlacementInstance, solve, solve_layers
from tests.executors.data import ByPickle

FEW = Limits(iterations=3)


def timeless(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = result.to_dict()
    del document["runtime_s"], document["incumbents"]
    return document


@st.composite
def instances(draw: st.DrawFn) -> PlacementInstance:
    layers, experts, gpus = draw(st.integers(1, 4)), draw(st.integers(2, 6)), draw(st.integers(2, 3))
    windows = draw(st.integers(1, 2))
    cells = windows * layers * experts
    loads = np.array(draw(st.lists(st.integers(0, 50), min_size=cells, max_size=cells)))
    each = draw(st.integers(-(-experts // gpus), experts))
    table = loads.reshape(windows, layers, experts)
    rules: dict[str, Any] = {"split": draw(st.sampled_from(["even", "free", "sglang-static"]))} if windows == 1 else {}
    if draw(st.booleans()):
        rules["speed"] = [1.0] * (gpus - 1) + [0.5]
    return PlacementInstance(table if windows > 1 else table[0], gpus=gpus, slots=gpus * each, **rules)


@settings(max_examples=20)
@given(instances(), st.sampled_from(["eplb", "lpt", "search", "auto", "exact"]))
def test_layers_planned_apart_are_the_plan_of_all(instance: PlacementInstance, method: str) -> None:
    if PROBLEM.method(method).applies(instance):
        return
    whole = timeless(solve(instance, method=method, limits=FEW))
    apart = [timeless(solve_layers(instance, method=method, limits=FEW, executor=how)) for how in (None, ByPickle())]
    assert apart[0] == apart[1]
    for document in (whole, apart[0]):  # a note of a layer is headed by it, and counts no others
        document["notes"] = {re.sub(r"^layer \d+: |\d+", "", note) for note in document.get("notes", ())}
    assert whole == apart[0]


def test_exact_layers_are_exact_together() -> None:
    instance = PlacementInstance([[8, 4, 2, 2], [1, 1, 1, 5], [3, 3, 3, 1]], gpus=2, slots=6, layers=[3, 4, 7])
    apart, whole = solve_layers(instance, method="exact"), solve(instance, method="exact")
    assert (apart.objective, apart.lower_bound, apart.status) == (whole.objective, whole.lower_bound, whole.status)
    assert [layer["layer"] for layer in apart.solution["layers"]] == [3, 4, 7]


def test_equal_split_keeps_its_report_of_every_layer() -> None:
    instance = PlacementInstance([[8, 4, 2, 2], [1, 1, 1, 5]], gpus=2, slots=8, split="free", fill="at_most")
    apart, whole = solve_layers(instance, method="equal_split"), solve(instance, method="equal_split")
    assert timeless(apart)["solution"] == timeless(whole)["solution"]


def test_what_cannot_be_planned_apart_is_said() -> None:
    running = PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=6, current=[[0, 1, 2, 0, 3, 1]])
    with pytest.raises(NotApplicable, match="where a plan runs"):
        solve_layers(running)
    with pytest.raises(NotApplicable, match="fold does not apply"):
        solve_layers(PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=6), method="fold")
    narrow = PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, pin=[(0, 0), (0, 1)])
    assert str(solve_layers(narrow).status) == "INFEASIBLE"


def test_progress_is_told_a_layer() -> None:
    heard: list[str] = []
    solve_layers(
        PlacementInstance([[2, 1], [1, 1]], gpus=2, slots=2, layers=[3, 5]),
        method="lpt",
        on_progress=lambda progress: heard.append(f"{progress.done}/{progress.total} {progress.message}"),
    )
    assert heard == ["1/2 layer 3", "2/2 layer 5"]
