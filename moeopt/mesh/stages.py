"""Layers onto pipeline stages: the slowest stage as fast as can be, exactly, beside even counts and largest first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm

from moeopt.cost.checks import Number, is_number, whole
from moeopt.errors import InstanceError, Violations
from moeopt.mesh.holdings import even_stages, runs

Cut = tuple[int, int]
"""Stages done, and layers done: a point of the graph of cuts."""


@dataclass(frozen=True)
class Layers:
    """What each layer costs, and takes, on one GPU of its stage.

    Parameters
    ----------
    costs
        Seconds (or anything that adds up) of each layer.
    first, last
        What the embedding adds to the first stage, and the head to the last.
    sizes, first_size, last_size, room
        The same in bytes, and what a stage may hold; ``room`` ``None``: anything.

    Raises
    ------
    InstanceError
        No layers, figures that are negative or not finite, as many sizes as layers missing.
    """

    costs: tuple[Number, ...]
    first: Number = 0
    last: Number = 0
    sizes: tuple[Number, ...] = ()
    first_size: Number = 0
    last_size: Number = 0
    room: Number | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", tuple(self.costs))
        object.__setattr__(self, "sizes", tuple(self.sizes))
        check = Violations()
        if not self.costs:
            check.add("costs", "none", rule="there must be a layer", fix="Give one figure a layer")
        ends = {name: getattr(self, name) for name in ("first", "last", "first_size", "last_size")}
        if self.room is not None:
            ends["room"] = self.room
            if len(self.sizes) != len(self.costs):
                rule = f"must be as many as layers, {len(self.costs)}, where there is a room"
                check.add("sizes", len(self.sizes), rule=rule, fix="Give bytes of each layer")
        listed = [(f"costs[{place}]", value) for place, value in enumerate(self.costs)]
        listed += [(f"sizes[{place}]", value) for place, value in enumerate(self.sizes)]
        for name, value in [*listed, *ends.items()]:
            if not is_number(value) or value < 0:
                check.refuse(name, value, rule="must be a finite number >= 0", fix="Give 0 or more")
        check.raise_if_any()


@dataclass(frozen=True)
class Stages:
    """Stages, and what the slowest costs.

    Parameters
    ----------
    method
        ``exact``, ``even`` or ``lpt``.
    layers
        Ids of the layers of each stage.
    costs
        Of each stage.
    lower_bound
        No stages can be faster than this: the mean, or the largest layer with what its end adds.
    """

    method: str
    layers: tuple[tuple[int, ...], ...]
    costs: tuple[float, ...]
    lower_bound: float

    @property
    def slowest(self) -> float:
        """What the slowest stage costs."""
        return max(self.costs)

    @property
    def counts(self) -> tuple[int, ...]:
        """Layers of each stage."""
        return tuple(len(stage) for stage in self.layers)

    @property
    def contiguous(self) -> bool:
        """Whether every stage is a run of layers, which engines need."""
        return all(stage == tuple(range(stage[0], stage[-1] + 1)) for stage in self.layers if stage)


def best_stages(layers: Layers, pp: int) -> Stages:
    """Runs of layers whose slowest one is as fast as can be; among those, the most alike.

    Parameters
    ----------
    layers, pp
        What layers cost, and stages, at most as many as layers; each gets one at least.

    Raises
    ------
    InstanceError
        More stages than layers; no runs that fit the room, with the largest layer and the mean in words.

    Notes
    -----
    Strength: exact, in whole numbers. A path of ``pp`` edges through a graph whose points are ``(stages done, layers
    done)`` and whose edges are stages: the path whose largest edge is least, then the least sum of squares among
    paths that keep to it. Edges that even counts beat are left out.

    >>> best_stages(Layers((1,) * 61), 4).counts
    (16, 15, 15, 15)
    >>> best_stages(Layers((2, 2, 2, 5, 5, 5), last=4), 3).layers
    ((0, 1, 2), (3, 4), (5,))
    """
    _check(layers, pp)
    graph, end = _Scaled(layers).paths(pp), (pp, len(layers.costs))
    least = {end: 0}  # the largest edge of the best way from a point to the end
    for node in reversed(graph):
        ahead = [max(cost, least[after]) for after, cost in graph[node].items() if after in least]
        if ahead:
            least[node] = min(ahead)
    if (0, 0) not in least:
        raise InstanceError(_no_room(layers, pp).found)
    squares: dict[Cut, int] = {end: 0}
    onward: dict[Cut, Cut] = {}
    for node in reversed(graph):
        ways = [
            (cost**2 + squares[after], -after[1], after)  # of equals, longer stages first
            for after, cost in graph[node].items()
            if cost <= least[0, 0] and after in squares
        ]
        if ways:
            squares[node], _, onward[node] = min(ways)
    ends, node = [0], (0, 0)
    while node != end:
        node = onward[node]
        ends.append(node[1])
    return _stages("exact", layers, list(pairwise(ends)))


def even_counts(layers: Layers, pp: int) -> Stages:
    """As many layers on every stage, up to one: what engines do unless told.

    >>> even_counts(Layers((2, 2, 2, 5, 5, 5), last=4), 3).costs
    (4.0, 7.0, 14.0)
    """
    _check(layers, pp)
    return _stages("even", layers, runs(even_stages(len(layers.costs), pp)))


def largest_first(layers: Layers, pp: int) -> Stages:
    """Layers by falling cost, each onto the stage that has least: no runs, so no engine can launch it.

    Strength: within 4/3 - 1/(3 pp) of the best that ignores order, where no end adds anything (Graham 1969).

    >>> largest_first(Layers((2, 2, 2, 5, 5, 5), last=4), 3).costs
    (7.0, 9.0, 9.0)
    """
    _check(layers, pp)
    total = len(layers.costs)
    weight = [Fraction(cost) for cost in layers.costs]
    weight[0] += Fraction(layers.first)
    weight[-1] += Fraction(layers.last)
    heap = [(Fraction(0), stage) for stage in range(pp)]
    held: list[list[int]] = [[] for _ in range(pp)]
    for layer in sorted(range(total), key=lambda one: (-weight[one], one)):
        load, stage = heapq.heappop(heap)
        held[stage].append(layer)
        heapq.heappush(heap, (load + weight[layer], stage))
    order = sorted((tuple(sorted(stage)) for stage in held), key=lambda stage: float(sum(weight[i] for i in stage)))
    costs = tuple(float(sum(weight[layer] for layer in stage)) for stage in order)
    return Stages("lpt", tuple(order), costs, _bound(layers, pp))


METHODS = {"exact": best_stages, "even": even_counts, "lpt": largest_first}


class _Scaled:
    """Costs and sizes as whole numbers of one unit each, summed up to every layer."""

    def __init__(self, layers: Layers) -> None:
        costs = [Fraction(value) for value in (*layers.costs, layers.first, layers.last)]
        unit = lcm(*(value.denominator for value in costs))
        *inner, self.first, self.last = (int(value * unit) for value in costs)
        self.sums = list(accumulate(inner, initial=0))
        self.size_sums = list(accumulate((Fraction(size) for size in layers.sizes), initial=Fraction(0)))
        self.first_size, self.last_size = Fraction(layers.first_size), Fraction(layers.last_size)
        self.room = None if layers.room is None else Fraction(layers.room)
        self.count = len(layers.costs)

    def cost(self, start: int, end: int) -> int:
        """Of a stage with these layers, its ends included."""
        ends = (self.first if start == 0 else 0) + (self.last if end == self.count else 0)
        return self.sums[end] - self.sums[start] + ends

    def fits(self, start: int, end: int) -> bool:
        """Whether a stage has room for them."""
        if self.room is None:
            return True
        ends = (self.first_size if start == 0 else 0) + (self.last_size if end == self.count else 0)
        return self.size_sums[end] - self.size_sums[start] + ends <= self.room

    def paths(self, pp: int) -> dict[Cut, dict[Cut, int]]:
        """Of each point of the ways to cut into `pp` runs, stage by stage, what the next may be and what that costs.

        Stages that cost more than the slowest of even counts, or have no room, are left out.
        """
        even = runs(even_stages(self.count, pp))
        roomy = all(self.fits(*run) for run in even)
        most = max(self.cost(*run) for run in even) if roomy else self.cost(0, self.count)
        graph: dict[Cut, dict[Cut, int]] = {}
        here = [0]
        for stage in range(pp):
            left, after = pp - stage - 1, set()
            for start in here:
                onward = graph[stage, start] = {}
                for end in range(start + 1, self.count - left + 1):
                    cost = self.cost(start, end)
                    if cost > most or not self.fits(start, end):
                        if end < self.count:
                            break  # a longer run costs and takes no less
                        continue
                    if left == 0 and end < self.count:
                        continue
                    if self.sums[-1] - self.sums[end] + (self.last if left else 0) > left * most:
                        continue
                    onward[stage + 1, end] = cost
                    after.add(end)
            here = sorted(after)
        return graph


def _check(layers: Layers, pp: int) -> None:
    check = Violations()
    whole(check, pp=pp)
    if not check.found and pp > len(layers.costs):
        rule = f"each stage needs a layer, and there are {len(layers.costs)}"
        check.add("pp", pp, rule=rule, fix=f"Use at most {len(layers.costs)}")
    check.raise_if_any()


def _stages(method: str, layers: Layers, cut: list[tuple[int, int]]) -> Stages:
    costs, total = [Fraction(cost) for cost in layers.costs], len(layers.costs)
    found = []
    for start, end in cut:
        ends = (Fraction(layers.first) if start == 0 else 0) + (Fraction(layers.last) if end == total else 0)
        found.append(float(sum(costs[start:end]) + ends))
    return Stages(method, tuple(tuple(range(*run)) for run in cut), tuple(found), _bound(layers, len(cut)))


def _bound(layers: Layers, pp: int) -> float:
    costs = [Fraction(cost) for cost in layers.costs]
    mean = (sum(costs) + Fraction(layers.first) + Fraction(layers.last)) / pp
    costs[0] += Fraction(layers.first)
    costs[-1] += Fraction(layers.last)
    return float(max(mean, *costs))


def _no_room(layers: Layers, pp: int) -> Violations:
    check = Violations()
    sizes = [float(size) for size in layers.sizes]
    total, largest = sum(sizes) + float(layers.first_size) + float(layers.last_size), max(sizes)
    rule = f"no {pp} runs of layers fit: together they take {total:,.0f}, the largest layer {largest:,.0f}"
    check.add("room", layers.room, rule=rule, fix="Use more stages, or split layers over more GPUs")
    return check
