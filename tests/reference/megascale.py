"""MegaScale-Infer: colocated baselines, stages of DBRX, gains of micro-batches."""

from collections.abc import Callable

from moeopt.cost import (
    IB_ALPHA_S,
    LINK_ALPHA_S,
    Link,
    Machine,
    StageTimes,
    collective_s,
    kv_bytes_per_gpu,
    mean_context,
    per_price,
    sequences_that_fit,
    stage_times,
    tokens_per_expert,
    tp_decode,
    weights_per_gpu,
)
from moeopt.llm import LlmFacts, find
from moeopt.llm.gpus import find_gpu
from tests.reference.scaled_moe import SCALED_MOE
from tests.reference.table import Inputs, reproduces


def nvlink(gpu: str) -> Link:
    return Link(LINK_ALPHA_S, (find_gpu(gpu).scale_up_bytes_per_s or 0.0) * Machine.of(gpu).efficiency.network)


def most(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Largest number in the range that fits, if every smaller one does too."""
    if fits(high):  # mostly memory is what limits it
        return high
    high = max(high - 1, low)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


@reproduces("ms-ctx")
def context(inputs: Inputs) -> float:
    return mean_context(input_tokens=inputs["inp"], output_tokens=inputs["outp"])


@reproduces("ms-allreduce")
def all_reduce_us(inputs: Inputs) -> list[float]:
    link = Link(inputs["alpha_s"], (find_gpu(inputs["gpu"]).scale_up_bytes_per_s or 0.0) * inputs["network"])
    sizes = [batch * inputs["hidden"] * inputs["bytes"] for batch in inputs["B"]]
    once = [collective_s("all_reduce", size, ranks=inputs["tp"], link=link) for size in sizes]
    return [inputs["allreduces"] * time * 1e6 for time in once]


def colocated(facts: LlmFacts, gpu: str, context_tokens: int, tp: int, tbt_s: float, pp: int = 1) -> int:
    """Largest batch that fits in memory and whose step is short enough; PP halves the layers of a GPU, not the step."""
    machine = Machine.of(gpu)
    weights = weights_per_gpu(facts, tp=tp, expert_tp=tp).total / pp
    one = kv_bytes_per_gpu(facts, context_tokens=context_tokens, tp=tp) / pp
    fits = sequences_that_fit(memory_bytes=machine.memory_bytes, weights_bytes=weights, kv_bytes_per_sequence=one)

    def short(batch: int) -> bool:
        step = tp_decode(
            facts,
            machine,
            sequences=batch / pp,  # each stage works on its own part of the batch
            context_tokens=context_tokens,
            tp=tp,
            link=nvlink(gpu),
            router=False,
        )
        return step.total_s <= tbt_s

    return most(short, 0, fits)


@reproduces("ms-dbrx-B")
def tokens_of_dbrx(inputs: Inputs) -> list[float]:
    facts = find(inputs["llm"])
    batch = colocated(facts, inputs["gpu"], inputs["ctx"], inputs["tp"], inputs["tbt_s"])
    return [float(tokens_per_expert(experts=facts.experts or 0, top_k=facts.top_k or 0, tokens=batch))]


@reproduces("ms-tokens-per-expert")
def tokens_of_two(inputs: Inputs) -> list[float]:
    found = []
    for facts, pp in zip((SCALED_MOE, find("dbrx")), inputs["pp"], strict=True):
        batch = colocated(facts, inputs["gpu"], inputs["ctx"], inputs["tp"], inputs["tbt_s"], pp)
        sizes = {"experts": facts.experts or 0, "top_k": facts.top_k or 0}
        found.append(float(tokens_per_expert(tokens=batch, **sizes)) / pp)
    return found


def stages(inputs: Inputs, nodes: int) -> StageTimes:
    """One micro-batch of DBRX, as large as memory allows: a third of the sequences that an attention node holds."""
    facts, gpu, tp_a = find(inputs["llm"]), Machine.of(inputs["gpu"]), inputs["tp_a"]
    held = sequences_that_fit(
        memory_bytes=gpu.memory_bytes,
        weights_bytes=weights_per_gpu(facts, tp=tp_a).attention,
        kv_bytes_per_sequence=kv_bytes_per_gpu(facts, context_tokens=inputs["ctx"], tp=tp_a),
    )
    return stage_times(
        facts,
        attention=gpu,
        experts=gpu,
        sequences=held // inputs["m"],
        context_tokens=inputs["ctx"],
        nodes=nodes,
        tp_a=tp_a,
        tp_e=inputs["tp_e"],
        attention_port=Link(IB_ALPHA_S, (find_gpu(inputs["gpu"]).nic_bytes_per_s or 0.0) * gpu.efficiency.network),
        attention_link=nvlink(inputs["gpu"]),
    )


@reproduces("ms-na-balance")
def balance_between(inputs: Inputs) -> list[bool]:
    few, many = (stages(inputs, nodes) for nodes in inputs["n_a"])
    return [few.expert_s < few.attention_s, many.expert_s > many.attention_s]


@reproduces("ms-na-peak")
def best_nodes(inputs: Inputs) -> int:
    """Most sequences a second and GPU over the period of a full pipeline, ``max(m M, R)``, under the bound on TBT."""
    layers, m = find(inputs["llm"]).layers, inputs["m"]
    experts = find(inputs["llm"]).experts or 0
    rates = {}
    for nodes in inputs["n_a"]:
        times = stages(inputs, nodes)
        period = max(m * times.busiest_s, times.round_trip_s)
        step = times.round_trip_s + (layers - 1) * period + (m - 1) * times.busiest_s
        if step <= inputs["tbt_s"]:
            rates[nodes] = nodes / step / (inputs["tp_a"] * nodes + inputs["tp_e"] * experts)
    return max(rates, key=lambda nodes: rates[nodes])


@reproduces("ms-m-gain")
def gains(inputs: Inputs) -> list[list[float]]:
    """For many layers, throughput of m over m - 1 micro-batches, stages of 1 and links of x."""
    found = []
    for x in inputs["x"]:
        times = StageTimes(1.0, x, 1.0, x)
        rate = {m: m / max(m * times.busiest_s, times.round_trip_s) for m in (1, *inputs["m"])}
        found.append([rate[m] / rate[m - 1] for m in inputs["m"]])
    return found


@reproduces("ms-price-bw")
def bandwidth_for_a_price(inputs: Inputs) -> float:
    return per_price(*inputs["H20"]) / per_price(*inputs["L40S"])
