"""Rules that the search keeps: pins with groups, least replicas, survival, against every plan of tiny layers."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from moeopt import placement
from moeopt.limits import Deadline, Limits
from moeopt.placement import PlacementInstance
from moeopt.placement.feasible import fill, fill_conflicts
from moeopt.placement.heuristics import deep
from moeopt.placement.heuristics.count_first import countable, number_of
from moeopt.placement.heuristics.parts import part_of
from tests import oracles


def keeps(instance: PlacementInstance, row: tuple[int, ...] | list[int]) -> bool:
    """Whether a row of slots keeps every rule, checked without the code under test."""
    hosted = Counter(zip(row, instance.gpu_of_slot.tolist(), strict=True))
    copies = Counter(expert for expert in row if expert >= 0)
    if any(copies[expert] < least for expert, least in enumerate(instance.min_replicas)):
        return False
    if instance.distinct and any(count > 1 for (expert, _), count in hosted.items() if expert >= 0):
        return False
    if any(pair not in hosted for pair in instance.pin):
        return False
    if any((expert, gpu) in hosted for expert, gpu in instance.forbid):
        return False
    homes: dict[int, set[int]] = {expert: set() for expert in range(instance.num_experts)}
    for expert, gpu in hosted:
        if expert >= 0:
            homes[expert].add(instance.node[gpu])
    if any(len(nodes) < instance.survive_nodes + 1 for nodes in homes.values()):
        return False
    if instance.hierarchical:
        assert instance.groups is not None
        at: dict[int, set[int]] = {}
        for expert, nodes in homes.items():
            at.setdefault(instance.groups[expert], set()).update(nodes)
        if any(len(nodes) > 1 for nodes in at.values()):
            return False
        held = Counter(next(iter(nodes)) for nodes in at.values())
        return len(set(held.values())) == 1 and len(held) == len(instance.node_ids)
    return True


def every_plan(instance: PlacementInstance) -> list[tuple[int, ...]]:
    """Every row of slots that keeps the rules, each GPU's experts in rising order."""
    least = -1 if instance.fill == "at_most" else 0
    rows = product(range(least, instance.num_experts), repeat=instance.num_slots)
    start = instance.slot_start.tolist()
    spans = list(pairwise(start))
    return [row for row in rows if all(list(row[a:b]) == sorted(row[a:b]) for a, b in spans) and keeps(instance, row)]


def random_instance(rng: random.Random) -> PlacementInstance:
    num_gpus = rng.choice([2, 3, 4])
    num_experts = rng.choice([2, 3, 4])
    slots = [rng.randint(0, min(3, num_experts)) for _ in range(num_gpus)]
    while sum(slots) < num_experts or sum(slots) > 7:
        slots = [rng.randint(0, min(3, num_experts)) for _ in range(num_gpus)]
    nodes = 2 if num_gpus % 2 == 0 else rng.choice([1, 3])
    fields: dict[str, Any] = {"slots": slots, "nodes": nodes, "distinct": rng.random() < 0.8}
    if rng.random() < 0.5:
        fields["min_replicas"] = [rng.choice([1, 1, 2]) for _ in range(num_experts)]
    if rng.random() < 0.4 and nodes > 1:
        fields["survive_nodes"] = 1
    elif rng.random() < 0.5 and num_experts % 2 == 0:
        fields["groups"] = 2
    if rng.random() < 0.5:
        fields["pin"] = [(rng.randrange(num_experts), rng.randrange(num_gpus))]
    if rng.random() < 0.5:
        fields["forbid"] = [(rng.randrange(num_experts), rng.randrange(num_gpus)) for _ in range(2)]
    if rng.random() < 0.3:
        fields["speed"] = [rng.choice([1.0, 2.0, 0.5]) for _ in range(num_gpus)]
    if rng.random() < 0.2:
        fields["fill"] = "at_most"
    loads = [[rng.choice([0, 1, 3, 7, 20]) for _ in range(num_experts)]]
    try:
        return PlacementInstance(loads, **fields)
    except ValueError:  # a shape no plan can have is refused at birth
        return random_instance(rng)


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_is_found_whenever_there_is_one_and_never_beats_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    near = 0
    for _ in range(25):
        instance = random_instance(rng)
        plans = every_plan(instance)
        start = fill(instance)
        assert (start is None) == (not plans), instance.to_dict()
        if start is None:
            known = placement.PROBLEM.conflicts(instance)
            assert known and all(conflict["message"] for conflict in known), instance.to_dict()
            continue
        assert keeps(instance, start.tolist())
        assert fill_conflicts(instance) == []
        if placement.METHODS["search"].applies(instance) is not None:
            continue
        result = placement.solve(instance, method="search", limits=Limits(iterations=200, gap=0))
        held = result.plan.slot_expert[0].tolist()
        assert keeps(instance, held), instance.to_dict()
        best = min(oracles.cost(instance, 0, row) for row in plans)
        reached = oracles.cost(instance, 0, held)
        assert reached >= best
        near += reached <= best * Fraction(5, 4)
    assert near > 0


def test_infeasible_rules_are_named_with_their_shortfall() -> None:
    few = PlacementInstance([[1, 1, 1]], gpus=2, slots=4, min_replicas=2)
    (conflict,) = fill_conflicts(few)
    assert conflict["rule"] == "min_replicas, slots" and conflict["shortfall"] == 2
    apart = PlacementInstance([[1, 1]], gpus=4, slots=8, nodes=2, survive_nodes=1, forbid=[(0, 2), (0, 3)])
    assert next(c["rule"] for c in fill_conflicts(apart)) == "survive_nodes"
    assert placement.solve(apart, method="search").status == "INFEASIBLE"


def test_constant_loads_are_part_of_the_cost() -> None:
    """A GPU with a base load gets lighter experts; the search finds the balance that brute force finds."""
    empty = np.zeros((0, 0), np.int8)
    part = deep.Part(np.array([4.0, 3.0, 2.0, 1.0]), 0.0, (2, 2), (1.0, 1.0), empty, True, False, base=(4.0, 0.0))
    assert part.cost(np.array([0, 3, 1, 2])) == 9.0
    found = deep.deepen(part, np.array([0, 3, 1, 2]), 0.0, 1, rounds=50, deadline=Deadline(None))
    assert found.cost == 7.0 == part.cost(found.held)


def test_the_number_of_counts_is_a_floor_under_every_packing() -> None:
    rng = random.Random(4)
    for _ in range(60):
        num_gpus, slots = rng.choice([(2, 2), (3, 2), (2, 3)])
        num_experts = rng.randint(slots, num_gpus * slots)
        loads = [[rng.choice([1, 2, 5, 11, 30]) for _ in range(num_experts)]]
        instance = PlacementInstance(loads, gpus=num_gpus, slots=num_gpus * slots)
        part = part_of(instance, 0, np.arange(num_experts), list(range(num_gpus)))
        assert countable(part)
        for row in every_plan(instance):
            counts = np.bincount(row, minlength=num_experts)
            assert number_of(part, counts) <= part.cost(np.array(row)) * (1 + 1e-12)
