"""Counting noise: how far the busiest expert, GPU or rank stands above the mean when nobody is favoured.

Counts of one batch are negatively associated (Joag-Dev and Proschan, Annals of Statistics 11, 1983), so that with F the
distribution of one of G alike counts, ``sum_m 1 - F(m)^G <= E max <= sum_m min(1, G (1 - F(m)))``: both sides are exact
sums, and the truth lies between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moeopt.cost.checked import checked
from moeopt.cost.checks import not_negative, positive, top_k_of, whole
from moeopt.errors import Violations

Floats = NDArray[np.float64]
STEP = 1 / 256
"""Of the trapezoidal rule."""


@dataclass(frozen=True)
class Bracket:
    """An expectation that lies between two proven values."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@lru_cache(maxsize=1024)
def expected_maximum(count: int) -> float:
    """Expected largest of `count` independent standard normals, to some 1e-13.

    ``E max = integral of x d(Phi^n) = integral over x > 0 of (1 - Phi(x)^n - Phi(-x)^n)``. The integrand is even, so
    that the trapezoidal rule has no error of any power of its step.

    >>> expected_maximum(1), round(expected_maximum(2), 9), round(1 / math.pi**0.5, 9)
    (0.0, 0.564189584, 0.564189584)
    >>> round(expected_maximum(32), 6)
    2.069669
    """
    if count < 2:
        return 0.0
    upper = _upper()
    inside = -np.expm1(count * np.log1p(-upper)) - upper**count
    return float(STEP * (inside.sum() - inside[0] / 2))


@lru_cache(maxsize=1)
def _upper() -> NDArray[np.float64]:
    """``1 - Phi(x)`` at all points, exact in the tail too."""
    return np.array([math.erfc(x / math.sqrt(2)) / 2 for x in np.arange(0, 12, STEP).tolist()])


@checked
def normal_max_over_mean(*, units: int, mean: float, spread: float = 1.0) -> float:
    """The approximation ``1 + z_G spread / sqrt(mean)`` for counts of a large mean.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    units
        G alike units.
    mean
        Mean count of one, above 0.
    spread
        Standard deviation over that of a Poisson count, ``sqrt(variance / mean)``; 1 for single selections, less where
        a token puts several different experts on one unit.

    Notes
    -----
    Strength: approximation; below a mean of some 30 the tail is not normal and it is too low.

    >>> round(normal_max_over_mean(units=32, mean=1024), 4)
    1.0647
    """
    check = Violations()
    whole(check, units=units)
    not_negative(check, spread=spread)
    positive(check, mean=mean)
    check.raise_if_any()
    return 1.0 + expected_maximum(int(units)) * float(spread) / math.sqrt(mean)


@checked
def max_over_mean(*, experts: int, top_k: int, tokens: int, units: int | None = None) -> Bracket:
    """Expected busiest over mean selections, every choice of k experts equally likely: proven from both sides.

    Parameters
    ----------
    experts, top_k, tokens
        E, k and n: n tokens select k different experts each.
    units
        GPUs or nodes that hold ``E / units`` experts each; must divide E. ``None``: single experts.

    Returns
    -------
    Bracket
        Of ``E[max] / (n k / units)``; 1.0 without tokens. The sides are never more than ``e / (e - 1)`` apart; 5 %
        where experts get one token each, 0.4 % where they get a thousand.

    Raises
    ------
    InstanceError
        Units that do not divide E, k above E, counts that are not whole.

    Notes
    -----
    Strength: exact bounds, to rounding. One token puts a hypergeometric count on a unit; n tokens its n-fold
    convolution, computed by a Fourier transform. Tokens of one request are alike in practice: real batches are worse.

    >>> found = max_over_mean(experts=256, top_k=8, tokens=32768)
    >>> round(found.low, 3), round(found.high, 3)
    (1.088, 1.093)
    """
    check = Violations()
    top_k_of(check, experts=experts, top_k=top_k)
    whole(check, 0, tokens=tokens)
    if units is None:
        units = experts
    whole(check, units=units)
    if not check.found and experts % units:
        near = max(d for d in range(1, units) if experts % d == 0)
        rule = f"must divide experts = {experts}: units must be alike"
        check.add("units", units, rule=rule, fix=f"Use {near}, or moeopt.cost.estimate_max_over_mean")
    check.raise_if_any()
    size = experts // units
    ways = math.comb(experts, top_k)
    one = [math.comb(size, x) * math.comb(experts - size, top_k - x) / ways for x in range(min(size, top_k) + 1)]
    return _bracket(np.array(one), tokens, units, tokens * top_k / units)


@checked
def dp_skew(*, requests: int, ranks: int) -> Bracket:
    """Expected busiest over mean data-parallel rank when each request goes to a rank at random.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Strength and method as of `max_over_mean`: one request is one token that selects one of `ranks`. A balancer that
    counts (round robin, least loaded) does better; requests of unequal length do worse (`moeopt.cost.draws`).

    >>> found = dp_skew(requests=8 * 128, ranks=8)
    >>> round(found.low, 3), round(found.high, 3)
    (1.119, 1.138)
    """
    check = Violations()
    whole(check, 0, requests=requests)
    whole(check, ranks=ranks)
    check.raise_if_any()
    return max_over_mean(experts=ranks, top_k=1, tokens=requests)


def _bracket(one: Floats, trials: int, units: int, mean: float) -> Bracket:
    """Both sums for the count of one unit: the `trials`-fold convolution of `one`."""
    if not trials:
        return Bracket(1.0, 1.0)
    length = 1 << (trials * (len(one) - 1)).bit_length()
    chances = np.fft.irfft(np.fft.rfft(one, length) ** trials, length)[: trials * (len(one) - 1) + 1]
    chances = np.maximum(chances, 0.0)
    above = np.maximum(np.cumsum(chances[::-1])[::-1][1:], 0.0)  # P(X > m), m = 0 .. most - 1
    above[above < 1e-15] = 0.0  # rounding of the transform, beside a unit that is never seen
    low = float(-np.expm1(units * np.log1p(-np.minimum(above, 1 - 1e-16))).sum())
    high = float(np.minimum(units * above, 1.0).sum())
    slack = 1e-9 * mean
    return Bracket(max(1.0, (low - slack) / mean), max(1.0, (high + slack) / mean))
