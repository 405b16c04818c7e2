"""Closed forms of what hardware takes: pure functions, no solver."""

from __future__ import annotations

from moeopt.cost.attention_sizes import AttentionSizes, attention_sizes, kv_copies
from moeopt.cost.collectives import collective_s
from moeopt.cost.constants import IB_ALPHA_S, LINK_ALPHA_S, NVL72_COLLECTIVE_S, OVERHEAD_S, PEAK, Efficiency
from moeopt.cost.decode import StepTime, ep_decode, tp_decode
from moeopt.cost.disaggregated import (
    StageTimes,
    attention_side_s,
    balanced_nodes,
    expert_side_s,
    instance_price,
    m2n_bytes,
    m2n_s,
    mean_context,
    per_price,
    stage_times,
)
from moeopt.cost.draws import Estimate, estimate_dp_skew, estimate_max_over_mean
from moeopt.cost.floor import compute_bound_tokens, floor_of
from moeopt.cost.helix import NVL72, Split, helix_decode, helix_sequences, interleaved_tokens, merge_bytes, merge_s
from moeopt.cost.links import Link
from moeopt.cost.memory import Weights, gpus_for_weights, kv_bytes_per_gpu, sequences_that_fit, weights_per_gpu
from moeopt.cost.noise import Bracket, dp_skew, max_over_mean, normal_max_over_mean
from moeopt.cost.operators import attention_decode, attention_prefill, dense_ffn, lm_head, moe_ffn
from moeopt.cost.popular import hottest_over_mean, selection_chances, zipf_weights
from moeopt.cost.roofline import (
    BF16,
    FP4,
    FP8,
    Machine,
    Numerics,
    Work,
    compute_bound_batch,
    expert_utilisation,
    operators_s,
    utilisation,
)
from moeopt.cost.touched import (
    expert_bytes_read,
    spread_evenly,
    tokens_per_expert,
    touched_by_chances,
    touched_exactly,
    touched_experts,
    touched_units,
    touched_units_distribution,
)
from moeopt.llm.gpus import GPUS

__all__ = [
    "BF16",
    "FP4",
    "FP8",
    "GPUS",
    "IB_ALPHA_S",
    "LINK_ALPHA_S",
    "NVL72",
    "NVL72_COLLECTIVE_S",
    "OVERHEAD_S",
    "PEAK",
    "AttentionSizes",
    "Bracket",
    "Efficiency",
    "Estimate",
    "Link",
    "Machine",
    "Numerics",
    "Split",
    "StageTimes",
    "StepTime",
    "Weights",
    "Work",
    "attention_decode",
    "attention_prefill",
    "attention_side_s",
    "attention_sizes",
    "balanced_nodes",
    "collective_s",
    "compute_bound_batch",
    "compute_bound_tokens",
    "dense_ffn",
    "dp_skew",
    "ep_decode",
    "estimate_dp_skew",
    "estimate_max_over_mean",
    "expert_bytes_read",
    "expert_side_s",
    "expert_utilisation",
    "floor_of",
    "gpus_for_weights",
    "helix_decode",
    "helix_sequences",
    "hottest_over_mean",
    "instance_price",
    "interleaved_tokens",
    "kv_bytes_per_gpu",
    "kv_copies",
    "lm_head",
    "m2n_bytes",
    "m2n_s",
    "max_over_mean",
    "mean_context",
    "merge_bytes",
    "merge_s",
    "moe_ffn",
    "normal_max_over_mean",
    "operators_s",
    "per_price",
    "selection_chances",
    "sequences_that_fit",
    "spread_evenly",
    "stage_times",
    "tokens_per_expert",
    "touched_by_chances",
    "touched_exactly",
    "touched_experts",
    "touched_units",
    "touched_units_distribution",
    "tp_decode",
    "utilisation",
    "weights_per_gpu",
    "zipf_weights",
]
