"""Prefill and decode: the hand-off between pools, and chunks of a prompt in one pool."""

from __future__ import annotations

from moeopt.cost.handoff import handoff_bytes, handoff_s, separation_gain
from moeopt.cost.prefill import chunk_rounds
from tests.reference import Inputs, reproduces


@reproduces("kv-size")
def cache_of_opt(inputs: Inputs) -> object:
    return handoff_bytes(inputs["tokens"], bytes_per_token=inputs["mb_per_token"] * 1e6) / 1e9


@reproduces("kv-handoff-time")
def handoff_of_opt(inputs: Inputs) -> object:
    return handoff_s(inputs["S_gb"] * 1e9, links=inputs["links"], bytes_per_s=inputs["gb_s"] * 1e9).time_s * 1e3


@reproduces("kv-condition")
def pools_apart(inputs: Inputs) -> object:
    terms = {"interference_s": "interf_ms", "handoff_s": "handoff_ms", "scheduling_s": "sched_ms"}
    seconds = {name: inputs[key] / 1e3 for name, key in terms.items()}
    return separation_gain(queueing_s=inputs["queue_ms"] / 1e3, **seconds).possible


@reproduces("cp-rounds")
def rounds_of_a_prompt(inputs: Inputs) -> object:
    return chunk_rounds(inputs["prompt"], budget=inputs["budget"], decode=inputs["decode"])
