"""Checks of the numbers that cost functions take: every bad one is named, all in one error.

Each check takes the fields as keyword arguments, so that the message names what the caller wrote:

>>> from moeopt.errors import Violations
>>> check = Violations()
>>> positive(check, link_bytes_per_s=0.0, hidden=float("nan"))
>>> whole(check, experts=2.5)
>>> check.raise_if_any()
Traceback (most recent call last):
...
moeopt.errors.InstanceError: link_bytes_per_s = 0.0: must be a finite number > 0. Give a number above 0.
hidden = nan: must be a finite number > 0. Give a number above 0.
experts = 2.5: must be a whole number >= 1. Give a whole number from 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real

from moeopt.errors import Violations

Number = float | Fraction
"""What a cost function takes for a quantity: whole numbers and fractions stay exact where a function says so."""


def is_number(value: object) -> bool:
    """Whether this is a finite real number: no bool, no text, no NaN; a whole number of any size is one.

    >>> [is_number(x) for x in (3, 0.5, Fraction(1, 3), 10**400, True, "3", float("inf"), None)]
    [True, True, True, True, False, False, False, False]
    """
    if type(value) in (int, float):
        return math.isfinite(value) if type(value) is float else True
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return isinstance(value, (Integral, Fraction)) or math.isfinite(value)


def positive(check: Violations, **fields: object) -> None:
    """Every field must be finite and above 0: bandwidths, peaks, sizes."""
    for name, value in fields.items():
        if not is_number(value) or not value > 0:  # type: ignore[operator]
            check.refuse(name, value, rule="must be a finite number > 0", fix="Give a number above 0")


def not_negative(check: Violations, **fields: object) -> None:
    """Every field must be finite and at least 0: times, bytes, latencies, prices."""
    for name, value in fields.items():
        if not is_number(value) or not value >= 0:  # type: ignore[operator]
            check.refuse(name, value, rule="must be a finite number >= 0", fix="Give 0 or more")


def whole(check: Violations, low: int = 1, /, **fields: object) -> None:
    """Every field must be a whole number (an int, not 3.0 and not True) of at least `low`: counts and degrees."""
    for name, value in fields.items():
        known = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
        if not known or value < low:  # type: ignore[operator]
            rule = f"must be a whole number >= {low}"
            check.refuse(name, value, rule=rule, fix=f"Give a whole number from {low}")


def fraction(check: Violations, **fields: object) -> None:
    """Every field must be a part of a whole, above 0 and at most 1: efficiencies, usable memory."""
    for name, value in fields.items():
        if not is_number(value) or not 0 < value <= 1:  # type: ignore[operator]
            check.add(name, value, rule="must be a part above 0 and at most 1", fix="Give a number such as 0.8")


def probability(check: Violations, **fields: object) -> None:
    """Every field must be within 0 and 1, both included: acceptance, shares, hit rates."""
    for name, value in fields.items():
        if not is_number(value) or not 0 <= value <= 1:  # type: ignore[operator]
            check.add(name, value, rule="must be within 0 and 1", fix="Give a number such as 0.5")


def top_k_of(check: Violations, *, experts: object, top_k: object) -> None:
    """Experts and how many of them a token selects: whole, and ``1 <= top_k <= experts``."""
    before = len(check.found)
    whole(check, experts=experts, top_k=top_k)
    if len(check.found) == before and top_k > experts:  # type: ignore[operator]
        rule = f"a token cannot select more than the experts = {experts} there are"
        check.add("top_k", top_k, rule=rule, fix=f"Use at most {experts}")


def divides(check: Violations, part: str, part_value: object, whole_name: str, whole_value: object) -> None:
    """`part` must divide `whole_name` without a rest; says the nearest values that do. Not whole: left to `whole`."""
    if not isinstance(part_value, Integral) or not isinstance(whole_value, Integral):
        return
    small, large = int(part_value), int(whole_value)
    if small >= 1 and large >= 1 and large % small:
        low = max(d for d in range(1, min(small, large + 1)) if large % d == 0)
        high = next((d for d in range(small + 1, large + 1) if large % d == 0), low)
        fix = f"Use {low} or {high}" if low != high else f"Use {low}"
        check.add(part, part_value, rule=f"must divide {whole_name} = {large}", fix=fix)
