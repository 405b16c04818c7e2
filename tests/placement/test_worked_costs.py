"""The referee by hand: figures of a plan, long sums, windows, shares, and every rule at its edge."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import InstanceError, PlanError
from moeopt.placement import Placement, PlacementInstance, broken_rules
from moeopt.placement.combined import combine, ratio, tail
from moeopt.placement.moves import STORAGE, count_moves, list_moves, move_faults, new_pairs, running_pairs
from tests import oracles, strategies


def faults(instance: PlacementInstance, rows: Any, shares: Any = None) -> list[str]:
    return placement.faults(instance, Placement.of(rows, shares))


# --- figures ----------------------------------------------------------------------------------------------------------


def test_figures_of_three_layers_by_hand() -> None:
    instance = PlacementInstance([[6, 2], [1, 1], [0, 0]], slots=[1, 1])
    judged = placement.evaluate(instance, [[0, 1]] * 3)
    assert judged.max_load == (6, 1, 0) and judged.ideal == (4, 1, 0) and judged.objective == 7
    assert judged.imbalance == (1.5, 1.0, 1.0) and judged.imbalance_total == 7 / 5
    assert judged.imbalance_mean == pytest.approx(3.5 / 3) and judged.excess == pytest.approx(0.5 / 3)
    assert judged.mean_over_max == pytest.approx((1 / 1.5 + 2) / 3)
    assert judged.gpu_cost.tolist() == [[6, 2], [1, 1], [0, 0]]
    idle = placement.evaluate(PlacementInstance([[0, 0]], slots=[1, 1]), [[0, 1]])
    assert idle.imbalance_total == idle.imbalance_mean == 1.0


@pytest.mark.parametrize("speed", [[1, 1], [2, 2], [1, 3], [0.1, 0.1], [0.1, 0.3]])
@pytest.mark.parametrize("loads", [[[6, 2, 1]], [[2**62, 2**61 + 1, 3]], [[0.1, 0.7, 2.5]], [[1e290, 1e-290, 1.0]]])
@pytest.mark.parametrize("rule", ["per_expert", "per_replica"])
def test_cost_of_every_gpu_to_the_last_digit(speed: list[float], loads: Any, rule: str) -> None:
    for floor in (0, 0.7, 3):
        instance = PlacementInstance(loads, slots=[2, 3], speed=speed, floor_tokens=floor, floor_rule=rule)
        row = [0, 1, 0, 2, 1]
        judged = placement.evaluate(instance, [row])
        assert judged.max_load == (oracles.cost(instance, 0, row),)
        for gpu, (held, pace) in enumerate(((row[:2], speed[0]), (row[2:], speed[1]))):
            parts = [Fraction(instance.loads[0, expert].item()) for expert in held]
            copies = [row.count(expert) for expert in held]
            least = Fraction(floor)
            pieces = [
                max(load, least) / times if rule == "per_expert" else max(load / times, least)
                for load, times in zip(parts, copies, strict=True)
            ]
            assert judged.gpu_cost[0, gpu] == pytest.approx(float(sum(pieces) / Fraction(pace)), rel=1e-12)


def test_many_replicas_have_one_denominator() -> None:
    """Counts beyond those whose common multiple fits into 64 bits."""
    counts = [41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83]
    row = [expert for expert, times in enumerate(counts) for _ in range(times)]
    instance = PlacementInstance([[1] * len(counts)], slots=[len(row)], distinct=False)
    assert placement.evaluate(instance, [row]).max_load == (len(counts),)
    halves = [expert for expert in range(40) for _ in range(40)]
    many = PlacementInstance([[3] * 40], slots=[1600], distinct=False)
    assert placement.evaluate(many, [halves]).max_load == (120,)


@settings(max_examples=25)
@given(strategies.tiny(splits=("free",), rules=False), st.data())
def test_shares_cost_what_they_say(instance: PlacementInstance, data: st.DataObject) -> None:
    rows = data.draw(strategies.plans(instance))
    shares = []
    for held in rows:
        pairs = sorted({(e, g) for e, g in zip(held, instance.gpu_of_slot.tolist(), strict=True) if e >= 0})
        parts = {pair: data.draw(st.sampled_from([0.0, 0.1, 0.25, 1.0])) for pair in pairs}
        sums = {e: sum(part for (one, _), part in parts.items() if one == e) for e, _ in pairs}
        home = {e: next(pair for pair in pairs if pair[0] == e) for e, _ in pairs}
        shares.append(
            [(e, g, part / sums[e] if sums[e] else float(home[e] == (e, g))) for (e, g), part in parts.items()]
        )
    judged = placement.evaluate(instance, Placement.of(rows, shares))
    wanted = [oracles.cost(instance, row, held, own) for row, (held, own) in enumerate(zip(rows, shares, strict=True))]
    assert list(judged.max_load) == wanted
    assert judged.gpu_cost.max(axis=1).tolist() == pytest.approx([float(value) for value in wanted], rel=1e-12)
    even = [oracles.cost(instance, row, held) for row, held in enumerate(rows)]
    assert list(placement.evaluate(instance, Placement.of(rows, shares), split="even").max_load) == even
    assert list(placement.evaluate(instance, Placement.of(rows, shares), split="random").max_load) == even


def test_constant_loads_of_shared_experts_are_on_every_gpu_with_slots() -> None:
    instance = PlacementInstance([[6, 2, 4]], slots=[2, 2, 0], top_k=2, shared="replicated")
    assert instance.exact_base is not None
    base = instance.exact_base[0]
    judged = placement.evaluate(instance, [[0, 1, 0, 2]])
    assert judged.max_load == (7 + base,)
    assert judged.gpu_cost[0].tolist() == pytest.approx([5 + float(base), 7 + float(base), 0])
    single = PlacementInstance([[6, 2, 4]], slots=[1, 2, 0], top_k=2, shared="replicated")
    assert single.exact_base is not None
    judged = placement.evaluate(single, [[0, 1, 2]])
    assert judged.gpu_cost[0].tolist() == pytest.approx([6 + float(single.exact_base[0])] * 2 + [0])
    ruled = PlacementInstance([[6, 2, 4]], slots=[1, 2, 0], top_k=2, shared="replicated", split="sglang-static")
    assert placement.evaluate(ruled, [[0, 1, 2]]).max_load == judged.max_load  # one replica each: every rule is alike
    alone = PlacementInstance([[6, 2, 4]], slots=[1, 2, 0], top_k=2, shared="replicated", split="free")
    whole = [[(0, 0, 1.0), (1, 1, 1.0), (2, 1, 1.0)]]
    assert placement.evaluate(alone, Placement.of([[0, 1, 2]], whole)).gpu_cost.tolist() == judged.gpu_cost.tolist()
    free = PlacementInstance([[6, 2, 4]], slots=[2, 2, 0], top_k=2, shared="replicated", split="free")
    shares = [[(0, 0, 0.75), (0, 1, 0.25), (1, 0, 1.0), (2, 1, 1.0)]]
    judged = placement.evaluate(free, Placement.of([[0, 1, 0, 2]], shares))
    assert judged.max_load == (Fraction(13, 2) + base,) and judged.gpu_cost[0, 2] == 0


@pytest.mark.parametrize(
    ("rule", "costs"),
    [("per_expert", [Fraction(35, 2), Fraction(25, 2)]), ("per_replica", [Fraction(20), Fraction(20)])],
)
def test_a_floor_is_of_experts_or_of_replicas_with_shares_too(rule: Any, costs: list[Fraction]) -> None:
    # experts of 4, 1 and 2 tokens where a kernel is as slow as with 10; the first is shared by three and one quarter
    instance = PlacementInstance([[4, 1, 2]], slots=[2, 2], split="free", floor_tokens=10, floor_rule=rule)
    shares = [[(0, 0, 0.75), (0, 1, 0.25), (1, 0, 1.0), (2, 1, 1.0)]]
    judged = placement.evaluate(instance, Placement.of([[0, 1, 0, 2]], shares))
    assert judged.max_load == (max(costs),)
    assert judged.gpu_cost[0].tolist() == [float(cost) for cost in costs]


def test_shares_are_parts_of_their_exact_sum() -> None:
    free = PlacementInstance([[6, 2, 1]], slots=[2, 2], split="free")
    judged = placement.evaluate(
        free, Placement.of([[0, 1, 0, 2]], [[(0, 0, 0.1), (0, 1, 0.9), (1, 0, 1.0), (2, 1, 1.0)]])
    )
    tenth, rest = Fraction(0.1), Fraction(0.9)  # as doubles, which do not add up to 1
    assert tenth + rest != 1 and judged.max_load == (6 * rest / (tenth + rest) + 1,)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(InstanceError, match="must be one of"):
        placement.evaluate(PlacementInstance([[1, 1]], slots=[1, 1]), [[0, 1]], split="odd")


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "value", "shown"),
    [
        ({"combine": "worst"}, Fraction(3, 2), [1.5, 1.5]),
        ({"combine": "mean"}, Fraction(4, 3), [1.0 - 1 / 3, 2 / 3]),
        ({"combine": "cvar", "alpha": 0.5}, Fraction(3, 2), [2 / 3, 2 / 3]),
    ],
)
def test_windows_are_combined_by_hand(fields: dict[str, Any], value: Fraction, shown: list[float]) -> None:
    instance = PlacementInstance([[[6, 2]], [[1, 3]], [[0, 0]]], slots=[1, 1], **fields)
    judged = placement.evaluate(instance, [[0, 1]])
    assert judged.windows == ((Fraction(3, 2), Fraction(3, 2), Fraction(1)),)
    assert judged.max_load == (value,) and judged.ideal == (1,)
    assert judged.gpu_cost[0].tolist() == pytest.approx(shown)
    idle = PlacementInstance([[[0, 0]], [[0, 0]]], slots=[1, 1], floor_tokens=0, **fields)
    assert placement.evaluate(idle, [[0, 1]]).gpu_cost.tolist() == [[0, 0]]


def test_tails_and_combinations() -> None:
    assert [tail(*one) for one in (("mean", 0.5, 4), ("worst", 0.9, 4), ("cvar", 0.25, 4), ("cvar", 0.99, 4))] == [
        4, 1, 3, 1
    ]  # fmt: skip
    ratios = [Fraction(1), Fraction(5), Fraction(3), Fraction(2)]
    assert combine(ratios, Fraction(1)) == 5 and combine(ratios, Fraction(4)) == Fraction(11, 4)
    assert combine(ratios, Fraction(3, 2)) == (5 + Fraction(3, 2)) / Fraction(3, 2)
    assert ratio(Fraction(3), Fraction(2)) == Fraction(3, 2) and ratio(Fraction(0), Fraction(0)) == 1


# --- rules at their edges ---------------------------------------------------------------------------------------------

SIX = {"slots": [2, 2, 2], "layers": [4, 9]}
LOADS = [[3, 2, 1], [1, 2, 3]]


def test_every_double_is_counted() -> None:
    instance = PlacementInstance([[1, 1]], slots=[2, 2])
    assert faults(instance, [[0, 0, 1, 1]]) == [
        "layer 0: GPU 0 holds expert 0 twice",
        "layer 0: GPU 1 holds expert 1 twice",
    ]
    three = PlacementInstance([[1, 1, 1]], slots=[3, 3])
    assert faults(three, [[0, 0, 0, 0, 1, 2]]) == ["layer 0: GPU 0 holds expert 0 3 times"]
    empty = PlacementInstance([[1, 1]], slots=[2, 2], fill="at_most")
    assert faults(empty, [[0, 1, -1, -1]]) == []  # empty slots are no doubles
    assert faults(PlacementInstance([[1, 1]], slots=[2, 2], distinct=False), [[0, 0, 1, 1]]) == []


def test_shapes_and_ids() -> None:
    instance = PlacementInstance(LOADS, **SIX)
    good = [0, 1, 1, 2, 2, 0]
    assert faults(instance, [good]) == ["the plan has 1 layers, the instance 2"]
    assert faults(instance, [good[:5]] * 2) == ["layer 4: the plan has 5 slots, the instance 6"]
    assert faults(instance, [good[:5]]) == [
        "the plan has 1 layers, the instance 2",
        "layer 4: the plan has 5 slots, the instance 6",
    ]
    assert faults(instance, [good, [0, 1, 1, 2, 3, -1]]) == [
        "layer 9: slot 4 (GPU 2) holds expert 3, ids run from 0 to 2",
        "layer 9: slot 5 (GPU 2) is empty, but fill is 'all'",
    ]
    assert faults(PlacementInstance(LOADS, **SIX, fill="at_most"), [good, [0, 1, -1, 2, -2, -1]]) == [
        "layer 9: slot 4 (GPU 2) holds expert -2, ids run from 0 to 2"
    ]
    wide = PlacementInstance([[1] * 300], slots=[300], fill="at_most")
    assert len(faults(wide, [[-1] * 300])) == broken_rules.MAX_FAULTS
    with pytest.raises(PlanError) as caught:
        placement.evaluate(instance, [good[:5]])
    assert len(caught.value.faults) == 2


def test_least_replicas_and_nodes_to_survive() -> None:
    rows = [[0, 1, 0, 1, 0, 2]]
    least = PlacementInstance([[3, 2, 1]], slots=[2, 2, 2], min_replicas=[3, 2, 1])
    assert faults(least, rows) == []
    assert faults(least, [[0, 1, 2, 1, 0, 1]]) == ["layer 0: expert 0 has 2 replicas, min_replicas asks for 3"]
    assert faults(least, [[1, 2, 2, 1, 2, 1]]) == ["layer 0: expert 0 has no replica"]
    pairs = PlacementInstance([[3, 2, 1]], slots=[2, 2, 2], min_replicas=2)
    assert faults(pairs, rows) == ["layer 0: expert 2 has 1 replica, min_replicas asks for 2"]
    two = PlacementInstance([[3, 2]], slots=[2, 2, 2], nodes=[0, 0, 1], survive_nodes=1, layers=[6])
    assert faults(two, [[0, 1, 1, 0, 0, 1]]) == []
    empty = two.changed(fill="at_most")
    assert faults(empty, [[0, 1, 1, 0, 0, -1]]) == ["layer 6: expert 1 lies on 1 node, survive_nodes = 1 asks for 2"]
    three = PlacementInstance([[3, 2]], slots=[2, 2, 2], nodes=[0, 1, 2], survive_nodes=2)
    short = three.changed(fill="at_most")
    assert faults(short, [[0, 1, 1, 0, 0, -1]]) == ["layer 0: expert 1 lies on 2 nodes, survive_nodes = 2 asks for 3"]


def test_groups_on_their_nodes() -> None:
    nodes = PlacementInstance(
        [[1, 1, 1, 1]], slots=[2, 1, 2, 1], nodes=[0, 0, 1, 1], groups=2, fill="at_most", layers=[8]
    )
    assert faults(nodes, [[0, 1, -1, 2, 3, -1]]) == []
    assert faults(nodes, [[0, 1, 2, 3, 2, -1]]) == [
        "layer 8: group 1 lies on nodes [0, 1], a group stays on one",
        "layer 8: node 0 holds 2 groups, allowed 1",
    ]


def test_pins_and_prohibitions_of_each_layer() -> None:
    rules = PlacementInstance(LOADS, **SIX, pin=[(0, 0), (2, 2)], forbid=[(None, 1), (1, 2)], fill="at_most")
    good = [0, 1, -1, -1, 2, 0]
    assert faults(rules, [good, good]) == []
    assert faults(rules, [good, [1, 2, 0, -1, 1, 0]]) == [
        "layer 9: expert 0 is pinned to GPU 0 and not there",
        "layer 9: expert 2 is pinned to GPU 2 and not there",
        "layer 9: expert 0 is forbidden on GPU 1 and is there",
        "layer 9: expert 1 is forbidden on GPU 2 and is there",
    ]


SHARED = PlacementInstance([[6, 2, 1]], slots=[2, 2], split="free")
ROW = [[0, 1, 0, 2]]


SUMS = "shares of expert 0 sum to {}, not 1"


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ([(0, 0, 0.5), (0, 1, 0.5 + 9e-10), (1, 0, 1.0), (2, 1, 1.0)], []),
        ([(0, 0, 0.5), (0, 1, 0.5 + 2e-9), (1, 0, 1.0), (2, 1, 1.0)], [SUMS.format(0.5 + (0.5 + 2e-9))]),
        ([(0, 0, 0.5), (0, 1, 0.5 - 2e-9), (1, 0, 1.0), (2, 1, 1.0)], [SUMS.format(0.5 + (0.5 - 2e-9))]),
        ([(0, 0, 1.0), (0, 1, 0.0), (1, 0, 1.0), (2, 1, 1.0)], []),
        ([(0, 0, 1.0), (1, 0, 1.0), (2, 1, 1.0)], []),
        ([(0, 0, 1 + 1e-9), (1, 0, 1.0), (2, 1, 1.0)], [SUMS.format(1 + 1e-9)]),  # as a part by itself it may be
        (
            [(0, 0, 0.5), (0, 1, 0.5), (1, 0, 0.5), (1, 1, 0.5), (2, 1, 1.0)],
            ["a share of expert 1 goes to GPU 1, which has no replica"],
        ),
        (
            [(0, 0, 0.5), (0, 0, 0.5), (1, 0, 1.0), (2, 1, 1.0)],
            ["expert 0 has two shares on GPU 0"],
        ),
        (
            [(0, 0, 1 + 2e-9), (0, 1, -2e-9), (1, 0, 1.0), (2, 1, 1.0)],
            [f"expert 0 has share {part} on GPU {gpu}, outside [0, 1]" for part, gpu in ((1 + 2e-9, 0), (-2e-9, 1))],
        ),
    ],
)  # fmt: skip
def test_shares_at_their_edges(shares: Any, found: list[str]) -> None:
    assert faults(SHARED, ROW, [shares]) == [f"layer 0: {one}" for one in found]
    assert faults(SHARED, ROW, [shares, shares]) == ["shares cover 2 layers of 1"]


# --- moves ------------------------------------------------------------------------------------------------------------


def running(**fields: Any) -> PlacementInstance:
    """Four GPUs of two slots on two nodes."""
    current = [[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3, 2, 3]]
    shape = {"slots": [2] * 4, "nodes": [0, 0, 1, 1], "layers": [5, 6]}
    return PlacementInstance([[4, 3, 2, 1]] * 2, **{**shape, "current": current, **fields})


def test_moves_are_pairs_that_are_new() -> None:
    instance = running()
    after = np.array([[1, 0, 2, 3, 0, 3, 2, 1], [0, 1, 2, 3, 2, 3, 0, 1]])
    assert count_moves(instance, after) == (2, 4)  # an expert that changes its slot on a GPU is none
    assert new_pairs(instance, after[0], 0).tolist() == [[3, 2, 5], [1, 3, 7]]
    assert running_pairs(instance, 1).tolist() == [
        [True, True, False, False], [True, True, False, False], [False, False, True, True], [False, False, True, True]
    ]  # fmt: skip
    moves = [(one.expert, one.source, one.gpu, one.slot) for one in list_moves(instance, after[1], 1)]
    assert moves == [(2, 2, 1, 2), (3, 3, 1, 3), (0, 0, 3, 6), (1, 1, 3, 7)]
    near = [(one.source, one.gpu) for one in list_moves(instance, after[0], 0)]
    assert near == [(3, 2), (2, 3)]  # a source on the same node


def test_a_pair_is_an_expert_and_a_gpu_and_no_other() -> None:
    wide = PlacementInstance([[1] * 8], slots=[2] * 4, current=[[0, 1, 2, 3, 4, 5, 6, 7]])
    assert new_pairs(wide, np.array([4, 1, 0, 3, 2, 5, 6, 7]), 0).tolist() == [[4, 0, 0], [0, 1, 2], [2, 2, 4]]
    twice = PlacementInstance([[1, 1]], slots=[2, 2], distinct=False, current=[[0, 1, 0, 1]])
    assert new_pairs(twice, np.array([0, 0, 1, 1]), 0).tolist() == []
    other = PlacementInstance([[1, 1]], slots=[2, 2], distinct=False, current=[[0, 0, 1, 1]])
    assert new_pairs(other, np.array([1, 1, 0, 0]), 0).tolist() == [[1, 0, 0], [0, 1, 2]]


def test_sources_are_asked_in_turn_and_storage_where_none_is_left() -> None:
    three = PlacementInstance([[1, 1]], slots=[1] * 4, current=[[0, 0, 1, 1]])
    found = [(one.source, one.gpu) for one in list_moves(three, np.array([0, 0, 0, 0]), 0)]
    assert found == [(0, 2), (1, 3)]
    gone = running(lost=[0, 2])
    assert not running_pairs(gone, 0)[:, [0, 2]].any() and running_pairs(gone, 0)[2, 1]
    (move,) = list_moves(gone, np.array([2, 0, 2, 3]), 0)
    assert (move.expert, move.source) == (0, STORAGE)


def test_budgets_of_moves_at_their_edge() -> None:
    after = np.array([[1, 0, 2, 3, 0, 3, 2, 1], [0, 1, 2, 3, 2, 3, 0, 1]])
    assert move_faults(running(), after) == move_faults(running(max_moves=6), after) == []
    assert move_faults(running(max_moves_per_layer=4), after) == []
    assert move_faults(running(max_moves=5), after) == ["6 replicas are new on their GPU, allowed 5 in all"]
    assert move_faults(running(max_moves_per_layer=3), after) == [
        "layer 6: 4 replicas are new on their GPU, allowed 3 a layer"
    ]
    one = running(max_moves=0, max_moves_per_layer=0)
    single = np.array([[0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 0, 1, 2, 3, 2, 3]])
    assert move_faults(one, single) == [
        "layer 5: 1 replica is new on their GPU, allowed 0 a layer",
        "1 replica is new on their GPU, allowed 0 in all",
    ]
