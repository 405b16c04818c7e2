"""The purchase by dynamic programming over budgets: what they serve, and the cheapest one that is enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np

from moeopt.mesh.market import Market, Offer
from moeopt.mesh.tables import Added, Cell, Ints, Least, Node, Option, Replicas

MOST_BUDGETS = 8192
"""Cells up to which tables are made."""
BITS = 60
"""Sums of shares stay below 2**60, so that none leaves 64 bits."""
Counts = dict[int, int]
"""Replicas by place in the list of configurations."""


@dataclass(frozen=True, eq=False)
class Covering:
    """What budgets serve, as parts of what is wanted.

    Parameters
    ----------
    node
        The table; its values are whole multiples of ``1 / unit``, rounded up.
    steps
        GPUs of one step, by type.
    """

    market: Market
    node: Node
    steps: tuple[int, ...]
    unit: int

    @property
    def full(self) -> Cell:
        """The largest budget."""
        return tuple(size - 1 for size in self.node.values.shape)

    def theta(self, cell: Cell) -> Fraction:
        """No less than what any plan within this budget serves, as a part of what is wanted."""
        return Fraction(int(self.node.values[cell]), self.unit)

    def counts(self, cell: Cell) -> Counts:
        """Replicas that serve it."""
        return dict(sorted(self.node.counts(cell).items()))

    def gpus(self, cell: Cell) -> tuple[int, ...]:
        """GPUs of a budget, by type."""
        return tuple(count * step for count, step in zip(cell, self.steps, strict=True))

    def cheapest(self, least: int) -> Cell | None:
        """The cheapest budget that serves at least so many units; of equals fewest GPUs, then the most served."""
        cells = np.argwhere(self.node.values >= least)
        if not len(cells):
            return None
        listed = [tuple(int(step) for step in cell) for cell in self._front(cells)]
        return min(listed, key=lambda cell: (self.market.cost_of(self.gpus(cell)), sum(self.gpus(cell)), cell))

    def _front(self, cells: Ints) -> Ints:
        """Cells of no more than the least float cost, with room for rounding, so that few are priced exactly."""
        costs = [float(cost) * step for cost, step in zip(self.market.unit_costs, self.steps, strict=True)]
        totals = cells @ np.array(costs)
        near: Ints = cells[totals <= totals.min() * (1 + 1e-9)]
        return near


def covering(market: Market, limits: Sequence[int], *, down: bool = False) -> Covering | None:
    """The table of all budgets up to `limits` GPUs by type; ``None`` where there are more than `MOST_BUDGETS`.

    `down` rounds shares down: what such a table says is served for certain.
    """
    steps = steps_of(market.offers, limits)
    shape = tuple(most // step + 1 for most, step in zip(limits, steps, strict=True))
    if math.prod(shape) > MOST_BUDGETS:
        return None
    unit = 2 ** unit_bits(market, limits)
    parts = [_of_demand(market, demand, shape, steps, unit, down) for demand in range(len(market.wanted))]
    return Covering(market, reduce(Least, parts), steps, unit)


def rows(market: Market, limits: Sequence[int]) -> int:
    """Budgets of a table up to these limits."""
    steps = steps_of(market.offers, limits)
    return math.prod(most // step + 1 for most, step in zip(limits, steps, strict=True))


def fits(market: Market, limits: Sequence[int]) -> bool:
    """Whether there is a table up to these limits."""
    return rows(market, limits) <= MOST_BUDGETS


def steps_of(offers: Sequence[Offer], limits: Sequence[int]) -> tuple[int, ...]:
    """The greatest common divisor of GPUs of a replica, by type; the whole limit where none has any."""
    return tuple(
        math.gcd(*(offer.gpus[kind] for offer in offers)) or most + 1 for kind, most in enumerate(limits)
    )  # fmt: skip


def unit_bits(market: Market, limits: Sequence[int]) -> int:
    """Bits of the unit: as many as keep sums below ``2 ** BITS``."""
    best = max((max(offer.shares) / offer.total_gpus for offer in market.offers), default=Fraction(0))
    most = best * (sum(limits) + 1)
    return BITS - max(math.ceil(most), 1).bit_length()


def _of_demand(market: Market, demand: int, shape: Cell, steps: tuple[int, ...], unit: int, down: bool) -> Node:
    alone: dict[int, list[Option]] = {phase: [] for phase in market.phases}
    both: list[Option] = []
    for offer in market.offers:
        if offer.demand != demand:
            continue
        serves = [_whole(offer.shares[phase] * unit, down) for phase in market.phases]
        cell = tuple(need // step for need, step in zip(offer.gpus, steps, strict=True))
        if len(market.phases) > 1 and all(serves):
            both.append((cell, min(serves), offer.place))
        else:
            for phase, value in zip(market.phases, serves, strict=True):
                if value:
                    alone[phase].append((cell, value, offer.place))
    sides: list[Node] = [Replicas(shape, options) for options in alone.values()]
    pools = reduce(Least, sides)
    if not both:
        return pools
    whole = Replicas(shape, both)
    return Added(whole, pools) if all(alone.values()) else whole


def _whole(value: Fraction, down: bool) -> int:
    return math.floor(value) if down else math.ceil(value)


def most(market: Market) -> tuple[Covering, Cell] | None:
    """The table up to the stock, and the smallest budget that serves as much as all of it."""
    limits = [size for size in market.stock if size is not None]
    if len(limits) < len(market.stock):
        return None
    if "most" not in market.memo:
        market.memo["most"] = covering(market, limits)
    made: Covering | None = market.memo["most"]
    if made is None:
        return None
    cell = made.cheapest(int(made.node.values[made.full]))
    assert cell is not None
    return made, cell


def limits_below(market: Market, cost: Fraction) -> list[int] | None:
    """GPUs by type of any plan that costs at most so much; ``None`` where there is no limit."""
    found = []
    for most_, one in zip(market.stock, market.unit_costs, strict=True):
        affordable = math.floor(cost / one) if one else None
        known = [limit for limit in (most_, affordable) if limit is not None]
        if not known:
            return None
        found.append(min(known))
    return found


def name_counts(counts: Counter[int]) -> Counts:
    """As a plain mapping in order."""
    return dict(sorted(counts.items()))
