"""Tokens that an expert needs to be compute-bound, and what a batch below that uses."""

from moeopt.cost import compute_bound_batch, compute_bound_tokens, expert_utilisation, tokens_per_expert
from tests.reference.table import Inputs, reproduces


@reproduces("thr-a100", "thr-h100-eff")
def tokens(inputs: Inputs) -> float:
    return compute_bound_tokens(
        inputs["F_flops"],
        inputs["B_bytes_per_s"],
        inputs["bytes"],
        compute_efficiency=inputs.get("eff_compute", 1.0),
        memory_efficiency=inputs.get("eff_memory", 1.0),
    )


@reproduces("thr-mixtral-b156")
def small_batch(inputs: Inputs) -> list[float]:
    sizes = {"experts": inputs["E"], "top_k": inputs["k"]}
    used = expert_utilisation(batch=inputs["b"], tokens_an_expert=inputs["F_over_B"], **sizes)
    return [float(tokens_per_expert(tokens=inputs["b"], **sizes)), used]


@reproduces("thr-qwen3-batch")
def whole_batch(inputs: Inputs) -> float:
    return compute_bound_batch(inputs["F_over_B"], experts=inputs["E"], top_k=inputs["k"])
