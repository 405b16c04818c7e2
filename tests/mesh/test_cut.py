"""Stages of what is bought: cut by the costs of its own pass, held against the step model and memory."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from moeopt.llm import find
from moeopt.mesh.config import Config
from moeopt.mesh.cut import cut_of, stage_costs
from moeopt.mesh.families.context import Context
from moeopt.mesh.launching import engines
from moeopt.mesh.market import configs_of
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.public import GpuType, MeshInstance, Shape, Slo, Workload, demand_of, solve
from moeopt.mesh.stages import even_counts
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.table import Table


def question(families: tuple[str, ...] = ("decode",)) -> MeshInstance:
    demand = demand_of(find("deepseek-v3"), Workload(4096, 1024), slo=Slo(tpot_s=0.05))
    return MeshInstance((demand,), (GpuType.of("H200", stock=48),), "goodput", families=families)  # type: ignore[arg-type]


def staged(instance: MeshInstance) -> list[Config]:
    found = [one for one in configs_of(instance) if one.batch and isinstance(one.shape, Shape) and one.shape.pp > 1]
    return found[:: max(len(found) // 12, 1)]


@pytest.mark.parametrize("family", ["colocated", "prefill", "decode"])
def test_cut_covers_all_layers_and_is_no_slower_than_even_counts(family: str) -> None:
    instance = question((family,))
    for config in staged(instance):
        cut = cut_of(instance, config)
        assert cut is not None and isinstance(config.shape, Shape)
        assert sum(cut.layers) == 61 and len(cut.layers) == config.shape.pp and min(cut.layers) > 0
        assert cut.slowest_s <= cut.even_s


def test_even_counts_take_what_the_step_model_says() -> None:
    instance = question()
    context = Context(instance, 0, instance.demands[0])
    gpu = instance.gpus[0]
    for config in staged(instance):
        assert isinstance(config.shape, Shape)
        layers, hop_s = stage_costs(instance, config)
        decoder = Decoder(Table(context.setting(gpu, context.numerics(gpu)[0]), [config.shape]), 4608.0)
        batch = decoder.own(np.array([config.batch]))
        step = decoder.seconds(batch, dual=config.overlap)
        assert even_counts(layers, config.shape.pp).slowest + hop_s == pytest.approx(float(step[0]), rel=1e-9)


def test_better_cut_is_in_the_commands_of_engines() -> None:
    instance = question()
    for config in configs_of(instance):
        if not config.batch or not isinstance(config.shape, Shape) or config.shape.pp != 6:
            continue
        cut = cut_of(instance, config)
        assert cut is not None
        if cut.slowest_s < cut.even_s and "vllm" in config.legal_in:
            flags = engines(instance, config)["flags"]
            assert f"VLLM_PP_LAYER_PARTITION={','.join(map(str, cut.layers))}" in flags["vllm"]
            return
    pytest.fail("no configuration has a better cut")


def test_pools_say_their_stages_and_given_configurations_have_none() -> None:
    demand = demand_of(find("mixtral-8x22b"), Workload(571, 159), slo=Slo(tpot_s=0.15))
    instance = MeshInstance((demand,), (GpuType.of("H200", stock=8),), "goodput")
    result = solve(instance)
    assert result.solution is not None
    for pool in result.solution["pools"]:
        assert (pool["stages"] is None) == (pool["config"]["shape"]["pp"] == 1)
    assert plan_faults(instance, json.loads(result.to_json()))[0] == []
    given = replace(instance, configs=tuple(one for one in configs_of(instance) if one.batch)[:1])
    assert cut_of(given, configs_of(given)[0]) is None
