"""Which engines can launch a shape, and why the others cannot; what none launches is paper only.

Read in the sources and manuals of vLLM (``config/parallel.py``, ``fused_moe/config.py``, "Expert Parallel
Deployment", "Context Parallel Deployment"), SGLang (``server_args.py``, "Expert Parallelism", "Decode Context
Parallelism"), TensorRT-LLM (``mapping.py``, "Parallelism in TensorRT LLM", "Helix Parallelism") and DeepEP
(``csrc/kernels/internode_ll.cu``, V1), as of 2026; versions differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moeopt.llm.facts import GROWING, LlmFacts
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.transport import transport_of

LOW_LATENCY_TOP_K, LOW_LATENCY_TOKENS = 9, 1024
"""Experts of a token, and tokens of a rank and step, at most in DeepEP's low-latency kernels."""
LOW_LATENCY_HIDDEN = (2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)
"""Widths of a token that these kernels are compiled for; some engines pad to the next."""
DEEPEP_NODE = 8
"""Beyond so many ranks DeepEP takes whole nodes of as many."""
DEEPEP = ("deepep-normal", "deepep-ll", "deepep-both")


@dataclass(frozen=True)
class Use:
    """How a shape is used: what an engine has to offer besides the degrees.

    Parameters
    ----------
    transport
        Of experts, as in `moeopt.mesh.transport.transport_of`.
    kv
        Format of the cache.
    draft
        Tokens drafted a step.
    overlap
        Two micro-batches.
    tokens
        Tokens of one GPU and step, where they are known.
    """

    transport: str = "auto"
    kv: str = "bf16"
    draft: int = 0
    overlap: bool = False
    tokens: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What one engine says: it launches the shape if there are no `faults`; `notes` tell what differs."""

    engine: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the engine launches it."""
        return not self.faults


Found = tuple[list[str], list[str]]
PLAIN_KV = ("bf16", "fp16", "fp8", "fp8_block")


def verdicts(shape: Shape | ApartShape, llm: LlmFacts, gpu: GpuType, use: Use = Use()) -> list[Verdict]:
    """What every engine says of a shape that breaks no rule (`moeopt.mesh.rules.faults`).

    >>> from moeopt.llm import find
    >>> deepseek, h800 = find("deepseek-v3"), GpuType.of("H800")
    >>> wide = Shape("decode", "H800", tp=4, dp=80, ep=320, redundant=64)
    >>> for verdict in verdicts(wide, deepseek, h800):
    ...     print(verdict.engine, verdict.ok, *verdict.faults)
    vllm True
    sglang True
    trtllm False attention is TP or DP over a stage, not TP4 x DP80: tp = 1 or dp = 1
    """
    return [verdict(engine, shape, llm, gpu, use) for engine in RULES]


def verdict(engine: str, shape: Shape | ApartShape, llm: LlmFacts, gpu: GpuType, use: Use = Use()) -> Verdict:
    """What one engine of `RULES` says of it.

    >>> from moeopt.llm import find
    >>> split = Shape("decode", "H800", tp=4, dp=80, ep=320)
    >>> verdict("trtllm", split, find("deepseek-v3"), GpuType.of("H800")).ok
    False
    """
    if isinstance(shape, ApartShape):
        return Verdict(engine, ("knows no experts on GPUs of their own",), ())
    faults, notes = RULES[engine](shape, llm, gpu, use)
    if shape.ffn_gpus is not None:
        faults.append("no FFN on a part of the GPUs of a stage")
    if shape.kvp > 1 and llm.attention.linear:
        faults.append("no document tells of a cache split over tokens beside linear layers")
    if transport_of(shape, gpu, use.transport) in DEEPEP and not llm.dense:
        faults += _deepep(shape, llm, gpu, use)
    if use.draft and not llm.mtp_layers:
        notes.append("drafts need a model of their own: this one has no MTP layers")
    return Verdict(engine, tuple(faults), tuple(notes))


def legal_in(shape: Shape | ApartShape, llm: LlmFacts, gpu: GpuType, use: Use = Use()) -> tuple[str, ...]:
    """Engines that launch it; empty: paper only.

    >>> from moeopt.llm import find
    >>> llama, gb200 = find("llama-3.1-405b"), GpuType.of("GB200")
    >>> legal_in(Shape("colocated", "GB200", tp=8, dense_tp=8), llama, gb200)
    ('vllm', 'sglang', 'trtllm')
    >>> legal_in(Shape("long", "GB200", tp=8, kvp=8, dense_tp=64), llama, gb200)
    ('vllm', 'trtllm')
    """
    return tuple(verdict.engine for verdict in verdicts(shape, llm, gpu, use) if verdict.ok)


def _deepep(shape: Shape, llm: LlmFacts, gpu: GpuType, use: Use) -> list[str]:
    """What DeepEP refuses, whichever engine calls it."""
    faults = []
    if shape.moe_tp > 1:
        faults.append(f"DeepEP sends whole experts: moe_tp = {shape.moe_tp} must be 1")
    if shape.ep > DEEPEP_NODE and shape.ep % DEEPEP_NODE:
        faults.append(f"DeepEP takes whole nodes of {DEEPEP_NODE}: ep = {shape.ep} is no multiple")
    if transport_of(shape, gpu, use.transport) == "deepep-normal":
        return faults
    if llm.top_k is not None and llm.top_k > LOW_LATENCY_TOP_K:
        faults.append(f"DeepEP's low-latency kernels take {LOW_LATENCY_TOP_K} experts a token, not {llm.top_k}")
    width = llm.dispatch_width
    if width is not None and width not in LOW_LATENCY_HIDDEN:
        sizes = ", ".join(map(str, LOW_LATENCY_HIDDEN))
        faults.append(f"DeepEP's low-latency kernels are compiled for widths {sizes}, not {width}")
    if use.tokens is not None and use.tokens > LOW_LATENCY_TOKENS and shape.role != "colocated":
        faults.append(
            f"DeepEP's low-latency kernels take {LOW_LATENCY_TOKENS:,} tokens a GPU and step, not {use.tokens:,.0f}"
        )
    return faults


