"""Which threshold to refute next, and in which cases: the search around the programme of `columns`.

Where one set of prices does not refute a threshold, the number of replicas of an expert is split into few and many,
and each case gets prices of its own (branch and bound on the counts; the packing stays relaxed).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from moeopt.limits import Deadline
from moeopt.placement.columns import FEW_CELLS, Columns
from moeopt.placement.fillings import Layer, Ranges

PRECISION = 3e-4
"""The search for the largest refuted threshold ends at this part of the objective."""
MOST_CASES = 16
"""Times that cases are split for one threshold."""
LATER = 2
"""Thresholds that are tried with cases, each nearer to what is known."""

Tree = dict[str, Any]
"""A certificate without its threshold; see `fillings.proves_tree`."""


def search(layer: Layer, lower: float, objective: float, gap: float, deadline: Deadline) -> tuple[float, Tree] | None:
    """Largest threshold between a known bound and the objective that is refuted, with its certificate.

    First the one that closes the gap to `gap`, then by halving, to `PRECISION`, then with cases; what is proved by
    the time that is up is kept.
    """
    run = _Run(layer, lower, objective, gap, deadline)
    run.halve()
    run.by_cases()
    return run.best


class _Run:
    """One search; `low` is the bound so far, `high` the least threshold that one set of prices does not refute."""

    def __init__(self, layer: Layer, lower: float, objective: float, gap: float, deadline: Deadline) -> None:
        self.layer, self.objective, self.deadline = layer, objective, deadline
        self.goal = objective * (1 - max(gap, 1e-9) * (1 - 1e-6))
        self.low, self.high = lower, objective
        self.best: tuple[float, Tree] | None = None
        self.columns = Columns(layer, objective, deadline)

    def halve(self) -> None:
        """Raise `low` and lower `high` until they meet, or the goal is reached."""
        threshold = self.goal
        while self.low < threshold < self.high and not self.deadline.passed():
            if not self._try(threshold, self._prices):
                self.high = threshold
            if self.high - self.low <= PRECISION * self.objective:
                break
            threshold = min((self.low + self.high) / 2, self.goal)

    def by_cases(self) -> None:
        """Try thresholds beyond by splitting counts into cases: the goal, then nearer ones."""
        threshold = self.goal
        for _ in range(LATER):
            if self.low >= threshold or self.deadline.passed():
                return
            if self._try(threshold, self._cases):
                return
            threshold = (self.low + threshold) / 2

    def _try(self, threshold: float, tool: Callable[[float], Tree | None]) -> bool:
        found = tool(threshold)
        if found is not None:
            self.low, self.best = threshold, (threshold, found)
        return found is not None

    def _prices(self, threshold: float, ranges: Ranges | None = None) -> Tree | None:
        found = self.columns.refute(threshold, ranges)
        if found is None and self.columns.crowded and self.columns.cells > FEW_CELLS:
            self.columns = Columns(self.layer, self.objective, self.deadline, FEW_CELLS)
            found = self.columns.refute(threshold, ranges)
        return None if found is None else dict(found)

    def _cases(self, threshold: float) -> Tree | None:
        self.splits_left = MOST_CASES
        return self._split(threshold, {})

    def _split(self, threshold: float, ranges: Ranges) -> Tree | None:
        found = self._prices(threshold, ranges)
        cut = None if found is not None else self._cut()
        if cut is None or self.splits_left <= 0 or self.deadline.passed():
            return found
        self.splits_left -= 1
        expert, count, mostly_few = cut
        low, high = ranges.get(expert, (1, self.layer.most))
        few = {**ranges, expert: (low, min(high, count))}
        many = {**ranges, expert: (max(low, count + 1), high)}
        tree: Tree = {"expert": expert, "count": count}
        for name in ("few", "many") if mostly_few else ("many", "few"):  # first the case that is likelier to fail
            found = self._split(threshold, few if name == "few" else many)
            if found is None:
                return None
            tree[name] = found
        return tree

    def _cut(self) -> tuple[int, int, bool] | None:
        """Expert and count that split the fractional plan best, and whether more of it is in the case of few."""
        at: dict[int, dict[int, float]] = defaultdict(dict)
        for (expert, count), share in self.columns.shares.items():
            at[expert][count] = share
        best, cut = 1e-3, None
        for expert, counts in sorted(at.items()):
            average = sum(count * share for count, share in counts.items()) / sum(counts.values())
            few = sum(share for count, share in counts.items() if count <= average)
            many = sum(counts.values()) - few
            weight = min(few, many) * self.columns.loads[expert] / average
            if weight > best * self.columns.cell * self.columns.cells:
                best, cut = weight / (self.columns.cell * self.columns.cells), (expert, int(average), few >= many)
        return cut
