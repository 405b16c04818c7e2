"""The largest cycle ratio against every cycle of small graphs, one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from moeopt.microbatch.cycle_ratio import Edge, largest_ratio


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    """A ring through all items, and other edges; every way back has tokens, so that every cycle has."""
    size = draw(st.integers(2, 6))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    chosen = draw(st.sets(pairs, max_size=10)) | {(one, (one + 1) % size) for one in range(size)}
    tokens = st.integers(1, 4)
    return size, [
        (one, other, draw(st.integers(0, 12)), draw(tokens) if other <= one else draw(st.integers(0, 2)))
        for one, other in sorted(chosen)
    ]


@given(graphs())
def test_no_cycle_has_a_larger_ratio_and_one_has_this_one(drawn: tuple[int, list[Edge]]) -> None:
    size, edges = drawn
    cost = {(one, other): (weight, tokens) for one, other, weight, tokens in edges}

    def ratio(cycle: list[int] | tuple[int, ...]) -> Fraction:
        steps = [cost[step] for step in pairwise((*cycle, cycle[0]))]
        return Fraction(sum(weight for weight, _ in steps), sum(tokens for _, tokens in steps))

    found = largest_ratio(edges, size, Fraction(0), ())
    assert found.value == max(ratio(cycle) for cycle in nx.simple_cycles(nx.DiGraph(list(cost))))
    assert not found.value or ratio(found.cycle) == found.value
