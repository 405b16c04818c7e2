"""What engines launch, and the command that does it."""

from __future__ import annotations

import shlex

import pytest

from moeopt.errors import InstanceError
from moeopt.llm import LlmFacts, catalogue, find
from moeopt.mesh.flags import ENGINES, Sizes, launch
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.legal import RULES, Use, legal_in, verdicts
from moeopt.mesh.rules import faults
from moeopt.mesh.shape import ApartShape, Shape

H800, GB200 = GpuType.of("H800"), GpuType.of("GB200")
DEEPSEEK, MIXTRAL, LLAMA = find("deepseek-v3"), find("mixtral-8x7b"), find("llama-3.1-405b")
QWEN = find("qwen3-235b-a22b")


def why(engine: str, shape: Shape, llm: LlmFacts = DEEPSEEK, use: Use = Use()) -> str:
    return "; ".join(next(one for one in verdicts(shape, llm, H800, use) if one.engine == engine).faults)


def words(engine: str, shape: Shape, llm: LlmFacts = DEEPSEEK, **rest: object) -> list[str]:
    return list(launch(engine, shape, llm, H800, **rest).command)  # type: ignore[arg-type]


def option(listed: list[str], name: str) -> str:
    return listed[listed.index(name) + 1]


@pytest.mark.parametrize(
    ("shape", "llm", "engines"),
    [
        (Shape("decode", "H800", dp=144, ep=144, redundant=32), DEEPSEEK, ("vllm", "sglang", "trtllm")),
        (Shape("prefill", "H800", dp=32, ep=32, redundant=32), DEEPSEEK, ("vllm", "sglang", "trtllm")),
        (Shape("decode", "H800", tp=4, dp=80, ep=320, redundant=64), DEEPSEEK, ("vllm", "sglang")),
        (Shape("colocated", "H800", tp=8, moe_tp=8, dense_tp=8), MIXTRAL, ("vllm", "sglang", "trtllm")),
        (Shape("colocated", "H800", tp=8, ep=4, moe_tp=2, dense_tp=8), MIXTRAL, ("sglang", "trtllm")),
        (Shape("colocated", "H800", tp=8, dense_tp=8), LLAMA, ("vllm", "sglang", "trtllm")),
    ],
    ids=lambda one: getattr(one, "label", None),
)
def test_known_shapes_are_launched_by_those_that_can(shape: Shape, llm: LlmFacts, engines: tuple[str, ...]) -> None:
    assert faults(shape, llm, H800) == []
    assert legal_in(shape, llm, H800) == engines


def test_experts_apart_and_ffn_on_a_part_are_paper_only() -> None:
    assert legal_in(ApartShape("H800", "H800", 1, 4, 1, 8, 3), MIXTRAL, H800) == ()
    assert legal_in(Shape("long", "GB200", tp=8, kvp=8, dense_tp=8, ffn_gpus=8), LLAMA, GB200) == ()


@pytest.mark.parametrize(
    ("engine", "shape", "llm", "use", "words_"),
    [
        ("vllm", Shape("colocated", "H800", tp=8, ep=4, moe_tp=2), MIXTRAL, Use(), "EP 8 or MoE-TP 8, not EP 4 x"),
        ("vllm", Shape("decode", "H800", tp=4, kvp=2), LLAMA, Use(), "tp >= kv_heads = 8"),
        ("vllm", Shape("decode", "H800", tp=8, ep=8), DEEPSEEK, Use(overlap=True), "dual micro-batches need DP and EP"),
        ("vllm", Shape("decode", "H800", dp=8, ep=8), DEEPSEEK, Use(kv="nvfp4"), "keeps no cache in nvfp4"),
        ("sglang", Shape("decode", "H800", pp=2, dp=8, ep=8), DEEPSEEK, Use(draft=1), "no speculation with pipeline"),
        ("sglang", Shape("decode", "H800", tp=4, kvp=2), LLAMA, Use(), "for MLA only"),
        ("trtllm", Shape("decode", "H800", tp=2, dp=4, ep=8), DEEPSEEK, Use(), "TP or DP over a stage, not TP2 x DP4"),
        ("trtllm", Shape("prefill", "H800", tp=4, cp=2, ep=8), DEEPSEEK, Use(), "do not go with EP"),
    ],
)
def test_refused_shapes_say_why(engine: str, shape: Shape, llm: LlmFacts, use: Use, words_: str) -> None:
    assert words_ in why(engine, shape, llm, use)


def test_limits_of_deepep_stop_every_engine() -> None:
    kimi = find("kimi-k3")
    wide = Shape("decode", "H800", dp=64, ep=64)
    assert "take 9 experts a token, not 16" in why("vllm", wide, kimi)
    assert "not 3584" in why("sglang", wide, kimi)
    assert why("vllm", Shape("prefill", "H800", dp=64, ep=64), kimi) == ""
    assert "1,024 tokens a GPU and step, not 2,000" in why("vllm", wide, use=Use(tokens=2_000))
    odd = Shape("decode", "H800", dp=12, ep=12, redundant=8)
    assert "whole nodes of 8: ep = 12 is no multiple" in why("sglang", odd)
    assert why("vllm", wide, kimi, Use(transport="allgather")) == ""


