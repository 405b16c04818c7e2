"""Ping-pong: attention, link out, experts, link back, each a resource of its own (MegaScale-Infer, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.microbatch.graph import Lap, Number, Stage, flow

STAGES = (
    Stage("attention", "attention"),
    Stage("dispatch", "link out"),
    Stage("experts", "experts"),
    Stage("combine", "link back"),
)


def lap(
    attention: Sequence[Number], dispatch: Sequence[Number], experts: Sequence[Number], combine: Sequence[Number]
) -> Lap:
    """One layer, from the seconds of each stage, one per micro-batch.

    Every resource serves micro-batches in their order, layer after layer: queues in a row, first come first served,
    keep the order in which the work came.

    >>> lap([1, 1], [2, 2], [3, 3], [2, 2]).resources
    ('attention', 'link out', 'experts', 'link back')
    """
    return flow(STAGES, (attention, dispatch, experts, combine))
