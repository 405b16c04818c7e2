"""Simulated batches, seeded: what `moeopt.cost.noise` has no closed form for, each mean with its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.cost.checked import checked
from moeopt.cost.checks import whole
from moeopt.cost.popular import units_of, weights_of
from moeopt.errors import Violations

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeded draws, its standard error, and the scatter of one draw."""

    mean: float
    standard_error: float
    deviation: float
    draws: int


@checked
def estimate_max_over_mean(
    weights: ArrayLike,
    *,
    top_k: int,
    tokens: int,
    units: Sequence[int] | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Estimate:
    """Busiest over mean selections of simulated batches, for any popularity and any placement without replicas.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    weights
        (E,) popularity, finite and > 0; equal weights are the case of `max_over_mean`.
    top_k, tokens
        Each of `tokens` tokens selects k different experts by popularity (Gumbel top-k).
    units
        Unit of each expert, numbered from 0; ``None`` takes every expert as a unit of its own.
    draws, seed
        Batches simulated, at least 2, and the seed that makes them repeatable.

    Notes
    -----
    Strength: seeded estimate with its standard error. O(draws tokens E).

    >>> found = estimate_max_over_mean([1.0] * 8, top_k=2, tokens=16, draws=50)
    >>> found.mean > 1.3, found.standard_error < 0.1
    (True, True)
    """
    check = Violations()
    values = weights_of(check, weights, top_k)
    whole(check, tokens=tokens)
    whole(check, 2, draws=draws)
    whole(check, 0, seed=seed)
    unit = units_of(check, units, values.size)
    check.raise_if_any()
    rng, log = np.random.default_rng(seed), np.log(values)
    found = np.empty(draws)
    for draw in range(draws):
        counts = np.zeros(int(unit.max()) + 1)
        for first in range(0, tokens, 4096):  # parts of a batch: bounded memory
            score = log + rng.gumbel(size=(min(4096, tokens - first), values.size))
            chosen = np.argpartition(-score, top_k - 1, axis=1)[:, :top_k]
            counts += np.bincount(unit[chosen].ravel(), minlength=counts.size)
        found[draw] = counts.max() / counts.mean()
    return _estimate(found)


@checked
def estimate_dp_skew(lengths: ArrayLike, *, ranks: int, draws: int = 1000, seed: int = 0) -> Estimate:
    """Busiest over mean tokens of a rank when requests of these lengths go to ranks at random; seeded.

    `draws` is how often the requests are dealt out.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> estimate_dp_skew([1, 1, 1, 1], ranks=1).mean
    1.0
    """
    check = Violations()
    sizes = np.asarray(lengths, dtype=np.float64)
    if sizes.ndim != 1 or not np.all(np.isfinite(sizes) & (sizes >= 0)) or not sizes.sum() > 0:
        check.add("lengths", sizes.tolist(), rule="must be one row of tokens >= 0, not all 0", fix="Give the lengths")
    whole(check, ranks=ranks)
    whole(check, 2, draws=draws)
    whole(check, 0, seed=seed)
    check.raise_if_any()
    rng = np.random.default_rng(seed)
    found = np.empty(draws)
    for draw in range(draws):
        loads = np.bincount(rng.integers(ranks, size=sizes.size), weights=sizes, minlength=ranks)
        found[draw] = loads.max() / loads.mean()
    return _estimate(found)


def _estimate(found: Floats) -> Estimate:
    deviation = float(found.std(ddof=1))
    return Estimate(float(found.mean()), deviation / math.sqrt(found.size), deviation, int(found.size))
