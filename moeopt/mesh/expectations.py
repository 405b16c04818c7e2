"""What single steps do to the busiest rank, for many batches at once: counting noise of experts, skew of requests."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.cost.checks import not_negative, top_k_of, whole
from moeopt.cost.noise import dp_skew, expected_maximum
from moeopt.errors import Violations

Floats = NDArray[np.float64]
NORMAL_FROM = 32
"""Mean count of a rank from which a normal tail is near enough (3 %); below it the proven sums are taken."""


def step_noise(tokens: ArrayLike, *, ep: int, experts: int, top_k: int) -> Floats:
    """Expected busiest over mean rank of one step when no expert is favoured.

    Parameters
    ----------
    tokens
        Tokens of all ranks in a step, any shape; 0 gives 1.
    ep, experts, top_k
        Ranks alike, experts that they share, experts a token selects.

    Raises
    ------
    InstanceError
        Negative tokens, a top-k above the experts.

    Notes
    -----
    Strength: approximation, ``1 + z_G spread / sqrt(mean)`` with the hypergeometric spread of a token's k different
    experts (`moeopt.cost.noise`); below a mean of 32 selections a rank, the middle of the proven bracket of as many
    single selections, each at random.

    >>> step_noise([0, 128 * 32], ep=32, experts=256, top_k=8).round(3).tolist()
    [1.0, 1.063]
    """
    check = Violations()
    whole(check, ep=ep)
    top_k_of(check, experts=experts, top_k=top_k)
    given = _counts(check, "tokens", tokens)
    check.raise_if_any()
    spread = ((1 - 1 / ep) * (experts - top_k) / max(experts - 1, 1)) ** 0.5
    return _ratio(given * top_k, ep, spread)


def rank_skew(requests: ArrayLike, *, ranks: int) -> Floats:
    """Expected busiest over mean data-parallel rank when each request goes to a rank at random.

    Balancers that count do better, requests of unequal length worse. Strength as of `step_noise`.

    >>> rank_skew([1024], ranks=8).round(2).tolist()
    [1.12]
    """
    check = Violations()
    whole(check, ranks=ranks)
    given = _counts(check, "requests", requests)
    check.raise_if_any()
    return _ratio(given, ranks, (1 - 1 / ranks) ** 0.5)


def busiest(placement: ArrayLike, noise: ArrayLike) -> Floats:
    """Busiest over mean of a step with uneven experts and counting noise: their product.

    Strength: above the truth, as the rank that is busiest in the long run need not be the one that chance favours;
    exact where either is 1.

    >>> busiest(1.5, [1.0, 1.2]).round(12).tolist()
    [1.5, 1.8]
    """
    check = Violations()
    factors = np.asarray(placement, dtype=float), np.asarray(noise, dtype=float)
    for name, value in zip(("placement", "noise"), factors, strict=True):
        if not np.isfinite(value).all() or (value < 1).any():
            check.add(name, "...", rule="must be finite numbers >= 1", fix="Give busiest over mean")
    check.raise_if_any()
    return np.asarray(factors[0] * factors[1], dtype=float)


def _counts(check: Violations, name: str, values: ArrayLike) -> Floats:
    given = np.asarray(values, dtype=float)
    not_negative(check, **{name: float(given.min()) if given.size and not np.isnan(given).any() else 0.0})
    if not np.isfinite(given).all():
        check.add(name, "...", rule="must be finite", fix="Give counts")
    return given


def _ratio(counts: Floats, units: int, spread: float) -> Floats:
    mean = np.asarray(counts / units, dtype=float)
    ratio = np.ones_like(mean)
    large = mean >= NORMAL_FROM
    ratio[large] = 1 + expected_maximum(units) * spread / np.sqrt(mean[large])
    for place in map(tuple, np.argwhere((mean > 0) & ~large)):
        ratio[place] = _proven(max(round(float(counts[place])), 1), units)
    return ratio


@lru_cache(maxsize=4096)
def _proven(selections: int, units: int) -> float:
    if units == 1:
        return 1.0
    bracket = dp_skew(requests=selections, ranks=units)
    return (bracket.low + bracket.high) / 2
