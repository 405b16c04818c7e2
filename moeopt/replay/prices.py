"""Seconds of a replay: of the experts in every window, of the stall of every move, and what a move was worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moeopt.errors import Violations
from moeopt.placement import checks
from moeopt.placement.instance import PlacementInstance
from moeopt.replay.scores import Score


@dataclass(frozen=True, slots=True)
class Prices:
    """What a step and a move take.

    Parameters
    ----------
    step_seconds
        Time that the experts of all layers take in a step of the first scored window, under the first placement.
        ``None``: the history's ``c_tok`` prices the tokens of the busiest GPUs.
    stall_seconds
        Time that serving stands still at a re-plan that moves; ``None``: the bytes that move over `bytes_per_s`.
    bytes_per_s
        Bytes a second at which weights come over all GPUs together.
    """

    step_seconds: float | None = None
    stall_seconds: float | None = None
    bytes_per_s: float | None = None

    def check(self, history: PlacementInstance) -> None:
        """Refuse numbers that are impossible, or too few of them to tell seconds.

        Raises
        ------
        InstanceError
            Everything that is missing or impossible.
        """
        check = Violations()
        for name, value, positive in (
            ("step_seconds", self.step_seconds, True),
            ("stall_seconds", self.stall_seconds, False),
            ("bytes_per_s", self.bytes_per_s, True),
        ):
            if value is not None:
                checks.number(name, value, check, positive=positive)
        if self.step_seconds is None and history.c_tok is None:
            rule = "is needed, or a history with c_tok"
            check.add("step_seconds", "missing", rule=rule, fix="Give the seconds that the experts take in a step")
        if self.stall_seconds is None and (self.bytes_per_s is None or history.expert_bytes is None):
            rule = "is needed, or bytes_per_s and a history with expert_bytes"
            check.add("stall_seconds", "missing", rule=rule, fix="Give the seconds that serving stands still")
        check.raise_if_any()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {name: getattr(self, name) for name in ("step_seconds", "stall_seconds", "bytes_per_s")}


@dataclass(frozen=True, slots=True)
class Clock:
    """Prices in a history.

    Parameters
    ----------
    reference
        The first placement in the first scored window, where ``step_seconds`` was measured.
    """

    prices: Prices
    history: PlacementInstance
    reference: Score

    def experts_s(self, score: Score) -> float:
        """Seconds of the experts of all layers in all steps of a window."""
        if self.prices.step_seconds is None:
            assert self.history.c_tok is not None
            return self.history.c_tok * float(score.busiest)
        steps = self.history.window_steps[score.window]
        return steps * self.prices.step_seconds * score.imbalance_total / self.reference.imbalance_total

    def step_s(self, now: float) -> float | None:
        """Seconds of a step at another imbalance, as `decide` asks for it; ``None`` where ``c_tok`` tells them."""
        step = self.prices.step_seconds
        return None if step is None else step * now / self.reference.imbalance_total

    def stall_s(self, moves: int) -> float:
        """Seconds that serving stands still for so many moves."""
        if not moves:
            return 0.0
        if self.prices.stall_seconds is not None:
            return self.prices.stall_seconds
        assert self.history.expert_bytes is not None and self.prices.bytes_per_s is not None
        return moves * self.history.expert_bytes / self.prices.bytes_per_s

    def worth(self, stall: float, before: Sequence[Score], after: Sequence[Score]) -> tuple[float, int | None]:
        """Seconds that a move saved in the windows it served, and the steps that make up for its stall."""
        gain = math.fsum(map(self.experts_s, before)) - math.fsum(map(self.experts_s, after))
        steps = sum(self.history.window_steps[score.window] for score in after)
        return gain, math.ceil(stall * steps / gain) if gain > 0 else None
