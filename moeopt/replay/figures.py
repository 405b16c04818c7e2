"""A policy over all windows that were scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moeopt.kernels.fractions import quotient, total
from moeopt.placement.instance import PlacementInstance
from moeopt.replay.prices import Clock
from moeopt.replay.replan import Replan
from moeopt.replay.scores import Score


@dataclass(frozen=True, slots=True)
class Figures:
    """A policy over all scored windows; see ``models/replay.md``.

    Parameters
    ----------
    worst_window, worst_layer
        ``imbalance`` beside them is of that window, of that layer in that window.
    moves_part, most_moves
        Moves of a re-plan in parts of all slots, the mean; the most of any.
    """

    imbalance_mean: float
    imbalance_worst_window: float
    worst_window: int
    imbalance_worst_layer: float
    worst_layer: int
    worst_layer_window: int
    imbalance_total: float
    replans: int
    moves: int
    moves_part: float
    most_moves: int
    moved_bytes: float | None
    experts_s: float | None
    stall_s: float | None
    total_s: float | None
    saved_s: float | None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def figures(
    scores: Sequence[Score], replans: Sequence[Replan], history: PlacementInstance, clock: Clock | None
) -> Figures:
    """What the scores and re-plans of a policy come to; `saved_s` is for the caller, who knows what keeping takes."""
    window = max(scores, key=lambda score: score.imbalance_mean)
    layer = max(scores, key=lambda score: score.imbalance_worst)
    ideal = total(score.ideal for score in scores)
    busiest = total(score.busiest for score in scores)
    moves = [replan.moves for replan in replans]
    slots = history.num_slots * history.num_layers
    size = history.expert_bytes
    experts = None if clock is None else math.fsum(map(clock.experts_s, scores))
    stall = None if clock is None else math.fsum(clock.stall_s(count) for count in moves)
    return Figures(
        math.fsum(score.imbalance_mean for score in scores) / len(scores),
        window.imbalance_mean,
        window.window,
        layer.imbalance_worst,
        layer.worst_layer,
        layer.window,
        quotient(busiest, ideal) if ideal else 1.0,
        len(moves),
        sum(moves),
        sum(moves) / len(moves) / slots if moves else 0.0,
        max(moves, default=0),
        None if size is None else sum(moves) * size,
        experts,
        stall,
        None if experts is None or stall is None else experts + stall,
        None,
    )
