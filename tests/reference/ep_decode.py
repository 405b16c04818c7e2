"""Decoding of DeepSeek-V3 under expert parallelism on H800."""

from moeopt.cost import IB_ALPHA_S, Link, Machine, StepTime, ep_decode, world_size
from moeopt.llm import find
from moeopt.llm.gpus import find_gpu
from tests.reference.table import Inputs, reproduces


def step(inputs: Inputs, *, dual: bool = False, load: float = 1.0, sequences: int | None = None) -> StepTime:
    """One step; the memory of the source's H800 has the 3.35 TB/s of an H100."""
    gpu = Machine.of(inputs["gpu"], bytes_per_s=3.35e12)
    port = Link(IB_ALPHA_S, (find_gpu(inputs["gpu"]).nic_bytes_per_s or 0.0) * gpu.efficiency.network)
    return ep_decode(
        find(inputs["llm"]),
        gpu,
        sequences=inputs["n"] if sequences is None else sequences,
        context_tokens=inputs["ctx"],
        ep=inputs["D"],
        link=port,
        load=load,
        dual=dual,
    )


@reproduces("ep-tput-16", "ep-tput-64")
def plain(inputs: Inputs) -> float:
    return step(inputs).tokens_per_s


@reproduces("ep-dual-64")
def dual(inputs: Inputs) -> float:
    return step(inputs, dual=True).tokens_per_s


@reproduces("ep-deploy-counts")
def gpus_of_deployments(inputs: Inputs) -> list[int]:
    first, second, third = (
        world_size(dp=nodes * inputs["gpus_per_node"], ep_overlaps=True) for nodes in inputs["nodes"]
    )
    tp, dp = inputs["tp"], inputs["dp"]
    return [first, world_size(tp=tp, dp=dp, ep=tp * dp, ep_overlaps=True), second, third]