def test_commands_of_vllm_add_up_to_the_gpus() -> None:
    shape = Shape("decode", "H800", tp=4, dp=80, ep=320, redundant=64)
    listed = words("vllm", shape, sizes=Sizes(sequences=128, context=8192), use=Use(kv="fp8", draft=1))
    assert int(option(listed, "--tensor-parallel-size")) * int(option(listed, "--data-parallel-size")) == shape.gpus
    assert option(listed, "--data-parallel-size-local") == "2"
    assert option(listed, "--all2all-backend") == "deepep_low_latency"
    assert option(listed, "--eplb-config") == '{"num_redundant_experts": 64}'
    assert option(listed, "--max-num-seqs") == "128"
    assert option(listed, "--kv-cache-dtype") == "fp8"
    assert option(listed, "--speculative-config") == '{"method": "mtp", "num_speculative_tokens": 1}'
    assert launch("vllm", shape, DEEPSEEK, H800).nodes == 40


def test_commands_of_sglang_tell_sizes_of_all_ranks() -> None:
    shape = Shape("prefill", "H800", dp=32, ep=32, redundant=32)
    listed = words("sglang", shape, sizes=Sizes(sequences=2, chunk=8192), use=Use(overlap=True))
    assert option(listed, "--tp-size") == option(listed, "--dp-size") == option(listed, "--ep-size") == "32"
    assert option(listed, "--chunked-prefill-size") == str(32 * 8192)
    assert option(listed, "--max-running-requests") == "64"
    assert option(listed, "--deepep-mode") == "normal"
    assert option(listed, "--disaggregation-mode") == "prefill"
    assert "--enable-two-batch-overlap" in listed


def test_file_of_trtllm_has_the_degrees() -> None:
    shape = Shape("colocated", "H800", tp=8, ep=4, moe_tp=2, dense_tp=8)
    found = launch("trtllm", shape, QWEN, H800)
    assert option(list(found.command), "--tp_size") == "8"
    assert option(list(found.command), "--ep_size") == "4"
    assert found.files["config.yaml"] == "enable_attention_dp: false\nmoe_tensor_parallel_size: 2\n"
    helix = launch("trtllm", Shape("long", "GB200", tp=8, kvp=4, dense_tp=32), LLAMA, GB200)
    assert "context_parallel_size: 4\ncp_config: {cp_type: HELIX}\n" in helix.files["config.yaml"]


@pytest.mark.parametrize(
    ("engine", "env"), [("vllm", "VLLM_PP_LAYER_PARTITION"), ("sglang", "SGLANG_PP_LAYER_PARTITION")]
)
def test_uneven_stages_are_told(engine: str, env: str) -> None:
    shape = Shape("colocated", "H800", pp=4, tp=8, ep=8, dense_tp=8)
    assert launch(engine, shape, DEEPSEEK, H800, sizes=Sizes(stages=(17, 15, 15, 14))).env == {env: "17,15,15,14"}
    assert launch(engine, shape, DEEPSEEK, H800, sizes=Sizes(stages=(16, 15, 15, 15))).env == {}


def test_drafts_without_mtp_name_a_draft_model() -> None:
    shape = Shape("decode", "H800", tp=8, ep=8, dense_tp=8)
    assert "$DRAFT" in launch("sglang", shape, QWEN, H800, use=Use(draft=3)).line
    notes = verdicts(shape, QWEN, H800, Use(draft=3))[0].notes
    assert "drafts need a model of their own: this one has no MTP layers" in notes


def test_lines_are_what_a_shell_reads_back() -> None:
    shape = Shape("decode", "H800", dp=16, ep=16, redundant=32)
    found = launch("vllm", shape, DEEPSEEK, H800, use=Use(draft=1))
    assert shlex.split(found.line.replace("$((RANK * 8))", "0")) == [
        word.replace("$((RANK * 8))", "0") for word in found.command
    ]


def test_engine_that_cannot_is_refused_with_every_reason() -> None:
    shape = Shape("decode", "H800", tp=2, dp=4, ep=8)
    with pytest.raises(InstanceError, match="trtllm: shape = TP2 x DP4 = EP8: attention is TP or DP over a stage"):
        launch("trtllm", shape, DEEPSEEK, H800)
    with pytest.raises(InstanceError, match="engine = ollama: is not one of vllm, sglang, trtllm"):
        launch("ollama", shape, DEEPSEEK, H800)


@pytest.mark.parametrize("llm", catalogue().values(), ids=lambda llm: llm.name)
def test_every_legal_shape_has_a_command(llm: LlmFacts) -> None:
    assert tuple(RULES) == ENGINES
    shapes = [Shape(role, "H800", tp=tp, dp=8 // tp, dense_tp=tp) for role in ("prefill", "decode") for tp in (1, 8)]
    for shape in shapes:
        spread = shape if llm.dense else Shape(**{**shape.__dict__, "ep": 8})
        for engine in legal_in(spread, llm, H800):
            found = launch(engine, spread, llm, H800)
            assert found.nodes == 1
            assert (llm.hf_id or "$MODEL") in found.command


def test_an_engine_is_asked_for_and_nothing_else_is_bought() -> None:
    """Attention and experts apart were bought for vLLM, which has no such mode."""
    from moeopt import mesh

    demand = mesh.demand_of(find("mixtral-8x7b"), (571, 159), slo=mesh.Slo(tpot_s=0.15))
    stock = [mesh.GpuType.of("H20", stock=8)]
    for engine in ("vllm", "sglang"):
        asked = mesh.MeshInstance([demand], stock, "goodput", most_pp=1, engine=engine)
        solution = mesh.solve(asked).solution
        assert all(engine in pool["config"]["legal_in"] for pool in solution["pools"])
        apart = [row for row in solution["ranking"] if row["family"] == "apart"]
        assert apart and all(
            row["behind"] is None and f"{engine} does not launch it" in row["why_not"] for row in apart
        )
