"""Keep or move: what a better plan saves until the next one, against the stall of getting there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from moeopt.errors import Violations
from moeopt.kinds import expects
from moeopt.placement import checks
from moeopt.placement.rules import MOST_STEPS
from moeopt.result import Result

Answer = Literal["keep", "move"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why.

    Parameters
    ----------
    decision
        ``move`` where it saves time until the next plan, else ``keep``.
    reason
        In words, with the numbers.
    net_seconds
        Seconds saved until the next plan, the stall taken off; negative: moving loses. ``None``: the running plan
        cannot stay, so there is nothing to compare with.
    gain_per_step_s, stall_s
        Seconds saved in each step, and lost once.
    break_even_steps
        Steps after which the stall is made up for; ``None`` where nothing is saved.
    """

    decision: Answer
    reason: str
    net_seconds: float | None
    gain_per_step_s: float | None
    stall_s: float
    break_even_steps: int | None

    def __bool__(self) -> bool:
        """Whether to move."""
        return self.decision == "move"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        names = ("decision", "reason", "net_seconds", "gain_per_step_s", "stall_s", "break_even_steps")
        return {name: getattr(self, name) for name in names}


@expects(result=Result)
def decide(
    result: Result | None = None,
    *,
    steps_until_next: int,
    step_seconds: float | None = None,
    stall_seconds: float | None = None,
    bytes_per_s: float | None = None,
    now: float | None = None,
    after: float | None = None,
) -> Decision:
    """Weigh a re-planning.

    Parameters
    ----------
    result
        Of an instance with a running plan: gives the imbalance `now` and `after`, the moves and their bytes.
    steps_until_next
        Forward passes until the next plan.
    step_seconds
        Time that the experts of all layers take in a step today; it is taken to be proportional to the imbalance over
        all layers. Left out, the instance's ``c_tok`` prices the busiest GPUs' tokens.
    stall_seconds
        Time that serving stands still for the move; left out, the bytes that move over `bytes_per_s`.
    bytes_per_s
        Bytes a second at which weights come over all GPUs together.
    now, after
        Imbalances (max over mean), instead of those of `result`.

    Raises
    ------
    InstanceError
        A number is missing or impossible.

    Examples
    --------
    >>> found = decide(steps_until_next=200, step_seconds=0.03, stall_seconds=16.0, now=1.069, after=1.008)
    >>> found.decision, round(found.net_seconds, 6), found.break_even_steps
    ('keep', -15.657624, 9347)
    """
    check = Violations()
    checks.whole("steps_until_next", steps_until_next, 0, check)
    if not check.found and steps_until_next > MOST_STEPS:
        check.add("steps_until_next", steps_until_next, rule=f"must be at most {MOST_STEPS}", fix="Check the number")
    for name, value in (("step_seconds", step_seconds), ("stall_seconds", stall_seconds)):
        if value is not None:
            checks.number(name, value, check)
    for name, value in (("bytes_per_s", bytes_per_s), ("now", now), ("after", after)):
        if value is not None:
            checks.number(name, value, check, positive=True)
    check.raise_if_any()
    solution = {} if result is None or result.solution is None else result.solution
    moves = solution.get("moves")
    now = solution.get("imbalance_now") if now is None else now
    after = solution.get("imbalance_total") if after is None else after
    stall = _stall(stall_seconds, bytes_per_s, moves, solution, check)
    gain = _gain(step_seconds, now, after, result, check)
    check.raise_if_any()
    if moves == 0:
        return Decision("keep", "the plan moves nothing", 0.0, 0.0, 0.0, None)
    if now is None:
        reason = "the running plan cannot serve: it breaks today's rules"
        return Decision("move", reason, None, None, stall, None)
    assert gain is not None
    if not math.isfinite(gain * max(steps_until_next, 1)) or (gain > 0 and not math.isfinite(stall / gain)):
        rule = "with the imbalances and the time of a step, all seconds and steps must fit a double"
        check.add("stall_seconds", stall, rule=rule, fix="Check the units")
        check.raise_if_any()
    net = gain * steps_until_next - stall
    even = math.ceil(stall / gain) if gain > 0 else None
    saved = f"{gain * steps_until_next:.4g} s saved in {steps_until_next:,} steps"
    if gain <= 0:
        return Decision("keep", "the plan is no faster than the running one", net, gain, stall, None)
    if net > 0:
        return Decision("move", f"{saved}, more than the stall of {stall:.4g} s", net, gain, stall, even)
    reason = f"{saved}, no more than the stall of {stall:.4g} s: it would take {even:,} steps"
    return Decision("keep", reason, net, gain, stall, even)


def _stall(given: float | None, rate: float | None, moves: int | None, solution: Any, check: Violations) -> float:
    if given is not None:
        return given
    if moves == 0:
        return 0.0
    size = solution.get("moved_bytes")
    if rate is None or size is None:
        rule = "is needed, or bytes_per_s and an instance with expert_bytes"
        check.add("stall_seconds", "missing", rule=rule, fix="Give the seconds that serving stands still")
        return 0.0
    return float(size) / rate


def _gain(
    step_seconds: float | None, now: float | None, after: float | None, result: Result | None, check: Violations
) -> float | None:
    """Seconds saved in a step; ``None`` where there is nothing to compare with."""
    if after is None:
        check.add(
            "after", "missing", rule="is needed", fix="Give the result of a re-planning, or the imbalance after it"
        )
        return None
    if now is None:
        if result is None:
            check.add("now", "missing", rule="is needed", fix="Give the imbalance of the running plan")
        return None
    if step_seconds is not None:
        return step_seconds * (1.0 - after / now)
    document = {} if result is None else result.instance["document"]
    price = document.get("c_tok")
    if price is None or result is None or result.objective is None:
        rule = "is needed, or an instance with c_tok"
        check.add("step_seconds", "missing", rule=rule, fix="Give the seconds that the experts take in a step")
        return None
    passes = document["steps"]
    passes = sum(passes) if isinstance(passes, list) else passes
    return float(price * result.objective * (now / after - 1.0) / passes)
