"""Collectives: bytes that cannot be fewer, times that scale, and the choice between algorithms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import COLLECTIVES, Link, best_collective, collective_bytes, collective_s, collective_schedule
from tests.cost.faults import names_all

EVERY = [(op, algorithm) for op, known in COLLECTIVES.items() for algorithm in known]
links = st.builds(Link, st.floats(0, 1e-4), st.floats(1e6, 1e12))
shapes = st.tuples(st.integers(1, 6), st.integers(1, 9)).map(
    lambda pair: {"nodes": pair[0], "ranks": pair[0] * pair[1]}
)
sizes = st.floats(0, 1e10)
MUST_SEND = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}


@pytest.mark.parametrize(("op", "algorithm"), EVERY)
def test_one_rank_alone_costs_nothing(op: str, algorithm: str) -> None:
    link = Link(1e-3, 1e6)
    assert collective_bytes(op, 10**9, algorithm, ranks=1) == 0
    assert collective_s(op, 10**9, algorithm, ranks=1, link=link) == 0
    assert best_collective(op, 10**9, ranks=1, link=link).crossovers == ()


@given(st.sampled_from(EVERY), shapes)
def test_no_algorithm_sends_fewer_bytes_than_it_must(which: tuple[str, str], shape: dict[str, int]) -> None:
    op, algorithm = which
    p, least = shape["ranks"], Fraction(MUST_SEND[op] * (shape["ranks"] - 1), shape["ranks"])
    sent = collective_bytes(op, 1, algorithm, **shape)
    assert sent >= least
    if algorithm in ("ring", "two_shot", "direct", "pairwise") or (algorithm == "hierarchical" and op != "all_to_all"):
        assert sent == least
    if which == ("all_reduce", "one_shot"):
        assert sent == p - 1


@given(shapes)
def test_hierarchical_all_to_all_sends_one_message_a_node_and_the_same_bytes_between_nodes(
    shape: dict[str, int],
) -> None:
    staged, flat = (collective_schedule("all_to_all", name, **shape) for name in ("hierarchical", "pairwise"))
    n, g = shape["nodes"], shape["ranks"] // shape["nodes"]
    assert (staged.outer.steps, flat.outer.steps) == (n - 1, (n - 1) * g)
    assert staged.outer.part == flat.outer.part
    assert staged.inner.part == n * flat.inner.part


@given(shapes)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(shape: dict[str, int]) -> None:
    for algorithm in ("ring", "hierarchical"):
        whole = collective_schedule("all_reduce", algorithm, **shape)
        parts = [collective_schedule(op, algorithm, **shape) for op in ("reduce_scatter", "all_gather")]
        for tier in ("inner", "outer"):
            assert getattr(whole, tier).steps == sum(getattr(part, tier).steps for part in parts)
            assert getattr(whole, tier).part == sum(getattr(part, tier).part for part in parts)


@given(st.sampled_from(EVERY), shapes, sizes, links, links, st.floats(1, 1e3))
def test_times_scale_and_rise(
    which: tuple[str, str], shape: dict[str, int], size: float, inner: Link, outer: Link, more: float
) -> None:
    op, algorithm = which
    time = collective_s(op, size, algorithm, **shape, link=inner, outer=outer)
    assert collective_s(op, size * more, algorithm, **shape, link=inner, outer=outer) >= time
    slow = [Link(way.alpha_s * more, way.bytes_per_s / more) for way in (inner, outer)]
    slower = collective_s(op, size, algorithm, **shape, link=slow[0], outer=slow[1])
    assert slower == pytest.approx(time * more, rel=1e-9, abs=0)


@given(sizes, links, st.integers(2, 64))
def test_an_infinitely_quick_start_leaves_the_bandwidth(size: float, link: Link, ranks: int) -> None:
    quick = Link(0.0, link.bytes_per_s)
    ring = collective_s("all_reduce", size, "ring", ranks=ranks, link=quick)
    assert ring == pytest.approx(2 * (ranks - 1) / ranks * size / link.bytes_per_s, rel=1e-12, abs=0)
    fixed = collective_s("all_reduce", 0, "ring", ranks=ranks, link=link)
    assert fixed == pytest.approx(2 * (ranks - 1) * link.alpha_s)


@given(st.sampled_from(sorted(COLLECTIVES)), shapes, sizes, links, links)
def test_the_choice_is_the_quickest_and_its_crossovers_are_where_it_changes(
    op: str, shape: dict[str, int], size: float, inner: Link, outer: Link
) -> None:
    choice = best_collective(op, size, **shape, link=inner, outer=outer)
    assert choice.time_s == min(choice.times_s.values())
    for name, seconds in choice.times_s.items():
        assert seconds == collective_s(op, size, name, **shape, link=inner, outer=outer)
    at = [crossover.size_bytes for crossover in choice.crossovers]
    assert at == sorted(at)
    for crossover in choice.crossovers:
        both = [
            collective_s(op, crossover.size_bytes, name, **shape, link=inner, outer=outer)
            for name in (crossover.below, crossover.above)
        ]
        assert both[0] == pytest.approx(both[1], rel=1e-6, abs=1e-15)
    for before, after in zip(choice.crossovers, choice.crossovers[1:], strict=False):
        assert before.above == after.below


def test_small_vectors_go_at_once_and_large_ones_round_the_ring() -> None:
    link = Link(2e-6, 360e9)
    names = [best_collective("all_reduce", size, ranks=8, link=link).algorithm for size in (1e3, 1e6, 1e9)]
    assert names == ["one_shot", "two_shot", "two_shot"]
    among = ("ring", "one_shot")
    names = [best_collective("all_reduce", size, ranks=8, link=link, among=among).algorithm for size in (1e3, 1e9)]
    assert names == ["one_shot", "ring"]


def test_over_nodes_the_hierarchy_wins_once_bytes_count() -> None:
    fast, slow = Link(2e-6, 360e9), Link(5e-6, 40e9)
    choice = best_collective("all_reduce", 1e9, ranks=32, nodes=4, link=fast, outer=slow)
    assert choice.algorithm == "hierarchical"
    ring = 2 * 7 / 8 / 360e9 + 2 * 3 / 4 / 8 / 40e9
    assert choice.time_s == pytest.approx(14 * 2e-6 + 6 * 5e-6 + 1e9 * ring)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"ranks": 0, "size_bytes": -1}, ("ranks", "size_bytes")),
        ({"ranks": True, "size_bytes": float("nan")}, ("ranks", "size_bytes")),
        ({"ranks": 6, "nodes": 4}, ("nodes", "outer")),
        ({"op": "gather", "size_bytes": float("inf")}, ("op", "size_bytes")),
        ({"algorithm": "tree", "ranks": 2.0}, ("algorithm", "ranks")),
    ],
)
def test_bad_input_is_named_all_at_once(change: dict[str, Any], fields: tuple[str, ...]) -> None:
    given_ = {"op": "all_reduce", "size_bytes": 8, "ranks": 4, "link": Link(0.0, 1e9)} | change
    names_all(lambda: collective_s(**given_), *fields)
    if "algorithm" not in change:
        names_all(lambda: best_collective(**given_), *fields)


def test_a_link_names_both_of_its_faults() -> None:
    message = names_all(lambda: Link(float("nan"), 0), "alpha_s", "bytes_per_s")
    assert "must be a finite number > 0" in message
    names_all(lambda: best_collective("all_reduce", 1, ranks=2, link=Link(0, 1), among=()), "among")
    names_all(lambda: best_collective("all_reduce", 1, ranks=2, link=Link(0, 1), among=("tree",)), "algorithm")
