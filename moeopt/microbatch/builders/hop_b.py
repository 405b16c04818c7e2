"""HOP-B: the exchange of one group of requests runs behind the attention of the next (Helix, arXiv 2507.07120).

Two modes of latency: per message, each group's exchange takes what a message of its size takes; amortised, the exchange
of the whole batch is divided by the groups, fixed latency and all. The instance says which; here both are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.microbatch.graph import Lap, Number, Stage, flow

STAGES = (Stage("attention", "compute"), Stage("exchange", "network"))


def lap(attention: Sequence[Number], exchange: Sequence[Number], rest: Number = 0) -> Lap:
    """One layer, from the seconds of each stage, one per group, and of what is not cut.

    >>> lap([2, 2], [1, 1]).resources
    ('rest', 'compute', 'network')
    """
    return flow(STAGES, (attention, exchange), rest=rest)
