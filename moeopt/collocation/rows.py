"""A layer's tokens as weighted hyperedges: equal sets of experts are one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """M rows of at most k experts.

    Parameters
    ----------
    sets
        (M, k) experts ascending, -1 in front where there are fewer.
    weight
        (M,) tokens that select the set.
    source
        (M,) GPU those tokens lie on, -1: every GPU alike.
    """

    sets: Ints
    weight: Ints
    source: Ints

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return int(self.weight.sum())

    def loads(self, num_experts: int) -> Ints:
        """(E,) selections of each expert."""
        found = np.zeros(num_experts, dtype=np.int64)
        row, _ = np.nonzero(self.sets >= 0)
        np.add.at(found, self.sets[self.sets >= 0], self.weight[row])
        return found

    def pairs(self, num_experts: int) -> Ints:
        """(E, E) tokens that select both experts, 0 on the diagonal."""
        found = np.zeros((num_experts, num_experts), dtype=np.int64)
        for i in range(self.sets.shape[1]):
            for j in range(i + 1, self.sets.shape[1]):
                both = (self.sets[:, i] >= 0) & (self.sets[:, j] >= 0)
                np.add.at(found, (self.sets[both, i], self.sets[both, j]), self.weight[both])
        return found + found.T

    def singles(self) -> Rows:
        """Every (token, expert) pair as a row of its own, for transports that merge nothing."""
        row, place = np.nonzero(self.sets >= 0)
        return folded(self.sets[row, place][:, None], self.source[row], self.weight[row])


def folded(sets: Ints, source: Ints, weight: Ints | None = None) -> Rows:
    """Rows of these sets, equal ones with equal sources put together; rows without experts are left out.

    >>> rows = folded(np.array([[2, 0], [0, 2], [1, -1]]), np.array([-1, -1, -1]))
    >>> rows.sets.tolist(), rows.weight.tolist()
    ([[-1, 1], [0, 2]], [1, 2])
    """
    ordered = np.sort(sets, axis=1)
    keep = ordered[:, -1] >= 0
    table = np.column_stack([ordered, source])[keep]
    found, place = np.unique(table, axis=0, return_inverse=True)
    counts = np.zeros(len(found), dtype=np.int64)
    np.add.at(counts, place.reshape(-1), 1 if weight is None else weight[keep])
    return Rows(found[:, :-1], counts, found[:, -1])


def rows_of(instance: CollocationInstance, row: int, *, scored: bool = False) -> Rows:
    """The hyperedges of one layer: of the tokens that plans are made for, or of those held out."""
    cache = instance.__dict__.setdefault("_rows", {})
    if (row, scored) not in cache:
        cache[row, scored] = _pair_rows(instance, row) if instance.pairs is not None else _rows(instance, row, scored)
    found: Rows = cache[row, scored]
    return found


def _rows(instance: CollocationInstance, row: int, scored: bool) -> Rows:
    cut = instance.num_tokens
    part = slice(cut, None) if scored else slice(0, cut)
    ids = instance.ids[row, part]
    source = np.full(len(ids), -1) if instance.source is None else instance.source[part]
    return folded(ids, source)


def _pair_rows(instance: CollocationInstance, row: int) -> Rows:
    assert instance.pairs is not None
    table = np.triu(instance.pairs[row], 1)
    one, other = np.nonzero(table)
    return Rows(np.column_stack([one, other]), table[one, other], np.full(len(one), -1))


def loads_of(instance: CollocationInstance, row: int) -> Ints:
    """(E,) selections of each expert by the tokens that plans are made for."""
    if instance.pairs is None:
        return rows_of(instance, row).loads(instance.num_experts)
    diagonal = np.diagonal(instance.pairs[row])
    return diagonal.copy() if diagonal.any() else instance.pairs[row].sum(axis=1)
