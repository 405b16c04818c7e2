"""Algorithms that several rooms use: load evaluation, greedy counts, largest first, the deep search."""

from moeopt.kernels.warmup import warmup

__all__ = ["warmup"]
