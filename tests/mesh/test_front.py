"""The front of speed against throughput: batches are walked, figures are those of families, nothing beats a point."""

from __future__ import annotations

import json

import numpy as np
import pytest

from moeopt.llm import find
from moeopt.mesh.families.speeds import speeds
from moeopt.mesh.market import configs_of
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.public import GpuType, MeshInstance, Slo, Workload, demand_of, solve
from moeopt.report.plots.canvas import new_figure, style
from moeopt.report.plots.labels import Label, place_labels
from moeopt.report.plots.mesh import _name, pareto_png, pareto_svg


def question(**rest: object) -> MeshInstance:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512), slo=Slo(tpot_s=0.03))
    gpus = (GpuType.of("H100", stock=8),)
    families = ("colocated", "prefill", "decode", "apart", "long")
    return MeshInstance((demand,), gpus, "goodput", families=families, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize("drafts", [(), (1.7,)])
def test_speeds_at_its_own_batch_are_those_of_a_configuration(drafts: tuple[float, ...]) -> None:
    configs = [one for one in configs_of(question(drafts=drafts)) if one.decode_per_s > 0]
    batches = np.array([one.batch for one in configs])
    tpot, ttft, tokens = speeds(question(drafts=drafts), configs, batches)
    assert {one.family for one in configs} == {"colocated", "decode", "apart", "long"}
    assert tpot == pytest.approx([one.tpot_s for one in configs], rel=1e-12)
    assert tokens == pytest.approx([one.tokens_per_s for one in configs], rel=1e-12)
    assert ttft == pytest.approx([one.ttft_s or 0.0 for one in configs], rel=1e-12)


def test_front_walks_batches_and_nothing_beats_a_point() -> None:
    instance = question()
    result = solve(instance)
    assert result.solution is not None
    points = result.solution["pareto"]
    for whole in (True, False):
        some = [point for point in points if point["label"].startswith("colocated") is whole]
        assert len({point["batch"] for point in some}) > 8
        users, gpus = ([point[key] for point in some] for key in ("user_tokens_per_s", "gpu_tokens_per_s"))
        assert users == sorted(users, reverse=True) and gpus == sorted(gpus)
    for point in points:
        assert 1 <= point["batch"] <= configs_of(instance)[point["config"]].batch
    assert plan_faults(question(), json.loads(result.to_json()))[0] == []


def test_front_reaches_the_fastest_and_the_most_of_all_configurations() -> None:
    instance = question()
    result = solve(instance)
    assert result.solution is not None
    some = [point for point in result.solution["pareto"] if not point["label"].startswith("colocated")]
    configs = [one for one in configs_of(instance) if one.decode_per_s > 0 and one.family != "colocated"]
    alone = speeds(instance, configs, np.ones(len(configs), dtype=np.int64))
    assert some[0]["user_tokens_per_s"] == pytest.approx(float((1 / alone[0]).max()), rel=0.05)
    most = max(one.tokens_per_s / one.total_gpus for one in configs)
    assert some[-1]["gpu_tokens_per_s"] == pytest.approx(most, rel=1e-9)


def test_whole_requests_count_the_gpus_that_prefill_and_one_front_joins_all() -> None:
    instance = question()
    result = solve(instance)
    assert result.solution is not None
    points = result.solution["pareto"]
    prefill = [one for one in configs_of(instance) if one.family == "prefill" and one.usable]
    beside = min(one.total_gpus / one.prefill_per_s for one in prefill) / 512
    for point in points:
        alone = 0.0 if point["family"] == "colocated" else beside
        assert point["family"] == configs_of(instance)[point["config"]].family
        assert 1 / point["whole_tokens_per_s"] == pytest.approx(1 / point["gpu_tokens_per_s"] + alone, rel=1e-12)
    for point in points:
        better = [
            one
            for one in points
            if one is not point
            and one["user_tokens_per_s"] >= point["user_tokens_per_s"]
            and one["whole_tokens_per_s"] >= point["whole_tokens_per_s"]
        ]
        assert point["joint"] is not bool(better)


def test_decoding_alone_is_its_own_whole_where_nothing_prefills() -> None:
    demand = demand_of(find("mixtral-8x7b"), Workload(2048, 512))
    one = MeshInstance((demand,), (GpuType.of("H100", stock=8),), "goodput", families=("decode",), most_pp=1)
    result = solve(one)
    assert result.solution is not None
    points = result.solution["pareto"]
    assert points and all(point["whole_tokens_per_s"] == point["gpu_tokens_per_s"] for point in points)
    assert all(point["joint"] for point in points)


def test_figure_names_what_is_bought_and_joins_one_front() -> None:
    result = solve(question())
    assert result.solution is not None
    svg = pareto_svg(result.solution)
    for word in ("bought", "front", "whole requests: GPUs that prefill count", "batch", "TPOT 30 ms"):
        assert word in svg
    assert "decoding alone" not in svg
    assert svg == pareto_svg(result.solution)
    assert pareto_png(result.solution).startswith(b"\x89PNG")


def test_names_in_a_figure_keep_clear_of_each_other_and_of_marks() -> None:
    with style():
        figure = new_figure(4.0)
        axes = figure.subplots()
        across = np.linspace(1, 10, 30)
        axes.plot(across, 10 / across, "s-")
        labels = [Label(float(x), float(10 / x), f"shape {x:.1f}, batch 8", bold=x < 2) for x in across[::3]]
        boxes = place_labels(figure, axes, labels)
        marks = axes.transData.transform(axes.lines[0].get_xydata())
    assert len(boxes) >= 5
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        assert not any(box.contains(*mark) for mark in marks)
        assert axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("decode TP2 x DP84 = EP168", "TP2 x DP84 = EP168"),
        ("decode TP1 = EP1", "TP1"),
        ("P", "P"),
        ("mine 2", "mine 2"),
    ],
)
def test_names_of_shapes_lose_nothing_that_tells_them_apart(label: str, short: str) -> None:
    assert _name(label) == short
