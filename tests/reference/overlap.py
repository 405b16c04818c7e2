"""Dispatch in chunks, and HOP-B: the exchange of one request behind the attention of the next."""

from moeopt import microbatch
from moeopt.cost import Machine, Split, helix_decode, merge_s
from moeopt.llm import find
from moeopt.microbatch import Constant, Linear, MicrobatchInstance
from tests.reference.table import Inputs, reproduces


def times(instance: MicrobatchInstance) -> list[float]:
    solution = microbatch.solve(instance).solution
    assert solution is not None
    return [row["time_s"] for row in solution["sweep"]]


@reproduces("ov-chunks")
def chunked(inputs: Inputs) -> float:
    """As many tokens as chunks: each chunk has one, and pays the fixed cost on both sides."""
    n, alpha = inputs["n"], inputs["alpha"]
    stages = {"dispatch": Linear(alpha, inputs["comm"] / n), "experts": Linear(alpha, inputs["gemm"] / n)}
    return times(MicrobatchInstance(stages, layers=1, pattern="chunks", m=n, batches=n))[0]


def requests(inputs: Inputs, m: list[int]) -> list[float]:
    stages = {"attention": Linear(0, inputs["a"]), "exchange": Linear(0, inputs["c"])}
    return times(MicrobatchInstance(stages, layers=1, pattern="hop-b", m=m, batches=inputs["n"]))


@reproduces("hx-hopb")
def without_and_with(inputs: Inputs) -> list[float]:
    return requests(inputs, [1, inputs["n"]])


@reproduces("ov-hopb-rev")
def exchange_is_longer(inputs: Inputs) -> float:
    return requests(inputs, [inputs["n"]])[0]


@reproduces("hx-hopb-gain8")
def gain(inputs: Inputs) -> float:
    """More tokens a second: the latency of an exchange divided by the requests, their attention in equal parts."""
    facts, machine, split = find(inputs["llm"]), Machine.of(inputs["gpu"]), Split(inputs["tpa"], inputs["kvp"])
    batch, layers = inputs["B"], facts.layers
    step = helix_decode(facts, machine, split, sequences=batch, context_tokens=inputs["S"])
    sent = merge_s(facts, split, sequences=batch)
    stages = {
        "attention": Linear(0, step.attention_s / layers / batch),
        "exchange": Constant(sent / layers),
        "rest": Constant((step.total_s - step.attention_s - sent) / layers),
    }
    instance = MicrobatchInstance(
        stages, layers=layers, pattern="hop-b", m=[1, batch], batches=batch, latency="amortised"
    )
    alone, overlapped = times(instance)
    assert abs(alone - step.total_s) <= 1e-9 * step.total_s
    return alone / overlapped - 1
