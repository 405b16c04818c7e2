"""Experts that a batch touches, and bytes of them that a step reads."""

from moeopt.cost import expert_bytes_read, tokens_per_expert, touched_experts
from tests.reference.table import Inputs, reproduces


@reproduces("touched-E64k4")
def touched(inputs: Inputs) -> list[float]:
    return [touched_experts(experts=inputs["E"], top_k=inputs["k"], tokens=n) for n in inputs["n"]]


@reproduces("touched-mix8x7b-bytes-b4-b32")
def gigabytes(inputs: Inputs) -> list[float]:
    size = inputs["params_per_expert"] * inputs["bytes"]
    sizes = {"experts": inputs["E"], "top_k": inputs["k"], "bytes_per_expert": size, "layers": inputs["layers"]}
    return [expert_bytes_read(tokens=n, **sizes) / 1e9 for n in inputs["n"]]


@reproduces("touched-mix8x7b-bytes-b1")
def gigabytes_of_one_token(inputs: Inputs) -> float:
    return gigabytes(inputs)[0]


@reproduces("touched-dsv3-b256-mean")
def mean(inputs: Inputs) -> float:
    return float(tokens_per_expert(experts=inputs["E"], top_k=inputs["k"], tokens=inputs["n"]))
