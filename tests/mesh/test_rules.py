"""Rules of a shape: each broken one is named with values that do, and shapes of real services break none."""

from __future__ import annotations

import itertools
import re

import pytest

from moeopt.cost import BF16, FP8, Numerics
from moeopt.errors import InstanceError
from moeopt.llm import LlmFacts, catalogue, find
from moeopt.llm.facts import Attention
from moeopt.mesh.degrees import block_of, divisors
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.rules import allowed_moe_tp, allowed_tp, faults
from moeopt.mesh.shape import ApartShape, Shape

H800 = GpuType.of("H800")
DEEPSEEK = find("deepseek-v3")


def said(shape: Shape | ApartShape, llm: LlmFacts, gpu: GpuType = H800, numerics: Numerics | None = None) -> list[str]:
    return [str(fault) for fault in faults(shape, llm, gpu, numerics)]


def small(**rest: object) -> LlmFacts:
    at = rest.pop("attention", Attention("gqa", heads=40, kv_heads=40, head_dim=128))
    base = {"hidden": 5120, "vocab": 32_000, "dense_width": 13_824}
    return LlmFacts("small", "llama", 40, tuple(range(40)), (), 0, 0, attention=at, **{**base, **rest})  # type: ignore[arg-type]


def test_degrees_of_40_heads_on_6_gpus() -> None:
    found = allowed_tp(small(), gpus=6)
    assert found.allowed == (1, 2)
    assert sorted(found.refused) == [3, 6]
    assert all("40 heads" in reason for reason in found.refused.values())


def test_blocks_of_fp8_limit_how_far_an_expert_is_split() -> None:
    """768 columns in blocks of 128: a quarter would be 192."""
    llm = find("qwen3-30b-a3b")
    assert llm.expert_width == 768
    assert allowed_moe_tp(llm, gpus=8, numerics=Numerics("fp8_block")).allowed == (1, 2)
    assert allowed_moe_tp(llm, gpus=8, numerics=BF16).allowed == (1, 2, 4, 8)
    by_experts = Shape("decode", "H800", dp=8, ep=8)
    assert faults(by_experts, llm, H800, Numerics("fp8_block")) == []


def test_moe_degrees_must_make_up_the_gpus() -> None:
    (fault,) = said(Shape("colocated", "H800", tp=8, ep=2, moe_tp=2, dense_tp=8), find("qwen3-235b-a22b"))
    assert fault == (
        "ep x moe_tp = 2 x 2: moe_tp x moe_ep must be 8, the GPUs that hold a stage's experts, and is 4. "
        "Use EP 8, MoE-TP 1 or EP 4, MoE-TP 2."
    )


@pytest.mark.parametrize("experts", [1, 2, 3, 4])
def test_kv_heads_are_split_or_copied_whole(experts: int) -> None:
    llm = small(attention=Attention("gqa", heads=48, kv_heads=6, head_dim=128))
    assert allowed_tp(llm, gpus=48).allowed == (1, 2, 3, 6, 12, 24, 48)
    assert allowed_tp(llm, gpus=48).refused == {
        4: "6 KV heads neither divide by 4 nor divide it",
        8: "6 KV heads neither divide by 8 nor divide it",
        16: "6 KV heads neither divide by 16 nor divide it",
    }


REAL = [
    (Shape("prefill", "H800", tp=4, dp=8, ep=32, redundant=32), DEEPSEEK),
    (Shape("decode", "H800", tp=4, dp=80, ep=320, redundant=64), DEEPSEEK),
    (Shape("decode", "H800", dp=144, ep=144, redundant=32), DEEPSEEK),
    (Shape("decode", "H800", dp=72, ep=72, redundant=32), DEEPSEEK),
    (Shape("prefill", "H800", dp=32, ep=32, redundant=32), DEEPSEEK),
    (Shape("colocated", "H800", tp=8, moe_tp=8, dense_tp=8), find("mixtral-8x7b")),
    (Shape("colocated", "H800", tp=16, dense_tp=16), find("llama-3.1-405b")),
    (Shape("prefill", "H800", tp=8, cp=2, ep=16, dense_tp=8, pp=2), find("qwen3-235b-a22b")),
    (Shape("colocated", "H800", pp=4, tp=8, ep=8, dense_tp=8), DEEPSEEK),
    (ApartShape("H800", "H800", tp_a=8, n_a=8, tp_e=1, n_e=32, m=3), DEEPSEEK),
    (ApartShape("H800", "H800", tp_a=2, n_a=4, tp_e=2, n_e=8, m=3), find("mixtral-8x22b")),
]


