"""Maximum flows for capacities of any kind: exact values, proofs by cuts, and refusals by edge."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.kernels.flows import max_flow


def test_capacities_that_are_floats_end_with_the_exact_value() -> None:
    edges = [("s", "a", 0.1), ("s", "b", 0.2), ("s", "c", 0.3), ("a", "t", 0.2), ("b", "t", 0.2), ("c", "t", 0.2)]
    assert max_flow(edges, "s", "t").value == Fraction(1, 2)


def test_a_negative_capacity_is_named_with_its_edge() -> None:
    with pytest.raises(InstanceError) as caught:
        max_flow([("s", "a", 5), ("a", "t", -1)], "s", "t")
    assert "capacity[a -> t] = -1" in str(caught.value)


@pytest.mark.parametrize("wrong", [math.nan, True, "5", None])
def test_what_is_no_number_is_refused(wrong: object) -> None:
    with pytest.raises(InstanceError, match="a -> t"):
        max_flow([("s", "a", 5), ("a", "t", wrong)], "s", "t")


def test_a_zero_capacity_is_an_edge_that_carries_nothing() -> None:
    flow = max_flow([("s", "t", 0)], "s", "t")
    assert (flow.value, flow.on["s", "t"], flow.reached) == (0, 0, {"s"})


def test_large_counts_infinite_edges_loops_and_parallel_edges() -> None:
    edges = [("s", "a", 2**40), ("s", "a", 1), ("a", "a", 7), ("a", "t", math.inf)]
    assert max_flow(edges, "s", "t").value == 2**40 + 1
    with pytest.raises(InstanceError, match="no limit"):
        max_flow([("s", "t", math.inf)], "s", "t")


def test_nodes_that_are_on_no_edge_and_a_target_that_is_the_source_are_refused() -> None:
    with pytest.raises(InstanceError, match="on no edge"):
        max_flow([("s", "a", 1)], "s", "t")
    with pytest.raises(InstanceError, match="must differ"):
        max_flow([("s", "a", 1)], "s", "s")
    assert max_flow([("s", "a", 1), ("b", "t", 1)], "s", "t").value == 0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 400).map(lambda n: n / 10)), max_size=20)
)
def test_flow_is_conserved_and_the_cut_proves_it(edges: list[tuple[int, int, float]]) -> None:
    edges = [*edges, (0, 5, 0.3)]
    flow = max_flow(edges, 0, 5)
    sizes: dict[tuple[int, int], Fraction] = {}
    for tail, head, size in edges:
        sizes[tail, head] = sizes.get((tail, head), Fraction(0)) + Fraction(str(size))
    net = dict.fromkeys(range(6), Fraction(0))
    for (tail, head), amount in flow.on.items():
        assert 0 <= amount <= sizes[tail, head]
        net[tail] -= amount
        net[head] += amount
    assert net == {node: (-flow.value if node == 0 else flow.value if node == 5 else 0) for node in range(6)}
    across = [size for (tail, head), size in sizes.items() if tail in flow.reached and head not in flow.reached]
    assert 0 in flow.reached and 5 not in flow.reached
    assert sum(across, Fraction(0)) == flow.value


def test_numpy_numbers_are_numbers() -> None:
    assert max_flow([("s", "t", np.float64(0.1)), ("s", "t", np.int64(2))], "s", "t").value == Fraction(21, 10)
