"""Repair: every expert restored with the fewest loads from storage, and the fewest moves, checked against all plans."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import NotApplicable
from moeopt.limits import Limits
from moeopt.placement import PlacementInstance, conflicts, faults
from moeopt.placement.damage import describe, fewest_moves, running
from moeopt.placement.load_plan import document_faults, read_result
from moeopt.result import Result, Status
from tests import strategies
from tests.placement.test_lasting import _every_hosting, keeps


def repaired(instance: PlacementInstance, **options: Any) -> Result:
    result = placement.solve(instance, method="repair", **options)
    assert result.solution is not None and faults(instance, result.plan) == []
    return result


@st.composite
def failures(draw: st.DrawFn, *, rules: bool = True, **sizes: Any) -> PlacementInstance:
    """An instance with a running plan, some of whose GPUs are lost or retired; it need not be possible."""
    sizes = {"max_layers": 2, "splits": ("even", "even", "free")} | sizes
    whole = draw(strategies.instances(rules=False, kinds=("ints", "ties"), **sizes))
    plan = draw(strategies.plans(whole))
    gone = draw(st.lists(st.integers(0, whole.num_gpus - 1), max_size=max(whole.num_gpus - 1, 0), unique=True))
    cut = draw(st.integers(0, len(gone)))
    fields = whole.to_dict(with_loads=False)
    del fields["schema"]
    if rules and not whole.hierarchical and draw(st.booleans()):
        fields["min_replicas"] = draw(
            st.lists(st.integers(1, 2), min_size=whole.num_experts, max_size=whole.num_experts)
        )
        fields["survive_nodes"] = draw(st.integers(0, 1))
    return PlacementInstance(whole.loads, **fields, current=plan, lost=gone[:cut], retire=gone[cut:])


@given(failures())
def test_every_expert_is_restored_with_exactly_the_loads_that_no_plan_can_do_without(
    instance: PlacementInstance,
) -> None:
    if conflicts.conflicts(instance):
        return
    try:
        result = repaired(instance)
    except NotApplicable:
        assert instance.hierarchical  # whole groups may have to move
        return
    report = result.solution["repair"]
    assert instance.current is not None and instance.current_gpu is not None
    for row, layer in enumerate(report["layers"]):
        there = {
            int(expert)
            for expert, gpu in zip(instance.current[row], instance.current_gpu, strict=True)
            if gpu not in instance.lost
        }
        assert layer["lost"] == [expert for expert in range(instance.num_experts) if expert not in there]
        assert sorted(expert for expert, _, _ in layer["from_storage"]) == layer["lost"]
        for expert, gpu, slot in layer["from_storage"]:
            assert result.plan.slot_expert[row, slot] == expert and instance.gpu_of_slot[slot] == gpu
        for expert, source, gpu, slot in layer["copied"]:
            assert result.plan.slot_expert[row, slot] == expert and instance.gpu_of_slot[slot] == gpu
            held = {int(e) for e, g in zip(instance.current[row], instance.current_gpu, strict=True) if g == source}
            assert source not in instance.lost
            assert expert in held or [expert, source] in [load[:2] for load in layer["from_storage"]]
    assert report["storage_loads"] == report["storage_loads_fewest"]
    assert report["moves_fewest"] is None or report["moves"] == report["moves_fewest"]


@given(failures(max_layers=1, max_experts=4, max_gpus=3, max_slots=3, splits=("even",), distinct=True))
def test_no_plan_restores_every_expert_with_fewer_moves(instance: PlacementInstance) -> None:
    if conflicts.conflicts(instance) or instance.hierarchical:
        return
    report = repaired(instance).solution["repair"]
    known = running(instance, 0).known
    fewest = min(
        sum(not known[expert, gpu] for gpu, held in enumerate(on) for expert in set(held))
        for on in _every_hosting(instance)
        if keeps(instance, on)
    )
    assert report["moves"] == fewest
    assert fewest_moves(instance) in (None, [fewest])


@given(failures(splits=("even",), distinct=True, rules=False), st.integers(0, 8))
def test_more_moves_never_make_it_worse_and_are_kept_to(instance: PlacementInstance, more: int) -> None:
    if conflicts.conflicts(instance) or instance.hierarchical:
        return
    least = repaired(instance)
    fields = instance.to_dict(with_loads=False)
    del fields["schema"]
    budget = least.solution["repair"]["moves"] + more
    result = repaired(PlacementInstance(instance.loads, **fields, max_moves=budget))
    assert result.solution["repair"]["moves"] <= budget
    assert result.objective <= least.objective * (1 + 1e-6)
    assert result.solution["repair"]["storage_loads"] == least.solution["repair"]["storage_loads"]


@given(failures(rules=False, max_gpus=4, max_experts=6), st.sampled_from(sorted(placement.METHODS)))
def test_every_method_plans_on_the_gpus_that_are_left(instance: PlacementInstance, method: str) -> None:
    if conflicts.conflicts(instance) or placement.METHODS[method].applies(instance):
        return
    try:
        result = placement.solve(instance, method=method, limits=Limits(iterations=20, nodes=20))
    except NotApplicable:
        assert method in ("repair", "auto", "equal_split")
        return
    assert faults(instance, result.plan) == []
    left = placement.solve(instance.left, method="search", limits=Limits(iterations=20))
    assert result.lower_bound <= left.objective * (1 + 1e-9)  # the same problem without the GPUs that are gone
    document = read_result(json.loads(result.to_json()))
    assert document_faults(document, instance.loads, instance.layers) == []


def test_a_retired_gpu_is_emptied_without_a_load_from_storage() -> None:
    instance = PlacementInstance([[5, 4, 3, 2, 1]], gpus=3, slots=9, current=[[0, 1, 2, 0, 3, 4, 3, 4, 0]], retire=[0])
    report = repaired(instance).solution["repair"]
    assert report["storage_loads"] == 0 and report["layers"][0]["lost"] == []
    assert sorted(copy[:2] for copy in report["layers"][0]["copied"]) == [[1, 0], [2, 0]]
    dead = PlacementInstance([[5, 4, 3, 2, 1]], gpus=3, slots=9, current=[[0, 1, 2, 0, 3, 4, 3, 4, 0]], lost=[0])
    assert repaired(dead).solution["repair"]["storage_loads"] == 2


def test_auto_repairs_where_gpus_of_the_running_plan_are_gone() -> None:
    instance = PlacementInstance([[5, 4, 3, 2, 1]], gpus=3, slots=9, current=[[0, 1, 2, 0, 3, 4, 3, 4, 0]], lost=[0])
    result = placement.solve(instance)
    assert result.plan.slot_expert.tolist() == repaired(instance).plan.slot_expert.tolist()
    assert result.solution["imbalance_mean"] >= 1 and result.solution["layers"][0]["ideal"] == 7.5
    other = placement.solve(instance, method="lpt")  # any plan says what it takes to get there
    assert other.solution["repair"]["moves"] >= result.solution["repair"]["moves"]


def test_survivors_that_are_too_small_are_named() -> None:
    instance = PlacementInstance([[1] * 10], gpus=4, slots=12, current=[[*range(10), 0, 1]], lost=[3])
    result = placement.solve(instance)
    assert result.status is Status.INFEASIBLE and result.conflicts[0]["shortfall"] == 1
    said = result.conflicts[0]["message"]
    assert "9 slots" in said and "10 experts" in said and "4 a GPU would do" in said


def test_survivors_that_experts_do_not_divide_over_are_told_what_does() -> None:
    instance = PlacementInstance([[1] * 64], gpus=4, slots=64, current=[[*range(64)]], lost=[3])
    said = placement.solve(instance).conflicts[0]["message"]
    assert "64 experts" in said and "3 GPUs" in said and "2 redundant experts make 66" in said


def test_a_budget_below_the_fewest_moves_is_infeasible() -> None:
    running_plan = [[0, 1, 2, 0, 3, 4, 3, 4, 0]]
    instance = PlacementInstance(
        [[5, 4, 3, 2, 1]], gpus=3, slots=9, current=running_plan, lost=[0], max_moves=1, max_moves_per_layer=1
    )
    result = placement.solve(instance, method="repair")
    assert result.status is Status.INFEASIBLE
    assert "takes 2 moves, max_moves allows 1" in result.conflicts[0]["message"]
    assert "layer 0" in result.conflicts[1]["message"]


def test_a_running_plan_of_another_shape_is_repaired_too() -> None:
    current, at = [[0, 1, 2, 3, 0, 1]], [0, 0, 0, 1, 1, 1]
    instance = PlacementInstance([[4, 3, 2, 1]], gpus=3, slots=6, current=current, current_gpu=at, lost=[1])
    result = repaired(instance)
    assert result.solution["repair"]["layers"][0]["lost"] == [3]
    assert fewest_moves(instance) is None  # GPU 0 shrinks: which replica leaves it is a choice


def test_a_budget_is_held_against_the_flow_where_rules_leave_a_choice() -> None:
    running_plan = [[0, 1, 2, 0, 3, 4, 3, 4, 0]]
    rules = {
        "gpus": 3,
        "slots": 9,
        "current": running_plan,
        "lost": [0],
        "min_replicas": [1, 1, 1, 1, 2],
        "pin": [(0, 2)],
    }
    least = repaired(PlacementInstance([[5, 4, 3, 2, 1]], **rules)).solution["repair"]
    assert least["moves"] == least["moves_fewest"] == 2  # expert 4 lies on GPUs 1 and 2 already
    result = placement.solve(PlacementInstance([[5, 4, 3, 2, 1]], **rules, max_moves=1), method="repair")
    assert result.status is Status.INFEASIBLE and "takes 2 moves" in result.conflicts[0]["message"]


def test_groups_stay_on_their_node_when_a_gpu_fails() -> None:
    loads = [[8, 7, 6, 5, 4, 3, 2, 1]]
    whole = PlacementInstance(loads, gpus=6, slots=18, nodes=2, groups=4)
    plan = placement.solve(whole, method="search").plan
    instance = PlacementInstance(
        loads, gpus=6, slots=18, nodes=2, groups=4, current=plan.slot_expert.tolist(), lost=[1]
    )
    result = repaired(instance)
    assert result.solution["repair"]["moves"] <= 3


def test_a_large_repair_keeps_its_deadline_and_the_same_seed_gives_the_same_plan() -> None:
    rng = np.random.default_rng(5)
    loads = rng.integers(1, 1000, (3, 512))
    whole = PlacementInstance(loads, gpus=64, slots=640)
    plan = placement.solve(whole, method="lpt").plan.slot_expert
    instance = PlacementInstance(loads, gpus=64, slots=640, current=plan, lost=[7, 8])
    first, second = repaired(instance), repaired(instance)
    assert first.canonical() == second.canonical()
    hurried = repaired(instance, limits=Limits(time_s=1e-3))
    assert hurried.solution["repair"]["storage_loads"] == first.solution["repair"]["storage_loads"]


def test_what_a_plan_takes_is_described_from_the_instance_alone() -> None:
    instance = PlacementInstance([[1, 1, 1]], gpus=3, slots=6, current=[[0, 1, 1, 2, 0, 1]], lost=[1])
    report = describe(instance, np.array([[0, 2, 2, 1]]))
    layer = report["layers"][0]
    assert layer["from_storage"] == [[2, 0, 1]] and layer["copied"] == [[2, 0, 2, 2]]
    assert report["moves"] == 2 and report["storage_loads_fewest"] == 1


@pytest.mark.parametrize("missing", ["current", "nothing"])
def test_repair_needs_the_running_plan(missing: str) -> None:
    lost = [0] if missing == "current" else []
    with pytest.raises(NotApplicable, match="running plan"):
        placement.solve(PlacementInstance([[1, 1]], gpus=3, slots=6, lost=lost), method="repair")


@pytest.mark.parametrize(
    ("running_slots", "slots", "fewest"),
    [
        ([1, -1, 1, 1, 0, 1, 0, 0, 1], [4, 2, 3], 0),
        ([0, -1, -1, -1, 1, 1], [2, 2, 2], 1),
        ([0, 0, -1, -1, 0, 0], [2, 2, 2], 1),
    ],
)
def test_an_empty_slot_takes_no_move_where_doubles_fill_it(
    running_slots: list[int], slots: list[int], fewest: int
) -> None:
    """One move was said to be needed for each, and `verify` refused the plan."""
    instance = PlacementInstance([[3, 1]], slots=slots, distinct=False, current=[running_slots])
    result = repaired(instance)
    assert result.solution["repair"]["moves"] == result.solution["repair"]["moves_fewest"] == fewest
    assert document_faults(read_result(json.loads(result.to_json())), instance.given_loads, instance.layers) == []


def test_a_repair_keeps_pins_that_it_has_just_met() -> None:
    """Looking for a better place for what came in took a pinned expert away again."""
    instance = PlacementInstance(
        [[62.9, 0, 0, 2]], gpus=2, slots=4, pin=[(3, 1), (2, 0)], current=[[0, 1, 0, -1]], split="even"
    )
    rows = repaired(instance).plan.slot_expert.tolist()
    assert 2 in rows[0][:2] and 3 in rows[0][2:]
