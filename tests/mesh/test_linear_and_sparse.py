"""Meshes of LLMs with linear, sparse and compressed attention: rules, memory, steps, and an answer for each."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from moeopt.cost import (
    BF16,
    FP8,
    kv_bytes_per_gpu,
    layer_decode,
    layer_prefill,
    operators_s,
    tp_decode,
    weights_per_gpu,
)
from moeopt.llm import LlmFacts, find, kv_bytes
from moeopt.llm.attention_counts import index_parameters
from moeopt.llm.layer_kinds import LayerKind, layer_kinds
from moeopt.llm.memory import layer_caches
from moeopt.mesh.families import configs
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.holdings import held_by
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.layer_times import decode_layers
from moeopt.mesh.legal import legal_in, verdict
from moeopt.mesh.memory import room_of
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.public import solve
from moeopt.mesh.rules import faults
from moeopt.mesh.shape import Shape
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.numerics import served
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Prefiller, portions
from moeopt.mesh.step.table import Setting, Table
from moeopt.mesh.workload import Slo, Workload

B300, H200 = GpuType.of("B300", stock=8), GpuType.of("H200")
NAMES = ("deepseek-v3.2", "deepseek-v4-pro", "deepseek-v4-flash", "glm-5", "qwen3.5-397b-a17b", "kimi-k3")
SPARSE, PRO, FLASH, GLM, QWEN, K3 = (find(name) for name in NAMES)
NAMED = pytest.mark.parametrize("llm", [SPARSE, PRO, FLASH, GLM, QWEN, K3], ids=lambda llm: llm.name)
CHAT = Workload(4_000, 1_000)


def setting(llm: LlmFacts, gpu: GpuType = H200) -> Setting:
    return Setting(llm, gpu, served(llm, gpu.machine), Imbalance.even(), 1e-5)


@cache
def answer(name: str) -> tuple[MeshInstance, dict[str, Any]]:
    instance = MeshInstance(
        (Demand(find(name), CHAT, Slo(5.0, 0.1)),),
        (B300,),
        "goodput",
        families=("colocated",),
        most_pp=1,
        redundant=(0,),
    )
    return instance, json.loads(solve(instance).to_json())


@pytest.mark.parametrize("name", NAMES)
def test_every_one_has_a_plan_that_is_proved_and_verified(name: str) -> None:
    instance, document = answer(name)
    assert document["status"] == "OPTIMAL" and document["solution"]["rate_per_s"] > 0
    assert plan_faults(instance, document)[0] == []
    (note,) = [note for note in document["notes"] if note.startswith(f"{name}: a sequence of 5,000 tokens keeps")]
    document["notes"].remove(note)
    assert plan_faults(instance, document)[0] == [f"notes: {note!r} is missing"]


# --- rules ------------------------------------------------------------------------------------------------------------


def said(llm: LlmFacts, gpu: GpuType = GpuType.of("GB300"), **degrees: Any) -> str:
    shape = Shape(degrees.pop("role", "decode"), gpu.name, **degrees)
    return " ".join(map(str, faults(shape, llm, gpu)))


def test_heads_of_linear_layers_and_groups_of_outputs_bound_tp() -> None:
    assert "16 linear key heads do not divide by 32. Use 16" in said(QWEN, tp=32, ep=32)
    assert said(QWEN, tp=16, ep=16) == ""
    assert "8 groups of outputs do not divide by 16. Use 8" in said(FLASH, tp=16, ep=16)
    assert said(FLASH, tp=8, ep=8) == "" == said(PRO, tp=16, ep=16) == said(K3, tp=32, ep=32)


def test_an_index_keeps_all_tokens_on_every_gpu_and_states_pass_along_a_prompt() -> None:
    for llm, word in ((SPARSE, "an index selects among all"), (PRO, "an index selects among all")):
        assert word in said(llm, role="long", kvp=4, ep=4)
    assert said(QWEN, role="long", kvp=4, ep=4) == ""
    assert "a state along the prompt" in said(K3, role="prefill", cp=2, ep=2)
    assert "made of neighbours" in said(FLASH, role="prefill", cp=2, ep=2)
    assert said(SPARSE, role="prefill", cp=2, ep=2) == ""


def test_no_engine_is_told_to_split_a_cache_beside_states() -> None:
    split = Shape("long", "GB300", tp=2, kvp=4, ep=8, dense_tp=8)
    assert "beside linear layers" in " ".join(verdict("vllm", split, QWEN, GpuType.of("GB300")).faults)
    assert legal_in(Shape("decode", "H200", dp=8, ep=8), QWEN, H200) == ("vllm", "sglang", "trtllm")


# --- memory -----------------------------------------------------------------------------------------------------------


@NAMED
@pytest.mark.parametrize("tp", [1, 2, 8])
def test_weights_and_caches_are_those_of_the_closed_forms(llm: LlmFacts, tp: int) -> None:
    shape = Shape("decode", "H200", tp=tp, ep=tp, dense_tp=tp)
    one = held_by(shape, llm, FP8, (llm.layers,), 5_000, "bf16", False)[0]
    whole = weights_per_gpu(llm, tp=tp, ep=tp, numerics=FP8)
    assert one.weights == pytest.approx(whole.total - whole.routed, rel=1e-12)
    assert one.kv == pytest.approx(kv_bytes_per_gpu(llm, context_tokens=5_000, tp=tp), rel=1e-12)


@NAMED
def test_stages_hold_their_own_kinds_and_together_everything(llm: LlmFacts) -> None:
    shape = Shape("decode", "H200", tp=1)
    whole = held_by(shape, llm, BF16, (llm.layers,), 9_000, "bf16", False)[0]
    parts = held_by(shape, llm, BF16, (5, 1, llm.layers - 6), 9_000, "bf16", False)
    assert sum(part.weights for part in parts) == pytest.approx(whole.weights, rel=1e-12)
    assert sum(part.kv for part in parts) == pytest.approx(whole.kv, rel=1e-12)
    assert parts[1].kv == pytest.approx(sum(vars(layer_caches(llm, 9_000)[5]).values()), rel=1e-12)


def test_drafts_load_a_layer_with_its_index_and_keep_more_states() -> None:
    sizes = {"kept_tokens": 5_000, "numerics": BF16}
    shape = Shape("decode", "H200", ep=1)
    plain, two = (room_of(shape, SPARSE, H200, draft=draft, **sizes).stages[0] for draft in (0, 2))  # type: ignore[arg-type]
    dense = find("deepseek-v3")
    without, with_two = (room_of(shape, dense, H200, draft=draft, **sizes).stages[0] for draft in (0, 2))  # type: ignore[arg-type]
    assert two.weights - plain.weights == with_two.weights - without.weights + 2 * index_parameters(SPARSE)
    assert two.kv == plain.kv * 62 / 61
    none, three = (room_of(shape, QWEN, H200, draft=draft, **sizes).stages[0].kv for draft in (0, 3))  # type: ignore[arg-type]
    states = sum(layer.state for layer in layer_caches(QWEN, 5_000))
    assert three - none == pytest.approx(3 * states + layer_caches(QWEN, 5_000)[3].heads)
    window = room_of(shape, PRO, H200, draft=1, **sizes).stages[0].kv - kv_bytes(PRO, 5_000)  # type: ignore[arg-type]
    assert window == pytest.approx(128 * 512 * 2)


@NAMED
@pytest.mark.parametrize("draft", [0, 2])
def test_columns_of_memory_are_those_of_one_shape(llm: LlmFacts, draft: int) -> None:
    shapes = [Shape("decode", "H200", tp=tp, dp=8 // tp, ep=8, pp=pp, dense_tp=tp) for tp in (1, 2, 8) for pp in (1, 4)]
    table = Table(setting(llm), shapes)
    rooms = Rooms(table, kept_tokens=5_000, draft=draft)
    for row, shape in enumerate(shapes):
        room = room_of(shape, llm, H200, kept_tokens=5_000, kv=table.setting.numerics.kv, draft=draft)
        assert rooms.at(row, 7).used == pytest.approx(room.at(7).used, rel=1e-12)


# --- steps ------------------------------------------------------------------------------------------------------------


@NAMED
def test_decode_is_tp_decode_where_one_group_does_all(llm: LlmFacts) -> None:
    own, sequences = setting(llm), np.array([24.0])
    decoder = Decoder(Table(own, [Shape("colocated", "H200", tp=8, moe_tp=8, dense_tp=8)]), 30_000)
    assert H200.scale_up is not None
    wanted = tp_decode(
        llm, H200.machine, sequences=24, context_tokens=30_000, tp=8, link=H200.scale_up, head=True,
        numerics=own.numerics,
    )  # fmt: skip
    assert total_s(decoder.parts(sequences))[0] == pytest.approx(wanted.total_s, rel=1e-12)
    layers = decode_layers(
        llm, H200.machine, sequences=24, context_tokens=30_000, tp=8, moe_tp=8, dense_tp=8, numerics=own.numerics
    )
    assert sum(map(float, layers.costs)) == pytest.approx(wanted.attention_s + wanted.ffn_s, rel=1e-12)


@NAMED
def test_checked_drafts_and_prompts_are_the_operators_one_after_another(llm: LlmFacts) -> None:
    own = setting(llm)
    table = Table(own, [Shape("prefill", "H200")])
    decoder = Decoder(table, 20_000)
    wanted = sum(
        operators_s(
            H200.machine,
            layer_decode(llm, kind, sequences=5, queries=3, context_tokens=20_000, numerics=own.numerics),
        )
        for kind in layer_kinds(llm)
    )
    assert decoder.parts(np.array([5.0]), queries=3)[0, 0] == pytest.approx(wanted, rel=1e-9)
    prefiller, portion = Prefiller(table, CHAT), portions(CHAT)[-1]
    sizes = {"new_tokens": portion.tokens, "cached_tokens": portion.before, "sequences": portion.prompts}
    wanted = sum(
        operators_s(H200.machine, layer_prefill(llm, kind, numerics=own.numerics, **sizes))  # type: ignore[arg-type]
        for kind in layer_kinds(llm)
    )
    assert prefiller.step(portion)[0, 0] == pytest.approx(wanted, rel=1e-12)


def test_an_index_is_not_split_by_heads_and_its_prompts_may_be() -> None:
    shapes = [Shape("prefill", "H200", tp=tp, cp=cp, ep=tp * cp) for tp, cp in ((1, 1), (8, 1), (1, 8))]
    prefiller = Prefiller(Table(setting(SPARSE), shapes), CHAT)
    _, (weights, flops, _) = prefiller.attention(portions(CHAT)[0], LayerKind(indexed=True))
    assert len(set(weights.tolist())) == 1
    assert flops.tolist() == pytest.approx([flops[0], flops[0], flops[0] / 8])
    assert prefiller.passed(portions(CHAT)[0], LayerKind(indexed=True))[2] > 0


def test_long_contexts_are_cheaper_where_less_is_read() -> None:
    """Seconds a step at 8 and 128 Ki tokens: dense latents feel all of them, an index its keys, states nothing."""
    grown = {}
    for name in ("deepseek-v3", "deepseek-v3.2", "deepseek-v4-flash", "qwen3.5-397b-a17b"):
        table = Table(setting(find(name)), [Shape("decode", "H200", dp=8, ep=8)])
        near, far = (Decoder(table, tokens).parts(np.array([32.0]))[0, 0] for tokens in (8_192, 131_072))
        grown[name] = far / near
    assert grown["deepseek-v3"] > 3 * grown["deepseek-v3.2"] > 3
    assert grown["deepseek-v3"] > 2 * max(grown["deepseek-v4-flash"], grown["qwen3.5-397b-a17b"])


def test_a_linear_llm_without_linear_layers_is_an_ordinary_one() -> None:
    plain = replace(QWEN, attention=replace(QWEN.attention, linear=(), linear_kind=None))
    assert {config.shape for config in usable(plain)} and set(layer_kinds(plain)) == {LayerKind()}
    assert max(one.batch for one in usable(plain)) < max(one.batch for one in usable(QWEN))


def usable(llm: LlmFacts) -> list[Any]:
    instance = MeshInstance(
        (Demand(llm, Workload(30_000, 1_000)),), (B300,), "goodput", families=("decode",), most_pp=1
    )
    return [config for config in configs(instance) if config.usable]