@pytest.mark.parametrize(("shape", "llm"), REAL, ids=lambda one: getattr(one, "label", getattr(one, "name", None)))
def test_shapes_of_real_services_break_no_rule(shape: Shape | ApartShape, llm: LlmFacts) -> None:
    assert said(shape, llm, numerics=FP8 if llm is DEEPSEEK else None) == []


BROKEN = {
    "pp = 64: each stage needs a layer, and there are 61. Use at most 61.": Shape("decode", "H800", pp=64),
    "tp = 96: 128 heads do not divide by 96. Use 64.": Shape("decode", "H800", tp=96),
    "tp = 128: the 192 rows or columns of queries on one GPU would cut blocks of 128. Use 64.": Shape(
        "decode", "H800", tp=128
    ),
    "ep = 144: must divide experts + redundant = 256. Use 128 or 256, or 32 redundant experts.": Shape(
        "decode", "H800", dp=144, ep=144
    ),
    "ep = 0: must be a whole number >= 1. Give a whole number from 1.": Shape("decode", "H800", ep=0),
    "redundant = 300: each of the 2 GPUs holds an expert once at most. Use at most 256.": Shape(
        "decode", "H800", dp=2, ep=2, redundant=300
    ),
    "cp = 2: splits the tokens of a prompt, and none is computed here. Use 1, or kvp.": Shape("decode", "H800", cp=2),
    "kvp = 2: splits a cache that is read token by token. Use 1, or cp.": Shape("prefill", "H800", kvp=2),
    "ffn_gpus = 1: belongs to the role long. Leave it out.": Shape("decode", "H800", ffn_gpus=1),
    "role = sleep: is not one of colocated, prefill, decode, long. Use one of these.": Shape("sleep", "H800"),  # type: ignore[arg-type]
    "gpu = H20: is not the GPU that is asked about, H800. Use H800.": Shape("decode", "H20"),
    "tp x dp x cp x kvp = 12: a stage beyond one node takes whole nodes of 8. Use 8 or 16.": Shape(
        "decode", "H800", dp=12, ep=4, moe_tp=3
    ),
    "ep x moe_tp = 8 x 2: an expert cannot be split where its EP group spans nodes of 8. Use EP 16, MoE-TP 1.": Shape(
        "decode", "H800", dp=16, ep=8, moe_tp=2
    ),
    "moe_tp = 32: the 64 of 2048 columns of an expert would cut blocks of 128. Use 16, and more EP.": Shape(
        "decode", "H800", dp=32, moe_tp=32
    ),
    "dense_tp = 3: must divide the stage's 8 GPUs. Use 2 or 4.": Shape("decode", "H800", dp=8, ep=8, dense_tp=3),
    "dense_tp = 32: the 576 of 18432 columns of a dense layer would cut blocks of 128; "
    "the 64 of 2048 columns of the shared experts would cut blocks of 128. Use 16.": Shape(
        "decode", "H800", dp=32, ep=32, dense_tp=32
    ),
    "tp = 1048577: is above 1,048,576. Use fewer GPUs.": Shape("decode", "H800", tp=2**20 + 1),
    "gpus = 1024: one replica needs more than the 512 of H800 there are. Use at most 512.": Shape(
        "decode", "H800", pp=4, dp=256, ep=256
    ),
}


@pytest.mark.parametrize("words", BROKEN)
def test_broken_rule_says_what_would_do(words: str) -> None:
    assert words in said(BROKEN[words], DEEPSEEK, H800.with_stock(512))


