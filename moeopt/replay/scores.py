"""What a plan is worth in one window, by the referee of placement, and what no plan could beat there."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from moeopt.kernels.fractions import quotient, total
from moeopt.placement import bounds, verify
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement


@dataclass(frozen=True, slots=True)
class Score:
    """A plan in a window.

    Parameters
    ----------
    window
        Place of the window in the history.
    imbalance_mean, imbalance_worst, worst_layer
        Mean over layers of the imbalance, the largest, and the id of its layer.
    imbalance_total
        Sum over layers of the busiest GPU over that of the ideals.
    busiest, ideal
        These two sums, exact, tokens.
    """

    window: int
    imbalance_mean: float
    imbalance_worst: float
    worst_layer: int
    imbalance_total: float
    busiest: Fraction
    ideal: Fraction


def score(window: int, instance: PlacementInstance, plan: Placement) -> Score:
    """Judge a plan in a window, exactly.

    >>> found = score(3, PlacementInstance([[3, 1]], gpus=2, slots=2), Placement.of([[0, 1]]))
    >>> found.imbalance_mean, found.worst_layer
    (1.5, 0)
    """
    judged = verify.evaluate(instance, plan)
    worst = max(range(instance.num_layers), key=judged.imbalance.__getitem__)
    busiest, ideal = judged.objective, total(judged.ideal)
    return Score(
        window,
        judged.imbalance_mean,
        judged.imbalance[worst],
        instance.layers[worst],
        quotient(busiest, ideal) if ideal else 1.0,
        busiest,
        ideal,
    )


def bound(instance: PlacementInstance) -> float:
    """Mean over layers of the imbalance that no plan is below in this window, certified.

    >>> bound(PlacementInstance([[8, 1, 1]], gpus=3, slots=3))
    2.4
    """
    floors = bounds.cheap(instance)
    ratios = [quotient(floor.value, even) if even else 1.0 for floor, even in zip(floors, instance.ideal, strict=True)]
    return sum(ratios) / len(ratios)
