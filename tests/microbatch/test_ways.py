"""Simulation, longest path, cycle ratio and formula agree; each is held against something else too."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.microbatch import MicrobatchInstance, MicrobatchPlan, closed_forms, verify
from moeopt.microbatch.builders import PATTERNS, dual, ping_pong
from moeopt.microbatch.cycle_ratio import cycle_ratio
from moeopt.microbatch.graph import Lap, Number, StageGraph
from moeopt.microbatch.longest_path import longest_path
from moeopt.microbatch.periodic import fcfs_time
from moeopt.microbatch.simulate import simulate
from tests.microbatch import strategies
from tests.microbatch.ways import disagreement, draw, four_ways

times = st.one_of(st.integers(0, 6), st.fractions(0, 1, max_denominator=9))


@pytest.mark.parametrize("seed", range(8))
def test_four_ways_agree_to_rounding_in_doubles(seed: int) -> None:
    chance = random.Random(f"doubles {seed}")
    for _ in range(6):
        case = draw(chance, exact=False)
        assert disagreement(four_ways(case)) <= 1e-9, case


@pytest.mark.parametrize("seed", range(8))
def test_four_ways_agree_exactly_in_fractions(seed: int) -> None:
    chance = random.Random(f"fractions {seed}")
    for _ in range(25):
        case = draw(chance, exact=True, most_m=8, most_layers=10)
        found = four_ways(case)
        assert len(set(found.values())) == 1, (case, found)


@st.composite
def graphs(draw: st.DrawFn, patterns: tuple[str, ...] = tuple(PATTERNS)) -> StageGraph:
    """Uneven micro-batches and uneven layers."""
    pattern, layers = draw(st.sampled_from(patterns)), draw(st.integers(1, 5))
    m = draw(st.integers(1, 2 if pattern == "dual" and draw(st.booleans()) else 5))
    rows = {}
    for stage in PATTERNS[pattern].stages:
        count = 1 if stage == "rest" else m
        rows[stage] = draw(st.lists(times, min_size=count, max_size=count))
    lap = PATTERNS[pattern].build(rows)
    scale = None
    if draw(st.booleans()):
        wide = len(lap.stages)
        row = st.tuples(*[st.sampled_from([0, 1, Fraction(1, 2), 3])] * wide)
        scale = tuple(draw(st.lists(row, min_size=layers, max_size=layers)))
    return StageGraph(lap, layers, scale)


@given(graphs())
def test_work_in_turn_is_served_in_the_order_of_the_lap_whatever_the_durations(graph: StageGraph) -> None:
    done = simulate(graph)
    if graph.lap.in_turn:
        assert done.sequences == graph.turns
        assert longest_path(graph).length == done.makespan


@given(graphs(), st.sampled_from(["fcfs", "lpt"]))
def test_the_longest_path_of_an_order_is_the_time_it_took(graph: StageGraph, rule: str) -> None:
    done = simulate(graph, rule=rule)  # type: ignore[arg-type]
    found = longest_path(graph, done.sequences)
    assert found.length == done.makespan
    assert found.start == done.start
    assert sum(graph.durations[item] for item in found.path) == found.length
    again = simulate(graph, sequences=done.sequences)
    assert (again.start, again.end) == (done.start, done.end)


@given(graphs())
def test_schedules_break_no_rule(graph: StageGraph) -> None:
    done = simulate(graph)
    for item, row in enumerate(graph.after):
        assert done.end[item] == done.start[item] + graph.durations[item]
        assert all(done.start[other] >= done.end[item] for other in row)
    for row in done.sequences:
        assert all(done.start[two] >= done.end[one] for one, two in pairwise(row))


def unchanged_by_jumping(instance: MicrobatchInstance) -> None:
    for one in instance.candidates if instance.layer_scale is None else ():
        done, ticks = verify.schedule(instance, MicrobatchPlan(one.m, one.batch))
        assert fcfs_time(instance, one) == Fraction(done.makespan) / ticks


@given(strategies.instances(max_layers=60, max_m=5))
def test_jumping_over_layers_that_repeat_changes_nothing(instance: MicrobatchInstance) -> None:
    unchanged_by_jumping(instance)


@given(strategies.instances(max_layers=60, whole=True, patterns=("shared-link", "dual", "ping-pong")))
def test_jumping_changes_nothing_where_times_have_ties(instance: MicrobatchInstance) -> None:
    unchanged_by_jumping(instance)


def every_cycle(lap: Lap) -> Fraction:
    """The largest ratio by listing all cycles."""
    drawn = nx.DiGraph()
    edges = [*lap.edges]
    for row in lap.turns:
        edges += [(one, two, 0) for one, two in pairwise(row)]
        edges.append((row[-1], row[0], 1))
    for one, two, tokens in edges:
        known = drawn.get_edge_data(one, two)
        drawn.add_edge(one, two, tokens=tokens if known is None else min(tokens, known["tokens"]))
    ratios = []
    for cycle in nx.simple_cycles(drawn):
        steps = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        tokens = sum(drawn.edges[step]["tokens"] for step in steps)
        ratios.append(Fraction(sum(lap.durations[item] for item in cycle)) / tokens)
    return max(ratios)


@st.composite
def laps(draw: st.DrawFn) -> Lap:
    m = draw(st.integers(1, 3))
    rows = [draw(st.lists(times, min_size=m, max_size=m)) for _ in range(4)]
    build = ping_pong.lap if m == 3 or draw(st.booleans()) else dual.lap
    return build(*rows)


@given(laps())
def test_the_cycle_ratio_is_the_largest_of_all_cycles(lap: Lap) -> None:
    found = cycle_ratio(lap)
    assert found.value == every_cycle(lap)


@given(laps())
def test_layers_cost_the_cycle_time_in_the_long_run(lap: Lap) -> None:
    many = 40
    grown = simulate(StageGraph(lap, 2 * many)).makespan - simulate(StageGraph(lap, many)).makespan
    assert abs(Fraction(grown) / many - cycle_ratio(lap).value) <= Fraction(sum(lap.durations)) / many


def test_one_link_for_both_directions_breaks_the_formula() -> None:
    from moeopt.microbatch.builders import shared_link

    four = [Fraction(value, 10) for value in (4, 3, 5, 3)]
    both = simulate(StageGraph(shared_link.lap(*[[time] * 4 for time in four]), 40)).makespan
    assert (both, closed_forms.ping_pong(4, 40, *four).time) == (Fraction(966, 10), 81)


def test_more_than_two_micro_batches_on_two_resources_have_no_formula() -> None:
    with pytest.raises(ValueError, match="m = 1 and 2"):
        closed_forms.dual(3, 1, 1, 1, 1, 1)


@given(st.lists(st.one_of(st.integers(0, 50), st.floats(0, 1)), min_size=4, max_size=4))
def test_fewest_m_is_the_least_that_hides(four: list[Number]) -> None:
    m = closed_forms.fewest_m(four)
    trip, top = sum(four), max(four)
    assert m * top >= trip * (1 - 1e-9)
    assert m == 1 or (m - 1) * top < trip
