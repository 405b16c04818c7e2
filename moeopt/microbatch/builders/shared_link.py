"""Ping-pong over one half-duplex link: both directions wait for each other, and no closed form holds."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.microbatch.graph import Lap, Number, Stage, flow

STAGES = (
    Stage("attention", "attention"),
    Stage("dispatch", "link"),
    Stage("experts", "experts"),
    Stage("combine", "link"),
)


def lap(
    attention: Sequence[Number], dispatch: Sequence[Number], experts: Sequence[Number], combine: Sequence[Number]
) -> Lap:
    """One layer, from the seconds of each stage, one per micro-batch.

    Which direction the link serves next depends on what comes first, so the order is known only once it has run.

    >>> lap([1, 1], [2, 2], [3, 3], [2, 2]).resources
    ('attention', 'link', 'experts')
    """
    return flow(STAGES, (attention, dispatch, experts, combine), in_turn=False)
