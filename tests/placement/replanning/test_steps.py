"""Steps: executed from the running plan they give the new one, and nobody is without a replica on the way."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import InstanceError, PlanError
from moeopt.placement import Placement, PlacementInstance, Step
from moeopt.placement.moves import count_moves
from moeopt.placement.replanning.parts import without_budgets
from tests import strategies
from tests.placement.replanning.strategies import running


def execute(instance: PlacementInstance, target: list[list[int]], steps: list[Step], most: int) -> np.ndarray:
    """Carry the steps out as an engine would, doubting everything."""
    row_of = {layer: row for row, layer in enumerate(instance.layers)}
    table = np.array(instance.current)
    ends = [np.array(instance.current), np.array(target)]
    experts = instance.num_experts
    least = [
        np.minimum.reduce([np.bincount(end[row][end[row] >= 0], minlength=experts) for end in ends])
        for row in range(instance.num_layers)
    ]
    least = [np.minimum(row, np.array(instance.min_replicas)) for row in least]
    in_all = sum(one.source != one.gpu for step in steps for one in step.transfers)
    for step in steps:
        before = table.copy()
        counted = [one for one in step.transfers if one.source != one.gpu]
        assert len(counted) <= most
        for one in step.transfers:
            row = row_of[one.layer]
            assert instance.gpu_of_slot[one.slot] == one.gpu
            assert one.expert in before[row][instance.gpu_of_slot == one.source]
            table[row, one.slot] = one.expert
        if len(counted) < len(step.transfers):  # slots inside GPUs: at the end, or where a ring is longer than a step
            assert not instance.distinct or not counted or in_all > most
        for row in range(instance.num_layers):
            if instance.distinct:  # also with moves inside a GPU, at the end or where a ring is longer than a step
                kept = np.array(target[row]) >= 0  # the others may be used on the way, and are emptied at the end
                pairs = list(zip(instance.gpu_of_slot[kept].tolist(), table[row][kept].tolist(), strict=True))
                pairs = [pair for pair in pairs if pair[1] >= 0]
                assert len(set(pairs)) == len(pairs)
            counts = np.bincount(table[row][table[row] >= 0], minlength=experts)
            assert (counts >= least[row]).all() and (counts > 0).all()
    table[np.array(target) < 0] = -1  # emptied at the end
    return table


@settings(max_examples=120)
@given(running(budgets=st.just({})), st.integers(2, 9), st.data())
def test_steps_lead_to_the_plan_and_always_cover(instance: PlacementInstance, most: int, data: st.DataObject) -> None:
    target = data.draw(strategies.plans(without_budgets(instance)))
    steps = placement.steps(instance, target, most)
    table = execute(instance, target, steps, most)
    where = np.array(target) >= 0
    assert (table[where] == np.array(target)[where]).all()
    moved = sum(one.source != one.gpu for step in steps for one in step.transfers)
    if most >= instance.num_slots and instance.distinct and instance.fill == "all":
        assert moved == sum(count_moves(instance, np.array(target)))
    if steps:
        last = placement.evaluate(without_budgets(instance), Placement.of(target))
        if instance.fill == "all" and instance.split == "even":
            assert steps[-1].objective == pytest.approx(float(last.objective))


def ring(length: int, **rules: object) -> tuple[PlacementInstance, list[list[int]]]:
    """One replica of each expert, one slot a GPU, everybody one place on."""
    here = list(range(length))
    instance = PlacementInstance([[1] * length], gpus=length, slots=length, current=[here], **rules)  # type: ignore[arg-type]
    return instance, [[*here[1:], 0]]


def test_a_ring_without_a_copy_to_spare_is_one_exchange() -> None:
    instance, target = ring(5)
    (step,) = placement.steps(instance, target, 5)
    assert len(step.transfers) == 5 and step.over == 1.0


@pytest.mark.parametrize("most", [2, 3, 4])
def test_a_ring_longer_than_a_step_is_cut_into_exchanges(most: int) -> None:
    instance, target = ring(5)
    steps = placement.steps(instance, target, most)
    assert execute(instance, target, steps, most).tolist() == target
    assert all(len(step.transfers) <= most for step in steps)


def test_a_ring_with_a_copy_to_spare_is_opened_there() -> None:
    instance = PlacementInstance([[1, 1, 1]], gpus=4, slots=4, current=[[0, 1, 2, 0]])
    target = [[1, 2, 0, 0]]
    steps = placement.steps(instance, target, 1)
    assert execute(instance, target, steps, 1).tolist() == target
    assert len(steps) == 3


def test_an_exchange_that_fits_no_step_is_refused() -> None:
    instance, target = ring(3)
    with pytest.raises(InstanceError, match=r"max_transfers = 1.*Use 2"):
        placement.steps(instance, target, 1)


def test_no_gpu_takes_more_than_its_limit_in_a_step() -> None:
    instance = PlacementInstance([[1] * 8], gpus=2, slots=8, current=[[0, 1, 2, 3, 4, 5, 6, 7]])
    steps = placement.steps(instance, [[4, 5, 6, 7, 0, 1, 2, 3]], 8, max_per_gpu=1)
    assert len(steps) == 4
    for step in steps:
        assert max(Counter(one.gpu for one in step.transfers).values()) == 1


def test_steps_of_a_large_plan_are_few_and_none_is_far_above_its_ends() -> None:
    rng = np.random.default_rng(5)
    loads = rng.lognormal(0, 1, (4, 64))
    before = placement.solve(PlacementInstance(loads, gpus=8, slots=80), method="eplb").plan
    after = loads * np.exp(0.2 * rng.standard_normal(loads.shape))
    instance = PlacementInstance(after, gpus=8, slots=80, current=before.slot_expert)
    target = placement.solve(without_budgets(instance), method="eplb").plan
    steps = placement.steps(instance, target, 32)
    table = execute(instance, target.slot_expert.tolist(), steps, 32)
    assert (table == target.slot_expert).all()
    total = sum(count_moves(instance, target.slot_expert))
    assert len(steps) <= 1.5 * total / 32 + 2
    assert max(step.over for step in steps) < 1.25


def test_steps_come_from_a_leaving_gpu_and_refuse_what_is_no_plan() -> None:
    instance = PlacementInstance([[1, 1]], gpus=3, slots=6, current=[[0, 1, 0, 1, 0, 1]], retire=[2])
    assert placement.steps(instance, [[0, 1, 0, 1]]) == []
    with pytest.raises(PlanError):
        placement.steps(instance, [[0, 0, 0, 0]])
    with pytest.raises(InstanceError, match="current"):
        placement.steps(PlacementInstance([[1, 1]], gpus=2, slots=2), [[0, 1]])
    with pytest.raises(InstanceError, match="max_transfers"):
        placement.steps(instance, [[0, 1, 0, 1]], 0)
