"""What serves: counts of either pool, and how long each takes, as numbers or callables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from moeopt.cost.checks import is_number, not_negative, whole
from moeopt.errors import Violations

Seconds = float | Callable[[int], float]
"""Seconds, or a function of tokens (prefill, hand-off) or of sequences (steps) that gives them."""
Assign = Literal["least", "round_robin", "random"]


@dataclass(frozen=True, eq=False)
class Service:
    """Prefill servers and decode replicas behind one queue; or replicas that do both.

    Parameters
    ----------
    step_s
        Seconds of a step in which the busiest rank decodes b sequences: a function of b, or values for b = 1 ... .
    slots
        Sequences that a rank holds at most.
    replicas, ranks
        Decode replicas, and the data-parallel ranks of each: ranks of a replica step together, as with expert
        parallelism.
    prefill_servers
        Ranks that prefill, each one prompt (or one batch) at a time; 0: the replicas prefill, in chunks.
    prefill_s
        Seconds of a prefill by its tokens.
    prefill_tokens
        Prompts are computed together while they have no more tokens than this; ``None``: one at a time.
    handoff_s
        Seconds from the end of a prefill until the cache is there, by tokens of the prompt.
    chunk
        Tokens of a prompt that a rank computes in a step, where replicas prefill.
    mixed_step_s
        As `step_s`, of a step in which some rank computes a chunk too; values for b = 0 ... .
    assign
        Which rank a request gets: the one with least sequences, ranks in turn, or at random by the seed.

    Raises
    ------
    InstanceError
        Counts below 1, times that are not finite and at least 0 (a step: above 0), a pool without its times.

    Notes
    -----
    A sequence keeps its place from its admission to its last token. Caches must fit: `slots` is what memory allows.

    >>> Service(step_s=[0.01, 0.011], slots=2, prefill_servers=1, prefill_s=0.2).slots
    2
    """

    step_s: Seconds | Sequence[float]
    slots: int
    replicas: int = 1
    ranks: int = 1
    prefill_servers: int = 0
    prefill_s: Seconds | None = None
    prefill_tokens: int | None = None
    handoff_s: Seconds = 0.0
    chunk: int | None = None
    mixed_step_s: Seconds | Sequence[float] | None = None
    assign: Assign = "least"

    def __post_init__(self) -> None:
        check = Violations()
        whole(check, slots=self.slots, replicas=self.replicas, ranks=self.ranks)
        whole(check, 0, prefill_servers=self.prefill_servers)
        for name in ("prefill_tokens", "chunk"):
            if getattr(self, name) is not None:
                whole(check, **{name: getattr(self, name)})
        if self.assign not in get_args(Assign):
            rule = f"is not one of {', '.join(get_args(Assign))}"
            check.add("assign", self.assign, rule=rule, fix="Use least")
        apart = ("prefill_s",) if self.prefill_servers else ("chunk", "mixed_step_s")
        for name in apart:
            if getattr(self, name) is None:
                why = "where servers prefill" if self.prefill_servers else "where replicas prefill in chunks"
                check.add(name, "missing", rule=f"is needed {why}", fix="Give it, or change prefill_servers")
        other = ("chunk", "mixed_step_s") if self.prefill_servers else ("prefill_s", "prefill_tokens")
        for name in other:
            if getattr(self, name) is not None:
                check.add(name, "...", rule="has no meaning with these prefill_servers", fix="Leave it out")
        for name in ("prefill_s", "handoff_s"):
            if is_number(value := getattr(self, name)):
                not_negative(check, **{name: value})
        check.raise_if_any()
        for name, first in (("step_s", 1), ("mixed_step_s", 0)):
            if getattr(self, name) is not None:
                self._table(name, first, check)
        check.raise_if_any()

    def _table(self, name: str, first: int, check: Violations) -> None:
        """Replace a function, a number or a row by values for b = 0 ... slots."""
        given = getattr(self, name)
        if callable(given):
            values = [given(batch) for batch in range(first, self.slots + 1)]
        elif is_number(given):
            values = [given] * (self.slots + 1 - first)
        else:
            values = list(given)
        if len(values) < self.slots + 1 - first:
            rule = f"has {len(values)} values, {self.slots + 1 - first} are needed: b = {first} ... {self.slots}"
            check.add(name, "...", rule=rule, fix="Give a value for each, or fewer slots")
            return
        values = values[: self.slots + 1 - first]
        for batch, value in enumerate(values, first):
            if not is_number(value) or value <= 0:
                fix = "Give the seconds of a step"
                check.refuse(name, value, rule="must be a finite number > 0", fix=fix, where=str(batch))
        object.__setattr__(self, name, tuple(float(value) for value in ([0.0] * first + values)))

    def prefill_seconds(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of a prefill for each number of tokens."""
        assert self.prefill_s is not None
        return by_tokens("prefill_s", self.prefill_s, tokens)

    def handoff_seconds(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of a hand-off for each number of tokens."""
        return by_tokens("handoff_s", self.handoff_s, tokens)


def by_tokens(name: str, given: Seconds, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """Seconds by tokens; a function is asked once for each different number."""
    if not callable(given):
        return np.full(len(tokens), float(given))
    different, place = np.unique(tokens, return_inverse=True)
    values = [given(int(number)) for number in different]
    check = Violations()
    for number, value in zip(different.tolist(), values, strict=True):
        if not is_number(value) or value < 0:
            check.refuse(name, value, rule="must be a finite number >= 0", fix="Repair the function", where=str(number))
    check.raise_if_any()
    return np.array(values, dtype=float)[place]
