"""Degrees that divide, copies that memory has to hold, stocks that are all there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moeopt.cost import Numerics, kv_copies
from moeopt.llm import LlmFacts
from moeopt.llm.facts import Attention
from moeopt.mesh import Config, Demand, GpuType, MeshInstance, Shape, Slo, Workload
from moeopt.mesh.capacity import weights_shortfall
from moeopt.mesh.degrees import Degrees, allowed_moe_tp, allowed_tp
from moeopt.mesh.memory import cache_tokens
from moeopt.mesh.stages import Layers, best_stages
from tests.cases.case import Case, Desk, Refusal, Run
from tests.cases.placing import flags
from tests.mesh.strategies import LLMS, config, gpu_type


def llm(layers: int = 4, moe: int = 0, **sizes: Any) -> LlmFacts:
    """Some LLM with these sizes of attention."""
    at = Attention(**{"kind": "gqa", "head_dim": 128, **sizes})
    every = tuple(range(layers))
    experts = {"experts": 8, "top_k": 2} if moe else {"experts": 0, "top_k": 0}
    facts = LlmFacts("some", "llama", layers, *((every, ()) if not moe else ((), every)), *experts.values())
    return replace(facts, hidden=2048, dense_width=8192, vocab=1000, attention=at, expert_width=moe or None)


def degrees(found: Degrees) -> dict[str, Any]:
    return {"allowed": list(found.allowed), "refused": dict(found.refused)}


def splits_of_heads(desk: Desk, heads: int, kv_heads: int, gpus: int) -> dict[str, Any]:
    return degrees(allowed_tp(llm(heads=heads, kv_heads=kv_heads), gpus=gpus))


def splits_of_experts(desk: Desk, width: int, form: str, gpus: int) -> dict[str, Any]:
    found = degrees(allowed_moe_tp(llm(moe=width, heads=32, kv_heads=4), gpus=gpus, numerics=Numerics(form)))
    return {"allowed": found["allowed"], "4": found["refused"][4]}


def copies(desk: Desk, heads: int, kv_heads: int, tp: int) -> int:
    return kv_copies(llm(heads=heads, kv_heads=kv_heads), tp)


def tokens_cached(desk: Desk, layers: int, latent: int, rope: int, gpus: int, free_gib: float) -> dict[str, int]:
    at = {"kind": "mla", "heads": 128, "q_rank": 1536, "kv_rank": latent, "rope_dim": rope}
    facts = llm(layers, **at, nope_dim=128, v_dim=128)
    shapes = {"tp": Shape("decode", "H200", tp=gpus), "dp": Shape("decode", "H200", dp=gpus)}
    return {name: cache_tokens(shape, facts, free_bytes=free_gib * 2**30) for name, shape in shapes.items()}


def told(desk: Desk, instance: MeshInstance, **shape: int) -> Run:
    """The document of an instance, the first configuration changed by hand, asked for a purchase."""
    document: Any = instance.to_dict()
    if shape:
        document["configs"][0]["shape"] |= shape
    return desk.moeopt("mesh", desk.write("instance.json", document))


def degrees_of_engine(desk: Desk, tp: int, moe_tp: int, ep: int) -> Run:
    measured = config(0, "colocated", {"H100": tp}, 10, tpot_s=0.02)
    whole = replace(measured, shape=Shape("colocated", "H100", tp=tp, moe_tp=tp))
    return told(desk, measured_only((whole,), tp), moe_tp=moe_tp, ep=ep)


def measured_only(configs: tuple[Config, ...], stock: int, slo: Slo = Slo()) -> MeshInstance:
    """The best of measured replicas on so many GPUs."""
    families = tuple(dict.fromkeys(one.family for one in configs))
    demand = Demand(LLMS[0], Workload(100, 10), slo)
    gpus: tuple[GpuType, ...] = (gpu_type("H100", stock),)
    return MeshInstance((demand,), gpus, "goodput", families, configs=configs)


def stages(desk: Desk, layers: int, pp: int) -> dict[str, Any]:
    found = best_stages(Layers((1,) * layers), pp)
    covered = [layer for stage in found.layers for layer in stage]
    return {"layers": sorted(found.counts, reverse=True), "in order": covered == list(range(layers))}


def too_large(desk: Desk, weights_gb: float, gpus: int, **options: Any) -> Run:
    """What weights of that size lack, by the library; and an LLM of about that size, by the command line."""
    short = weights_shortfall(weights_gb * 1e9, GpuType.of(options["gpu"].upper()), gpus)
    run = desk.moeopt("mesh", "--gpus", gpus, *flags(options))
    return Run(run.code, run.out, "".join(f"{line}\n" for line in (*short, run.err)))


def level_of_nobody(desk: Desk, measured: dict[str, tuple[float, float, float]], tpot_ms: float) -> Run:
    listed = tuple(
        config(0, "colocated", {"H100": 8}, tokens / 10, name=name, ttft_s=ttft / 1e3, tpot_s=tpot / 1e3)
        for name, (ttft, tpot, tokens) in measured.items()
    )
    return told(desk, measured_only(listed, 8, Slo(tpot_s=tpot_ms / 1e3)))


def budget(desk: Desk, gpus: int, prefill: tuple[int, float], decode: tuple[int, float]) -> dict[str, Any]:
    pools = tuple(
        config(0, family, {"H100": each}, rate, name=family)
        for family, (each, rate) in (("prefill", prefill), ("decode", decode))
    )
    file = desk.write("instance.json", measured_only(pools, gpus).to_dict())
    solution = desk.moeopt("mesh", file, "--json").document["solution"]
    bought = {pool["label"]: pool["replicas"] for pool in solution["pools"]}
    return {**bought, "rate": solution["rate_per_s"], "gpus": solution["total_gpus"]}


CASES = [
    Case(
        "tp-does-not-divide-heads",
        "The commonest question of all: which degrees, and why not the others.",
        {"heads": 40, "kv_heads": 40, "gpus": 6},
        {"allowed": [1, 2], "refused": {n: f"40 heads do not divide by {n}" for n in (3, 6)}},
        splits_of_heads,
    ),
    Case(
        "fp8-block-limits-moe-tp",
        "A quarter of 768 columns would cut a block of 128 in two; EP uses the GPUs instead.",
        {"width": 768, "form": "fp8_block", "gpus": 8},
        {"allowed": [1, 2], "4": "the 192 of 768 columns of an expert would cut blocks of 128"},
        splits_of_experts,
    ),
    Case(
        "kv-heads-fewer-than-tp",
        "Heads that are too few are kept several times, and memory has to know.",
        {"heads": 16, "kv_heads": 2, "tp": 8},
        4,
        copies,
    ),
    Case(
        "mla-cache-tp8-against-dp8",
        "One latent cannot be split: TP keeps eight copies where DP keeps eight parts.",
        {"layers": 61, "latent": 512, "rope": 64, "gpus": 8, "free_gib": 40},
        {"tp": 611_191, "dp": 4_889_528},
        tokens_cached,
    ),
    Case(
        "moe-tp-times-ep",
        "Degrees that leave half of the GPUs without experts.",
        {"tp": 8, "moe_tp": 2, "ep": 2},
        Refusal(2, ("moe_tp x moe_ep must be 8", "2")),
        degrees_of_engine,
    ),
    Case(
        "pp-uneven-layers",
        "Layers that do not divide over the stages were lost on the way.",
        {"layers": 61, "pp": 4},
        {"layers": [16, 15, 15, 15], "in order": True},
        stages,
    ),
    Case(
        "memory-infeasible-everywhere",
        "Where the weights do not fit, no service level is to blame.",
        {"weights_gb": 671, "llm": "deepseek-v3", "gpu": "h200", "gpus": 2, "tpot": "50ms"},
        Refusal(3, ("671 GB", "253.8 GB", "at least 6 such GPUs for the weights alone"), ("relax", "latency", "tpot")),
        too_large,
    ),
    Case(
        "slo-infeasible",
        "The level stays as it was given, and the closest candidate is named.",
        {"measured": {"A": (900, 12, 5000), "B": (400, 20, 4000), "C": (300, 14, 2500)}, "tpot_ms": 5},
        Refusal(3, ("5 ms", "12 ms", "the closest, A,", "left as it was given")),
        level_of_nobody,
    ),
    Case(
        "gpu-budget-is-a-cap",
        "A plan for more GPUs than there are waits for ever.",
        {"gpus": 32, "prefill": (8, 10), "decode": (2, 10)},
        {"prefill": 3, "decode": 3, "rate": 30, "gpus": 30},
        budget,
    ),
]
