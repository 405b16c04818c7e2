"""Capacity of an expert, exactly: what fits, what is padded, how uneven a load is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, top_k_of, whole
from moeopt.cost.exact import plain
from moeopt.errors import Violations

Factor = float | Fraction | Decimal | str
"""What a capacity factor may be; a float counts as its shortest decimal."""


def as_written(value: object) -> Fraction | None:
    """The number as a person wrote it: 1.1 is 11/10 and not the nearest double; ``None`` if it is no finite number.

    >>> as_written(1.1), as_written("1.25"), as_written(Decimal("0.1")), as_written(float("nan"))
    (Fraction(11, 10), Fraction(5, 4), Fraction(1, 10), None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Real):
        value = repr(float(value))
    if not isinstance(value, (str, Decimal)):
        return None
    try:
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


@checked
def expert_capacity(tokens: int, *, top_k: int, experts: int, factor: Factor, multiple_of: int = 1) -> int:
    """Tokens that an expert takes in one batch, ``ceil(c k T / E)``, in exact arithmetic.

    Parameters
    ----------
    tokens
        ``T``, tokens of the batch, of all ranks that share the experts.
    top_k, experts
        Experts a token selects, of how many.
    factor
        ``c``, above 0: an int, a fraction, a decimal, text such as ``"1.1"``, or a float, which counts as its shortest
        decimal.
    multiple_of
        Rounded up further to whole tiles of so many tokens.

    Raises
    ------
    InstanceError
        Negative or broken tokens, counts below 1, ``top_k`` above ``experts``, a factor that is not above 0.

    Notes
    -----
    Strength: exact. GShard (arXiv 2006.16668), Switch Transformers (arXiv 2101.03961). Serving engines drop nothing:
    there it is the size of a fixed-shape buffer, and what overflows needs an action (`moeopt.cost.overflow_actions`).

    >>> expert_capacity(5600, top_k=16, experts=896, factor=1.2)
    120
    >>> expert_capacity(100, top_k=1, experts=1, factor=1.1), __import__("math").ceil(1.1 * 100)
    (110, 111)
    """
    check = Violations()
    whole(check, 0, tokens=tokens)
    top_k_of(check, experts=experts, top_k=top_k)
    whole(check, multiple_of=multiple_of)
    exact = as_written(factor)
    if exact is None or exact <= 0:
        check.refuse("factor", factor, rule="must be a finite number > 0", fix="Give a number such as 1.25")
    check.raise_if_any()
    assert exact is not None
    tile = int(multiple_of)
    return -(-math.ceil(exact * int(top_k) * int(tokens) / int(experts)) // tile) * tile


def check_counts(check: Violations, counts: Sequence[int]) -> list[int]:
    """Counts as Python ints; whole numbers >= 0, at least one."""
    listed = list(counts)
    if not listed:
        check.add("counts", "none", rule="there must be an expert", fix="Give one count for each expert")
    for place, value in enumerate(listed):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
            rule = "must be a whole number of tokens >= 0"
            check.refuse("counts", value, rule=rule, fix="Give selections of the expert", where=str(place))
    return [] if check.found else [int(value) for value in listed]


@dataclass(frozen=True, slots=True)
class Filling:
    """Buffers of equal capacity after a batch.

    Parameters
    ----------
    accepted, overflow
        Pairs that fit, and pairs that do not; together all pairs.
    padding
        Places that stay empty.
    payload
        Accepted over all places; 1 for no places.
    """

    accepted: int
    overflow: int
    padding: int
    payload: Fraction


@checked
def expert_filling(counts: Sequence[int], *, capacity: int) -> Filling:
    """What fits into experts of one capacity, what overflows, and how many places are padded.

    Parameters
    ----------
    counts
        (E,) pairs (token, expert) by expert before any drop.
    capacity
        Places of every expert.

    Raises
    ------
    InstanceError
        No counts, counts or a capacity that are not whole numbers >= 0.

    Notes
    -----
    Strength: exact.

    >>> expert_filling([12, 4, 2, 2], capacity=6)
    Filling(accepted=14, overflow=6, padding=10, payload=Fraction(7, 12))
    """
    check = Violations()
    listed = check_counts(check, counts)
    whole(check, 0, capacity=capacity)
    check.raise_if_any()
    capacity = int(capacity)
    accepted, places = sum(min(count, capacity) for count in listed), len(listed) * capacity
    payload = Fraction(accepted, places) if places else Fraction(1)
    return Filling(accepted, sum(listed) - accepted, places - accepted, payload)


@checked
def load_ratio(counts: Sequence[int], *, tokens: int | None = None, top_k: int | None = None) -> Number:
    """Largest load over the mean, by either definition; 1 where nothing is selected.

    Parameters
    ----------
    counts
        (E,) pairs by expert.
    tokens, top_k
        If given, the mean is of what was **selected**, ``k T / E``; else of what is in `counts`, what was **received**.

    Returns
    -------
    int or Fraction
        Both are equal unless tokens were dropped: then ``received`` looks the more uneven the more the others lost.

    Raises
    ------
    InstanceError
        No counts, broken counts, one of `tokens` and `top_k` alone, counts that add up to more than ``k T``.

    Notes
    -----
    Strength: exact. Note on MoE systems (selected), chapter on multi-node inference, 4.3 (received).

    >>> load_ratio([12, 4, 2, 2], tokens=20, top_k=1), load_ratio([6, 4, 2, 2], tokens=20, top_k=1)
    (Fraction(12, 5), Fraction(6, 5))
    >>> load_ratio([6, 4, 2, 2])  # after six drops
    Fraction(12, 7)
    """
    check = Violations()
    listed = check_counts(check, counts)
    total = sum(listed)
    if (tokens is None) != (top_k is None):
        rule = "tokens and top_k belong together"
        check.add("tokens, top_k", (tokens, top_k), rule=rule, fix="Give both or neither")
    elif tokens is not None and top_k is not None:
        whole(check, 0, tokens=tokens)
        whole(check, top_k=top_k)
        if not check.found:
            if total > int(tokens) * int(top_k):
                rule = f"add up to more than tokens x top_k = {int(tokens) * int(top_k)}"
                check.add("counts", total, rule=rule, fix="Count pairs of this batch only")
            total = int(tokens) * int(top_k)
    check.raise_if_any()
    return plain(Fraction(max(listed) * len(listed), total)) if total else 1