def _vllm(shape: Shape, llm: LlmFacts, gpu: GpuType, use: Use) -> Found:
    faults: list[str] = []
    notes: list[str] = []
    stage = shape.stage_gpus
    if not llm.dense and (shape.ep, shape.moe_tp) not in ((stage, 1), (1, stage)):
        faults.append(
            f"experts go over all {stage} GPUs of a stage, or each is split over all of them: "
            f"EP {stage} or MoE-TP {stage}, not EP {shape.ep} x MoE-TP {shape.moe_tp}"
        )
    if shape.redundant and shape.ep == 1:
        faults.append("redundant experts need expert parallelism")
    if shape.redundant > 1023:
        faults.append(f"{shape.redundant:,} redundant experts are more than 1,023")
    if shape.cp > 1 and shape.role != "prefill":
        faults.append("prompts are split over GPUs in a prefill pool only")
    if shape.kvp > 1 and llm.attention.kind in GROWING and shape.tp < int(llm.attention.kv_heads or 1):
        kv_heads = llm.attention.kv_heads
        faults.append(f"a cache is split over tokens only where KV heads are copied: tp >= kv_heads = {kv_heads}")
    if use.overlap and (shape.dp == 1 or shape.ep == 1):
        faults.append("dual micro-batches need DP and EP")
    if use.kv not in PLAIN_KV:
        faults.append(f"keeps no cache in {use.kv}: bf16 or fp8")
    if shape.kvp > 1:
        notes.append("projections are split over tp x kvp, and queries gathered")
    _dense_note(notes, shape, llm, (shape.tp * shape.kvp,))
    return faults, notes


def _sglang(shape: Shape, llm: LlmFacts, gpu: GpuType, use: Use) -> Found:
    faults: list[str] = []
    notes: list[str] = []
    stage = shape.stage_gpus
    wants_deepep = transport_of(shape, gpu, use.transport) in DEEPEP
    if (shape.redundant or wants_deepep) and not llm.dense and shape.ep != stage:
        faults.append(f"DeepEP and redundant experts need EP over the whole stage: ep = {stage}, not {shape.ep}")
    if llm.dense and shape.dp > 1 and shape.gpus > gpu.node_gpus:
        faults.append("replicas of a dense LLM are started one by one beyond a node")
    if shape.cp > 1 and shape.role != "prefill":
        faults.append("prompts are split over GPUs in a prefill pool only")
    if shape.kvp > 1 and llm.attention.kind != "mla":
        faults.append("a cache is split over tokens for MLA only")
    if shape.pp > 1 and use.draft:
        faults.append("no speculation with pipeline stages")
    if use.overlap and not wants_deepep:
        faults.append("dual micro-batches need DeepEP")
    if use.kv not in (*PLAIN_KV, "fp4"):
        faults.append(f"keeps no cache in {use.kv}: bf16, fp8 or fp4")
    _dense_note(notes, shape, llm, (1, stage))
    return faults, notes


def _trtllm(shape: Shape, llm: LlmFacts, gpu: GpuType, use: Use) -> Found:
    faults: list[str] = []
    notes: list[str] = []
    if shape.tp > 1 and shape.dp > 1:
        faults.append(f"attention is TP or DP over a stage, not TP{shape.tp} x DP{shape.dp}: tp = 1 or dp = 1")
    if shape.cp > 1 and shape.ep > 1:
        faults.append("prompts split over GPUs do not go with EP")
    if shape.kvp > 1 and shape.dp > 1:
        faults.append("a cache split over tokens does not go with attention DP")
    if shape.redundant and shape.dp == 1:
        faults.append("redundant experts need attention DP")
    if use.overlap:
        faults.append("has no dual micro-batches in decoding or prefill")
    if use.kv not in (*PLAIN_KV, "fp4", "nvfp4"):
        faults.append(f"keeps no cache in {use.kv}: bf16, fp8 or nvfp4")
    if use.transport.startswith("deepep") and shape.dp == 1 and shape.ep > 1:
        faults.append("DeepEP needs attention DP")
    if shape.kvp > 1:
        notes.append("Helix runs in decode servers of split pools")
    if llm.dense_layers or llm.shared_experts:
        notes.append("it decides itself over how many GPUs dense layers and shared experts are split")
    return faults, notes


def _dense_note(notes: list[str], shape: Shape, llm: LlmFacts, does: tuple[int, ...]) -> None:
    """A small difference in memory and time, no reason to refuse."""
    if (llm.dense_layers or llm.shared_experts) and shape.dense_tp not in does:
        ways = " or ".join(map(str, sorted(set(does))))
        notes.append(f"splits dense layers and shared experts over {ways} GPUs, not {shape.dense_tp}")


RULES: dict[str, Callable[[Shape, LlmFacts, GpuType, Use], Found]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
}
"""Faults and notes of each engine."""