def test_dense_llm_has_no_experts_to_spread() -> None:
    found = said(Shape("decode", "H800", tp=8, ep=8, moe_tp=2, redundant=4), find("llama-3.1-405b"))
    assert [fault.split(":")[0] for fault in found] == ["ep = 8", "moe_tp = 2", "redundant = 4"]
    apart = said(ApartShape("H800", "H800", 1, 1, 1, 1, 2), find("llama-3.1-405b"))
    assert apart == ["experts = 0: this LLM is dense: there is nothing to set apart. Use another family."]


def test_all_faults_come_together() -> None:
    shape = Shape("decode", "H800", pp=70, tp=3, dp=5, ep=7, moe_tp=3, dense_tp=2)
    found = {fault.field for fault in faults(shape, DEEPSEEK, H800.with_stock(8))}
    assert found == {"tp", "ep", "ep x moe_tp", "moe_tp", "dense_tp", "pp", "tp x dp x cp x kvp", "gpus"}


def test_sides_apart_name_their_own_degrees() -> None:
    shape = ApartShape("H800", "H20", tp_a=3, n_a=2, tp_e=32, n_e=7, m=3)
    found = faults(shape, DEEPSEEK, H800.with_stock(4), expert_gpu=GpuType.of("H20", stock=100))
    assert sorted({fault.field for fault in found}) == ["gpus", "n_e", "tp_a", "tp_e"]
    assert [fault.value for fault in found if fault.field == "gpus"] == ["6", "224"]


def test_no_network_is_one_domain() -> None:
    alone = GpuType("lonely", H800.machine, 8, 8, H800.scale_up, None)
    assert said(Shape("decode", "lonely", dp=16, ep=16), DEEPSEEK, alone) == [
        "gpus = 16: no network is known between domains of 8. Use at most 8, or give the network's Link."
    ]


def test_rack_of_72_is_one_domain() -> None:
    gb200 = GpuType.of("GB200")
    assert said(Shape("decode", "GB200", dp=36, ep=36, redundant=32), DEEPSEEK, gb200) == []
    assert said(Shape("decode", "GB200", dp=144, ep=144, redundant=32), DEEPSEEK, gb200) == []
    assert said(Shape("decode", "GB200", dp=64, ep=16, moe_tp=4), DEEPSEEK, gb200) == []


@pytest.mark.parametrize("llm", catalogue().values(), ids=lambda llm: llm.name)
def test_every_llm_of_the_catalogue_is_judged(llm: LlmFacts) -> None:
    for tp, dp, ep in itertools.product((1, 3, 8), (1, 4), (1, 4, 32)):
        if llm.dense and ep > 1:
            continue
        shape = Shape("decode", "H800", tp=tp, dp=dp, ep=ep, moe_tp=max(1, tp * dp // ep), dense_tp=tp)
        for fault in faults(shape, llm, H800):
            assert re.match(r".+ = .+: .+\. (Use|Give|No value).+\.", str(fault)), fault


@pytest.mark.parametrize("gpus", [0, -1, 2.0, True, "8", 2**20 + 1])
def test_broken_numbers_of_gpus_are_refused(gpus: object) -> None:
    with pytest.raises(InstanceError, match="gpus = "):
        allowed_tp(DEEPSEEK, gpus=gpus)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, 2, 7, 36, 97, 144, 320, 1 << 12])
def test_divisors_are_all_that_divide(number: int) -> None:
    assert divisors(number) == tuple(d for d in range(1, number + 1) if number % d == 0)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "2", None])
def test_degrees_that_are_no_counts_are_named(value: object) -> None:
    shapes = [Shape("decode", "H800", tp=value, redundant=-1), ApartShape("H800", "H800", 1, 1, 1, value, 2)]  # type: ignore[arg-type]
    assert [fault.split(" = ")[0] for shape in shapes for fault in said(shape, DEEPSEEK)] == ["tp", "redundant", "n_e"]


def test_blocks_of_formats() -> None:
    assert [block_of(form) for form in ("fp8_block", "mxfp4", "nvfp4", "int4_g128", "int8", None)] == [
        128,
        32,
        16,
        128,
        1,
        1,
    ]
