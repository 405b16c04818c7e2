"""Weights of Kimi K3, and GPUs for them without any reserve."""

from moeopt.cost import Numerics, gpus_for_weights
from tests.reference.table import Inputs, reproduces


@reproduces("k3-cards-bf16", "k3-cards-fp4")
def gpus(inputs: Inputs) -> list[int]:
    sizes = {"params": inputs["params"], "bytes_per_param": inputs["bytes"], "usable": 1.0}
    return [gpus_for_weights(memory_bytes=gb * 1e9, **sizes) for gb in inputs["gpu_gb"]]


@reproduces("k3-weights-tb")
def terabytes(inputs: Inputs) -> list[float]:
    return [inputs["params"] * Numerics(name).weight_bytes / 1e12 for name in inputs["formats"]]
