"""Capacity and loads of experts, exact rank balance, and the rank that is done last."""

from __future__ import annotations

from moeopt.cost.capacity import expert_capacity, load_ratio
from moeopt.cost.completion import completion_s
from moeopt.cost.mesh_sizes import redundant_experts_bound
from moeopt.cost.routed import expert_counts
from moeopt.cost.touched import tokens_per_expert
from tests.reference import Inputs, reproduces

KIMI_K3 = {"experts": 896, "top_k": 16}


@reproduces("cap-shazeer-batch")
def the_shrinking_batch(inputs: Inputs) -> object:
    batches = (inputs["b"], inputs["b"] * inputs["d"])
    return [tokens_per_expert(experts=inputs["E"], top_k=inputs["k"], tokens=batch) for batch in batches]


@reproduces("cap-k3")
def capacity_of_k3(inputs: Inputs) -> object:
    tokens, experts, top_k = inputs["T"], inputs["E"], inputs["k"]
    mean = tokens_per_expert(experts=experts, top_k=top_k, tokens=tokens)
    return mean, expert_capacity(tokens, top_k=top_k, experts=experts, factor=inputs["c"])


@reproduces("epv-k3-assign")
def assignments_of_k3(inputs: Inputs) -> object:
    mean = tokens_per_expert(**KIMI_K3, tokens=inputs["T"])
    return mean * KIMI_K3["experts"], mean


@reproduces("cap-rho")
def load_over_selected(inputs: Inputs) -> object:
    return load_ratio(inputs["counts"], tokens=inputs["N_t"], top_k=inputs["k"])


@reproduces("cap-identity-moe")
def no_token_is_lost(inputs: Inputs) -> object:
    experts = 3
    routing = [[(token + slot) % experts for slot in range(inputs["k"])] for token in range(inputs["N"])]
    return int(expert_counts(routing, experts=experts).sum())


@reproduces("moonep-redundant")
def redundant_experts(inputs: Inputs) -> object:
    return redundant_experts_bound(inputs["E"], ranks=inputs["R"])


@reproduces("ov-critical")
def critical_path(inputs: Inputs) -> object:
    lists = {"queue_s": inputs["q"], "compute_s": inputs["c"]}
    return completion_s(dispatch_s=inputs["disp"], combine_s=inputs["comb"], **lists)
