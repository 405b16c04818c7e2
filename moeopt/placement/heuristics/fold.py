"""Two slots a GPU: the heaviest replica meets the lightest one.

For fixed counts and equal speeds no pairing has a smaller maximum (exchange argument); pairs of one expert with itself
are repaired, which may cost something.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.registry import Context, Outcome


def applies(instance: PlacementInstance) -> str | None:
    """Only two equal slots a GPU can be folded."""
    if set(instance.slots) != {2} or not instance.uniform:
        return "fold needs two slots on every GPU and equal speeds"
    if instance.hierarchical:
        return "fold knows no groups; use search"
    if instance.constrained:
        return "fold knows no pin and no forbid; use search"
    return None


def fold(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Greedy counts, then heaviest with lightest, second with second lightest, and so on."""
    fixed, notes = replace_doubles(instance, folded(instance))
    return Outcome(Placement.of(fixed), notes=notes)


def folded(instance: PlacementInstance) -> NDArray[np.int64]:
    """(L, 2 G) pairs before doubles are repaired."""
    counts = instance.greedy_counts
    pieces = instance.weights / counts
    order = np.argsort(-pieces, axis=1, kind="stable")
    repeated = np.repeat(order.ravel(), np.take_along_axis(counts, order, axis=1).ravel())
    ranked = repeated.reshape(instance.num_layers, instance.num_slots)
    half = instance.num_gpus
    return np.stack([ranked[:, :half], ranked[:, : half - 1 : -1]], axis=2).reshape(instance.num_layers, -1)
