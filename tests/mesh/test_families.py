"""Families: every configuration keeps what it promises, none better is left out, and refusals say why."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from moeopt.cost.roofline import FP8
from moeopt.llm import find
from moeopt.mesh.config import Config
from moeopt.mesh.families import configs
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.instance import Demand, MeshInstance, demand_of
from moeopt.mesh.memory import memory_of, room_of
from moeopt.mesh.rules import faults
from moeopt.mesh.shape import Shape
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.table import Setting, Table
from moeopt.mesh.workload import Slo, Workload

H800 = GpuType.of("H800", stock=320)
UNEVEN = Imbalance("test", ((2, 0, 1.05), (8, 0, 1.2), (32, 0, 1.5), (32, 32, 1.1), (320, 0, 2.0), (320, 32, 1.2)))


def deepseek(imbalance: Imbalance = UNEVEN, **rest: object) -> MeshInstance:
    demand = demand_of(find("deepseek-v3"), (4096, 1024), slo=Slo(2.0, 0.05))
    return MeshInstance((demand,), (H800,), "goodput", imbalance=imbalance, **rest)  # type: ignore[arg-type]


@cache
def found(*families: str) -> tuple[Config, ...]:
    return tuple(configs(deepseek(families=families)))


def small(name: str, gpu: GpuType, slo: Slo, workload: Workload, **rest: object) -> list[Config]:
    return configs(MeshInstance((Demand(find(name), workload, slo),), (gpu,), "goodput", **rest))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["colocated", "prefill", "decode"])
def test_usable_configurations_break_no_rule_and_keep_levels_and_memory(family: str) -> None:
    usable = [config for config in found(family) if config.usable]
    assert len(usable) > 300
    for config in usable[::7]:
        shape, rest = config.shape, {}
        assert isinstance(shape, Shape)
        assert faults(shape, find("deepseek-v3"), H800) == []
        assert config.tpot_s is None or config.tpot_s <= 0.05 * (1 + 1e-12)
        assert config.ttft_s is None or config.ttft_s <= 2.0 * (1 + 1e-12)
        if config.chunk is not None:
            rest["chunk"] = config.chunk
        kept = 4096 if family == "prefill" else 5120
        memory = memory_of(
            shape,
            find("deepseek-v3"),
            H800,
            sequences=config.batch,
            kept_tokens=kept,
            overlap=config.overlap,
            **rest,
        )
        ours = config.memory["H800"]
        assert ours.free >= 0
        for part in ("weights", "experts", "redundant", "kv", "buffers", "used", "free"):
            assert getattr(ours, part) == pytest.approx(getattr(memory, part), rel=1e-12, abs=1.0)
        if config.tpot_s is not None:
            parts = config.parts_s
            spent = sum(seconds for name, seconds in parts.items() if name != "hidden") - parts["hidden"]
            assert spent == pytest.approx(config.tpot_s, rel=1e-12)
            assert config.tokens_per_s == pytest.approx(config.batch * shape.dp / config.tpot_s)


def test_one_sequence_more_breaks_what_binds() -> None:
    table_rows = [config for config in found("decode") if config.usable][::23]
    seen = Counter(config.binds for config in table_rows)
    assert set(seen) <= {"kv", "buffer", "tpot"} and len(seen) >= 2
    for config in table_rows:
        shape = config.shape
        assert isinstance(shape, Shape)
        if config.binds != "tpot":
            sizes = {"kept_tokens": 5120, "overlap": config.overlap, "sequences": config.batch + 1}
            assert memory_of(shape, find("deepseek-v3"), H800, **sizes).free < 0
            continue
        context = Context(deepseek(), 0, deepseek().demands[0])
        decoder = Decoder(Table(context.setting(H800, context.numerics(H800)[0]), [shape]), 4096 + 512)
        assert decoder.tpot_s(np.array([config.batch + 1]), dual=config.overlap)[0] > 0.05
        assert decoder.tpot_s(np.array([config.batch]), dual=config.overlap)[0] == pytest.approx(config.tpot_s)


def test_published_deployments_are_among_the_shapes() -> None:
    labels = {(config.family, config.shape.label) for config in found("prefill", "decode") if config.usable}
    assert {("decode", f"DP{ep} = EP{ep}") for ep in (72, 144, 320)} <= labels
    assert ("decode", "TP4 x DP80 = EP320") in labels
    assert {("prefill", "DP32 = EP32"), ("prefill", "TP4 x DP8 = EP32")} <= labels
    redundant = {c.shape.redundant for c in found("decode") if c.shape.label == "DP144 = EP144"}
    assert 32 in redundant


def test_every_shape_comes_once() -> None:
    keys = [(config.family, config.shape, config.kv) for config in found("prefill", "decode")]
    assert len(keys) == len(set(keys))


def test_refused_degrees_and_shapes_say_why() -> None:
    refused = [config for config in found("decode") if not config.usable]
    said = [reason for config in refused for reason in config.reasons]
    assert all(config.batch == 0 and config.tokens_per_s == 0 for config in refused)
    small_ones = [config for config in refused if config.shape.gpus == 4]
    assert any("do not fit" in reason or "does not fit" in reason for c in small_ones for reason in c.reasons)
    assert all(reason and not reason.endswith(".") for reason in said)
    odd = small("deepseek-v3", GpuType.of("H800", stock=7), Slo(2.0, 0.05), Workload(4096, 1024))
    assert any("tp = 3: 128 heads do not divide by 3" in reason for c in odd for reason in c.reasons)
    assert any("moe_tp = 3" in reason for c in odd for reason in c.reasons)
    assert {config.shape.gpus for config in odd} <= set(range(1, 8))


def test_times_beyond_any_batch_are_named() -> None:
    tight = small("mixtral-8x7b", GpuType.of("H100", stock=8), Slo(1e-4, 1e-4), Workload(2048, 512))
    assert not any(config.usable for config in tight)
    said = {config.family: " ".join(config.reasons) for config in tight if config.shape.gpus == 8}
    assert "TPOT is" in said["decode"] and "above 0.1 ms" in said["decode"]
    assert "TTFT is" in said["prefill"]
    assert "TPOT is" in said["colocated"] and "TTFT is" in said["colocated"]


def test_rooms_are_the_memory_of_each_shape() -> None:
    demand = deepseek().demands[0]
    context = Context(deepseek(), 0, demand)
    for llm, numerics in ((find("deepseek-v3"), None), (find("gpt-oss-20b"), None), (find("mixtral-8x7b"), FP8)):
        one = Context(deepseek(), 0, replace(demand, llm=llm, numerics=numerics))
        for role in ("decode", "colocated", "prefill"):
            table = next(one.tables(role))[0]  # type: ignore[arg-type]
            rows = range(0, len(table), 29)
            for draft, overlap, chunk in ((0, False, 0), (2, True, 512)):
                rooms = Rooms(
                    table, kept_tokens=5000, reserve_bytes=1e9, numerics=numerics, draft=draft, overlap=overlap
                )
                most = rooms.most(chunk)
                for row in rows:
                    wanted = room_of(
                        table.shapes[row],
                        llm,
                        H800,
                        kept_tokens=5000,
                        chunk=chunk,
                        numerics=numerics,
                        draft=draft,
                        overlap=overlap,
                        reserve_bytes=1e9,
                    )
                    assert most[row] == max(wanted.most(), 0)
                    assert rooms.at(row, 17, chunk).used == pytest.approx(wanted.at(17).used, rel=1e-12)
    assert context.most_batch == 4096


def test_looser_levels_and_faster_links_never_cost_throughput() -> None:
    workload, gpu = Workload(2048, 512), GpuType.of("H100", stock=8)
    assert gpu.network is not None

    def rates(slo: Slo, gpu: GpuType) -> dict[tuple[str, object], float]:
        every = small("mixtral-8x7b", gpu, slo, workload, families=("colocated", "prefill", "decode"))
        return {(c.family, c.shape): max(c.prefill_per_s, c.decode_per_s) for c in every}

    base = rates(Slo(1.0, 0.03), gpu)
    for slo, other in (
        (Slo(1.0, 0.04), gpu),
        (Slo(2.0, 0.03), gpu),
        (Slo(None, None), replace(gpu, machine=replace(gpu.machine, memory_bytes=2e11))),
    ):
        better = rates(slo, other)
        if slo.ttft_s is None:  # without a level prefill stays below its capacity
            better = {key: rate for key, rate in better.items() if key[0] != "prefill"}
        assert all(rate >= base[key] * (1 - 1e-9) for key, rate in better.items())


def test_the_shortest_time_per_token_is_that_of_one_sequence() -> None:
    gpu, slo = GpuType.of("H100", stock=8), Slo()
    demand = Demand(find("mixtral-8x7b"), Workload(2048, 512), slo)
    quick = configs(MeshInstance((demand,), (gpu,), "time", families=("decode",)))
    assert {config.batch for config in quick if config.usable} == {1}
    best = min((config for config in quick if config.usable), key=lambda config: config.tpot_s or 1.0)
    assert best.shape.label == "TP8 = MoE-TP8"


def test_drafts_are_taken_where_they_pay() -> None:
    def decode(drafts: tuple[float, ...]) -> list[Config]:
        every = small(
            "deepseek-v3",
            GpuType.of("H800", stock=32),
            Slo(None, 0.03),
            Workload(4096, 1024),
            families=("decode",),
            drafts=drafts,
        )
        return [config for config in every if config.usable]

    plain, useless, good = decode(()), decode((1.0,)), decode((1.79, 2.27, 2.49))
    assert [config.tokens_per_s for config in useless] == [config.tokens_per_s for config in plain]
    assert {config.draft for config in useless} == {0}
    assert max(config.draft for config in good) >= 1
    best = [max(config.tokens_per_s / config.total_gpus for config in row) for row in (plain, good)]
    assert best[1] > best[0]


def test_an_engine_gets_only_what_it_can_launch() -> None:
    demand = demand_of(find("deepseek-v3"), (4096, 1024), slo=Slo(2.0, 0.05))
    gpu = GpuType.of("H800", stock=24)
    for engine in ("vllm", "sglang", "trtllm"):
        every = configs(MeshInstance((demand,), (gpu,), "goodput", engine=engine, families=("decode",)))
        usable = [config for config in every if config.usable]
        assert usable and all(engine in config.legal_in for config in usable)
        assert any(reason.startswith(f"{engine}: ") for config in every for reason in config.reasons)
        assert not (engine == "trtllm" and any(config.overlap for config in usable))


def test_formats_of_the_cache_come_side_by_side() -> None:
    gpu = GpuType.of("H100", stock=8)
    every = small("mixtral-8x7b", gpu, Slo(2, 0.05), Workload(2048, 512), kv_formats=("bf16", "fp8"))
    best = {
        kv: max(c.decode_per_s / c.total_gpus for c in every if c.kv == kv and c.usable and c.family == "decode")
        for kv in ("bf16", "fp8")
    }
    assert best["fp8"] > best["bf16"]


def test_deepseek_recipe_is_within_five_per_cent_of_the_best() -> None:
    def rate(config: Config) -> float:
        return max(config.prefill_per_s, config.decode_per_s) / config.total_gpus

    def together(prefill: float, decode: float) -> float:
        return prefill * decode / (prefill + decode)  # requests a second and GPU, pools in proportion

    every = configs(deepseek(families=("prefill", "decode"), imbalance=Imbalance.even()))
    usable = [config for config in every if config.usable]
    best = {family: max(rate(c) for c in usable if c.family == family) for family in ("prefill", "decode")}
    recipe = {
        family: max(rate(c) for c in usable if c.family == family and c.shape.label == label)
        for family, label in (("prefill", "DP32 = EP32"), ("decode", "DP144 = EP144"))
    }
    assert together(**recipe) >= 0.95 * together(**best)


@pytest.mark.parametrize(
    ("gpu", "name"), [("H20", "dbrx"), ("L40S", "gpt-oss-20b"), ("GB200", "llama-3-70b"), ("L40S", "llama-3-70b")]
)
def test_any_gpu_and_llm_answers(gpu: str, name: str) -> None:
    every = small(name, GpuType.of(gpu, stock=16), Slo(5.0, 0.2), Workload(600, 150), families=("colocated",))
    assert every and any(config.usable for config in every)
    llm, kind = find(name), GpuType.of(gpu, stock=16)
    for config in every:
        if config.usable and isinstance(config.shape, Shape):
            assert faults(config.shape, llm, kind) == []


def test_tables_without_shapes_are_empty() -> None:
    setting = Setting(find("dbrx"), H800, FP8, Imbalance.even(), 0.0)
    assert len(Table(setting, [])) == 0
