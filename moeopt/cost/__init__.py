"""Closed forms of what hardware takes: pure functions, no solver."""

from __future__ import annotations

from moeopt.cost.accepted import accepted_length, accepted_lengths, concave_lengths
from moeopt.cost.attention_sizes import AttentionSizes, attention_sizes, kv_copies
from moeopt.cost.buffers import (
    expected_payload,
    low_latency_buffer_bytes,
    normal_buffer_bytes,
    payload_bound,
    receive_tensor_bytes,
)
from moeopt.cost.capacity import Filling, expert_capacity, expert_filling, load_ratio
from moeopt.cost.collective_choice import CollectiveChoice, Crossover, best_collective
from moeopt.cost.collectives import COLLECTIVES, collective_bytes, collective_s, collective_schedule
from moeopt.cost.completion import completion_s
from moeopt.cost.constants import IB_ALPHA_S, LINK_ALPHA_S, NVL72_COLLECTIVE_S, OVERHEAD_S, PEAK, Efficiency
from moeopt.cost.context_volumes import CpVolume, cp_gather_volume, cp_volume
from moeopt.cost.decode import StepTime, ep_decode, tp_decode
from moeopt.cost.disaggregated import StageTimes, attention_side_s, expert_side_s, m2n_bytes, m2n_s, stage_times
from moeopt.cost.dispatch import MERGES, Copies, expected_copies, token_bytes, unit_probability
from moeopt.cost.draft import DraftChoice, best_draft_length, verify_step_s
from moeopt.cost.draws import Estimate, estimate_dp_skew, estimate_max_over_mean
from moeopt.cost.expert_ids import expert_at, expert_place, moved_experts
from moeopt.cost.floor import compute_bound_tokens, floor_of
from moeopt.cost.handoff import Handoff, Separation, handoff_bytes, handoff_s, separation_gain
from moeopt.cost.helix import NVL72, Split, helix_decode, helix_sequences, interleaved_tokens, merge_bytes, merge_s
from moeopt.cost.instances_apart import balanced_nodes, instance_price, mean_context, per_price
from moeopt.cost.layer_works import attended, attended_by, layer_decode, layer_prefill, layer_weights
from moeopt.cost.linear import linear_decode, linear_prefill
from moeopt.cost.links import Link, domain_bytes_per_s, usable_bytes_per_s
from moeopt.cost.lossless import draft_acceptance, residual_distribution
from moeopt.cost.megakernel import Balance, Waves, balance_flops_per_byte, best_waves, communication_hides, waves_s
from moeopt.cost.memory import (
    Weights,
    cache_shares,
    gpus_for_weights,
    kv_bytes_per_gpu,
    sequences_that_fit,
    weights_per_gpu,
)
from moeopt.cost.mesh_sizes import (
    TpChoice,
    best_tp,
    experts_per_rank,
    redundant_experts_bound,
    striped_positions,
    world_size,
)
from moeopt.cost.noise import Bracket, dp_skew, max_over_mean, normal_max_over_mean
from moeopt.cost.operators import attention_decode, attention_prefill, dense_ffn, lm_head, moe_ffn
from moeopt.cost.overflow import OverflowAction, overflow_actions
from moeopt.cost.overheads import LAUNCHES_PER_LAYER, Compression, compression_break_even, launch_overhead_s
from moeopt.cost.popular import hottest_over_mean, selection_chances, zipf_weights
from moeopt.cost.prefill import ChunkChoice, best_chunk, chunk_rounds
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
from moeopt.cost.routed import Busiest, RoutedCopies, busiest_rank, expert_counts, routed_copies
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
from moeopt.cost.two_stage import Fabric, flat_all_to_all_s, flat_range, staged_all_to_all_s
from moeopt.cost.volumes import EpVolume, Passes, activation_bytes, ep_volume, sp_volume, tp_volume
from moeopt.llm.gpus import GPUS

