"""MegaScale-Infer on two types of GPUs: the best plan by enumeration, against the best colocation, per price."""

from functools import cache
from itertools import product

from moeopt.cost import (
    IB_ALPHA_S,
    Link,
    Machine,
    StageTimes,
    instance_price,
    kv_bytes_per_gpu,
    sequences_that_fit,
    stage_times,
    tp_decode,
    weights_per_gpu,
)
from moeopt.llm import LlmFacts, find
from tests.reference.megascale import colocated, most, nvlink
from tests.reference.scaled_moe import SCALED_MOE
from tests.reference.table import Inputs, reproduces


def together(facts: LlmFacts, gpu: str, inputs: Inputs) -> float:
    """Best tokens a second and price on one type of GPU, in one stage or two."""
    best = 0.0
    for pp in inputs["pp"]:
        batch = colocated(facts, gpu, inputs["ctx"], inputs["tp"], inputs["tbt_s"], pp)
        step = tp_decode(
            facts,
            Machine.of(gpu),
            sequences=batch / pp,
            context_tokens=inputs["ctx"],
            tp=inputs["tp"],
            link=nvlink(gpu),
            router=False,
        )
        best = max(best, batch / step.total_s / (inputs["tp"] * pp * inputs["price"][gpu]))
    return best


def apart(facts: LlmFacts, attention: str, experts: str, inputs: Inputs) -> float:
    """Best tokens a second and price with attention and experts on different GPUs: algorithm 1, all node counts."""
    first, second = Machine.of(attention), Machine.of(experts)
    layers, ctx = facts.layers, inputs["ctx"]
    port = Link(IB_ALPHA_S, inputs["nic_bytes_per_s"] * first.efficiency.network)
    near, far = nvlink(attention), nvlink(experts)
    held = {
        tp_a: sequences_that_fit(
            memory_bytes=first.memory_bytes,
            weights_bytes=weights_per_gpu(facts, tp=tp_a).attention,
            kv_bytes_per_sequence=kv_bytes_per_gpu(facts, context_tokens=ctx, tp=tp_a),
        )
        for tp_a in inputs["degrees"]
    }
    one = {tp_e: weights_per_gpu(facts, ep=facts.experts or 1, expert_tp=tp_e).routed for tp_e in inputs["degrees"]}

    @cache
    def stages(batch: int, nodes: int, tp_a: int, tp_e: int) -> StageTimes:
        return stage_times(
            facts,
            attention=first,
            experts=second,
            sequences=batch,
            context_tokens=ctx,
            nodes=nodes,
            tp_a=tp_a,
            tp_e=tp_e,
            attention_port=port,
            attention_link=near,
            expert_link=far,
        )

    best = 0.0
    for tp_a, tp_e, nodes, m in product(inputs["degrees"], inputs["degrees"], range(1, inputs["n_a"] + 1), inputs["m"]):
        if one[tp_e] > second.usable_bytes():
            continue

        def step_s(batch: int, tp_a: int = tp_a, tp_e: int = tp_e, nodes: int = nodes, m: int = m) -> float:
            times = stages(batch, nodes, tp_a, tp_e)
            period = max(m * times.busiest_s, times.round_trip_s)
            return times.round_trip_s + (layers - 1) * period + (m - 1) * times.busiest_s

        batch = most(lambda b: step_s(b) <= inputs["tbt_s"], 0, held[tp_a] // m)
        price = instance_price(
            nodes=nodes,
            tp_a=tp_a,
            tp_e=tp_e,
            experts=facts.experts or 0,
            attention_price=inputs["price"][attention],
            expert_price=inputs["price"][experts],
        )
        best = max(best, nodes * batch * m / step_s(batch) / price if batch else 0.0)
    return best


@reproduces("ms-hetero-gain")
def gains(inputs: Inputs) -> list[float]:
    found = []
    for name in inputs["llms"]:
        facts = SCALED_MOE if name == SCALED_MOE.name else find(name)
        baseline = max(together(facts, gpu, inputs) for gpu in inputs["price"])
        found.append(apart(facts, "H20", "L40S", inputs) / baseline)
    return [min(found), max(found)]
