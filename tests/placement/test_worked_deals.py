"""Deals of groups to nodes: ranked by their worst node, and raised where nodes have sharper bounds."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds, deal_bounds, deals

FOUR = PlacementInstance([[7, 5, 4, 1]], slots=[1] * 4, nodes=[0, 0, 1, 1], groups=4)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_deal_is_raised_to_what_its_nodes_can_be_raised_to(seed: int) -> None:
    """Six pairs of four groups, in three deals: the least over deals of the larger value of the two nodes."""
    values = [Fraction(1 + (seed * (place + 3)) % 5) for place in range(6)]
    most = [value + (seed * (place + 1) + place * place) % 4 for place, value in enumerate(values)]
    pairs = {pair: place for place, pair in enumerate(combinations(range(4), 2))}
    every = [(pairs[0, a], pairs[tuple(sorted({1, 2, 3} - {a}))]) for a in (1, 2, 3)]  # type: ignore[index]
    best = min(max(most[one], most[other]) for one, other in every)
    calls: list[int] = []

    def tool(node: PlacementInstance, value: Fraction, at: int) -> tuple[Fraction, Mapping[str, Any]]:
        assert value == values[at] and node.num_experts == 2
        calls.append(at)
        return most[at], {"kind": "told"}

    value, proofs = deal_bounds.tightened(FOUR, values, 0, 1e9, tool)
    assert value == best
    assert sorted(calls) == sorted(set(calls)) and [at for at, _ in proofs] == [
        at for at in sorted(calls) if most[at] > values[at]
    ]
    first = min(every, key=lambda deal: (max(values[at] for at in deal), sum(values[at] ** 2 for at in deal)))
    assert values[calls[0]] == max(values[at] for at in first)  # the node that is worst off comes first
    start = min(max(values[one], values[other]) for one, other in every)
    assert deal_bounds.tightened(FOUR, values, 0, float(start), tool) == (start, [])


def test_layers_are_ranked_one_by_one() -> None:
    both = PlacementInstance([[7, 5, 4, 1], [1, 1, 9, 1]], slots=[1] * 4, nodes=[0, 0, 1, 1], groups=4)
    rows = bounds.rank_deals(both, [0, 1])
    assert [len(ranked.subset_values) for ranked in rows] == [6, 6]
    for row, ranked in enumerate(rows):
        assert [ranked] == bounds.rank_deals(both, [row])
        assert ranked.bound.value == bounds.cheap(both)[row].value == (7, 9)[row]


def test_few_sets_of_groups_are_looked_at_more_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deal_bounds, "MOST_TRIED", 1)
    calls = []
    deal_bounds.tightened(FOUR, [Fraction(1)] * 6, 0, 9.0, lambda node, value, at: calls.append(at))  # type: ignore[func-returns-value]
    assert calls == [0]


def test_tools_for_nodes_keep_the_better_bound() -> None:
    fields: dict[str, Any] = {"slots": [2] * 4, "nodes": [0, 0, 1, 1], "groups": 2}
    instance = PlacementInstance([[12, 12, 9, 2, 12, 12, 9, 2]], **fields)
    assert deals.enumerable(instance)
    (cheap,) = bounds.cheap(instance)
    tools = (bounds.tighten, lambda *words: bounds.priced(*words, 0.0, Deadline(None)))
    for tool in tools:
        found = tool(instance, cheap, 0, 21.0)
        assert cheap.value < found.value <= 21 and found.kind in ("deals", "configuration")
        assert bounds.check(instance, 0, found.certificate) == found.value
        high = bounds.LayerBound("deals", Fraction(21), {"kind": "deals"})
        assert tool(instance, high, 0, 30.0) is high


def test_a_closed_node_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    def tightened(*words: Any) -> tuple[Fraction, list[Any]]:
        told.append(words[3])
        return Fraction(4 * len(told)), []

    monkeypatch.setattr(deal_bounds, "tightened", tightened)
    known = bounds.LayerBound("deals", Fraction(8), {"kind": "deals"})
    for _ in range(2):  # of 4 and of 8, which is no more than is known
        assert bounds._dealt(FOUR, known, 0, 16.0, 0.25, lambda node, bound, at: bound) is known
    assert bounds._dealt(FOUR, known, 0, 16.0, 0.25, lambda node, bound, at: bound).value == 12
    assert told == [12.0] * 3  # what is within the gap of the objective is enough
