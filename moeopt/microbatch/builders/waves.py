"""Expert waves: dispatch, computing and combine of successive waves of experts run at once, with fill and drain."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.microbatch.graph import Lap, Number, Stage, flow

STAGES = (Stage("dispatch", "link in"), Stage("experts", "compute"), Stage("combine", "link out"))


def lap(dispatch: Sequence[Number], experts: Sequence[Number], combine: Sequence[Number], rest: Number = 0) -> Lap:
    """One layer, from the seconds of each stage, one per wave, and of what is not cut.

    >>> lap([1], [2], [1]).resources
    ('rest', 'link in', 'compute', 'link out')
    """
    return flow(STAGES, (dispatch, experts, combine), rest=rest)
