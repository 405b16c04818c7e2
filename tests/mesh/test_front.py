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
from moeopt.report.plots.mesh import pareto_png, pareto_svg


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


def test_figure_names_what_is_bought_and_both_fronts() -> None:
    result = solve(question())
    assert result.solution is not None
    svg = pareto_svg(result.solution)
    for word in ("bought", "decoding alone", "whole requests", "batch", "TPOT 30 ms"):
        assert word in svg
    assert svg == pareto_svg(result.solution)
    assert pareto_png(result.solution).startswith(b"\x89PNG")
