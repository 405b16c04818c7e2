"""Closed forms of what hardware takes: pure functions, no solver."""

from __future__ import annotations

from moeopt.cost.floor import compute_bound_tokens, floor_of
from moeopt.llm.gpus import GPUS

__all__ = ["GPUS", "compute_bound_tokens", "floor_of"]
