"""The multiple-choice knapsack against looking at every choice, and against a mixed-integer programme."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moeopt.kernels.knapsack import choose

Lists = list[list[tuple[float, int]]]

options = st.lists(st.tuples(st.sampled_from([0, 1, 2.5, 7, 0.1, 1e12]), st.integers(0, 6)), min_size=1, max_size=4)
problems = st.lists(options, min_size=1, max_size=4)


def brute(lists: Lists, limit: int) -> Fraction | None:
    totals = [
        sum((Fraction(cost) for cost, _ in picked), Fraction(0))
        for picked in product(*lists)
        if sum(weight for _, weight in picked) <= limit
    ]
    return min(totals, default=None)


def split(lists: Lists) -> tuple[list[list[float]], list[list[int]]]:
    return [[cost for cost, _ in row] for row in lists], [[weight for _, weight in row] for row in lists]


@given(problems, st.integers(0, 16))
def test_the_choice_is_the_cheapest_of_all(lists: Lists, limit: int) -> None:
    costs, weights = split(lists)
    found = choose(costs, weights, limit)
    best = brute(lists, limit)
    assert (found is None) == (best is None)
    if found is not None:
        assert sum(row[at] for row, at in zip(weights, found, strict=True)) <= limit
        assert sum(Fraction(row[at]) for row, at in zip(costs, found, strict=True)) == best


def test_costs_beyond_64_bits_are_added_exactly() -> None:
    costs = [[2**70 + 1, 2**70], [1.0, 1e-300]]
    assert choose(costs, [[0, 1], [0, 1]], 1) == [0, 1] or choose(costs, [[0, 1], [0, 1]], 1) == [1, 0]
    assert choose(costs, [[0, 1], [0, 1]], 2) == [1, 1]


def test_it_agrees_with_a_mixed_integer_programme() -> None:
    from scipy.optimize import Bounds, LinearConstraint, milp

    rng = np.random.default_rng(3)
    for _ in range(20):
        lists, each = int(rng.integers(5, 15)), 6
        costs = np.sort(rng.integers(1, 1000, (lists, each)))[:, ::-1]
        weights = np.cumsum(rng.integers(1, 9, (lists, each)), axis=1)
        limit = int(weights[:, 2].sum())
        one = np.kron(np.eye(lists), np.ones(each))
        rules = [LinearConstraint(one, 1, 1), LinearConstraint(weights.reshape(1, -1), -np.inf, limit)]
        answer = milp(costs.ravel(), integrality=np.ones(costs.size), bounds=Bounds(0, 1), constraints=rules)
        found = choose(costs.tolist(), weights.tolist(), limit)
        assert found is not None
        assert sum(int(costs[row, at]) for row, at in enumerate(found)) == round(answer.fun)
