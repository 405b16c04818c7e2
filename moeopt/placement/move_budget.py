"""Budgets of moves as people give them: whole moves, or a per cent of all slots."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.placement.derived import Derived

Budget = int | Fraction | None
"""Moves, a part of all slots, or no limit."""

NO_BUDGET = "none"
NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")


def budget(value: object, field: str = "max_moves", check: Violations | None = None) -> Budget:
    """A budget as it is given: whole moves, ``"10%"`` of all slots, ``"none"`` or ``None``.

    >>> budget("10%"), budget("64"), budget(64), budget("none")
    (Fraction(1, 10), 64, 64, None)
    """
    mine = Violations() if check is None else check
    if value is None or (isinstance(value, str) and value == NO_BUDGET):
        return None
    text = str(value).strip()
    digits = text.removesuffix("%").strip()
    number = Fraction(digits) if NUMBER.fullmatch(digits) else Fraction(-1)
    if number < 0 or (not text.endswith("%") and number.denominator != 1) or (text.endswith("%") and number > 100):
        mine.add(field, value, rule="must be whole moves >= 0, or a per cent of all slots", fix="Write 64, 10% or none")
        if check is None:
            mine.raise_if_any()
        return None
    return number / 100 if text.endswith("%") else int(number)


def moves_of(given: Budget, instance: Derived) -> int | None:
    """The moves of a budget; of a part, rounded down."""
    if isinstance(given, Fraction):
        return int(given * instance.num_slots * instance.num_layers)
    return given
