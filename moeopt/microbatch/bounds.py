"""Lower bounds on the time of a candidate that hold for every order of service, exact; why: ``models/microbatch.md``.

``load``: a resource has to do all its items, after the shortest way to it and before the shortest way from it.
``chain``: a micro-batch goes through all layers. ``first-visits``: one micro-batch is the last to make its first visit
to a stage, and still has the rest of its way before it. ``layers``: where layers wait for one another, the sum over
layers of the largest load or chain in each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import SYNC, StageGraph
from moeopt.microbatch.instance import MicrobatchInstance

Rows = Sequence[Sequence[int]]
"""Durations by stage and micro-batch, in ticks."""


@dataclass(frozen=True)
class Argument:
    """Why no order can be faster than `seconds`: the kind of argument, and the resource or stage it is about."""

    kind: str
    where: str
    seconds: Fraction


def bound(instance: MicrobatchInstance, candidate: Candidate) -> Argument:
    """The strongest argument for a candidate; the first of equals. Computed once for an instance."""
    known: Argument | None = instance.memo.get(candidate)
    if known is None:
        if instance.layer_scale is None and candidate.alike:
            known = _alike(instance, candidate.m, *instance.in_ticks(candidate))
        else:
            known = max(arguments(instance.graph(candidate)), key=lambda one: one.seconds)
        instance.memo[candidate] = known
    return known


def _alike(instance: MicrobatchInstance, m: int, fine: int, times: dict[str, int]) -> Argument:
    """The strongest argument where micro-batches and layers are alike: the general ones, summed up in a line each."""
    layers = instance.layers
    rest = times.get(SYNC, 0)
    stages = [(name, time) for name, time in times.items() if name != SYNC]
    trip = sum(time for _, time in stages)
    name, top = max(stages, key=lambda one: one[1])
    if SYNC in instance.kind.symbols:
        return Argument("layers", name, Fraction(layers * (rest + trip + (m - 1) * top), fine))
    found = [("chain", "", layers * trip), ("first-visits", name, layers * trip + (m - 1) * top)]
    before = 0
    heads: dict[str, int] = {}
    loads: dict[str, int] = {}
    ends: dict[str, int] = {}
    for stage, (_, time) in zip(instance.kind.build_stages, stages, strict=True):
        heads.setdefault(stage.resource, before)
        before += time
        loads[stage.resource] = loads.get(stage.resource, 0) + time
        ends[stage.resource] = before
    for resource, load in loads.items():
        found.append(("load", resource, heads[resource] + layers * m * load + trip - ends[resource]))
    kind, where, ticks = max(found, key=lambda one: one[2])
    return Argument(kind, where, Fraction(ticks, fine))


def arguments(graph: StageGraph) -> list[Argument]:
    """All arguments for any stage graph, from the times of a lap and the factors of its layers, in whole numbers."""
    lap = graph.lap
    m = lap.num_micro_batches
    fine = math.lcm(*(Fraction(time).denominator for time in lap.durations))
    scales = [[Fraction(factor) for factor in row] for row in graph.scale or ()]
    finer = math.lcm(*(factor.denominator for row in scales for factor in row))
    rows: list[list[int]] = [[0] * m for _ in lap.stages]
    for (place, j), time in zip(lap.items, lap.durations, strict=True):
        rows[place][j] = int(time * fine)
    if graph.scale is None:
        factors = [[1] * len(rows)]
        totals = [graph.layers] * len(rows)
    else:
        factors = [[int(factor * finer) for factor in row] for row in scales]
        totals = [sum(column) for column in zip(*factors, strict=True)]
    first, last, whole = (_times(by, rows) for by in (factors[0], factors[-1], totals))
    ticks = fine * finer
    if lap.stages[0].name == SYNC:
        total = 0
        for by in factors:
            layer = _times(by, rows)
            inner = layer[1:]
            tops = [_load(graph, inner, inner, inner, name, 1) for name in lap.resources if name != SYNC]
            total += layer[0][0] + max(*tops, _chain(inner))
        return [Argument("layers", "", Fraction(total * (graph.layers if graph.scale is None else 1), ticks))]
    found = [Argument("chain", "", Fraction(_chain(whole), ticks))]
    for name in lap.resources:
        found.append(Argument("load", name, Fraction(_load(graph, first, whole, last, name, 0), ticks)))
    for place, stage in enumerate(lap.stages):
        found.append(Argument("first-visits", stage.name, Fraction(_first_visits(first, whole, place), ticks)))
    return found


def _times(factors: Sequence[int], rows: Rows) -> list[list[int]]:
    return [[factor * time for time in row] for factor, row in zip(factors, rows, strict=True)]


def _chain(whole: Rows) -> int:
    return max(map(sum, zip(*whole, strict=True)))


def _load(graph: StageGraph, first: Rows, whole: Rows, last: Rows, resource: str, shift: int) -> int:
    """Shortest way to it in the first layer, all its items, shortest way from it in the last one."""
    mine = [place - shift for place, stage in enumerate(graph.lap.stages) if stage.resource == resource]
    head = min(map(sum, zip(*first[: mine[0]], strict=True)), default=0)
    tail = min(map(sum, zip(*last[mine[-1] + 1 :], strict=True)), default=0)
    return head + sum(sum(whole[place]) for place in mine) + tail


def _first_visits(first: Rows, whole: Rows, place: int) -> int:
    """The best case over the micro-batch that is last to make its first visit to the stage."""
    m = len(first[0])
    heads = [sum(row[j] for row in first[:place]) for j in range(m)]
    ways = list(map(sum, zip(*whole, strict=True)))
    visits = first[place]
    total = sum(visits)
    least = sorted(range(m), key=heads.__getitem__)[:2]
    found = []
    for last in range(m):
        begins = heads[last]
        if m > 1:
            other = least[1] if least[0] == last else least[0]
            begins = max(begins, heads[other] + total - visits[last])
        found.append(begins + ways[last] - heads[last])
    return min(found)
