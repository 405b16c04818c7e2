"""The configuration bound: prices of pieces by a linear programme over the fillings of a GPU, with free counts.

Its dual has one price for each class of sizes, not falling with the size, and one value for each expert; a row for each
filling says that it is worth at most 1, a row for each expert and count that so many pieces are worth at least the
expert's value. Rows are added as they are violated. At a threshold T no plan exists as soon as the values come to
more than the GPUs can hold (Farley's bound); prices are then rounded and `fillings.proves` decides, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from moeopt.backends.master import Master
from moeopt.limits import Deadline
from moeopt.placement import packs
from moeopt.placement.fillings import FULL, Layer, Ranges, proves

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CELLS = 16_384
"""Classes of sizes are cells of the limit over this, rounded down."""
FEW_CELLS = 2_048
"""The same where there are too many fillings to list halves of them."""
FAR, COARSE = 3, 64
"""From so many times the least count on, which no good plan has, pieces are classed by so many cells."""
ROUNDS = 200
"""Programmes solved for one threshold at most."""
ADDED = 150
"""Fillings added in one round at most."""
RESOLUTIONS = (2_000, 12_000, 60_000)
"""Whole prices that 1 is rounded to, one after another until the proof succeeds."""
OUT = float("inf")

Prices = dict[str, list[int]]
"""``sizes`` and ``prices`` of a certificate."""


class Columns:
    """The growing programme of one layer; thresholds are tried one after another."""

    def __init__(self, layer: Layer, objective: float, deadline: Deadline, cells: int = CELLS) -> None:
        self.layer = layer
        self.num_gpus = sum(kind.count for kind in layer.kinds)
        self.deadline, self.cells = deadline, cells
        self.loads = np.array([load / layer.denominator for load in layer.loads])
        self.floor = layer.floor / layer.denominator
        self.tops = self._limits(objective)
        self.cell = max(self.tops) / cells
        self.master = Master()
        # what a GPU may hold in worth, 1 on average; with one kind of GPU it is 1
        counts = [float(kind.count) for kind in layer.kinds]
        alike = len(counts) == 1
        ones = np.ones(len(counts))
        self.budget = self.master.add_columns(0 * ones, 1.0 * alike * ones, ones if alike else OUT * ones)
        self.master.add_rows([self.budget], [counts], [float(self.num_gpus)])
        self.value = self.master.add_columns(*np.repeat([[1.0], [0.0], [OUT]], len(self.loads), axis=1))
        self.sizes = np.zeros(0)
        self.price_column = np.zeros(0, dtype=np.int64)
        self.options: dict[tuple[int, int], int] = {}
        self.fillings: dict[tuple[int, ...], tuple[int, int, float]] = {}
        self.halves: dict[int, tuple[packs.Sets, packs.Sets] | None] = {}
        self.crowded = False
        self.ranges: Ranges = {}
        self.shares: dict[tuple[int, int], float] = {}
        """Part of each expert at each count in the fractional plan that kept the last threshold from being refuted."""

    def refute(self, threshold: float, ranges: Ranges | None = None) -> Prices | None:
        """Prices that prove that no plan costs at most `threshold`, where the programme gives them in time.

        With `ranges`: no plan with these numbers of replicas.
        """
        self.ranges, self.shares = ranges or {}, {}
        limits = self._limits(threshold)
        if min(limits) <= 0:
            return None
        pieces = self._pieces(max(limits))
        if pieces is None:
            return self._certificate(threshold, np.array([self.cell]), np.array([1.0]))
        count, size = pieces
        self.least = count[:, 0]
        self._forget(limits, count)
        self._add_classes(self._classes(size.min(keepdims=True)[0]))
        self._add_options([(expert, int(count[expert, 0])) for expert in range(len(self.loads))])
        self._add_options([(expert, int(count[expert].max())) for expert in range(len(self.loads))])
        if not self.fillings and self._dearest(limits, self.sizes / max(limits), np.full(len(limits), 0.8)) is None:
            return None
        for _ in range(ROUNDS):
            if self.deadline.passed():
                return None
            answer = self.master.solve(self.deadline.remaining_s())
            if answer is None:
                return None
            value, point = answer
            price = point[self.price_column]
            if value <= self.num_gpus * (1 + 1e-9):
                self._note_shares()
                # counts are whole in the proof, so that it may succeed a little beyond the programme
                return self._certificate(threshold, self.sizes, price, RESOLUTIONS[1:2])
            cost = np.where(count > 0, count * self._price_of(price, size), OUT)
            worth = cost.min(axis=1)
            answered = self._dearest(limits, price, point[self.budget])
            if answered is None:
                return None
            most, added = answered
            if worth.sum() > most * (1 + 1e-9):
                return self._certificate(threshold, self.sizes, price)
            if not self._add_options(self._short(count, cost, point[self.value])) and not added:
                return None
        return None

    def _note_shares(self) -> None:
        """The counts of the fractional plan, from the dual prices of the rows of the counts."""
        price = self.master.row_price
        self.shares = {pair: float(price[row]) for pair, row in self.options.items() if price[row] > 1e-7}

    def _limits(self, threshold: float) -> list[float]:
        """Tokens that the replicas of a GPU of each kind may have."""
        return [float(kind.limit(Fraction(threshold))) for kind in self.layer.kinds]

    def _short(self, count: Ints, cost: Floats, value: Floats) -> list[tuple[int, int]]:
        """Counts at which experts are worth less than their value: the one worth least, and some others."""
        wanted = []
        for expert in np.flatnonzero(cost.min(axis=1) < value - 1e-9):
            under = np.flatnonzero(cost[expert] < value[expert] - 1e-9)
            for at in (int(cost[expert].argmin()), *under[[0, len(under) // 2, -1]].tolist()):
                wanted.append((int(expert), int(count[expert, at])))
        return wanted

    def _pieces(self, limit: float) -> tuple[Ints, Floats] | None:
        """Counts (0 where too many) and sizes of pieces of every expert; ``None`` when they need too many slots."""
        least = np.maximum(np.ceil(self.loads / limit * packs.SLACK**-1), 1).astype(np.int64)
        most = np.full(len(least), self.layer.most)
        for expert, (low, high) in self.ranges.items():
            least[expert], most[expert] = max(int(least[expert]), low), min(self.layer.most, high)
        spare = sum(kind.count * kind.slots for kind in self.layer.kinds) - int(least.sum())
        if spare < 0 or (least > most).any() or self.floor > limit:
            return None
        count = least[:, None] + np.arange(min(spare, self.layer.most - 1) + 1)[None, :]
        size = np.maximum(self.loads[:, None] / count, self.floor)
        count[count > most[:, None]] = 0
        return count, size

    def _classes(self, size: Floats, coarse: int = 1) -> Floats:
        """The class that a size belongs to, by cells or by so many of them."""
        down: Floats = np.floor(size / (self.cell * coarse) * packs.SLACK) * (self.cell * coarse)
        return down

    def _price_of(self, price: Floats, size: Floats) -> Floats:
        """Price of pieces of any size: that of the last class which is not larger."""
        place = np.searchsorted(self.sizes, size * packs.SLACK, side="right") - 1
        found: Floats = np.where(place >= 0, price[np.maximum(place, 0)], 0.0)
        return found

    def _forget(self, limits: Sequence[float], count: Ints) -> None:
        """Take rows in and out that hold at some thresholds only."""
        rows, upper = [], []
        for (expert, copies), row in self.options.items():
            rows.append(row)
            upper.append(0.0 if count[expert, 0] <= copies <= count[expert].max() else OUT)
        for row, kind, size in self.fillings.values():
            rows.append(row)
            upper.append(0.0 if size <= limits[kind] * packs.SLACK else OUT)
        self.master.set_upper(rows, upper)

    def _add_classes(self, sizes: Floats) -> None:
        """New classes of sizes, each priced between its neighbours."""
        fresh = np.setdiff1d(sizes, self.sizes)
        if not len(fresh):
            return
        ones = np.ones(len(fresh))
        columns = self.master.add_columns(0 * ones, 0 * ones, self.num_gpus * ones)
        merged = np.concatenate([self.sizes, fresh])
        order = np.argsort(merged)
        self.sizes = merged[order]
        self.price_column = np.concatenate([self.price_column, columns]).astype(np.int64)[order]
        new = order >= len(merged) - len(fresh)
        pairs = np.flatnonzero(new[:-1] | new[1:])
        steps = np.stack([self.price_column[pairs], self.price_column[pairs + 1]], axis=1)
        self.master.add_rows(steps.tolist(), [[1.0, -1.0]] * len(pairs), [0.0] * len(pairs))
        self.halves = {}

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

    def _add_fillings(self, kind: int, found: Sequence[Sequence[int]]) -> int:
        """Rows "this filling is worth at most what a GPU of its kind may hold"; how many were new."""
        fresh = {}
        for filling in found:
            key = (self.budget[kind], *sorted(self.price_column[list(filling)].tolist()))
            if key not in self.fillings:
                fresh[key] = float(self.sizes[list(filling)].sum())
        columns, values = [], []
        for key in fresh:
            where, copies = np.unique(key, return_counts=True)
            columns.append(where.tolist())
            values.append(np.where(where == key[0], -1.0, copies).tolist())
        rows = self.master.add_rows(columns, values, [0.0] * len(fresh))
        for (key, size), row in zip(fresh.items(), rows, strict=True):
            self.fillings[key] = (row, kind, size)
        return len(fresh)

    def _dearest(self, limits: Sequence[float], price: Floats, budget: Floats) -> tuple[float, int] | None:
        """Largest worth of fillings of all GPUs, and how many that are worth too much were added.

        ``None``, and `crowded`, where there are too many fillings to list halves of them.
        """
        sizes, worth = np.concatenate([[0.0], self.sizes]), np.concatenate([[0.0], price])  # 0: an empty slot
        most, added = 0.0, 0
        for number, (kind, limit) in enumerate(zip(self.layer.kinds, limits, strict=True)):
            every = self._every(number, sizes, limit)
            if every is None:
                self.crowded = True
                return None
            best, found = every.dearest(worth, float(budget[number]), ADDED)
            most += kind.count * best
            added += self._add_fillings(number, [[at - 1 for at in filling if at] for filling in found])
        return most, added

    def _every(self, number: int, sizes: Floats, limit: float) -> packs.Fillings | packs.ByCells | None:
        """Fillings of one kind of GPU."""
        slots = self.layer.kinds[number].slots
        if self.cells <= FEW_CELLS:
            cells = np.rint(sizes / self.cell).astype(np.int64)
            return packs.ByCells(cells, slots, int(limit / self.cell * packs.SLACK))
        if number not in self.halves:
            self.halves[number] = packs.halves_of(sizes, slots, self.tops[number])
        halves = self.halves[number]
        return None if halves is None else packs.Fillings(sizes, slots, limit, halves)

    def _certificate(
        self, threshold: float, sizes: Floats, price: Floats, resolutions: Sequence[int] = RESOLUTIONS
    ) -> Prices | None:
        """Whole sizes and prices that `fillings.proves` accepts, or ``None``."""
        exact = Fraction(threshold)
        parts = np.minimum(sizes / max(self._limits(threshold)), 1.0)  # FULL / limit may overflow
        whole = np.minimum(np.floor(parts * FULL).astype(np.int64), FULL)
        for resolution in resolutions:
            priced = np.floor(price * resolution + 1e-6).astype(np.int64)
            step = np.flatnonzero(np.diff(priced, prepend=0) > 0)
            step = step[np.diff(whole[step], append=2 * FULL) > 0]
            mine, prices = whole[step].tolist(), priced[step].tolist()
            if proves(self.layer, exact, mine, prices, self.ranges):
                return {"sizes": mine, "prices": prices}
        return None
