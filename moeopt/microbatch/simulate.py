"""The event simulator: resources serve what has come first; every start and end is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Literal

from moeopt.errors import PlanError
from moeopt.limits import Deadline
from moeopt.microbatch.graph import Number, StageGraph

Rule = Literal["fcfs", "lpt", "spt"]
"""First come, first served; or of all that waits the longest, or the shortest, item first."""
Sequences = Sequence[Sequence[int]]
"""Items of each resource, in the order they are served."""
LOOK = 1024
"""Ends of items between two looks at the time."""
Shown = tuple[int, int, int, Number, Number]
"""(layer, stage, micro-batch, start, end)."""


class OutOfTime(Exception):
    """A schedule that was given up because its deadline passed."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """When every item starts and ends, and the items of each resource in the order they were served."""

    graph: StageGraph
    start: tuple[Number, ...]
    end: tuple[Number, ...]
    sequences: tuple[tuple[int, ...], ...]
    layers: None = None

    def shown(self) -> list[Shown]:
        """Every item."""
        numbered = range(self.graph.num_items)
        return [(*self.graph.place(item), self.start[item], self.end[item]) for item in numbered]

    @cached_property
    def makespan(self) -> Number:
        """When the last item ends."""
        return max(self.end)

    def busy(self) -> tuple[Number, ...]:
        """Time each resource is in use."""
        return self.graph.busy()


def simulate(
    graph: StageGraph, *, rule: Rule = "fcfs", sequences: Sequences | None = None, deadline: Deadline | None = None
) -> Schedule:
    """Let time pass from one end of an item to the next.

    A free resource takes, of the items whose turn has come, the one that came first; of those that came at once the
    one of the lower layer, then of the earlier stage, then of the lower micro-batch. It is not interrupted.

    Parameters
    ----------
    rule
        ``fcfs``; ``lpt`` or ``spt``: the longest or shortest item of those that wait, first come first served among
        equals.
    sequences
        A fixed order on each resource instead: it waits for the next item of its sequence, whatever else has come.

    Raises
    ------
    PlanError
        The sequences do not hold each item once on its own resource, or wait for one another for ever.
    OutOfTime
        The deadline passed.

    >>> from moeopt.microbatch.builders import ping_pong
    >>> float(simulate(StageGraph(ping_pong.lap([1] * 4, [0.5] * 4, [1] * 4, [0.5] * 4), 2)).makespan)
    10.0
    """
    if sequences is not None:
        _check(graph, sequences)
        ranks = _ranks(graph, sequences)
    durations, after, waits = graph.durations, graph.after, list(graph.num_before)
    resource_of, size = graph.lap.resource_of, len(graph.lap.items)
    num = len(graph.lap.resources)
    queues: list[list[tuple[Number, Number, int]]] = [[] for _ in range(num)]
    free, turn = [True] * num, [0] * num
    start: list[Number] = [0] * graph.num_items
    end: list[Number] = [-1] * graph.num_items
    events: list[tuple[Number, int]] = []
    now: Number = 0

    def arrive(item: int) -> None:
        if sequences is not None:
            key: tuple[Number, Number, int] = (ranks[item], 0, item)
        elif rule == "lpt":
            key = (-durations[item], now, item)
        elif rule == "spt":
            key = (durations[item], now, item)
        else:
            key = (now, 0, item)
        heappush(queues[resource_of[item % size]], key)

    for item, count in enumerate(waits):
        if count == 0:
            arrive(item)
    served: list[list[int]] = [[] for _ in range(num)]
    done, looked = 0, 0
    while True:
        if deadline is not None and done >= looked + LOOK:
            looked = done
            if deadline.passed():
                raise OutOfTime
        for resource, queue in enumerate(queues):
            if free[resource] and queue and (sequences is None or queue[0][0] == turn[resource]):
                item = heappop(queue)[2]
                free[resource] = False
                turn[resource] += 1
                start[item] = now
                served[resource].append(item)
                heappush(events, (now + durations[item], item))
        if not events:
            break
        now = events[0][0]
        while events and events[0][0] == now:
            item = heappop(events)[1]
            end[item] = now
            done += 1
            free[resource_of[item % size]] = True
            for other in after[item]:
                waits[other] -= 1
                if waits[other] == 0:
                    arrive(other)
    if done < graph.num_items:
        raise PlanError([f"the sequences wait for one another: {graph.num_items - done:,} items never start"])
    return Schedule(graph, tuple(start), tuple(end), tuple(map(tuple, served)))


def _ranks(graph: StageGraph, sequences: Sequences) -> list[int]:
    ranks = [0] * graph.num_items
    for row in sequences:
        for rank, item in enumerate(row):
            ranks[item] = rank
    return ranks


def _check(graph: StageGraph, sequences: Sequences) -> None:
    """Every item once, on its own resource."""
    found = []
    if len(sequences) != len(graph.lap.resources):
        raise PlanError([f"{len(sequences)} sequences for {len(graph.lap.resources)} resources"])
    for name, wanted, given in zip(graph.lap.resources, graph.turns, sequences, strict=True):
        if sorted(given) != sorted(wanted):
            found.append(f"the sequence of {name} does not hold each of its {len(wanted):,} items once")
    if found:
        raise PlanError(found)
