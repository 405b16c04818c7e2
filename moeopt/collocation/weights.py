"""Which pairs of a token to count, and how much: for each token the inequality that says most.

For any subset R of a token's experts and any edge of the hull of `hull` for ``|R|`` experts, units touched are at least
``alpha - beta (pairs of R together)``: a token touches what a part of it touches. So with one choice a token,

    sum of lambda >= sum of alpha - (most weight of pairs together), each pair of experts weighted by its betas,

and the last term has the bound of `spectrum`. Choices are made by a table that says how far two experts are together in
the relaxation; whatever the table, the inequality holds. Several tables give the mean of their inequalities.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import hull, spectrum
from moeopt.collocation.rows import Rows
from moeopt.limits import Deadline

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROUNDS, TABLES = 40, 4
LARGE = 2_000_000
"""Cells (row, expert, expert) from which fewer rounds are made."""
MARGIN = 1e-12
"""Relative rounding of sums that is allowed for."""


def inequality(rows: Rows, places: int, units: int, table: Floats) -> tuple[Floats, float]:
    """Weights of pairs (M, M) and the sum of alphas, chosen by a table (M, M) of togetherness.

    Subsets are nested: from the whole token the expert that is most together with the others is left out, again and
    again; of all subsets and edges the one counts that says most by the table.
    """
    room = places // units
    weights, total = np.zeros((places, places)), 0.0
    sizes = (rows.sets >= 0).sum(axis=1)
    for size in np.unique(sizes):
        part = sizes == size
        sets, weight = rows.sets[part][:, rows.sets.shape[1] - size :], rows.weight[part].astype(np.float64)
        chosen, alpha, beta = _choices(sets, int(size), units, room, table)
        total += float((alpha * weight).sum())
        for i in range(int(size)):
            for j in range(i + 1, int(size)):
                both = chosen[:, i] & chosen[:, j]
                np.add.at(weights, (sets[both, i], sets[both, j]), (beta * weight)[both])
    return weights + weights.T, total


def _choices(sets: Ints, size: int, units: int, room: int, table: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """For each row the subset, alpha and beta; alpha 1 and beta 0, that a unit is touched, where nothing says more."""
    count = len(sets)
    near = table[sets[:, :, None], sets[:, None, :]].copy()
    near[:, range(size), range(size)] = 0.0
    left = np.ones((count, size), dtype=bool)
    degree = near.sum(axis=2)
    together = degree.sum(axis=1) / 2
    best, alpha, beta, chosen = np.ones(count), np.ones(count), np.zeros(count), left.copy()
    every = np.arange(count)
    for smaller in range(size, 1, -1):
        for (x, y), (x_next, y_next) in pairwise(hull.hull(smaller, units, room)):
            slope = (y - y_next) / (x_next - x)
            says = y + slope * x - slope * together
            better = says > best
            best[better], alpha[better], beta[better] = says[better], y + slope * x, slope
            chosen[better] = left[better]
        out = np.where(left, degree, -np.inf).argmax(axis=1)
        together = together - degree[every, out]
        degree = degree - near[every, :, out]
        left[every, out] = False
    return chosen, alpha, beta


def floor(rows: Rows, places: int, units: int, tables: list[Floats], diagonal: Floats) -> float:
    """Units touched by all tokens, at least, for given tables and diagonal."""
    weights, alpha = combined(rows, places, units, tables)
    most = spectrum.most_pairs(weights, diagonal, units)
    if math.isinf(most):
        return 0.0
    return alpha - most - MARGIN * (alpha + most)


def combined(rows: Rows, places: int, units: int, tables: list[Floats]) -> tuple[Floats, float]:
    """The mean of the inequalities of some tables."""
    found = [inequality(rows, places, units, table) for table in tables]
    weights = sum((one for one, _ in found), np.zeros((places, places))) / len(found)
    return weights, sum(alpha for _, alpha in found) / len(found)


def best_tables(
    rows: Rows, plain: Floats, start: Floats, units: int, deadline: Deadline | None = None
) -> tuple[list[Floats], Floats]:
    """Tables and a diagonal under which the floor is high: conditional gradients on the choices of all tokens.

    Every round takes the choices that say most by the mean of the relaxations so far, and mixes them in. The first is
    by the relaxation of all pairs alike, `plain` (M, M), with its diagonal `start`. A deadline leaves fewer rounds, one
    at least.
    """
    places = len(plain)
    cells = rows.sets.shape[0] * rows.sets.shape[1] ** 2
    rounds = ROUNDS if cells <= LARGE else ROUNDS // 4
    weights = np.zeros((places, places))
    mean, _ = spectrum.relaxed(plain, start, units)
    corners = hull.hull(rows.sets.shape[1], units, places // units)
    (x, y), (x_next, y_next) = corners[-2:] if len(corners) > 1 else ((0, 1), (1, 0))
    diagonal = start * (y - y_next) / (x_next - x)  # as pairs of tokens that lie together will be weighted
    step = 0.15 * float(plain.sum(axis=1).mean())
    seen = []
    half = None if deadline is None else deadline.share(2)
    for turn in range(rounds):
        share = 2 / (turn + 2)
        chosen, _ = inequality(rows, places, units, mean)
        weights = (1 - share) * weights + share * chosen
        table, slope = spectrum.relaxed(weights, diagonal, units)
        mean = (1 - share) * mean + share * table
        seen.append(mean)
        diagonal = diagonal - step / (turn + 1) ** 0.7 * slope
        if half is not None and half.passed():
            break
    few = TABLES if places <= 128 else 2
    tables = [np.round(one, 2) for one in seen[:: -max(1, rounds // (2 * few))][:few]]
    weights, _ = combined(rows, places, units, tables)
    return tables, spectrum.best_diagonal(weights, units, deadline=deadline)


def packed(table: Floats) -> list[int]:
    """The upper triangle in hundredths, row by row."""
    found: list[int] = np.rint(100 * table[np.triu_indices(len(table), 1)]).astype(np.int64).tolist()
    return found


def unpacked(entries: list[int], places: int) -> Floats:
    """The table again, symmetric, with a diagonal of 0."""
    table = np.zeros((places, places))
    table[np.triu_indices(places, 1)] = np.array(entries) / 100
    return table + table.T
