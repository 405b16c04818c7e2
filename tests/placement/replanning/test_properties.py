"""Laws of re-planning, on instances of any shape."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.limits import Limits
from moeopt.placement import Placement, PlacementInstance
from moeopt.placement.moves import count_moves
from moeopt.placement.replanning.parts import without_budgets
from moeopt.result import Result
from tests import oracles
from tests.placement.replanning import strategies

LIMITS = Limits(iterations=2)


def replan(instance: PlacementInstance, seed: int = 0) -> Result:
    return placement.replan(instance, limits=LIMITS, seed=seed)


def moves_by_hand(instance: PlacementInstance, plan: Placement) -> list[int]:
    """Pairs that are new, in sets."""
    found = []
    for old, new in zip(instance.current.tolist(), plan.slot_expert.tolist(), strict=True):
        had = {(e, g) for e, g in zip(old, instance.current_gpu, strict=True) if e >= 0}
        has = {(e, g) for e, g in zip(new, instance.gpu_of_slot.tolist(), strict=True) if e >= 0}
        found.append(len(has - had))
    return found


@settings(max_examples=80)
@given(strategies.running())
def test_plans_are_legal_within_their_budgets_and_no_worse_than_staying(instance: PlacementInstance) -> None:
    result = replan(instance)
    assert placement.faults(instance, result.plan) == []
    moves = moves_by_hand(instance, result.plan)
    assert list(count_moves(instance, result.plan.slot_expert)) == moves
    assert [layer["moves"] for layer in result.solution["layers"]] == moves
    assert result.solution["moves"] == sum(moves)
    assert instance.max_moves is None or sum(moves) <= instance.max_moves
    assert instance.max_moves_per_layer is None or max(moves) <= instance.max_moves_per_layer
    stay = placement.evaluate(without_budgets(instance), Placement.of(instance.current)).objective
    now = placement.evaluate(instance, result.plan).objective + Fraction(instance.move_cost) * sum(moves)
    assert now <= stay * (1 + Fraction(1, 10**9))
    if (result.plan.slot_expert == instance.current).all():  # dropping or doubling a replica moves nothing either
        assert any("keep" in note for note in result.notes)


@given(strategies.running())
def test_moved_lists_every_new_pair_with_a_source_that_has_it(instance: PlacementInstance) -> None:
    result = replan(instance)
    for row, layer in enumerate(result.solution["layers"]):
        old = instance.current[row]
        for expert, source, gpu, slot in layer["moved"]:
            assert layer["slot_expert"][slot] == expert and instance.gpu_of_slot[slot] == gpu
            assert expert in old[instance.gpu_of_slot == source]
        kept = [s for s, (a, b) in enumerate(zip(old.tolist(), layer["slot_expert"], strict=True)) if a == b]
        stays = len(layer["slot_expert"]) - layer["moves"] - layer["slot_expert"].count(-1)
        assert not instance.distinct or len([s for s in kept if old[s] >= 0]) == stays  # in its slot


@given(strategies.running())
def test_the_frontier_falls_and_has_the_plan_on_it(instance: PlacementInstance) -> None:
    solution = replan(instance).solution
    if "advice" in solution:
        assert "frontier" not in solution  # imbalance is free, so no move is proposed
        return
    points = solution["frontier"]
    assert all(a[0] < b[0] for a, b in pairwise(points))
    hull = [point for point in points if point[0] != solution["moves"]]
    assert all(a[1] >= b[1] * (1 - 1e-9) for a, b in pairwise(hull))
    (mine,) = (value for moves, value in points if moves == solution["moves"])
    assert abs(mine - solution["imbalance_total"]) <= 1e-9 * mine


def all_hostings(instance: PlacementInstance) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to give each GPU experts, GPUs by name: a move depends on it."""
    pick = combinations if instance.distinct else combinations_with_replacement
    options = []
    for count in instance.slots:
        sizes = range(count + 1) if instance.fill == "at_most" else (count,)
        options.append([held for size in sizes for held in pick(range(instance.num_experts), size)])
    for on in product(*options):
        if {expert for held in on for expert in held} == set(range(instance.num_experts)):
            yield on


