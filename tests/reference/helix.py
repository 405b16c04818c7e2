"""Helix on Llama 405B and DeepSeek-R1, a million tokens of context."""

from dataclasses import replace

import numpy as np

from moeopt.cost import (
    FP4,
    PEAK,
    Link,
    Machine,
    Split,
    collective_s,
    dense_ffn,
    helix_decode,
    helix_sequences,
    interleaved_tokens,
    kv_bytes_per_gpu,
    merge_bytes,
    merge_s,
)
from moeopt.llm import find
from tests.reference.table import Inputs, reproduces


@reproduces("hx-kv-total")
def gigabytes_of_cache(inputs: Inputs) -> float:
    return kv_bytes_per_gpu(find(inputs["llm"]), context_tokens=inputs["S"], kv=inputs["kv"]) / 1e9


@reproduces("hx-a2a-bytes")
def kilobytes_to_merge(inputs: Inputs) -> float:
    sizes = {"tpa": inputs["TPA"], "kvp": inputs["KVP"], "element_bytes": inputs["bytes"]}
    return merge_bytes(sequences=inputs["B"], width=inputs["H"], **sizes) / 1e3


@reproduces("hx-interleave")
def tokens_by_rank(inputs: Inputs) -> list[int]:
    return interleaved_tokens(context_tokens=inputs["ctx"], ranks=inputs["ranks"], block=inputs["block"])


@reproduces("hx-kvread-floor")
def microseconds_a_layer(inputs: Inputs) -> float:
    """One layer of the cache of a GPU, under twice as many GPUs as KV heads."""
    llama = find("llama-3.1-405b")
    sizes = replace(llama.attention, kv_heads=inputs["kv_heads"], head_dim=inputs["hd"])
    facts = replace(llama, layers=1, attention=sizes)
    kv = {0.5: "fp4", 1: "fp8", 2: "bf16"}[inputs["bytes"]]
    one = kv_bytes_per_gpu(facts, context_tokens=inputs["S"], tp=inputs["tp"], kv=kv)
    return inputs["B"] * one / inputs["bw"] * 1e6


@reproduces("hx-mla-read")
def milliseconds_of_latents(inputs: Inputs) -> float:
    """The whole latent on every GPU, whatever the TP."""
    facts, times = find(inputs["llm"]), []
    for tp in (1, 8, 64):
        one = kv_bytes_per_gpu(facts, context_tokens=inputs["S"], tp=tp, kv=inputs["kv"])
        times.append(inputs["B"] * one / inputs["bw"] * 1e3)
    assert max(times) == min(times)
    return times[0]


def ttl_s(inputs: Inputs, split: Split, batch: int, *, hop_b: bool = False) -> float:
    """Seconds of one token; the efficiencies of section 5.5."""
    sizes = {"sequences": batch, "context_tokens": inputs["S"]}
    return helix_decode(find(inputs["llm"]), Machine.of(inputs["gpu"]), split, **sizes, hop_b=hop_b).total_s


@reproduces("hx-min-ttl-helix")
def least_ms(inputs: Inputs) -> float:
    return ttl_s(inputs, Split(inputs["tpa"], inputs["kvp"]), inputs["B"]) * 1e3


@reproduces("hx-min-ttl-tp")
def least_ms_of_tp(inputs: Inputs) -> float:
    return ttl_s(inputs, Split(inputs["tp"]), inputs["B"]) * 1e3


@reproduces("hx-maxbatch")
def largest_batches(inputs: Inputs) -> list[int]:
    gpu = Machine.of(inputs["gpu"], efficiency=replace(PEAK, usable_memory=inputs["usable"]))
    splits = [Split(inputs["tpa"], inputs["kvp"], ffn) for ffn in inputs["ffn"]]
    return [
        helix_sequences(find(inputs["llm"]), gpu, split, context_tokens=inputs["S"])
        for split in (*splits, Split(inputs["tp"]))
    ]


