"""The configuration bound: prices of pieces by a linear programme over the fillings of a GPU, with free counts.

Its dual has one price for each class of sizes, not falling with the size, and one value for each expert; a row for each
filling says that it is worth at most 1, a row for each expert and count that so many pieces are worth at least the
expert's value. Rows are added as they are violated. At a threshold T no plan exists as soon as the values come to
more than the GPUs can hold (Farley's bound); prices are then rounded and `fillings.proves` decides, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from moeopt.backends.master import Master
from moeopt.limits import Deadline
from moeopt.placement import packs
from moeopt.placement.fillings import FULL, Layer, proves

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CELLS = 8192
"""Classes of sizes are cells of the limit over this, rounded down; fewer where the fillings become too many."""
FAR, COARSE = 3, 64
"""From so many times the least count on, which no good plan has, pieces are classed by so many cells."""
ROUNDS = 200
"""Programmes solved for one threshold at most."""
ADDED = 150
"""Fillings added in one round at most."""
RESOLUTIONS = (2_000, 12_000, 60_000)
"""Whole prices that 1 is rounded to, one after another until the proof succeeds."""
PRECISION = 3e-4
"""The search for the largest refuted threshold ends at this part of the objective."""
OUT = float("inf")

Certificate = tuple[Fraction, list[int], list[int]]
"""Threshold, sizes and prices."""


class Columns:
    """The growing programme of one layer whose GPUs are alike; thresholds are tried one after another."""

    def __init__(self, layer: Layer, objective: float, deadline: Deadline | None = None) -> None:
        (self.kind,) = layer.kinds
        self.layer = layer
        self.deadline = deadline or Deadline(None)
        self.loads = np.array([load / layer.denominator for load in layer.loads])
        self.floor = layer.floor / layer.denominator
        self.cell = float(self.kind.limit(Fraction(objective))) / CELLS
        self.master = Master()
        self.value = self.master.add_columns(*np.repeat([[1.0], [0.0], [OUT]], len(self.loads), axis=1))
        self.sizes = np.zeros(0)
        self.price_column = np.zeros(0, dtype=np.int64)
        self.options: dict[tuple[int, int], int] = {}
        self.fillings: dict[tuple[int, ...], tuple[int, float]] = {}
        self.halves: tuple[packs.Sets, packs.Sets] | None = None
        self.solved = 0

    def refute(self, threshold: float) -> Certificate | None:
        """A certificate that no plan costs at most `threshold`, where the programme gives one in time."""
        limit = float(self.kind.limit(Fraction(threshold)))
        if limit <= 0:
            return None
        pieces = self._pieces(limit)
        if pieces is None:
            return self._certificate(threshold, np.array([self.cell]), np.array([1.0]))
        count, size, least_class = pieces
        self.least = count[:, 0]
        self._forget(limit, count)
        self._add_classes(np.array([least_class]))
        self._add_options([(expert, int(count[expert, 0])) for expert in range(len(self.loads))])
        self._add_options([(expert, int(count[expert].max())) for expert in range(len(self.loads))])
        if not self.fillings and not self._add_fillings(self._dearest(limit, self.sizes / limit * 1.25)[1]):
            return None
        for _ in range(ROUNDS):
            if self.deadline.passed():
                return None
            answer = self.master.solve()
            self.solved += 1
            if answer is None:
                return None
            value, point = answer
            price = point[self.price_column]
            if value <= self.kind.count * (1 + 1e-9):
                # counts are whole in the proof, so that it may succeed a little beyond the programme
                return self._certificate(threshold, self.sizes, price, RESOLUTIONS[1:2])
            cost = np.where(count > 0, count * self._price_of(price, size), OUT)
            worth = cost.min(axis=1)
            best, found = self._dearest(limit, price)
            if best < 0:
                return None
            if worth.sum() > self.kind.count * best * (1 + 1e-9):
                return self._certificate(threshold, self.sizes, price)
            short = np.flatnonzero(worth < point[self.value] - 1e-9)
            wanted = [(int(expert), int(count[expert, cost[expert].argmin()])) for expert in short]
            for expert in short:
                under = np.flatnonzero(cost[expert] < point[self.value[expert]] - 1e-9)
                wanted.extend((int(expert), int(count[expert, at])) for at in under[[0, len(under) // 2, -1]])
            if not self._add_fillings(found) and not self._add_options(wanted):
                return None
            self._add_options(wanted)
        return None

    def _pieces(self, limit: float) -> tuple[Ints, Floats, float] | None:
        """Counts (0 where too many) and sizes of pieces of every expert, and the class of the smallest one."""
        least = np.maximum(np.ceil(self.loads / limit * packs.SLACK**-1), 1).astype(np.int64)
        spare = self.kind.count * self.kind.slots - int(least.sum())
        if spare < 0 or least.max() > self.layer.most or self.floor > limit:
            return None
        count = least[:, None] + np.arange(min(spare, self.layer.most - 1) + 1)[None, :]
        size = np.maximum(self.loads[:, None] / count, self.floor)
        count[count > self.layer.most] = 0
        return count, size, float(self._classes(size.min()))

    def _classes(self, size: Floats, coarse: int = 1) -> Floats:
        """The class that a size belongs to, by cells or by so many of them."""
        down: Floats = np.floor(size / (self.cell * coarse) * packs.SLACK) * (self.cell * coarse)
        return down

    def _price_of(self, price: Floats, size: Floats) -> Floats:
        """Price of pieces of any size: that of the last class which is not larger."""
        place = np.searchsorted(self.sizes, size * packs.SLACK, side="right") - 1
        found: Floats = np.where(place >= 0, price[np.maximum(place, 0)], 0.0)
        return found

    def _forget(self, limit: float, count: Ints) -> None:
        """Take rows in and out that hold at some thresholds only."""
        rows, upper = [], []
        for (expert, copies), row in self.options.items():
            rows.append(row)
            upper.append(0.0 if count[expert, 0] <= copies <= count[expert].max() else OUT)
        for row, size in self.fillings.values():
            rows.append(row)
            upper.append(1.0 if size <= limit * packs.SLACK else OUT)
        self.master.set_upper(rows, upper)

    def _add_classes(self, sizes: Floats) -> None:
        """New classes of sizes, each priced between its neighbours."""
        fresh = np.setdiff1d(sizes, self.sizes)
        if not len(fresh):
            return
        ones = np.ones(len(fresh))
        columns = self.master.add_columns(0 * ones, 0 * ones, ones)
        merged = np.concatenate([self.sizes, fresh])
        order = np.argsort(merged)
        self.sizes = merged[order]
        self.price_column = np.concatenate([self.price_column, columns]).astype(np.int64)[order]
        new = order >= len(merged) - len(fresh)
        pairs = np.flatnonzero(new[:-1] | new[1:])
        steps = np.stack([self.price_column[pairs], self.price_column[pairs + 1]], axis=1)
        self.master.add_rows(steps.tolist(), [[1.0, -1.0]] * len(pairs), [0.0] * len(pairs))
        self.halves = None

    def _add_options(self, wanted: Sequence[tuple[int, int]]) -> int:
        """Rows "so many pieces of this expert are worth at least its value"; how many were new."""
        wanted = [pair for pair in dict.fromkeys(wanted) if pair not in self.options]
        if not wanted:
            return 0
        size = np.array([max(self.loads[expert] / copies, self.floor) for expert, copies in wanted])
        far = np.array([copies >= FAR * self.least[expert] for expert, copies in wanted])
        classes = np.where(far, self._classes(size, COARSE), self._classes(size))
        self._add_classes(classes)
        column = self.price_column[np.searchsorted(self.sizes, classes)]
        where = [[self.value[expert], int(at)] for (expert, _), at in zip(wanted, column, strict=True)]
        entries = [[1.0, -float(copies)] for _, copies in wanted]
        rows = self.master.add_rows(where, entries, [0.0] * len(wanted))
        self.options.update(zip(wanted, rows, strict=True))
        return len(wanted)

    def _add_fillings(self, found: Sequence[Sequence[int]]) -> int:
        """Rows "this filling is worth at most 1"; how many were new."""
        fresh = {}
        for filling in found:
            key = tuple(sorted(self.price_column[list(filling)].tolist()))
            if key not in self.fillings:
                fresh[key] = float(self.sizes[list(filling)].sum())
        columns, values = [], []
        for key in fresh:
            where, copies = np.unique(key, return_counts=True)
            columns.append(where.tolist())
            values.append(copies.astype(float).tolist())
        rows = self.master.add_rows(columns, values, [1.0] * len(fresh))
        for (key, size), row in zip(fresh.items(), rows, strict=True):
            self.fillings[key] = (row, size)
        return len(fresh)

    def _dearest(self, limit: float, price: Floats) -> tuple[float, list[list[int]]]:
        """Largest worth of a filling and those worth more than 1; a worth of -1 where they are too many to look at."""
        sizes = np.concatenate([[0.0], self.sizes])  # an empty slot is a piece of nothing
        if self.halves is None:
            self.halves = packs.halves_of(sizes, self.kind.slots, self.cell * CELLS)
        if self.halves is None:
            return -1.0, []
        every = packs.Fillings(sizes, self.kind.slots, limit, self.halves)
        best, found = every.dearest(np.concatenate([[0.0], price]), ADDED)
        return best, [[place - 1 for place in filling if place] for filling in found]

    def _certificate(
        self, threshold: float, sizes: Floats, price: Floats, resolutions: Sequence[int] = RESOLUTIONS
    ) -> Certificate | None:
        """Whole sizes and prices that `fillings.proves` accepts, or ``None``."""
        exact = Fraction(threshold)
        unit = FULL / float(self.kind.limit(exact))
        whole = np.minimum(np.floor(sizes * unit).astype(np.int64), FULL)
        for resolution in resolutions:
            priced = np.floor(price * resolution + 1e-6).astype(np.int64)
            step = np.flatnonzero(np.diff(priced, prepend=0) > 0)
            step = step[np.diff(whole[step], append=2 * FULL) > 0]
            mine, prices = whole[step].tolist(), priced[step].tolist()
            if proves(self.layer, exact, mine, prices):
                return exact, mine, prices
        return None


def search(
    layer: Layer,
    lower: float,
    objective: float,
    gap: float,
    deadline: Deadline,
    on_better: Callable[[Certificate], None] | None = None,
) -> Certificate | None:
    """Largest threshold between a known bound and the objective that prices refute.

    First the one that closes the gap to `gap`, then by halving, to `PRECISION`; a proof found on the way is kept when
    the time is up.
    """
    columns = Columns(layer, objective, deadline)
    best: Certificate | None = None
    low, high = lower, objective
    threshold = objective * (1 - max(gap, 1e-9) * (1 - 1e-6))
    while low < threshold < high and not deadline.passed():
        found = columns.refute(threshold)
        if found is not None:
            best, low = found, threshold
            if on_better is not None:
                on_better(found)
            if objective - low <= gap * objective:
                break
        else:
            high = threshold
        if high - low <= PRECISION * objective:
            break
        threshold = (low + high) / 2
    return best