def best_by_budget(instance: PlacementInstance, most: int) -> list[Fraction]:
    """Least cost of the one layer with at most 0, 1, ... moves, over every plan there is."""
    had = {(e, g) for e, g in zip(instance.current[0].tolist(), instance.current_gpu, strict=True) if e >= 0}
    weights = [max(Fraction(v), Fraction(instance.floor_tokens) * instance.steps) for v in instance.loads[0].tolist()]
    if instance.floor_rule == "per_replica":
        weights = [Fraction(v) for v in instance.loads[0].tolist()]
    best: list[Fraction | None] = [None] * (most + 1)
    for on in all_hostings(instance):
        moves = len({(e, g) for g, held in enumerate(on) for e in held} - had)
        cost = oracles.even_cost(instance, weights, Fraction(instance.floor_tokens) * instance.steps, on)
        for budget in range(moves, most + 1):
            if best[budget] is None or cost < best[budget]:
                best[budget] = cost
    return best  # type: ignore[return-value]


@settings(max_examples=40)
@given(strategies.running(max_layers=1, max_experts=4, max_gpus=3, max_slots=3, budgets=st.just({})))
def test_tiny_layers_are_exact_for_every_budget(instance: PlacementInstance) -> None:
    assume(instance.groups is None or not instance.hierarchical)
    best = best_by_budget(instance, 6)
    for budget in (0, 1, 2, 3, 6):
        within = PlacementInstance.from_dict(instance.to_dict() | {"max_moves": budget})
        result = placement.replan(within, limits=Limits(gap=0))
        assert placement.evaluate(within, result.plan).objective == best[budget]


@settings(max_examples=40)
@given(strategies.running(budgets=st.just({})), st.integers(0, 3))
def test_a_plan_of_ours_needs_no_move_on_the_same_loads(instance: PlacementInstance, seed: int) -> None:
    first = replan(instance, seed)
    document = instance.to_dict() | {"current": first.plan.slot_expert.tolist()}
    again = replan(PlacementInstance.from_dict(document), seed)
    layers = zip(first.solution["layers"], again.solution["layers"], strict=True)
    for before, after in layers:  # what is certified stays; what is not may still be found to be better
        assert after["moves"] == 0 or after["max_load"] < before["max_load"]


@settings(max_examples=40)
@given(strategies.running(), st.integers(0, 3))
def test_equal_seeds_give_equal_bytes(instance: PlacementInstance, seed: int) -> None:
    assert replan(instance, seed).canonical() == replan(instance, seed).canonical()


@settings(max_examples=40)
@given(strategies.running(max_experts=8, max_gpus=5, budgets=st.just({}), distinct=True), st.data())
def test_an_optimum_with_its_gpus_renamed_needs_no_move(instance: PlacementInstance, data: st.DataObject) -> None:
    """Equal GPUs, no groups: the running plan has the sets of the fresh one on other GPUs."""
    document = without_budgets(instance).to_dict() | {"groups": None, "group_rule": "auto", "speed": None}
    count = max(instance.slots)
    document |= {"slots": [count] * instance.num_gpus, "fill": "all"}
    free = PlacementInstance.from_dict(document)
    fresh = placement.solve(free, method="search", limits=Limits(iterations=10)).plan.slot_expert
    order = data.draw(st.permutations(range(free.num_gpus)))
    named = fresh.reshape(free.num_layers, free.num_gpus, count)[:, order].reshape(fresh.shape)
    renamed = PlacementInstance.from_dict(document | {"current": named.tolist()})
    from moeopt.placement.replanning.relabel import relabelled

    for row in range(free.num_layers):
        back = relabelled(renamed, fresh[row].astype(np.int64), row)
        assert count_moves(renamed, np.stack([back] * free.num_layers))[row] == 0
    result = replan(renamed)
    same = zip(result.solution["layers"], placement.evaluate(free, Placement.of(named)).max_load, strict=True)
    assert all(layer["moves"] == 0 or layer["max_load"] < float(top) for layer, top in same)
