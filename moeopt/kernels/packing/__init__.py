"""The deep search of one layer: replica counts and packing together, by descent and kicks under a falling threshold.

A state is the expert in each slot. Its cost at a threshold T is ``sum_g max(0, C_g - T)^2``: how far GPUs stand above
T. Descent takes the hottest GPU and applies the best swap with another GPU, or the best transfer (one replica of an
expert gives its slot to another expert); when nothing helps, a random kick follows, kept if the cost is no higher
after the next descent. Whenever the largest cost falls, the state is the new incumbent and T moves below it.

Everything here is in the subset that numba compiles; interpreted, it does the same steps and gives the same bytes.
"""

from moeopt.kernels.packing.search import BEST, COST, FAILS, STEP, THRESHOLD, WORK, improve, remember
from moeopt.kernels.packing.state import FORBIDDEN, PINNED, Floats, Ints, Layer, State

__all__ = [
    "BEST",
    "COST",
    "FAILS",
    "FORBIDDEN",
    "PINNED",
    "STEP",
    "THRESHOLD",
    "WORK",
    "Floats",
    "Ints",
    "Layer",
    "State",
    "improve",
    "remember",
]