@reproduces("hx-front-tight")
def helix_over_tp(inputs: Inputs) -> list[float]:
    """Tokens a second and GPU of the best split under each bound, Helix over pure TP."""
    facts, gpu = find(inputs["llm"]), Machine.of(inputs["gpu"])
    degrees = [2**i for i in range(inputs["max_gpus"].bit_length())]
    pure = [Split(tp) for tp in degrees]
    grids = [Split(tpa, kvp) for tpa in degrees if tpa <= (facts.attention.kv_heads or 0) for kvp in degrees]
    best = {}
    for name, splits in (("helix", grids), ("tp", pure)):
        for split in splits:
            if split.gpus > inputs["max_gpus"]:
                continue
            room = helix_sequences(facts, gpu, split, context_tokens=inputs["S"])
            for batch in range(1, room + 1):
                time = ttl_s(inputs, split, batch, hop_b=True)
                for bound in inputs["ttl_s"]:
                    if time <= bound:
                        rate = batch / time / split.gpus
                        best[name, bound] = max(best.get((name, bound), 0.0), rate)
    return [best["helix", bound] / best["tp", bound] for bound in inputs["ttl_s"]]


@reproduces("hx-medha-ffn")
def ffn_on_eight(inputs: Inputs) -> list[float]:
    facts, gpu = find(inputs["llm"]), Machine.of(inputs["gpu"])
    sizes = {"tokens": 1, "hidden": facts.hidden or 0, "width": facts.dense_width or 0, "numerics": FP4}
    whole, part = dense_ffn(**sizes), dense_ffn(tp=inputs["tp"], **sizes)
    return [whole.bytes / 1e9, gpu.time_s(part) * facts.layers * 1e3]


@reproduces("hx-ring-013")
def ring_ms(inputs: Inputs) -> float:
    return collective_s("all_reduce", 0, ranks=inputs["k"], link=Link(inputs["alpha_s"], 720e9)) * 1e3


@reproduces("hx-a2a-share")
def share_of_merging(inputs: Inputs) -> float:
    split = Split(inputs["tpa"], inputs["kvp"])
    return merge_s(find(inputs["llm"]), split, sequences=inputs["B"]) / ttl_s(inputs, split, inputs["B"])


@reproduces("hx-lse-merge")
def error_of_merging(inputs: Inputs) -> float:
    """Attention split over heads and interleaved tokens, merged by log-sum-exps, against attention in one piece."""
    rng, size = np.random.default_rng(inputs["seed"]), inputs["ctx"]
    heads, groups, dim = 16, 8, 32
    shapes = ((heads, dim), (groups, size, dim), (groups, size, dim))
    query, key, value = (rng.standard_normal(shape).astype(inputs["dtype"]) for shape in shapes)
    kv_of = np.arange(heads) // (heads // groups)

    def attend(these: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and log-sum-exps of some heads over some tokens."""
        scores = np.einsum("hd,htd->ht", query[these], key[kv_of[these]][:, tokens]) / np.float32(np.sqrt(dim))
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        out = np.einsum("ht,htd->hd", weights / total, value[kv_of[these]][:, tokens])
        return out, (top + np.log(total))[:, 0]

    whole, _ = attend(np.arange(heads), np.arange(size))
    worst = 0.0
    for kvp, tpa in inputs["shapes"]:
        merged = np.zeros_like(whole)
        owner = np.arange(size) // inputs["block"] % kvp
        held = interleaved_tokens(context_tokens=size, ranks=kvp, block=inputs["block"])
        assert np.bincount(owner, minlength=kvp).tolist() == held
        for these in np.split(np.arange(heads), tpa):
            parts = [attend(these, np.flatnonzero(owner == rank)) for rank in range(kvp)]
            sums = np.array([logs for _, logs in parts])
            top = sums.max(axis=0)
            scale = np.exp(sums - top) / np.exp(sums - top).sum(axis=0)
            merged[these] = sum(scale[rank][:, None] * parts[rank][0] for rank in range(kvp))
        worst = max(worst, float(np.abs(merged - whole).max()))
    return worst
