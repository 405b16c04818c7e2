"""Fewest GPUs: tables by hand, brute force, and words for what does not fit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from moeopt.cost import BF16, FP4, FP8, PEAK, Efficiency, Machine, Numerics, gpus_for_weights, weights_per_gpu
from moeopt.errors import InstanceError
from moeopt.llm import LlmFacts, catalogue, find
from moeopt.llm.facts import Attention
from moeopt.mesh.capacity import fewest_gpus, weights_bytes_of, weights_gpus, weights_shortfall
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import Demand
from moeopt.mesh.memory import most_sequences, room_of
from moeopt.mesh.rules import faults
from moeopt.mesh.shape import ROLES, Shape
from moeopt.mesh.workload import Workload

CHAT = Workload(4096, 1024)
DEEPSEEK = Demand(find("deepseek-v3"), CHAT, numerics=FP8)
THREE = ("A100", "H200", "B200")


@pytest.mark.parametrize(
    ("numerics", "raw", "nine_tenths"),
    [
        (BF16, (70, 40, 32), (78, 45, 35)),
        (Numerics("fp8"), (35, 20, 16), (39, 23, 18)),
        (FP4, (18, 10, 8), (20, 12, 9)),
    ],
    ids=lambda value: getattr(value, "weights", None),
)
def test_gpus_for_kimi_k3(numerics: Numerics, raw: tuple[int, ...], nine_tenths: tuple[int, ...]) -> None:
    """2.8e12 parameters on 80, 141 and 180 GB: all of the memory, and nine tenths of it; counted are 2.78e12."""
    size = 2.8e12 * numerics.weight_bytes
    assert weights_bytes_of(find("kimi-k3"), numerics) == pytest.approx(size, rel=0.01)
    assert tuple(weights_gpus(size, GpuType.of(gpu, efficiency=PEAK)) for gpu in THREE) == raw
    assert tuple(weights_gpus(size, GpuType.of(gpu)) for gpu in THREE) == nine_tenths


def test_nodes_for_kimi_k3() -> None:
    """BF16 needs 9, 5 and 4 nodes of eight."""
    size = weights_bytes_of(find("kimi-k3"), BF16)
    gpus = [weights_gpus(size, GpuType.of(gpu, efficiency=PEAK)) for gpu in THREE]
    assert [math.ceil(number / 8) for number in gpus] == [9, 5, 4]


@pytest.mark.parametrize(("numerics", "gpus"), [(BF16, 19), (FP8, 10)])
def test_gpus_for_deepseek_v3(numerics: Numerics, gpus: int) -> None:
    demand = Demand(find("deepseek-v3"), CHAT, numerics=numerics)
    assert weights_bytes_of(demand.llm, numerics) == pytest.approx(671.03e9 * numerics.weight_bytes, rel=1e-4)
    found = fewest_gpus(demand, GpuType.of("H800"))
    assert (
        found.weights_gpus
        == gpus
        == gpus_for_weights(params=671e9, bytes_per_param=numerics.weight_bytes, memory_bytes=80e9)
    )
    assert found.gpus is not None
    assert found.gpus >= gpus


@pytest.mark.parametrize(("ep", "sequences"), [(16, 49), (128, 173), (256, 182)])
def test_sequences_of_deepseek_v3_by_expert_parallelism(ep: int, sequences: int) -> None:
    """FP8 weights, contexts of 4,096, H800 with 72 GB for use, no buffers; the source leaves the routers out."""
    shape = Shape("decode", "H800", dp=ep, ep=ep)
    room = room_of(shape, DEEPSEEK.llm, GpuType.of("H800"), kept_tokens=4096, numerics=FP8, transport="none")
    routers = weights_per_gpu(DEEPSEEK.llm, numerics=FP8).router
    assert most_sequences(replace(room, usable=room.usable + routers)) == (sequences, "kv")
    assert most_sequences(room)[0] in (sequences, sequences - 1)


def test_deepseek_v3_needs_two_nodes_of_h800() -> None:
    for role in ROLES[:3]:
        found = fewest_gpus(DEEPSEEK, GpuType.of("H800"), role=role)
        assert found.fits
        assert found.whole_nodes == 16
        assert found.nodes == 2


def test_what_does_not_fit_names_both_sizes_and_what_would() -> None:
    said = " ".join(weights_shortfall(671e9, GpuType.of("H200"), 2))
    assert "671 GB" in said
    assert "253.8 GB" in said
    assert "at least 6 such GPUs for the weights alone" in said


def test_too_few_gpus_are_told_how_many_would_do() -> None:
    found = fewest_gpus(DEEPSEEK, GpuType.of("H100"), gpus=8)
    assert not found.fits
    assert found.said == (
        "671 GB of weights do not fit 576 GB (8 x H100 of 80 GB, 90 % usable): 95 GB are missing",
        "at least 10 such GPUs for the weights alone, 2 nodes of 8",
        f"{found.gpus} such GPUs hold weights and one request of 5,120 tokens, 2 nodes of 8, as {found.shape.label}",  # type: ignore[union-attr]
    )


@pytest.mark.parametrize("gpus", [0, 1, 2, 5])
def test_no_words_about_service_levels(gpus: int) -> None:
    found = fewest_gpus(DEEPSEEK, GpuType.of("H200", stock=gpus))
    said = " ".join(found.said).lower()
    assert said
    assert not any(word in said for word in ("slo", "relax", "latency", "target", "tpot", "ttft"))


def test_stock_is_what_there_is_unless_said() -> None:
    assert not fewest_gpus(DEEPSEEK, GpuType.of("H200", stock=2)).fits
    assert fewest_gpus(DEEPSEEK, GpuType.of("H200", stock=2), gpus=64).fits
    assert fewest_gpus(DEEPSEEK, GpuType.of("H200")).fits


def test_a_request_that_no_gpu_can_keep_is_said() -> None:
    """The latent of 50 million tokens is copied on every GPU of a stage."""
    endless = Demand(find("deepseek-v3"), Workload(50_000_000, 1), numerics=FP8)
    found = fewest_gpus(endless, GpuType.of("H200"))
    assert found.gpus is None
    assert found.said == ("no shape of up to 70 GPUs holds the weights and one request of 50,000,001 tokens",)
    split = fewest_gpus(endless, GpuType.of("GB200"), role="long")
    assert split.shape is not None
    assert split.shape.kvp > 1


def test_attention_that_is_not_counted_leaves_a_floor_and_the_reason() -> None:
    unknown = replace(find("deepseek-v4-pro"), attention=Attention("unknown"))
    found = fewest_gpus(Demand(unknown, CHAT), GpuType.of("H200"))
    assert found.weights_gpus >= 7
    assert found.gpus is None
    assert "is not known, so neither are its weights" in found.said[0]


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b", "llama-3-70b", "gpt-oss-120b"])
@pytest.mark.parametrize("memory", [24e9, 48e9, 80e9])
def test_fewest_is_that_of_brute_force(name: str, memory: float) -> None:
    llm = find(name)
    machine = Machine("small", {"bf16": 1e15}, 1e12, memory, Efficiency())
    base = GpuType.of("H100")
    gpu = GpuType("small", machine, 8, 8, base.scale_up, base.network)
    found = fewest_gpus(Demand(llm, Workload(1000, 200)), gpu, most_pp=4)
    assert found.gpus == _brute(llm, gpu, 1200)


def _brute(llm: LlmFacts, gpu: GpuType, kept: int) -> int:
    for gpus in range(1, 65):
        for pp in range(1, 5):
            for tp in range(1, gpus // pp + 1):
                for ep in range(1, gpus // pp + 1):
                    stage = gpus // pp
                    if gpus % pp or stage % tp or (llm.dense and ep > 1) or (not llm.dense and stage % ep):
                        continue
                    moe_tp = 1 if llm.dense else stage // ep
                    redundant = -int(llm.experts or 0) % ep
                    shape = Shape(
                        "decode", gpu.name, pp=pp, tp=tp, dp=stage // tp, ep=ep, moe_tp=moe_tp, redundant=redundant
                    )
                    for dense_tp in (tp, stage):
                        one = Shape(**{**shape.__dict__, "dense_tp": dense_tp})
                        if faults(one, llm, gpu):
                            continue
                        room = room_of(one, llm, gpu, kept_tokens=kept)
                        if room.fits(1):
                            return gpus
    raise AssertionError("nothing fits")


@pytest.mark.parametrize("llm", catalogue().values(), ids=lambda llm: llm.name)
def test_every_llm_of_the_catalogue_is_placed_or_refused_with_the_reason(llm: LlmFacts) -> None:
    try:
        found = fewest_gpus(Demand(llm, CHAT), GpuType.of("H200"))
    except InstanceError as error:
        assert "not known" in str(error) or "no source" in str(error)
        return
    if found.gpus is None:
        assert "no confirmed source" in found.said[0]
        return
    assert found.gpus >= found.weights_gpus
    assert found.memory is not None
    assert found.memory.free >= 0
    assert found.sequences >= 1
    assert found.binds in ("kv", "buffer", "most")
    assert found.whole_nodes is not None
    assert found.gpus <= found.whole_nodes
    assert found.shape is not None
    assert faults(found.shape, llm, GpuType.of("H200")) == []


def test_more_memory_never_needs_more_gpus() -> None:
    counts = [fewest_gpus(DEEPSEEK, GpuType.of(gpu)).gpus or 0 for gpu in ("H800", "H20", "H200", "B200")]
    assert counts == sorted(counts, reverse=True)


def test_format_that_is_not_known_is_refused() -> None:
    at = Attention("gqa", heads=8, kv_heads=8, head_dim=128)
    llm = LlmFacts("odd", "llama", 2, (0, 1), (), 0, 0, hidden=1024, dense_width=2048, vocab=1000, attention=at)
    with pytest.raises(InstanceError, match="odd: weight_format = not known: is needed for the bytes of weights"):
        fewest_gpus(Demand(llm, CHAT), GpuType.of("H200"))
    assert fewest_gpus(Demand(llm, CHAT, numerics=BF16), GpuType.of("H200")).gpus == 1
