"""Imbalance by chance and by popularity, and what it costs DeepSeek-V3."""

import numpy as np

from moeopt import placement
from moeopt.cost import (
    estimate_max_over_mean,
    hottest_over_mean,
    kv_bytes_per_gpu,
    max_over_mean,
    selection_chances,
    zipf_weights,
)
from moeopt.cost.roofline import FP8
from moeopt.llm import find, slot_bytes
from moeopt.placement import PlacementInstance
from tests.reference.ep_decode import step
from tests.reference.table import Inputs, reproduces


@reproduces("imb-zipf-top8")
def hottest_expert(inputs: Inputs) -> float:
    return hottest_over_mean(selection_chances(zipf_weights(inputs["E"], inputs["s"]), inputs["k"]))


def busiest_gpu(chances: np.ndarray, gpus: int, draws: int, seed: int) -> np.ndarray:
    """Busiest over mean GPU with contiguous experts, for orders of the experts drawn at random."""
    rng, unit = np.random.default_rng(seed), np.arange(len(chances)) * gpus // len(chances)
    return np.array([hottest_over_mean(rng.permutation(chances), unit.tolist()) for _ in range(draws)])


@reproduces("imb-zipf-card")
def hottest_gpu(inputs: Inputs) -> float:
    chances = selection_chances(zipf_weights(inputs["E"], inputs["s"]), inputs["k"])
    return float(busiest_gpu(chances, inputs["D"], inputs["draws"], inputs["seed"]).mean())


@reproduces("imb-poisson-1")
def one_token_each(inputs: Inputs) -> float:
    bracket = max_over_mean(experts=inputs["E"], top_k=inputs["k"], tokens=inputs["n"])
    drawn = estimate_max_over_mean([1.0] * inputs["E"], top_k=inputs["k"], tokens=inputs["n"])
    assert bracket.low - 3 * drawn.standard_error < drawn.mean < bracket.high + 3 * drawn.standard_error
    return drawn.mean


@reproduces("imb-poisson-1024")
def many_tokens_each(inputs: Inputs) -> float:
    bracket = max_over_mean(experts=inputs["E"], top_k=inputs["k"], tokens=inputs["n"])
    return (bracket.low + bracket.high) / 2


@reproduces("imb-contig128")
def contiguous(inputs: Inputs) -> float:
    facts = find(inputs["llm"])
    chances = selection_chances(zipf_weights(facts.experts or 0, inputs["s"]), facts.top_k or 0)
    loads = busiest_gpu(chances, inputs["D"], inputs["draws"], inputs["seed"])
    return float(np.mean([step(inputs, dual=True, load=float(load)).tokens_per_s for load in loads]))


@reproduces("imb-16-noeffect")
def loss_at_sixteen(inputs: Inputs) -> float:
    return max(0.0, 1 - contiguous(inputs) / step(inputs, dual=True).tokens_per_s)


@reproduces("imb-redundant128")
def with_redundant_experts(inputs: Inputs) -> float:
    """The imbalance of our plan, and a batch that leaves room for the extra slot."""
    facts, gpus = find(inputs["llm"]), inputs["D"]
    chances = selection_chances(zipf_weights(facts.experts or 0, inputs["s"]), facts.top_k or 0)
    experts, extra = facts.experts or 0, inputs["extra_slots"]
    instance = PlacementInstance([(chances * 1e6).tolist()], gpus=gpus, slots=experts + extra * gpus)
    load = placement.solve(instance, method="lpt").solution["layers"][0]["imbalance"]
    one = kv_bytes_per_gpu(facts, context_tokens=inputs["ctx"])
    fewer = int(-(-extra * slot_bytes(facts, FP8.weights) // one))
    return step(inputs, dual=True, load=load, sequences=inputs["n"] - fewer).tokens_per_s
