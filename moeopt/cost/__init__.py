"""Closed forms of what hardware takes: pure functions, no solver."""

from __future__ import annotations

from moeopt.cost.constants import IB_ALPHA_S, LINK_ALPHA_S, NVL72_COLLECTIVE_S, OVERHEAD_S, PEAK, Efficiency
from moeopt.cost.draws import Estimate, estimate_dp_skew, estimate_max_over_mean
from moeopt.cost.floor import compute_bound_tokens, floor_of
from moeopt.cost.noise import Bracket, dp_skew, max_over_mean, normal_max_over_mean
from moeopt.cost.popular import hottest_over_mean, selection_chances, zipf_weights
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
    "GPUS",
    "IB_ALPHA_S",
    "LINK_ALPHA_S",
    "NVL72_COLLECTIVE_S",
    "OVERHEAD_S",
    "PEAK",
    "Bracket",
    "Efficiency",
    "Estimate",
    "compute_bound_tokens",
    "dp_skew",
    "estimate_dp_skew",
    "estimate_max_over_mean",
    "expert_bytes_read",
    "floor_of",
    "hottest_over_mean",
    "max_over_mean",
    "normal_max_over_mean",
    "selection_chances",
    "spread_evenly",
    "tokens_per_expert",
    "touched_by_chances",
    "touched_exactly",
    "touched_experts",
    "touched_units",
    "touched_units_distribution",
    "zipf_weights",
]