__all__ = [
    "BF16",
    "COLLECTIVES",
    "FP4",
    "FP8",
    "GPUS",
    "IB_ALPHA_S",
    "LAUNCHES_PER_LAYER",
    "LINK_ALPHA_S",
    "MERGES",
    "NVL72",
    "NVL72_COLLECTIVE_S",
    "OVERHEAD_S",
    "PEAK",
    "AttentionSizes",
    "Balance",
    "Bracket",
    "Busiest",
    "ChunkChoice",
    "CollectiveChoice",
    "Compression",
    "Copies",
    "CpVolume",
    "Crossover",
    "DraftChoice",
    "Efficiency",
    "EpVolume",
    "Estimate",
    "Fabric",
    "Filling",
    "Handoff",
    "Link",
    "Machine",
    "Numerics",
    "OverflowAction",
    "Passes",
    "RoutedCopies",
    "Separation",
    "Split",
    "StageTimes",
    "StepTime",
    "TpChoice",
    "Waves",
    "Weights",
    "Work",
    "accepted_length",
    "accepted_lengths",
    "activation_bytes",
    "attended",
    "attended_by",
    "attention_decode",
    "attention_prefill",
    "attention_side_s",
    "attention_sizes",
    "balance_flops_per_byte",
    "balanced_nodes",
    "best_chunk",
    "best_collective",
    "best_draft_length",
    "best_tp",
    "best_waves",
    "busiest_rank",
    "cache_shares",
    "chunk_rounds",
    "collective_bytes",
    "collective_s",
    "collective_schedule",
    "communication_hides",
    "completion_s",
    "compression_break_even",
    "compute_bound_batch",
    "compute_bound_tokens",
    "concave_lengths",
    "cp_gather_volume",
    "cp_volume",
    "dense_ffn",
    "domain_bytes_per_s",
    "dp_skew",
    "draft_acceptance",
    "ep_decode",
    "ep_volume",
    "estimate_dp_skew",
    "estimate_max_over_mean",
    "expected_copies",
    "expected_payload",
    "expert_at",
    "expert_bytes_read",
    "expert_capacity",
    "expert_counts",
    "expert_filling",
    "expert_place",
    "expert_side_s",
    "expert_utilisation",
    "experts_per_rank",
    "flat_all_to_all_s",
    "flat_range",
    "floor_of",
    "gpus_for_weights",
    "handoff_bytes",
    "handoff_s",
    "helix_decode",
    "helix_sequences",
    "hottest_over_mean",
    "instance_price",
    "interleaved_tokens",
    "kv_bytes_per_gpu",
    "kv_copies",
    "launch_overhead_s",
    "layer_decode",
    "layer_prefill",
    "layer_weights",
    "linear_decode",
    "linear_prefill",
    "lm_head",
    "load_ratio",
    "low_latency_buffer_bytes",
    "m2n_bytes",
    "m2n_s",
    "max_over_mean",
    "mean_context",
    "merge_bytes",
    "merge_s",
    "moe_ffn",
    "moved_experts",
    "normal_buffer_bytes",
    "normal_max_over_mean",
    "operators_s",
    "overflow_actions",
    "payload_bound",
    "per_price",
    "receive_tensor_bytes",
    "redundant_experts_bound",
    "residual_distribution",
    "routed_copies",
    "selection_chances",
    "separation_gain",
    "sequences_that_fit",
    "sp_volume",
    "spread_evenly",
    "stage_times",
    "staged_all_to_all_s",
    "striped_positions",
    "token_bytes",
    "tokens_per_expert",
    "touched_by_chances",
    "touched_exactly",
    "touched_experts",
    "touched_units",
    "touched_units_distribution",
    "tp_decode",
    "tp_volume",
    "unit_probability",
    "usable_bytes_per_s",
    "utilisation",
    "verify_step_s",
    "waves_s",
    "weights_per_gpu",
    "world_size",
    "zipf_weights",
]
