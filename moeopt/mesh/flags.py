"""Command lines that launch a shape: environment, command, and a file where the engine wants one.

Options as of the manuals named in `moeopt.mesh.legal`; ``$HEAD`` and ``$RANK`` stand for the first node's address and
the node's number, ``$MODEL`` for the checkpoint, ``$DRAFT`` for a draft model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moeopt.errors import InstanceError, Violations
from moeopt.llm.facts import LlmFacts
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.holdings import even_stages
from moeopt.mesh.legal import DEEPEP, Use, verdict
from moeopt.mesh.shape import Shape
from moeopt.mesh.transport import transport_of

ENGINES = ("vllm", "sglang", "trtllm")
CONFIG = "config.yaml"
"""File of options beside a command."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a step that engines are told; ``None``: their default.

    Parameters
    ----------
    sequences
        Of a data-parallel rank.
    chunk
        Prompt tokens of a data-parallel rank and step.
    context
        Longest request, tokens.
    stages
        Layers of each pipeline stage.
    """

    sequences: int | None = None
    chunk: int | None = None
    context: int | None = None
    stages: Sequence[int] | None = None


@dataclass(frozen=True)
class Launch:
    """What is run on each of `nodes` nodes."""

    engine: str
    nodes: int
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The command in one line, environment in front."""
        return " ".join([*(f"{key}={value}" for key, value in self.env.items()), *map(_quoted, self.command)])


def launch(
    engine: str,
    shape: Shape,
    llm: LlmFacts,
    gpu: GpuType,
    *,
    use: Use = Use(),
    sizes: Sizes = Sizes(),
    model: str | None = None,
) -> Launch:
    """How an engine is started on a shape.

    Parameters
    ----------
    engine
        ``vllm``, ``sglang`` or ``trtllm``.
    shape, llm, gpu, use
        As in `moeopt.mesh.legal.verdicts`.
    sizes
        What else the engine is told.
    model
        The checkpoint (default: where it is published, else ``$MODEL``).

    Raises
    ------
    InstanceError
        An engine that is not known, or that cannot launch it, with every reason.

    >>> from moeopt.llm import find
    >>> shape = Shape("decode", "H800", dp=16, ep=16, redundant=32)
    >>> print(launch("sglang", shape, find("deepseek-v3"), GpuType.of("H800"), sizes=Sizes(64)).line)
    python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp-size 16 --dp-size 16 --enable-dp-attention --ep-size 16 --moe-a2a-backend deepep --deepep-mode low_latency --moe-dense-tp-size 1 --ep-num-redundant-experts 32 --enable-eplb --mem-fraction-static 0.9 --max-running-requests 1024 --disaggregation-mode decode --nnodes 2 --node-rank $RANK --dist-init-addr $HEAD:20000
    """  # noqa: E501
    if engine not in ENGINES:
        check = Violations()
        check.add("engine", engine, rule=f"is not one of {', '.join(ENGINES)}", fix="Use one of these")
        raise InstanceError(check.found)
    said = verdict(engine, shape, llm, gpu, use)
    if not said.ok:
        check = Violations(engine)
        for fault in said.faults:
            check.add("shape", shape.label, rule=fault, fix="Use another engine or shape")
        raise InstanceError(check.found, check.source)
    write = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}[engine]
    return write(_Asked(shape, llm, gpu, use, sizes, model or llm.hf_id or "$MODEL"))


