"""What popularity does to selection: the exact chance that a token selects an expert, and the hottest unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.cost.checked import checked
from moeopt.cost.checks import not_negative, top_k_of, whole
from moeopt.errors import Violations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEP = 1 / 8
"""Of the trapezoidal rule over the logarithm of time; halving it changes nothing beyond 1e-13."""


@checked
def zipf_weights(experts: int, exponent: float) -> Floats:
    """(E,) popularity ``rank ** -exponent``, the most popular expert first, scaled to a mean of 1.

    `experts` is how many there are.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> round(float(zipf_weights(256, 0.6)[0]), 1)
    12.2
    """
    check = Violations()
    whole(check, experts=experts)
    not_negative(check, exponent=exponent)
    check.raise_if_any()
    weights: Floats = np.arange(1, experts + 1, dtype=np.float64) ** -float(exponent)
    weights /= weights.mean()
    return weights


@checked
def selection_chances(weights: ArrayLike, top_k: int) -> Floats:
    """Exact chance that each expert is among `top_k` different ones drawn one after another by popularity.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    weights
        (E,) popularity, finite and above 0, in any unit.
    top_k
        k, ``1 <= k <= E``.

    Returns
    -------
    ndarray
        (E,) chances within 0 and 1 that sum to k.

    Notes
    -----
    Strength: exact to some 1e-12 for successive sampling (Plackett-Luce; the same as adding Gumbel noise to the
    logarithms and taking the k largest). Each expert rings after an exponential time of its rate; expert e is selected
    if fewer than k others ring before it: ``p_e = integral of w_e exp(-w_e t) P(N_(-e)(t) < k) dt``. The counts of
    others come from products of their generating functions cut at k. O(E k^2) at each of some 300 points.
    `moeopt.workload.popularity.inclusion` approximates by one common time: 1.2 % low for the hottest of Zipf 0.6.
    A router's scores are no such lottery: this is a model of a load that has these long-run shares.

    >>> selection_chances([2.0, 1.0, 1.0], 1).round(12).tolist(), selection_chances([3.0, 1.0], 2).round(12).tolist()
    ([0.5, 0.25, 0.25], [1.0, 1.0])
    >>> selection_chances([2.0, 1.0, 1.0], 2).round(6).tolist()  # 1/2 + 2 x 1/4 x 2/3
    [0.833333, 0.583333, 0.583333]
    """
    check = Violations()
    values = weights_of(check, weights, top_k)
    check.raise_if_any()
    experts = len(values)
    if top_k == experts:
        return np.ones(experts)
    values = values / values.sum()
    low = -39.0  # before exp(-39) nobody rings: what is left out of p_e is 1e-17 of it
    high = float(np.log(45.0 / np.sort(values)[: experts - top_k + 1].sum())) + 1.0  # by then k have, but for 1e-19
    times = np.exp(np.arange(low, high, STEP))
    total = np.zeros(experts)
    for first in range(0, times.size, 64):  # so many points at once: bounded memory
        clock = values[:, None] * times[first : first + 64]
        total += (clock * np.exp(-clock) * _fewer_others(-np.expm1(-clock), top_k)).sum(axis=1)
    found: Floats = total * STEP  # density of ringing by logarithm of time
    return np.minimum(found, 1.0)


def _fewer_others(rung: Floats, top_k: int) -> Floats:
    """(E, P) chance, at each of P points, that fewer than `top_k` of the experts other than e have rung.

    `rung` (E, P) is the chance of each to have; counts of those before e and of those after it are products.
    """
    experts, points = rung.shape
    before, after = np.zeros((experts + 1, top_k, points)), np.zeros((experts + 1, top_k, points))
    before[0, 0] = after[experts, 0] = 1.0
    for expert in range(experts):
        before[expert + 1] = before[expert] * (1 - rung[expert])
        before[expert + 1, 1:] += before[expert, :-1] * rung[expert]
    for expert in range(experts - 1, -1, -1):
        after[expert] = after[expert + 1] * (1 - rung[expert])
        after[expert, 1:] += after[expert + 1, :-1] * rung[expert]
    upto = np.cumsum(after[1:], axis=1)[:, ::-1]  # j before it leaves at most k - 1 - j after it
    found: Floats = np.einsum("ekp,ekp->ep", before[:-1], upto)
    return found


@checked
def hottest_over_mean(chances: ArrayLike, units: Sequence[int] | None = None) -> float:
    """Long-run load of the busiest unit over the mean: no batch is large enough to lower it, only placement is.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    chances
        (E,) of `selection_chances`, or any loads >= 0.
    units
        Unit of each expert, numbered from 0 without a gap; ``None`` takes every expert as a unit of its own.

    >>> hottest_over_mean([0.5, 0.25, 0.25]), hottest_over_mean([8, 4, 2, 2, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3])
    (1.5, 2.4)
    """
    check = Violations()
    loads = np.asarray(chances, dtype=np.float64)
    if loads.ndim != 1 or not loads.size or not np.all(np.isfinite(loads) & (loads >= 0)):
        check.add("chances", loads.tolist(), rule="must be one row of finite loads >= 0", fix="Give one load an expert")
    unit = units_of(check, units, loads.size)
    check.raise_if_any()
    totals = np.bincount(unit, weights=loads)
    mean = float(totals.mean())
    return float(totals.max()) / mean if mean else 1.0


def weights_of(check: Violations, weights: ArrayLike, top_k: int) -> Floats:
    """The popularity of experts as an array, checked together with `top_k`."""
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values) & (values > 0)):
        check.add("weights", values.tolist(), rule="must be one row of finite numbers > 0", fix="Drop idle experts")
    top_k_of(check, experts=values.size, top_k=top_k)
    return values


def units_of(check: Violations, units: Sequence[int] | None, experts: int) -> Ints:
    """Unit of each expert as an array, checked; without any, every expert is one of its own."""
    if units is None:
        return np.arange(experts, dtype=np.int64)
    if len(units) != experts or sorted(set(units)) != list(range(len(set(units)))):
        rule = "must number the units from 0, one entry an expert"
        check.add("units", list(units), rule=rule, fix=f"Give {experts} unit numbers")
        return np.zeros(experts, dtype=np.int64)
    return np.asarray(units, dtype=np.int64)
