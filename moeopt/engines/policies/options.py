"""What a drop-in policy may do: moves, when to keep, how long, and whom it tells."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations
from moeopt.placement.instance import SPLITS, Split

LOGGER = logging.getLogger("moeopt.engines")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a policy; checked here, where a person sets them, so that nothing is left to fail in the engine.

    Parameters
    ----------
    max_moves
        Most (expert, GPU) pairs of a layer that may be new; ``None``: no budget. Counts only where the engine hands
        over the map that runs. Experts that are missing and slots that are empty, as where GPUs have come or gone, come
        first and beyond the budget; then second replicas of an expert on a GPU are taken away, within it. What it was
        too small for is a warning in the log.
    keep
        A layer of the running map stays as it is, without a move, unless its busiest GPU gets lighter by more than this
        part, in [0, 1); it is filled anew, which moves most of it, only for 3 % more than swaps can give in their part
        of the limit, or `keep` if that is more, and in as many layers as the limit holds. The larger, the fewer moves
        and the more imbalance. With 0 every gain counts, and no layer ends above the public rule unless `max_moves` or
        a short limit forbids.
    time_limit_s
        Wall-clock seconds a call may take. What cannot be cut is reading the input, making the running map full and the
        public rule, together some 0.1 s for 58 layers of 256 experts, 0.4 s where half the GPUs are new, and one piece
        of the search: a tenth of the limit, or one layer. On a machine that is not stalled a call ends at the latest
        that much after the limit.
    seed
        Of the search; the same on every rank.
    split
        How the engine deals an expert's tokens to its replicas, as in `PlacementInstance`.
    steady
        Engines let every rank plan for itself and trust that all find the same map. Then the clock must not decide:
        the work is cut by sizes alone, to what takes less than half the limit on an idle core of today. Where the limit
        passes nevertheless, what the search found is left out, and before that stage the map that runs comes back, made
        full. ``False``, where one process plans for all: every layer worth it is searched, once, or as many as four
        fifths of the limit hold, and the best is kept; it is done sooner where no more layers are worth it.
    agree
        ``agree(map) -> map`` sends the first rank's (L, S) map to all, such as a broadcast. It is called exactly once
        in every call, also after a failure; with it `steady` is not needed and is taken as false.
    logger
        Where the line of every call goes; default ``logging.getLogger("moeopt.engines")``.

    Raises
    ------
    InstanceError
        An option out of range.

    >>> Options(max_moves=8).keep
    0.01
    """

    max_moves: int | None = None
    keep: float = 0.01
    time_limit_s: float = 1.0
    seed: int = 0
    split: Split = "even"
    steady: bool = True
    agree: Callable[[NDArray[np.int64]], Any] | None = None
    logger: logging.Logger | None = None

    def __post_init__(self) -> None:
        check = Violations()
        if self.max_moves is not None and not _whole(self.max_moves):
            check.refuse(
                "max_moves", self.max_moves, rule="must be a whole number >= 0", fix="Leave it out for no budget"
            )
        if not _whole(self.seed):
            check.refuse("seed", self.seed, rule="must be a whole number >= 0", fix="Use 0")
        if not (_number(self.keep) and 0 <= self.keep < 1):
            check.refuse("keep", self.keep, rule="must be a fraction in [0, 1)", fix="0.01 means 1 %")
        if not (_number(self.time_limit_s) and 0 < self.time_limit_s < math.inf):
            check.refuse("time_limit_s", self.time_limit_s, rule="must be finite seconds > 0", fix="Use 1")
        if self.split not in SPLITS or self.split == "free":
            rule = "must be even, sglang-static, sglang-static-node or random"
            check.add("split", self.split, rule=rule, fix="Use even: engines take no shares")
        if self.agree is not None and not callable(self.agree):
            check.add(
                "agree", self.agree, rule="must be a function of the map", fix="Leave it out, or give a broadcast"
            )
        check.raise_if_any()

    @property
    def by_clock(self) -> bool:
        """Whether the clock may decide how good the map gets."""
        return not self.steady or self.agree is not None

    @property
    def log(self) -> logging.Logger:
        """Where to log."""
        return LOGGER if self.logger is None else self.logger


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
