"""Dispatch in chunks: experts begin with the first chunk while the others are on the way; layers do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.microbatch.graph import Lap, Number, Stage, flow

STAGES = (Stage("dispatch", "network"), Stage("experts", "compute"))


def lap(dispatch: Sequence[Number], experts: Sequence[Number], rest: Number = 0) -> Lap:
    """One layer, from the seconds of each stage, one per chunk, and of what is not cut.

    Each chunk pays the fixed part of both times (a message's latency, a kernel's launch and its worse efficiency).

    >>> len(lap([1, 1], [2, 2]).items)
    5
    """
    return flow(STAGES, (dispatch, experts), rest=rest)
