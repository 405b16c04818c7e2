"""Loads of another number of experts: the same distribution of popularity, read off its quantiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.cost.checks import whole
from moeopt.errors import Violations


def to_experts(loads: ArrayLike, experts: int) -> NDArray[np.float64]:
    """Loads of `experts` experts whose popularity is distributed as in `loads`.

    Parameters
    ----------
    loads
        (..., W, L, E) or fewer axes; the last is the experts. With two or more leading axes the windows keep what
        they have in common: a new expert takes, in each window, the quantile of the expert that it stands for.
    experts
        E of the new loads.

    Returns
    -------
    NDArray
        The same shape but for the last axis; every row keeps its mean.

    Notes
    -----
    Strength: an assumption, that LLMs of more experts have the same curve of popularity. Expert j of the new E stands
    at ``(j + 1/2) / E`` of the old ids; its load is the quantile function of the row there, linear between the
    midpoints of the sorted loads and constant beyond: popularity beyond the busiest known expert is not made up. Rows
    are then scaled to the old mean.

    >>> to_experts([[4.0, 0.0]], 4).tolist()  # two old experts, two new ones for each
    [[4.0, 3.0, 1.0, 0.0]]
    >>> to_experts([[3.0, 1.0, 2.0]], 3).tolist()
    [[3.0, 1.0, 2.0]]
    """
    given = np.asarray(loads, dtype=float)
    check = Violations()
    whole(check, experts=experts)
    if given.ndim < 1 or not given.size or not np.isfinite(given).all() or (given < 0).any():
        check.add("loads", "...", rule="must be finite numbers >= 0, experts last", fix="Give a table of loads")
    check.raise_if_any()
    old = given.shape[-1]
    if experts == old:
        return given.copy()
    position = (np.arange(experts) + 0.5) * old / experts
    origin = np.minimum(position.astype(int), old - 1)
    offset = position - origin
    ranks = np.argsort(np.argsort(-given, axis=-1, kind="stable"), axis=-1, kind="stable")
    falling = -np.sort(-given, axis=-1)
    at = np.clip(ranks[..., origin] + offset - 0.5, 0, old - 1)
    low = np.minimum(at.astype(int), max(old - 2, 0))
    part = at - low
    first = np.take_along_axis(falling, low, -1)
    second = np.take_along_axis(falling, np.minimum(low + 1, old - 1), -1)
    made = first + part * (second - first)
    total = made.sum(-1, keepdims=True)
    mean = given.mean(-1, keepdims=True) * experts
    scaled: NDArray[np.float64] = np.where(total > 0, made * np.divide(mean, total, where=total > 0, out=mean * 0), 0)
    return scaled
