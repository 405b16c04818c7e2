"""How many pairs of selected experts can lie together at most: a bound by eigenvalues.

Let ``W`` count tokens by pairs of experts, ``d`` be numbers that sum to 0, ``S = W + diag(d)`` over M places of which N
equal parts of m are formed, and ``x_n`` the 0/1 vectors of the parts. As ``sum_n x_n' diag(d) x_n = sum d = 0`` and the
projections of the x_n off the vector of ones sum to 0 and span at most N - 1 dimensions with eigenvalue m,

    2 pairs = sum_n x_n' S x_n <= (m / M) 1'S1 + m (sum of the N - 1 largest eigenvalues of S off the vector of ones).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from moeopt.limits import Deadline

Floats = NDArray[np.float64]

STEPS = 120
HUGE = 1e290
"""From there on sums may be no doubles."""
ROUNDING = 64.0
"""Eigenvalues of a symmetric matrix are computed to within a few (dimension) x (machine epsilon) x (norm)."""


def most_pairs(pairs: Floats, diagonal: Floats, units: int) -> float:
    """The bound for a diagonal, which is shifted to sum to 0, with a margin above rounding.

    Parameters
    ----------
    pairs, diagonal
        (M, M) with a diagonal of 0, and (M,); `units` parts of ``M / units`` places. A diagonal beyond what sums of
        doubles hold shows nothing: infinity.

    >>> two = np.zeros((4, 4))
    >>> two[0, 1] = two[1, 0] = two[2, 3] = two[3, 2] = 5
    >>> round(most_pairs(two, np.zeros(4), 2), 6)
    10.0
    """
    if not np.abs(diagonal).max(initial=0.0) < HUGE:
        return math.inf
    size = len(pairs)
    lowered = _lowered(pairs, diagonal - diagonal.mean())
    values = np.linalg.eigvalsh(lowered)[size - units + 1 :]  # all of them: see _spectrum
    room = size // units
    total = pairs.sum() / size + values.sum()
    norm = float(np.abs(pairs).sum(axis=1).max(initial=0.0) + 2 * np.abs(diagonal).max(initial=0.0))
    return float(room / 2 * (total + ROUNDING * units * size * np.finfo(float).eps * norm))


def best_diagonal(pairs: Floats, units: int, steps: int = STEPS, deadline: Deadline | None = None) -> Floats:
    """A diagonal under which the bound is small, by subgradient steps until time is up; any diagonal is valid."""
    diagonal = pairs.sum(axis=1).mean() - pairs.sum(axis=1)  # rows of equal sums: ones become an eigenvector
    diagonal = 0.5 * diagonal
    best, least = diagonal.copy(), np.inf
    span = float(np.abs(pairs).sum(axis=1).mean()) or 1.0
    center, step = diagonal.copy(), 0.5 * span
    vain = 0
    for _ in range(steps):
        if deadline is not None and deadline.passed():
            break
        values, vectors = _spectrum(pairs, center, units)
        value = float(values.sum())
        if value < least * (1 - 1e-6) if least > 0 else value < least:
            best, least, vain = center.copy(), value, 0
        else:
            vain += 1
            if vain >= 3:
                step, vain, center = step * 0.6, 0, best.copy()
                continue
        slope = (vectors**2).sum(axis=1)
        slope -= slope.mean()
        norm = float(np.linalg.norm(slope))
        if norm < 1e-12:
            break
        center = center - step * slope / norm
    found: Floats = best
    return found


def relaxed(pairs: Floats, diagonal: Floats, units: int) -> tuple[Floats, Floats]:
    """How far places are together where the bound is met, (M, M), and a step that lowers the bound, (M,) of norm 1."""
    size = len(pairs)
    _, vectors = _spectrum(pairs, diagonal - diagonal.mean(), units)
    room = size / units
    slope = (vectors**2).sum(axis=1)
    slope -= slope.mean()
    return room / size + room * vectors @ vectors.T, slope / max(float(np.linalg.norm(slope)), 1e-12)


def _spectrum(pairs: Floats, diagonal: Floats, units: int) -> tuple[Floats, Floats]:
    """The largest ``units - 1`` eigenvalues off the vector of ones, and their vectors.

    LAPACK's way to a few of them fails on some matrices with many equal eigenvalues, or gives none and says nothing.
    So no bound rests on it, and where it gives too few all are worked out.
    """
    matrix, wanted = _lowered(pairs, diagonal), units - 1
    size = len(matrix)
    if 4 * wanted <= size:  # of more, all are the faster way
        from scipy.linalg import LinAlgError, eigh

        try:
            values, vectors = eigh(matrix, subset_by_index=(size - wanted, size - 1))
            if len(values) == wanted:
                return values, vectors
        except LinAlgError:
            pass
    values, vectors = np.linalg.eigh(matrix)
    return values[size - wanted :], vectors[:, size - wanted :]


def _lowered(pairs: Floats, diagonal: Floats) -> Floats:
    """Pairs and diagonal off the vector of ones: it is an eigenvector, and its eigenvalue lies below all others."""
    size = len(pairs)
    matrix = pairs + np.diag(diagonal)
    mean = matrix.mean(axis=0)
    projected = matrix - mean[None, :] - mean[:, None] + matrix.mean()
    norm = float(np.abs(projected).sum(axis=1).max(initial=0.0)) + 1.0
    found: Floats = projected - (2 * norm / size) * np.ones((size, size))
    return found
