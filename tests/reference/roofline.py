"""Decoding of Mixtral-8x22B and Llama-3-70B on eight H100 under TP."""

from moeopt.cost import Efficiency, Link, Machine, StepTime, dense_ffn, moe_ffn, tp_decode
from moeopt.llm import find
from moeopt.llm.gpus import find_gpu
from tests.reference.table import Inputs, reproduces


def step(llm: str, gpu: str, batch: int, inputs: Inputs) -> StepTime:
    """One step with the constants of the entry, or the defaults; no routers and no head, as the source has it."""
    parts = Efficiency(*inputs.get("eff", [0.7, 0.8, 0.8]))
    link = Link(inputs.get("alpha_s", 2e-6), (find_gpu(gpu).scale_up_bytes_per_s or 0.0) * parts.network)
    return tp_decode(
        find(llm),
        Machine.of(gpu, efficiency=parts),
        sequences=batch,
        context_tokens=inputs["ctx"],
        tp=inputs["tp"],
        link=link,
        overhead_s=inputs.get("overhead_s", 1e-5),
        router=False,
    )


@reproduces("roof-ffn-us")
def microseconds_of_ffn(inputs: Inputs) -> list[float]:
    machine, tp = Machine.of(inputs["gpu"]), inputs["tp"]
    mixtral, llama = (find(name) for name in inputs["llms"])
    experts = moe_ffn(mixtral, tokens=64, tp=tp, router=False)  # all are touched, none is compute-bound
    dense = dense_ffn(tokens=64, hidden=llama.hidden or 0, width=llama.dense_width or 0, tp=tp)
    return [machine.time_s(experts) * 1e6, machine.time_s(dense) * 1e6]


@reproduces("roof-mixtral-tput", "roof-llama-tput")
def tokens_per_s(inputs: Inputs) -> float:
    return step(inputs["llm"], inputs["gpu"], inputs["batch"], inputs).tokens_per_s


@reproduces("roof-slower-range")
def slower(inputs: Inputs) -> list[float]:
    one, other = inputs["llms"]
    times = [[step(llm, inputs["gpu"], b, inputs).total_s for llm in (one, other)] for b in inputs["batches"]]
    ratios = [mixtral / llama - 1 for mixtral, llama in times]
    return [min(ratios), max(ratios)]


@reproduces("roof-const-66us")
def microseconds_left(inputs: Inputs) -> float:
    """What a layer has beside rooflines and bytes, so that each printed throughput comes out; both must agree."""
    left = []
    for llm, rate in zip(inputs["llms"], inputs["tok_s"], strict=True):
        batch = {"mixtral-8x22b": 1254, "llama-3-70b": 1296}[llm]
        bare = step(llm, inputs["gpu"], batch, {**inputs, "alpha_s": 0.0, "overhead_s": 0.0})
        left.append((batch / rate - bare.total_s) / find(llm).layers * 1e6)
    assert abs(left[0] - left[1]) < 0.02
    return sum(left) / 2
