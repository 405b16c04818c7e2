"""Lower bounds on the time of a candidate that hold for every order of service, exact; why: ``models/microbatch.md``.

``load``: a resource has to do all its items, after the shortest way to it and before the shortest way from it.
``chain``: a micro-batch goes through all layers. ``first-visits``: one micro-batch is the last to make its first visit
to a stage, and still has the rest of its way before it. ``layers``: where layers wait for one another, the sum over
layers of the largest load or chain in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import SYNC, Number, StageGraph
from moeopt.microbatch.instance import MicrobatchInstance

Rows = Sequence[Sequence[Number]]
"""Durations by stage and micro-batch."""


@dataclass(frozen=True)
class Argument:
    """Why no order can be faster than `seconds`: the kind of argument, and the resource or stage it is about."""

    kind: str
    where: str
    seconds: Fraction


def bound(instance: MicrobatchInstance, candidate: Candidate) -> Argument:
    """The strongest argument for a candidate; the first of equals."""
    if instance.layer_scale is None and candidate.sizes[0] == candidate.sizes[-1]:
        times = {stage: row[0] for stage, row in instance.durations(candidate).items()}
        return max(_alike(instance, candidate.m, times), key=lambda one: one.seconds)
    return max(arguments(instance.graph(candidate)), key=lambda one: one.seconds)


def _alike(instance: MicrobatchInstance, m: int, times: dict[str, Fraction]) -> list[Argument]:
    """All arguments where micro-batches and layers are alike: the general ones, summed up in a line each."""
    layers = instance.layers
    rest = times.get(SYNC, Fraction(0))
    stages = [(name, time) for name, time in times.items() if name != SYNC]
    trip = sum((time for _, time in stages), Fraction(0))
    name, top = max(stages, key=lambda one: one[1])
    if SYNC in instance.kind.symbols:
        return [Argument("layers", name, layers * (rest + trip + (m - 1) * top))]
    found = [
        Argument("chain", "", layers * trip),
        Argument("first-visits", name, layers * trip + (m - 1) * top),
    ]
    before = Fraction(0)
    heads: dict[str, Fraction] = {}
    loads: dict[str, Fraction] = {}
    ends: dict[str, Fraction] = {}
    for stage, (_, time) in zip(instance.kind.build_stages, stages, strict=True):
        heads.setdefault(stage.resource, before)
        before += time
        loads[stage.resource] = loads.get(stage.resource, Fraction(0)) + time
        ends[stage.resource] = before
    for resource, load in loads.items():
        seconds = heads[resource] + layers * m * load + trip - ends[resource]
        found.append(Argument("load", resource, seconds))
    return found


def arguments(graph: StageGraph) -> list[Argument]:
    """All arguments for any stage graph, from its durations alone."""
    lap = graph.lap
    m, num_stages = lap.num_micro_batches, len(lap.stages)
    table: list[list[list[Number]]] = []
    for start in range(0, graph.num_items, len(lap.items)):
        rows: list[list[Number]] = [[0] * m for _ in range(num_stages)]
        for (stage, j), time in zip(lap.items, graph.durations[start:], strict=False):
            rows[stage][j] = time
        table.append(rows)
    if lap.stages[0].name == SYNC:
        total = Fraction(0)
        for rows in table:
            inner = rows[1:]
            tops = [_load(graph, [inner], resource, 1) for resource in lap.resources if resource != SYNC]
            total += Fraction(rows[0][0]) + max(*tops, _chain([inner]))
        return [Argument("layers", "", total)]
    found = [Argument("chain", "", _chain(table))]
    found += [Argument("load", name, _load(graph, table, name, 0)) for name in lap.resources]
    found += [
        Argument("first-visits", stage.name, _first_visits(table, place)) for place, stage in enumerate(lap.stages)
    ]
    return found


def _chain(table: Sequence[Rows]) -> Fraction:
    num = len(table[0][0])
    return max(Fraction(sum(row[j] for rows in table for row in rows)) for j in range(num))


def _load(graph: StageGraph, table: Sequence[Rows], resource: str, shift: int) -> Fraction:
    """Shortest way to it in the first layer, all its items, shortest way from it in the last one."""
    mine = [place - shift for place, stage in enumerate(graph.lap.stages) if stage.resource == resource]
    columns = range(len(table[0][0]))
    head = min(sum(row[j] for row in table[0][: mine[0]]) for j in columns)
    tail = min(sum(row[j] for row in table[-1][mine[-1] + 1 :]) for j in columns)
    return Fraction(head + sum(time for rows in table for place in mine for time in rows[place]) + tail)


def _first_visits(table: Sequence[Rows], place: int) -> Fraction:
    """The best case over the micro-batch that is last to make its first visit to the stage."""
    m = len(table[0][0])
    heads = [sum(row[j] for row in table[0][:place]) for j in range(m)]
    ways = [sum(row[j] for rows in table for row in rows) - heads[j] for j in range(m)]
    visits = table[0][place]
    total = sum(visits)
    found = []
    for last in range(m):
        others = [heads[j] for j in range(m) if j != last]
        begins = max(heads[last], min(others) + total - visits[last]) if others else heads[last]
        found.append(Fraction(begins + ways[last]))
    return min(found)
