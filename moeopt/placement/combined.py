"""Several windows as one figure: the ratio of each window, and their worst, mean or CVaR, exact.

A plan has in window `w` the ratio ``rho_w = max_g C_gw / ideal_w``, 1 where the window is idle. CVaR of finitely many
windows, ``min_t t + sum_w (rho_w - t)+ / ((1 - alpha) W)``, is the mean of the largest ``m = (1 - alpha) W`` ratios,
the last of them in part; below ``m = 1`` it is the worst. So the worst is ``m = 1`` and the mean ``m = W``; `tail` has
this number.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance


def tail(combine: str, alpha: float, num_windows: int) -> Fraction:
    """How many of the largest ratios count, the last of them in part.

    >>> tail("cvar", 0.5, 5), tail("cvar", 0.9, 5), tail("worst", 0.5, 5), tail("mean", 0.5, 5)
    (Fraction(5, 2), Fraction(1, 1), Fraction(1, 1), Fraction(5, 1))
    """
    if combine == "mean":
        return Fraction(num_windows)
    if combine == "worst":
        return Fraction(1)
    return max((1 - Fraction(alpha)) * num_windows, Fraction(1))


def combine(ratios: Sequence[Fraction], counted: Fraction) -> Fraction:
    """Mean of the largest `counted` ratios, the last of them in part.

    >>> combine([Fraction(1), Fraction(4), Fraction(2)], Fraction(5, 2))
    Fraction(13, 5)
    """
    left, total = counted, Fraction(0)
    for ratio in sorted(ratios, reverse=True):
        part = min(left, Fraction(1))
        total += part * ratio
        left -= part
        if not left:
            break
    return total / counted


def tail_of(instance: PlacementInstance) -> Fraction:
    """The same of an instance."""
    return tail(instance.combine, instance.alpha, len(instance.windows))


def ratio(top: Fraction, ideal: Fraction) -> Fraction:
    """Cost of the busiest GPU in parts of the ideal; an idle window is in balance."""
    return top / ideal if ideal else Fraction(1)
