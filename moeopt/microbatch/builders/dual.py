"""Dual micro-batch: the same GPUs do attention and experts; while one micro-batch is on the network, another computes.

With m = 1 nothing overlaps. With m = 2 each half reads the weights again: the fixed part of a stage's time is paid by
every micro-batch, so that halving a batch does not halve its time (DeepSeek-V3 report, section 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.microbatch.graph import Lap, Number, Stage, flow

STAGES = (
    Stage("attention", "compute"),
    Stage("dispatch", "network"),
    Stage("experts", "compute"),
    Stage("combine", "network"),
)
IN_TURN = 2
"""Up to so many micro-batches, first come first served keeps the order of the lap, whatever the durations."""


def lap(
    attention: Sequence[Number], dispatch: Sequence[Number], experts: Sequence[Number], combine: Sequence[Number]
) -> Lap:
    """One layer, from the seconds of each stage, one per micro-batch.

    >>> lap([1, 1], [2, 2], [3, 3], [2, 2]).turns
    ((0, 1, 4, 5), (2, 3, 6, 7))
    """
    return flow(STAGES, (attention, dispatch, experts, combine), in_turn=len(attention) <= IN_TURN)
