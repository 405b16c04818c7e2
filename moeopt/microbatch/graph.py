"""The stage graph: items on resources, what has to come before what, and how a layer follows on the one before.

A builder writes one `Lap`, the items of one layer with their edges; an edge with a token leads into the next layer.
`StageGraph` unrolls it over the layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

Number: TypeAlias = int | float | Fraction
"""Durations are of any one kind; nothing here rounds, so that whole numbers and fractions stay exact."""

SYNC = "rest"
"""Stage and resource of the part of a layer that is not split; every micro-batch waits for it."""


@dataclass(frozen=True)
class Stage:
    """A step that every micro-batch makes in every layer, and the resource that makes it."""

    name: str
    resource: str


@dataclass(frozen=True)
class Lap:
    """One layer of the work.

    Parameters
    ----------
    stages
        In the order a micro-batch goes through them.
    items
        (stage, micro-batch) of each item. Their order is the order of service: of items of a lap that are on one
        resource the first is served first, and of items that come to a resource at once the first of the lower layer.
    durations
        Of each item.
    edges
        (item, later item, tokens): the later one starts when the first has ended, 0 in the same lap, 1 in the next.
    in_turn
        Whether first come, first served keeps that order on every resource; the order is then known beforehand.
    """

    stages: tuple[Stage, ...]
    items: tuple[tuple[int, int], ...]
    durations: tuple[Number, ...]
    edges: tuple[tuple[int, int, int], ...]
    in_turn: bool = True

    @property
    def num_micro_batches(self) -> int:
        """m."""
        return 1 + max(micro_batch for _, micro_batch in self.items)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names, in the order of the stages that use them."""
        return tuple(dict.fromkeys(stage.resource for stage in self.stages))

    @cached_property
    def resource_of(self) -> tuple[int, ...]:
        """Index of the resource of each item."""
        index = {name: place for place, name in enumerate(self.resources)}
        return tuple(index[self.stages[stage].resource] for stage, _ in self.items)

    @cached_property
    def turns(self) -> tuple[tuple[int, ...], ...]:
        """Items of each resource, in order."""
        rows: list[list[int]] = [[] for _ in self.resources]
        for item, resource in enumerate(self.resource_of):
            rows[resource].append(item)
        return tuple(tuple(row) for row in rows)


def flow(
    stages: Sequence[Stage], durations: Sequence[Sequence[Number]], *, rest: Number | None = None, in_turn: bool = True
) -> Lap:
    """The lap of m micro-batches that each go through all stages.

    Parameters
    ----------
    durations
        Of each stage, one per micro-batch.
    rest
        ``None``: a micro-batch enters the next layer when it has left this one. A number: between two layers all of
        them wait for one another, and then for a part of the layer that takes so long and is not split.
    """
    m = len(durations[0])
    shift = 0 if rest is None else 1
    items = [(stage + shift, j) for stage in range(len(stages)) for j in range(m)]
    place = {item: index + shift for index, item in enumerate(items)}
    last = len(stages) - 1 + shift
    edges = [(place[stage, j], place[stage + 1, j], 0) for stage in range(shift, last) for j in range(m)]
    times = [time for row in durations for time in row]
    if rest is None:
        edges += [(place[last, j], place[0, j], 1) for j in range(m)]
        return Lap(tuple(stages), tuple(items), tuple(times), tuple(edges), in_turn)
    edges += [(0, place[1, j], 0) for j in range(m)]
    edges += [(place[last, j], 0, 1) for j in range(m)]
    return Lap((Stage(SYNC, SYNC), *stages), ((0, 0), *items), (rest, *times), tuple(edges), in_turn)


@dataclass(frozen=True)
class StageGraph:
    """A lap unrolled over the layers.

    Parameters
    ----------
    lap, layers
        What a layer is, and how many follow one another.
    scale
        Per layer and stage a factor on the duration; ``None``: all layers are alike.
    """

    lap: Lap
    layers: int
    scale: tuple[tuple[Number, ...], ...] | None = None

    @property
    def num_items(self) -> int:
        """Items of all layers; item i of layer l has the number ``l * len(lap.items) + i``."""
        return self.layers * len(self.lap.items)

    @cached_property
    def durations(self) -> tuple[Number, ...]:
        """Of every item of every layer."""
        if self.scale is None:
            return self.lap.durations * self.layers
        timed = list(zip(self.lap.items, self.lap.durations, strict=True))
        return tuple(time * row[stage] for row in self.scale for (stage, _), time in timed)

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Items that wait for each item."""
        size, total = len(self.lap.items), self.num_items
        following: list[list[int]] = [[] for _ in range(total)]
        for start in range(0, total, size):
            for one, other, tokens in self.lap.edges:
                later = start + tokens * size + other
                if later < total:
                    following[start + one].append(later)
        return tuple(tuple(row) for row in following)

    @cached_property
    def num_before(self) -> tuple[int, ...]:
        """How many items each item waits for."""
        counts = [0] * self.num_items
        for row in self.after:
            for item in row:
                counts[item] += 1
        return tuple(counts)

    @cached_property
    def turns(self) -> tuple[tuple[int, ...], ...]:
        """Items of each resource layer by layer, in the order of the lap."""
        size = len(self.lap.items)
        return tuple(
            tuple(start + item for start in range(0, self.num_items, size) for item in row) for row in self.lap.turns
        )

    def busy(self) -> tuple[Number, ...]:
        """Time that the items of each resource take together."""
        factors: list[Number] = [self.layers] * len(self.lap.stages)
        if self.scale is not None:
            factors = list(map(sum, zip(*self.scale, strict=True)))
        totals: list[Number] = [0 for _ in self.lap.resources]
        for (stage, _), time, resource in zip(self.lap.items, self.lap.durations, self.lap.resource_of, strict=True):
            totals[resource] += time * factors[stage]
        return tuple(totals)

    def place(self, item: int) -> tuple[int, int, int]:
        """(layer, stage, micro-batch) of an item."""
        layer, inner = divmod(item, len(self.lap.items))
        return layer, *self.lap.items[inner]

    def resource(self, item: int) -> int:
        """Index of the item's resource."""
        return self.lap.resource_of[item % len(self.lap.items)]
