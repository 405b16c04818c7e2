"""How long a stage takes for a micro-batch of n tokens: constant, linear, a transfer over a link, or a measured table.

Times are exact: a float is taken as the decimal it is written as, so that 0.0003 s is three ten-thousandths of a
second, ties between items are ties, and four ways to compute a schedule can be compared in fractions.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from moeopt import kinds
from moeopt.errors import Violations

LARGEST_S = 1e9
"""Times above this are taken for a mistake in the unit: some thirty years."""


def exact(value: float | Fraction) -> Fraction:
    """The number as it is written.

    >>> exact(0.1), exact(3)
    (Fraction(1, 10), Fraction(3, 1))
    """
    return Fraction(float.__repr__(value)) if isinstance(value, float) else Fraction(value)


@dataclass(frozen=True)
class Constant:
    """The same time whatever the size.

    >>> Constant(0.5).at(7)
    Fraction(1, 2)
    """

    seconds: float

    def at(self, tokens: int) -> Fraction:
        """Seconds for so many tokens."""
        return exact(self.seconds)

    def check(self, where: str, check: Violations) -> None:
        """Note every number that cannot be."""
        _number(check, where, self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return {"kind": "constant", "seconds": self.seconds}


@dataclass(frozen=True)
class Linear:
    """``fixed_s + per_token_s * n``: the fixed part is what a micro-batch pays however small it is, such as weights.

    >>> Linear(0.25, 0.5).at(3)
    Fraction(7, 4)
    """

    fixed_s: float
    per_token_s: float

    @cached_property
    def _parts(self) -> tuple[Fraction, Fraction]:
        return exact(self.fixed_s), exact(self.per_token_s)

    def at(self, tokens: int) -> Fraction:
        """Seconds for so many tokens."""
        fixed, slope = self._parts
        return fixed + slope * tokens

    def check(self, where: str, check: Violations) -> None:
        """Note every number that cannot be."""
        _number(check, f"{where}, fixed_s", self.fixed_s)
        _number(check, f"{where}, per_token_s", self.per_token_s)

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return {"kind": "linear", "fixed_s": self.fixed_s, "per_token_s": self.per_token_s}


@dataclass(frozen=True)
class Transfer:
    """``latency_s + bytes_per_token n / bytes_per_s``: one message over a link.

    >>> Transfer(latency_s=0.5, bytes_per_token=100, bytes_per_s=1000).at(20)
    Fraction(5, 2)
    """

    latency_s: float
    bytes_per_token: float
    bytes_per_s: float

    @cached_property
    def _parts(self) -> tuple[Fraction, Fraction]:
        return exact(self.latency_s), exact(self.bytes_per_token) / exact(self.bytes_per_s)

    def at(self, tokens: int) -> Fraction:
        """Seconds for so many tokens."""
        fixed, slope = self._parts
        return fixed + slope * tokens

    def check(self, where: str, check: Violations) -> None:
        """Note every number that cannot be; a link of no bandwidth is one."""
        _number(check, f"{where}, latency_s", self.latency_s)
        _number(check, f"{where}, bytes_per_token", self.bytes_per_token, "bytes", math.inf)
        if not (_is_number(self.bytes_per_s) and 0 < self.bytes_per_s < math.inf):
            rule = "a bandwidth must be finite bytes per second > 0"
            check.add("times", self.bytes_per_s, where=f"{where}, bytes_per_s", rule=rule, fix="400 Gb/s is 50e9")

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        sizes = {"bytes_per_token": self.bytes_per_token, "bytes_per_s": self.bytes_per_s}
        return {"kind": "transfer", "latency_s": self.latency_s, **sizes}


@dataclass(frozen=True)
class Table:
    """Measured seconds by tokens: exact where measured, a straight line between two measured sizes.

    Outside the measured range it is refused, unless `extend` says that the first and the last straight line go on.

    >>> Table.of({1: 1.0, 4: 2.5}).at(2), Table.of({1: 1.0, 4: 2.5}).covers(5)
    (Fraction(3, 2), False)
    """

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    extend: bool = False

    def __post_init__(self) -> None:
        check = Violations()
        tokens, seconds = (kinds.numbers(check, name, getattr(self, name)) for name in ("tokens", "seconds"))
        check.raise_if_any()
        if not tokens or len(tokens) != len(seconds):
            shown = f"{len(tokens)} sizes, {len(seconds)} times"
            check.add(
                "tokens", shown, rule="must be one size for each time, at least one", fix="Use Table.of({1: 1e-4})"
            )
        check.raise_if_any()
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "seconds", seconds)

    @classmethod
    def of(cls, points: Mapping[int, float], *, extend: bool = False) -> Table:
        """From sizes and their seconds, in any order."""
        rows = sorted((_own(size), time) for size, time in points.items())
        return cls(tuple(size for size, _ in rows), tuple(_own(time) for _, time in rows), extend)

    @cached_property
    def _known(self) -> dict[int, Fraction]:
        return {size: exact(time) for size, time in zip(self.tokens, self.seconds, strict=True)}

    def covers(self, tokens: int) -> bool:
        """Whether the table says something about this size."""
        if self.tokens[0] <= tokens <= self.tokens[-1]:
            return True
        return self.extend and len(self.tokens) > 1

    def measured(self, tokens: int) -> bool:
        """Whether the size itself was measured."""
        return tokens in self._known

    def at(self, tokens: int) -> Fraction:
        """Seconds for so many tokens."""
        known = self._known.get(tokens)
        if known is not None:
            return known
        right = min(max(bisect_left(self.tokens, tokens), 1), len(self.tokens) - 1)
        low, high = self.tokens[right - 1], self.tokens[right]
        start, end = self._known[low], self._known[high]
        return start + (end - start) * (tokens - low) / (high - low)

    def check(self, where: str, check: Violations) -> None:
        """Note every number that cannot be."""
        if not self.tokens or len(self.tokens) != len(self.seconds):
            rule = "a table needs as many seconds as sizes, and at least one"
            check.add("times", f"{len(self.tokens)} sizes, {len(self.seconds)} seconds", where=where, rule=rule)
            return
        for size in self.tokens:
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                check.add("times", size, where=f"{where}, tokens", rule="a size must be whole tokens >= 1")
                return
        if any(left >= right for left, right in zip(self.tokens, self.tokens[1:], strict=False)):
            rule = "sizes must rise, each standing once"
            check.add("times", list(self.tokens), where=f"{where}, tokens", rule=rule, fix="Sort the rows")
        for size, time in zip(self.tokens, self.seconds, strict=True):
            _number(check, f"{where}, {size} tokens", time)

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        rows = {"tokens": list(self.tokens), "seconds": list(self.seconds)}
        return {"kind": "table", **rows, "extend": self.extend}


TimeModel = Constant | Linear | Transfer | Table
KINDS: dict[str, type[Constant] | type[Linear] | type[Transfer] | type[Table]] = {
    "constant": Constant,
    "linear": Linear,
    "transfer": Transfer,
    "table": Table,
}
GivenTime = TimeModel | float | Mapping[int, float] | Callable[[int], float]
"""What may be given for a stage: seconds, a time model, sizes with their seconds, or a function of tokens."""


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # a whole number beyond a double
        return False


def _number(check: Violations, where: str, value: float, unit: str = "seconds", largest: float = LARGEST_S) -> None:
    if not (_is_number(value) and 0 <= value < math.inf):
        rule = f"must be finite {unit} >= 0"
        fix = "Measure again: a difference of two clocks can be negative" if _negative(value) else "Give a number"
        check.refuse("times", value, where=where, rule=rule, fix=fix)
    elif value > largest:
        check.add("times", value, where=where, rule="is beyond any step", fix="Times are in seconds, not in ms or us")


def _own(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    return value.item() if type(value).__module__ == "numpy" else value


def _negative(value: object) -> bool:
    return _is_number(value) and value < 0  # type: ignore[operator]
