"""Parameters, weights, caches, and what fits."""

from dataclasses import replace

from moeopt.cost import (
    FP8,
    Efficiency,
    Machine,
    gpus_for_weights,
    kv_bytes_per_gpu,
    sequences_that_fit,
    weights_per_gpu,
)
from moeopt.llm import Attention, LlmFacts, expert_parameters, find, parameters
from moeopt.llm.counts import parts_of
from tests.reference.table import Inputs, reproduces


@reproduces("mem-dsv3-total")
def total_of_sizes(inputs: Inputs) -> float:
    layers, dense = inputs["layers"], inputs["dense_layers"]
    attention = Attention(
        "mla",
        heads=inputs["heads"],
        v_dim=inputs["v"],
        q_rank=inputs["q_lora"],
        kv_rank=inputs["kv_lora"],
        nope_dim=inputs["nope"],
        rope_dim=inputs["rope"],
    )
    facts = LlmFacts(
        "from sizes",
        "deepseek_v3",
        layers,
        tuple(range(dense)),
        tuple(range(dense, layers)),
        inputs["E"],
        8,
        shared_experts=inputs["shared"],
        hidden=inputs["h"],
        dispatch_width=inputs["h"],
        expert_width=inputs["expert_ffn"],
        shared_width=inputs["expert_ffn"],
        dense_width=inputs["dense_ffn"],
        vocab=inputs["vocab"],
        attention=attention,
    )
    return parameters(facts)[0] / 1e9


@reproduces("mem-dsv3-active")
def active_with_input_embedding(inputs: Inputs) -> float:
    facts = find(inputs["llm"])
    return (parameters(facts)[1] + parts_of(facts).embedding) / 1e9


@reproduces("mem-dsv3-cards")
def gpus(inputs: Inputs) -> list[int]:
    memory = inputs["gpu_gb"] * 1e9
    sizes = {"params": inputs["params"], "memory_bytes": memory, "usable": inputs["usable"]}
    return [gpus_for_weights(bytes_per_param=size, **sizes) for size in inputs["bytes"]]


@reproduces("mem-usable")
def usable(inputs: Inputs) -> float:
    part = replace(Efficiency(), usable_memory=inputs["usable"])
    return Machine("a GPU", {}, 1.0, inputs["gpu_gb"] * 1e9, part).usable_bytes() / 1e9


@reproduces("mem-dsv3-seq-range")
def sequences(inputs: Inputs) -> list[int]:
    facts, context = find(inputs["llm"]), inputs["ctx"]
    return [
        sequences_that_fit(
            memory_bytes=inputs["gpu_gb"] * 1e9,
            weights_bytes=weights_per_gpu(facts, ep=ep, router=False, numerics=FP8).total,
            kv_bytes_per_sequence=kv_bytes_per_gpu(facts, context_tokens=context),
            usable=inputs["usable"],
        )
        for ep in inputs["D"]
    ]


@reproduces("mem-mixtral-llama-params")
def parameters_of_two(inputs: Inputs) -> list[float]:
    mixtral, llama = (parameters(find(name)) for name in inputs["llms"])
    return [mixtral[0] / 1e9, mixtral[1] / 1e9, llama[0] / 1e9]


@reproduces("mem-expert-move")
def megabytes_of_an_expert(inputs: Inputs) -> float:
    facts = replace(find("deepseek-v3"), dispatch_width=inputs["h"], expert_width=inputs["ffn"])
    return expert_parameters(facts) * inputs["bytes"] / 1e6


@reproduces("mem-max-batch")
def largest_batches(inputs: Inputs) -> list[int]:
    return [
        sequences_that_fit(
            memory_bytes=Machine.of(inputs["gpu"]).memory_bytes,
            weights_bytes=weights_per_gpu(find(name), tp=inputs["tp"], expert_tp=inputs["tp"]).total,
            kv_bytes_per_sequence=kv_bytes_per_gpu(find(name), context_tokens=inputs["ctx"], tp=inputs["tp"]),
            usable=inputs["usable"],
        )
        for name in inputs["llms"]
    ]