@dataclass(frozen=True)
class _Asked:
    shape: Shape
    llm: LlmFacts
    gpu: GpuType
    use: Use
    sizes: Sizes
    model: str

    @property
    def nodes(self) -> int:
        return -(-self.shape.gpus // self.gpu.node_gpus)

    @property
    def transport(self) -> str:
        return "none" if self.llm.dense else transport_of(self.shape, self.gpu, self.use.transport)

    @property
    def partition(self) -> str | None:
        """Layers of stages, where they are not what engines do anyway."""
        stages = self.sizes.stages
        if stages is None or self.shape.pp == 1 or tuple(stages) == even_stages(self.llm.layers, self.shape.pp):
            return None
        return ",".join(map(str, stages))

    @property
    def fp8_cache(self) -> bool:
        return self.use.kv.startswith("fp8")


def _vllm(asked: _Asked) -> Launch:
    shape, use, sizes = asked.shape, asked.use, asked.sizes
    words = ["vllm", "serve", asked.model]
    words += _if(shape.tp * shape.kvp > 1, "--tensor-parallel-size", shape.tp * shape.kvp)
    words += _if(shape.pp > 1, "--pipeline-parallel-size", shape.pp)
    words += _if(shape.kvp > 1, "--decode-context-parallel-size", shape.kvp)
    words += _if(shape.cp > 1, "--prefill-context-parallel-size", shape.cp)
    if shape.dp > 1:
        words += ["--data-parallel-size", str(shape.dp)]
        if asked.nodes > 1:
            rank_gpus = shape.pp * shape.tp * shape.kvp * shape.cp
            local = asked.gpu.node_gpus // rank_gpus
            words += ["--data-parallel-address", "$HEAD"]
            if local:
                words += [
                    "--data-parallel-size-local",
                    str(local),
                    "--data-parallel-start-rank",
                    f"$((RANK * {local}))",
                ]
            else:
                words += ["--data-parallel-backend", "ray"]
    elif asked.nodes > 1:
        words += ["--nnodes", str(asked.nodes), "--node-rank", "$RANK", "--master-addr", "$HEAD"]
    if shape.ep > 1:
        words.append("--enable-expert-parallel")
        words += _if(shape.dp > 1, "--all2all-backend", _vllm_backend(asked))
    if shape.redundant:
        words += ["--enable-eplb", "--eplb-config", json.dumps({"num_redundant_experts": shape.redundant})]
    words += _if(use.overlap, "--enable-dbo")
    words += ["--gpu-memory-utilization", f"{asked.gpu.machine.efficiency.usable_memory:g}"]
    words += _if(asked.fp8_cache, "--kv-cache-dtype", "fp8")
    words += _if(sizes.context, "--max-model-len", sizes.context)
    words += _if(sizes.sequences, "--max-num-seqs", sizes.sequences)
    words += _if(sizes.chunk, "--max-num-batched-tokens", sizes.chunk)
    if use.draft:
        drafter = {"method": "mtp"} if asked.llm.mtp_layers else {"method": "eagle3", "model": "$DRAFT"}
        words += ["--speculative-config", json.dumps({**drafter, "num_speculative_tokens": use.draft})]
    if shape.role in ("prefill", "decode"):
        words += ["--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})]
    env = {"VLLM_PP_LAYER_PARTITION": asked.partition} if asked.partition else {}
    return Launch("vllm", asked.nodes, tuple(words), env)


def _vllm_backend(asked: _Asked) -> str:
    """The fixed windows of normal mode do not go with CUDA graphs, which decoding lives by."""
    if asked.transport == "allgather" or asked.shape.role == "colocated":
        return "allgather_reducescatter"
    normal = asked.transport == "deepep-normal" or asked.shape.role == "prefill"
    return "deepep_high_throughput" if normal else "deepep_low_latency"


def _sglang(asked: _Asked) -> Launch:
    shape, use, sizes, stage = asked.shape, asked.use, asked.sizes, asked.shape.stage_gpus
    replicas = shape.dp if asked.llm.dense else 1  # attention DP is for LLMs with experts, the others have replicas
    words = ["python", "-m", "sglang.launch_server", "--model-path", asked.model]
    words += _if(stage > 1, "--tp-size", stage // replicas)
    words += _if(shape.pp > 1, "--pp-size", shape.pp)
    words += _if(shape.dp > 1, "--dp-size", shape.dp)
    words += _if(shape.dp > 1 and not asked.llm.dense, "--enable-dp-attention")
    words += _if(shape.cp > 1, "--attn-cp-size", shape.cp)
    words += _if(shape.cp > 1, "--enable-prefill-cp")
    words += _if(shape.kvp > 1, "--dcp-size", shape.kvp)
    words += _if(shape.ep > 1, "--ep-size", shape.ep)
    if asked.transport in DEEPEP or (shape.redundant and shape.ep > 1):
        mode = {"prefill": "normal", "decode": "low_latency", "long": "low_latency"}.get(shape.role, "auto")
        words += ["--moe-a2a-backend", "deepep", "--deepep-mode", mode]
    words += _if(stage > 1 and shape.dense_tp == 1 and not asked.llm.dense, "--moe-dense-tp-size", 1)
    if shape.redundant:
        words += ["--ep-num-redundant-experts", str(shape.redundant), "--enable-eplb"]
    words += _if(use.overlap, "--enable-two-batch-overlap")
    words += ["--mem-fraction-static", f"{asked.gpu.machine.efficiency.usable_memory:g}"]
    words += _if(asked.fp8_cache, "--kv-cache-dtype", "fp8_e4m3")
    words += _if(use.kv == "fp4", "--kv-cache-dtype", "fp4_e2m1")
    words += _if(sizes.context, "--context-length", sizes.context)
    each = shape.dp if not asked.llm.dense else 1  # both are of all ranks of attention DP
    words += _if(sizes.sequences, "--max-running-requests", (sizes.sequences or 0) * each)
    words += _if(sizes.chunk, "--chunked-prefill-size", (sizes.chunk or 0) * each)
    if use.draft:
        own = ["NEXTN"] if asked.llm.mtp_layers else ["EAGLE3", "--speculative-draft-model-path", "$DRAFT"]
        words += ["--speculative-algorithm", *own, "--speculative-num-steps", str(use.draft)]
        words += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(use.draft + 1)]
    words += _if(shape.role in ("prefill", "decode"), "--disaggregation-mode", shape.role)
    if asked.nodes > 1:
        words += ["--nnodes", str(asked.nodes), "--node-rank", "$RANK", "--dist-init-addr", "$HEAD:20000"]
    env = {"SGLANG_PP_LAYER_PARTITION": asked.partition} if asked.partition else {}
    return Launch("sglang", asked.nodes, tuple(words), env)


def _trtllm(asked: _Asked) -> Launch:
    shape, use, sizes = asked.shape, asked.use, asked.sizes
    attention = shape.dp if shape.dp > 1 else shape.tp
    words = ["trtllm-serve", asked.model, "--tp_size", str(attention)]
    if asked.nodes > 1:
        words = ["trtllm-llmapi-launch", *words]
    words += _if(shape.pp > 1, "--pp_size", shape.pp)
    words += _if(shape.ep > 1, "--ep_size", shape.ep)
    words += _if(sizes.sequences, "--max_batch_size", sizes.sequences)
    words += _if(sizes.chunk, "--max_num_tokens", sizes.chunk)
    words += _if(sizes.context, "--max_seq_len", sizes.context)
    lines = [f"enable_attention_dp: {str(shape.dp > 1).lower()}"]
    if shape.moe_tp > 1:
        lines.append(f"moe_tensor_parallel_size: {shape.moe_tp}")
    if shape.kvp > 1 or shape.cp > 1:
        lines.append(f"context_parallel_size: {max(shape.kvp, shape.cp)}")
        lines.append(f"cp_config: {{cp_type: {'HELIX' if shape.kvp > 1 else 'ULYSSES'}}}")
    if asked.partition:
        lines.append(f"pp_partition: [{asked.partition.replace(',', ', ')}]")
    if shape.redundant:
        slots = int(asked.llm.experts or 0) + shape.redundant
        lines += ["moe_config:", "  load_balancer:", f"    num_slots: {slots}", "    layer_updates_per_iter: 1"]
    if use.kv != "bf16":
        lines += ["kv_cache_config:", f"  dtype: {'fp8' if asked.fp8_cache else 'nvfp4'}"]
    if use.draft:
        own = ["MTP"] if asked.llm.mtp_layers else ["Eagle3", "  speculative_model: $DRAFT"]
        lines += ["speculative_config:", f"  decoding_type: {own[0]}", *own[1:], f"  max_draft_len: {use.draft}"]
    if shape.role in ("prefill", "decode", "long"):
        lines += ["cache_transceiver_config:", "  backend: DEFAULT"]
    words += ["--config", CONFIG]
    return Launch("trtllm", asked.nodes, tuple(words), {}, {CONFIG: "\n".join(lines) + "\n"})


def _if(wanted: object, *words: object) -> list[str]:
    return [str(word) for word in words] if wanted else []


def _quoted(word: str) -> str:
    """Quoted for a shell where it must be; ``$`` stays what it is."""
    if word.startswith("$((") or not any(sign in word for sign in " \"'{}[]&|;<>*?"):
        return f'"{word}"' if " " in word else word
    return "'" + word.replace("'", "'\\''") + "'"
