"""Products that stay exact as long as their factors are: whole numbers and fractions, and floats only beside floats."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

from moeopt.cost.checks import Number


def plain(value: Number) -> Number:
    """A Python int where the value is whole and exact, a `Fraction` where it is exact, else a Python float.

    >>> plain(Fraction(6, 3)), plain(Fraction(1, 3)), plain(2.0)
    (2, Fraction(1, 3), 2.0)
    """
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else value
    return float(value)


def times(*factors: Number) -> Number:
    """The product: an int or a `Fraction` if every factor is exact, else a float.

    >>> times(4096, 2, Fraction(7, 8)), times(4096, 0.5), times(3, Fraction(1, 2))
    (7168, 2048.0, Fraction(3, 2))
    """
    exact, inexact = Fraction(1), 1.0
    rounded = False
    for factor in factors:
        clean = plain(factor)
        if isinstance(clean, float):
            inexact, rounded = inexact * clean, True
        else:
            exact *= clean
    return float(exact) * inexact if rounded else plain(exact)
