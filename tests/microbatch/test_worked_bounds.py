"""Arguments of the bounds and the cycle time by their definitions: formulas of the page, sums by hand, brute force."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moeopt.microbatch import PATTERNS, MicrobatchInstance, bounds
from moeopt.microbatch.cycle_ratio import CycleRatio, _closed, cycle_ratio, largest_ratio, time_by_cycle
from moeopt.microbatch.graph import Stage, StageGraph, flow

TIMES = st.one_of(st.integers(0, 9), st.sampled_from([Fraction(1, 3), Fraction(5, 7), Fraction(1, 2), 0.25]))
FACTORS = st.sampled_from([0, 1, 2, Fraction(1, 2), Fraction(3, 5)])


@st.composite
def graphs(draw: st.DrawFn) -> StageGraph:
    """Up to four stages on up to three resources, unequal micro-batches, factors a layer, with or without a rest."""
    resources = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
    stages = [Stage(f"s{place}", name) for place, name in enumerate(resources)]
    m = draw(st.integers(1, 4))
    rows = [draw(st.lists(TIMES, min_size=m, max_size=m)) for _ in stages]
    rest = draw(st.one_of(st.none(), TIMES))
    layers = draw(st.integers(1, 4))
    width = len(stages) + (rest is not None)
    each = st.lists(FACTORS, min_size=width, max_size=width).map(tuple)
    scale = draw(st.one_of(st.none(), st.lists(each, min_size=layers, max_size=layers).map(tuple)))
    return StageGraph(flow(stages, rows, rest=rest), layers, scale)


def by_definition(graph: StageGraph) -> dict[tuple[str, str], Fraction]:
    """Every argument as ``models/microbatch.md`` defines it, from the duration of each item."""
    lap, layers, m = graph.lap, graph.layers, graph.lap.num_micro_batches
    p = [[[Fraction(0)] * m for _ in lap.stages] for _ in range(layers)]
    for item, time in enumerate(graph.durations):
        layer, stage, j = graph.place(item)
        p[layer][stage][j] = Fraction(time)
    synced = lap.stages[0].name == "rest"
    ways = range(1 if synced else 0, len(lap.stages))
    micro = range(m)

    def way(layer: int, stages: range | list[int], j: int) -> Fraction:
        return sum((p[layer][stage][j] for stage in stages), Fraction(0))

    def load(name: str, first: int, last: int) -> Fraction:
        mine = [stage for stage in ways if lap.stages[stage].resource == name]
        head = min(way(first, range(ways.start, mine[0]), j) for j in micro)
        tail = min(way(last, range(mine[-1] + 1, ways.stop), j) for j in micro)
        return head + sum(way(layer, mine, j) for layer in range(first, last + 1) for j in micro) + tail

    names = {lap.stages[stage].resource for stage in ways}
    if synced:
        one = [
            p[layer][0][0] + max(*(load(name, layer, layer) for name in names), max(way(layer, ways, j) for j in micro))
            for layer in range(layers)
        ]
        return {("layers", ""): sum(one, Fraction(0))}
    whole = [sum((way(layer, ways, j) for layer in range(layers)), Fraction(0)) for j in micro]
    found = {("chain", ""): max(whole)} | {("load", name): load(name, 0, layers - 1) for name in names}
    for stage in ways:
        heads = [way(0, range(stage), j) for j in micro]
        options = []
        for k in micro:
            others = [j for j in micro if j != k]
            begins = heads[k]
            if others:
                begins = max(begins, min(heads[j] for j in others) + sum(p[0][stage][j] for j in others))
            options.append(begins + whole[k] - heads[k])
        found["first-visits", lap.stages[stage].name] = min(options)
    return found


THREE = flow([Stage("s0", "a"), Stage("s1", "b"), Stage("s2", "c")], [[1, 2], [1, 1], [1, 2]])
"""A way in and a way out of each resource in the middle, for micro-batches that differ."""


@settings(max_examples=60)
@example(StageGraph(THREE, 2, ((2, 1, 1), (1, 1, 3))))
@example(StageGraph(THREE, 3, ((3, 1, 2), (1, 1, 1), (1, 2, 4))))
@given(graphs())
def test_arguments_are_what_the_page_defines(graph: StageGraph) -> None:
    found = {(one.kind, one.where): one.seconds for one in bounds.arguments(graph)}
    assert found == by_definition(graph)


def cycles(edges: list[tuple[int, int, int, int]], size: int) -> Fraction:
    """The largest weight over tokens of any simple cycle, by walking all of them."""
    best = Fraction(0)

    def walk(first: int, here: int, seen: set[int], weight: int, tokens: int) -> None:
        nonlocal best
        for one, other, more, carried in edges:
            if one != here or other < first:
                continue
            if other == first and tokens + carried:
                best = max(best, Fraction(weight + more, tokens + carried))
            elif other != first and other not in seen:
                walk(first, other, seen | {other}, weight + more, tokens + carried)

    for first in range(size):
        walk(first, first, {first}, 0, 0)
    return best


@settings(max_examples=60)
@given(graphs(), st.booleans())
def test_cycle_time_is_that_of_the_worst_cycle(graph: StageGraph, ordered: bool) -> None:
    lap = graph.lap
    if len(lap.items) > 9:
        return
    scale = 2 * 3 * 5 * 7 * 2
    weights = [int(Fraction(time) * scale) for time in lap.durations]
    edges = [(one, other, weights[one], tokens) for one, other, tokens in lap.edges]
    if ordered:
        for row in lap.turns:
            edges += [(one, other, weights[one], int(place == len(row) - 1))
                      for place, (one, other) in enumerate(zip(row, (*row[1:], row[0]), strict=True))]  # fmt: skip
    found = cycle_ratio(lap, ordered=ordered)
    assert found.value == cycles(edges, len(lap.items)) / scale
    if found.cycle and found.value:
        pairs = list(zip(found.cycle, (*found.cycle[1:], found.cycle[0]), strict=True))
        tokens = [min(one[3] for one in edges if one[:2] == pair) for pair in pairs]
        assert Fraction(sum(weights[one] for one, _ in pairs), scale * sum(tokens)) == found.value


@pytest.mark.parametrize(("a", "b"), list(product((1, 4), (2, 6))))
def test_time_by_cycle_adds_the_cycle_time_for_every_further_layer(a: int, b: int) -> None:
    lap = flow([Stage("x", "gpu"), Stage("y", "link")], [[a] * 2, [b] * 2])
    first, cycle = a + b + max(a, b), max(2 * max(a, b), a + b)
    assert [time_by_cycle(lap, layers) for layers in (1, 2, 5)] == [first, first + cycle, first + 4 * cycle]


def test_largest_ratio_begins_where_it_is_told() -> None:
    edges = [(0, 1, 3, 0), (1, 0, 4, 1), (1, 1, 5, 1), (0, 0, 2, 2)]
    assert largest_ratio(edges, 2, Fraction(0), ()).value == 7
    kept = largest_ratio(edges, 2, Fraction(8), (9,))
    assert (kept.value, kept.cycle) == (8, (9,))
    assert largest_ratio(edges[2:], 2, Fraction(0), ()).cycle == (1,)
    assert largest_ratio([(0, 0, 3, 1)], 1, Fraction(5, 2), ()).value == 3
    assert largest_ratio([(0, 0, 5, 2)], 1, Fraction(7, 3), ()).value == Fraction(5, 2)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_strongest_argument_of_alike_micro_batches_is_that_of_any(pattern: str) -> None:
    stages = PATTERNS[pattern].stages
    for turn in range(6):
        times = {name: Fraction(1 + (turn * (place + 2)) % 7, 3) for place, name in enumerate(stages)}
        given = {name: float(time) for name, time in times.items() if turn % 2 or name != "rest"}
        instance = MicrobatchInstance(given, layers=1 + turn, pattern=pattern, m=[1, 2, 3])
        for candidate in instance.candidates:
            every = bounds.arguments(instance.graph(candidate))
            assert bounds.bound(instance, candidate).seconds == max(one.seconds for one in every)


def test_of_parallel_edges_that_with_the_fewest_tokens_counts() -> None:
    edges = [(0, 1, 3, 0), (0, 1, 3, 2), (1, 0, 4, 1)]
    assert largest_ratio(edges, 2, Fraction(0), ()).value == 7
    assert largest_ratio(edges[::-1], 2, Fraction(0), ()).value == 7


def test_work_that_takes_no_time_has_a_cycle_all_the_same() -> None:
    found = cycle_ratio(flow([Stage("x", "gpu")], [[0, 0]]))
    assert found.value == 0 and sorted(found.cycle) == [0, 1]


def test_the_argument_of_a_candidate_is_computed_once() -> None:
    instance = MicrobatchInstance({"attention": 10, "dispatch": 4, "experts": 10}, layers=4, m=[1, 2])
    for candidate in instance.candidates:
        assert bounds.bound(instance, candidate) is bounds.bound(instance, candidate)


def test_a_cycle_among_pointers_is_found_where_there_is_one() -> None:
    for before in product((-1, 0, 1, 2, 3), repeat=4):
        found = _closed(list(before))
        if found:
            assert all(before[other] == one for one, other in zip(found, (*found[1:], found[0]), strict=True))
        here = set(range(4))
        for _ in range(4):  # what is left after so many steps goes round
            here = {before[item] for item in here} - {-1}
        assert found is not None and bool(found) == bool(here) and len(set(found)) == len(found)


def test_the_strongest_argument_counts_where_layers_differ() -> None:
    """Attention takes 10 and then 30 for each of m micro-batches, everything else 1: those 40 m, and 3 behind."""
    times = {"attention": 10, "dispatch": 1, "experts": 1, "combine": 1}
    instance = MicrobatchInstance(times, layers=2, m=[2, 3], layer_scale={"attention": [1, 3]})
    assert [bounds.bound(instance, one).seconds for one in instance.candidates] == [83, 123]
    assert {bounds.bound(instance, one).kind for one in instance.candidates} == {"load"}


def test_the_wrap_into_the_next_lap_is_part_of_a_cycle() -> None:
    """One on the GPU, both over the link, the other on the GPU again: 4 + 5 + 5 + 4, more than any load."""
    stages = [Stage("x", "gpu"), Stage("y", "link"), Stage("z", "gpu")]
    assert cycle_ratio(flow(stages, [[4, 4], [5, 5], [4, 4]])).value == 18


def test_without_a_cycle_the_cycle_time_is_nothing() -> None:
    lap = flow([Stage("x", "gpu"), Stage("y", "link")], [[4, 4], [5, 5]])
    loose = replace(lap, edges=tuple(edge for edge in lap.edges if edge[2] == 0))
    assert cycle_ratio(loose, ordered=False) == CycleRatio(Fraction(0), ())


def test_one_micro_batch_is_a_chain() -> None:
    instance = MicrobatchInstance({"attention": 10, "dispatch": 4, "experts": 10}, layers=4, m=[1, 2])
    assert [bounds.bound(instance, one).kind for one in instance.candidates] == ["chain", "first-visits"]


def test_alike_micro_batches_need_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention has 12 times 10 to do, and 4, 10 and 4 follow."""

    def never(*_: object) -> None:
        raise AssertionError("a graph was made")

    monkeypatch.setattr(bounds, "arguments", never)
    instance = MicrobatchInstance({"attention": 10, "dispatch": 4, "experts": 10}, layers=4, m=3)
    assert bounds.bound(instance, instance.candidates[0]).seconds == 120 + 18
