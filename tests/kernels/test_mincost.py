"""Cheapest flows against networkx."""

from __future__ import annotations

from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.kernels.mincost import cheapest

edge = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9), st.integers(0, 3))


@given(st.lists(edge, max_size=16), st.sampled_from((1, 2**70)), st.booleans())
def test_the_flow_is_the_largest_and_the_cheapest(edges: list[Any], size: int, compiled: bool) -> None:
    edges = [(tail, head, room * size, cost) for tail, head, room, cost in edges if tail != head]
    total, flow = cheapest(6, edges, 0, 5, compiled=compiled)
    graph: Any = networkx.MultiDiGraph()
    graph.add_nodes_from(range(6))
    for tail, head, room, cost in edges:
        graph.add_edge(tail, head, capacity=room, weight=cost)
    kept = [0] * 6
    for (tail, head, room, _), amount in zip(edges, flow, strict=True):
        assert 0 <= amount <= room
        kept[tail] -= amount
        kept[head] += amount
    assert kept == [-total, 0, 0, 0, 0, total]
    flat: Any = networkx.DiGraph()
    flat.add_nodes_from(range(6))
    for tail, head, room, _ in edges:
        flat.add_edge(tail, head, capacity=room + flat.get_edge_data(tail, head, {"capacity": 0})["capacity"])
    assert total == networkx.maximum_flow_value(flat, 0, 5)
    graph.nodes[0]["demand"], graph.nodes[5]["demand"] = -total, total
    wanted = networkx.network_simplex(graph)[0]
    assert sum(amount * one[3] for one, amount in zip(edges, flow, strict=True)) == wanted


@pytest.mark.parametrize("compiled", [True, False])
def test_an_earlier_path_gives_way(compiled: bool) -> None:
    """The cheap path blocks: part of it has to go back."""
    edges = [(0, 1, 1, 0), (0, 2, 1, 0), (1, 3, 1, 0), (2, 3, 1, 0), (1, 4, 1, 5), (3, 5, 1, 0), (4, 5, 1, 0)]
    assert cheapest(6, edges, 0, 5, compiled=compiled) == (2, [1, 1, 0, 1, 1, 1, 1])
    assert cheapest(2, [], 0, 1) == (0, [])
