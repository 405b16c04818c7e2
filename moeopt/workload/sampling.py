"""Exact sampling of the experts that tokens select."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.errors import Violations
from moeopt.workload.seeding import check_whole, salt

_CHUNK_CELLS = 2**20


def sample_top_k(popularity: ArrayLike, top_k: int, tokens: int, seed: int = 0) -> NDArray[np.int64]:
    """Experts that `tokens` tokens select: `top_k` different ones each, drawn one after another by popularity.

    Numbers that are none, or do not fit the loads, are refused (`InstanceError`).

    Exact for successive draws without replacement: the `top_k` largest of ``log(popularity)`` plus independent
    Gumbel noise have that distribution, in that order (W. Kool, H. van Hoof, M. Welling, ICML 2019).

    Parameters
    ----------
    popularity
        (E,) finite and >= 0, at least `top_k` of them > 0; need not sum to 1.
    top_k, tokens
        Whole numbers >= 1.
    seed
        A whole number >= 0.

    Returns
    -------
    NDArray[np.int64]
        (tokens, top_k) expert ids, each row in the order of drawing.

    >>> sample_top_k([0.7, 0.0, 0.2, 0.1], top_k=2, tokens=3, seed=1).tolist()
    [[0, 2], [0, 2], [3, 0]]
    """
    check = Violations()
    check_whole("top_k", top_k, 1, check)
    check_whole("tokens", tokens, 1, check)
    check_whole("seed", seed, 0, check)
    weights = _check_popularity(popularity, check)
    if not check.found and (possible := int((weights > 0).sum())) < top_k:
        rule = f"must be at most the number of experts with popularity > 0, {possible}"
        check.add("top_k", top_k, rule=rule, fix="A token selects different experts")
    check.raise_if_any()
    rng = np.random.default_rng([seed, salt("top_k"), len(weights)])
    with np.errstate(divide="ignore"):
        score = np.log(weights)
    ids = np.empty((tokens, top_k), dtype=np.int64)
    rows = max(1, _CHUNK_CELLS // len(weights))
    for start in range(0, tokens, rows):
        part = ids[start : start + rows]
        keys = -(score + rng.gumbel(size=(len(part), len(weights))))
        best = np.argpartition(keys, top_k - 1, axis=1)[:, :top_k]
        order = np.argsort(np.take_along_axis(keys, best, axis=1), axis=1)
        part[:] = np.take_along_axis(best, order, axis=1)
    return ids


def _check_popularity(popularity: ArrayLike, check: Violations) -> NDArray[np.float64]:
    try:
        given = np.asarray(popularity)
    except ValueError:  # a ragged list
        given = np.empty(0)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iuf":
        check.add("popularity", popularity, rule="must be one row of numbers, one per expert", fix="Give one layer")
        return np.empty(0)
    weights = given.astype(np.float64)
    for expert in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0))):
        value, rule = weights[expert].item(), "popularity must be finite and >= 0"
        check.add("popularity", value, rule=rule, fix="Repair the entry", where=f"expert {expert}")
    return weights
