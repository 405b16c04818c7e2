"""The referee: what it makes of legal plans, and every kind of damage it must name."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import PlanError
from moeopt.placement import Placement, PlacementInstance
from tests import oracles, strategies


@given(strategies.instances(rules=False), st.data())
def test_referee_agrees_with_plain_arithmetic_on_any_legal_plan(
    instance: PlacementInstance, data: st.DataObject
) -> None:
    rows = data.draw(strategies.plans(instance))
    assert placement.faults(instance, Placement.of(rows)) == []
    judged = placement.evaluate(instance, rows)
    assert list(judged.max_load) == [oracles.cost(instance, row, held) for row, held in enumerate(rows)]


@pytest.mark.parametrize("split", ["even", "free"])
def test_two_copies_on_one_gpu_cost_the_floor_twice(split: str) -> None:
    """A free split once charged the floor of a doubled expert only once, below the proved bound."""
    instance = PlacementInstance(
        [[1]], slots=[2], distinct=False, floor_tokens=10, floor_rule="per_replica", split=split
    )
    result = placement.solve(instance, method="contiguous")
    assert result.objective == result.lower_bound == 20


# --- damage -----------------------------------------------------------------------------------------------------------

GROUPED = PlacementInstance(
    [[4, 3, 2, 1], [1, 1, 1, 1]], slots=[2, 1, 2, 1], nodes=[0, 0, 1, 1], groups=2, layers=[3, 5]
)
GOOD = [[0, 1, 0, 2, 3, 2], [0, 1, 1, 2, 3, 3]]
FREE = PlacementInstance([[6, 2, 1]], slots=[2, 2], split="free", pin=[(2, 1)], forbid=[(1, 1)])
SLOTS = [[0, 1, 0, 2]]
SHARES = [[(0, 0, 0.5), (0, 1, 0.5), (1, 0, 1.0), (2, 1, 1.0)]]


def damaged(row: int, slot: int, expert: int) -> list[list[int]]:
    rows = [list(each) for each in GOOD]
    rows[row][slot] = expert
    return rows


def test_the_plans_that_get_damaged_are_legal() -> None:
    assert placement.faults(GROUPED, Placement.of(GOOD)) == []
    assert placement.faults(FREE, Placement.of(SLOTS, SHARES)) == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (damaged(0, 1, 0), ["layer 3", "GPU 0", "expert 0", "twice"]),  # slot doubled
        (damaged(1, 0, 1), ["layer 5", "expert 0", "no replica"]),  # expert lost
        (damaged(0, 5, 4), ["layer 3", "slot 5", "GPU 3", "expert 4", "0 to 3"]),  # no such expert
        (damaged(0, 5, -2), ["layer 3", "slot 5", "expert -2"]),
        (damaged(0, 2, -1), ["layer 3", "slot 2", "GPU 1", "empty"]),  # empty, but fill is all
        ([GOOD[0]], ["1 layers", "2"]),  # wrong shape
        ([row[:-1] for row in GOOD], ["5 slots", "6"]),
        (damaged(0, 2, 3), ["layer 3", "group 1", "[0, 1]"]),  # group scattered
        ([[0, 1, 0, 2, 3, 2], [2, 0, 3, 1, 0, 1]], ["layer 5", "group 0", "nodes [0, 1]"]),
    ],
)
def test_referee_names_the_damage(rows: list[list[int]], words: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        placement.evaluate(GROUPED, rows)
    text = str(caught.value)
    assert all(word in text for word in words), text


def test_referee_names_a_node_with_too_many_groups() -> None:
    wide = PlacementInstance([[1, 1, 1, 1]], slots=[2, 1, 2, 1], nodes=[0, 0, 1, 1], groups=4)
    found = placement.faults(wide, Placement.of([[0, 1, 2, 3, 3, 3]]))
    assert any("node 0 holds 3 groups, allowed 2" in fault for fault in found)


@pytest.mark.parametrize(
    ("rows", "shares", "words"),
    [
        ([[0, 2, 0, 1]], None, "expert 2 is pinned to GPU 1 and not there"),
        ([[0, 1, 1, 2]], None, "expert 1 is forbidden on GPU 1 and is there"),
        (SLOTS, [[(0, 0, 0.5), (0, 1, 0.4), (1, 0, 1.0), (2, 1, 1.0)]], "shares of expert 0 sum to 0.9"),
        (SLOTS, [[(0, 0, 1.5), (0, 1, -0.5), (1, 0, 1.0), (2, 1, 1.0)]], "share 1.5 on GPU 0, outside"),
        (SLOTS, [[(0, 0, float("nan")), (0, 1, 0.5), (1, 0, 1.0), (2, 1, 1.0)]], "share nan on GPU 0"),
        (SLOTS, [[(0, 0, 0.5), (0, 0, 0.5), (1, 0, 1.0), (2, 1, 1.0)]], "two shares on GPU 0"),
        (SLOTS, [[(0, 0, 0.5), (0, 1, 0.5), (1, 0, 1.0), (2, 0, 1.0)]], "GPU 0, which has no replica"),
        (SLOTS, [[(0, 0, 0.5), (0, 1, 0.5), (1, 0, 1.0)]], "shares of expert 2 sum to 0"),
        (SLOTS, [SHARES[0], SHARES[0]], "shares cover 2 layers of 1"),
    ],
)
def test_referee_names_a_broken_pin_or_share(rows: object, shares: object, words: str) -> None:
    found = placement.faults(FREE, Placement.of(rows, shares))
    assert any(words in fault for fault in found), found


def test_shares_are_refused_where_the_split_is_even() -> None:
    even = PlacementInstance([[6, 2, 1]], slots=[2, 2])
    assert placement.faults(even, Placement.of(SLOTS, SHARES)) == ["the plan has shares, but split is 'even'"]


@given(strategies.instances(max_layers=2, rules=False), st.data())
def test_a_lost_expert_or_a_foreign_id_is_found_in_any_plan(instance: PlacementInstance, data: st.DataObject) -> None:
    rows = data.draw(strategies.plans(instance))
    row = data.draw(st.integers(0, instance.num_layers - 1))
    expert = data.draw(st.integers(0, instance.num_experts - 1))
    lost = [list(each) for each in rows]
    lost[row] = [(expert + 1) % instance.num_experts if held == expert else held for held in rows[row]]
    if instance.num_experts > 1:
        assert any(
            f"expert {expert} has no replica" in fault for fault in placement.faults(instance, Placement.of(lost))
        )
    foreign = [list(each) for each in rows]
    foreign[row][data.draw(st.integers(0, instance.num_slots - 1))] = instance.num_experts
    assert any("ids run from" in fault for fault in placement.faults(instance, Placement.of(foreign)))


@pytest.mark.parametrize(
    "raw", [None, {}, "plan", [], [[]], [[0.0, 1.0]], [[True, False]], [[0, 1], [0]], [[[0]]], [[2**40, 0]], 7]
)
def test_what_is_no_table_of_whole_numbers_is_no_plan(raw: object) -> None:
    with pytest.raises(PlanError):
        placement.evaluate(PlacementInstance([[1, 1]], gpus=2, slots=2), raw)


def test_imbalance_of_known_totals() -> None:
    instance = PlacementInstance([[3, 1, 2, 2]], gpus=4, slots=4)
    judged = placement.evaluate(instance, [[0, 1, 2, 3]])
    assert judged.max_load == (Fraction(3),) and judged.ideal == (Fraction(2),)
    assert judged.imbalance == (1.5,)


def test_the_smallest_loads_are_not_proved_by_rounding() -> None:
    """With loads that no longer pass, plan and bound were one double, and a plan a third off was called optimal."""
    instance = PlacementInstance([[0.0, 2.0**-1022]], gpus=3, slots=6, distinct=False)
    result = placement.solve(instance, method="fold")
    best = oracles.optimum(instance)
    assert placement.evaluate(instance, result.plan).objective > best
    assert str(result.status) == "FEASIBLE" and result.gap_worst_layer > 0.1
