"""Least replicas and node survival: judged, decided exactly, explained, and what a failure would lose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import placement
from moeopt.placement import Placement, PlacementInstance, conflicts, exact, faults
from moeopt.placement.feasible import hosts
from moeopt.placement.flow import shortfall
from moeopt.placement.lasting import lost_if, survival
from moeopt.result import Status
from tests import oracles

SEVEN = [[0, 1, 2, 2, 3, 4, 4, 5, 0, 1, 3, 6]]


def keeps(instance: PlacementInstance, on: oracles.Hosting) -> bool:
    """Whether a hosting keeps the least numbers and survives nodes, in the plainest way."""
    counts = Counter(expert for held in on for expert in held)
    nodes = {(expert, node) for held, node in zip(on, instance.node, strict=True) for expert in held}
    seen = Counter(expert for expert, _ in nodes)
    return all(
        counts[expert] >= instance.min_replicas[expert] and seen[expert] >= instance.survive_nodes + 1
        for expert in range(instance.num_experts)
    )


@st.composite
def lasting(draw: st.DrawFn) -> PlacementInstance:
    """Tiny instances whose rules may or may not be kept."""
    gpus = draw(st.integers(1, 4))
    experts = draw(st.integers(1, 4))
    distinct = draw(st.booleans())
    top = experts if distinct else 3
    slots = draw(st.lists(st.integers(0, top), min_size=gpus, max_size=gpus).filter(lambda s: sum(s) >= experts))
    pairs = st.tuples(st.integers(0, experts - 1), st.integers(0, gpus - 1))
    return PlacementInstance(
        [[1] * experts],
        slots=slots,
        nodes=draw(st.lists(st.integers(0, 2), min_size=gpus, max_size=gpus)),
        distinct=distinct,
        fill=draw(st.sampled_from(["all", "at_most"])),
        min_replicas=draw(st.lists(st.integers(1, 3), min_size=experts, max_size=experts)),
        survive_nodes=draw(st.integers(0, 2)),
        pin=draw(st.lists(pairs, max_size=1)),
        forbid=draw(st.lists(pairs, max_size=2)),
    )


@given(lasting())
def test_flow_and_conflicts_tell_exactly_whether_a_plan_exists(instance: PlacementInstance) -> None:
    possible = any(keeps(instance, on) for on in oracles.hostings(instance))
    assert (conflicts.conflicts(instance) == []) == possible
    if not any(pair in set(instance.forbid) for pair in instance.pin):
        pinned = Counter(gpu for _, gpu in instance.pin)
        if all(instance.slots[gpu] >= count for gpu, count in pinned.items()):
            assert (shortfall(instance) == 0) == possible


@given(lasting(), st.data())
def test_fewest_new_pairs_are_those_of_all_plans(instance: PlacementInstance, data: st.DataObject) -> None:
    if conflicts.conflicts(instance):
        return
    bits = data.draw(st.lists(st.booleans(), min_size=16, max_size=16))
    known = np.array(bits)[: instance.num_experts * instance.num_gpus].reshape(instance.num_experts, instance.num_gpus)
    counts = hosts(instance, cost=(~known).astype(float))
    assert counts is not None
    fewest = min(
        sum(not known[expert, gpu] for gpu, held in enumerate(on) for expert in set(held))
        for on in _every_hosting(instance)
        if keeps(instance, on)
    )
    assert ((counts > 0) & ~known).sum() == fewest or not instance.distinct
    assert ((counts > 0) & ~known).sum() >= fewest


def _every_hosting(instance: PlacementInstance) -> Any:
    """`oracles.hostings` exchanges GPUs that are alike, which the running plan tells apart."""
    options = next(oracles._options(instance))

    def fill(chosen: oracles.Hosting) -> Any:
        if len(chosen) == len(options):
            if len({expert for held in chosen for expert in held}) == instance.num_experts:
                yield chosen
            return
        for held in options[len(chosen)]:
            yield from fill([*chosen, held])

    return fill([])


@given(lasting(), st.data())
def test_the_referee_finds_what_is_too_few_and_too_close(instance: PlacementInstance, data: st.DataObject) -> None:
    options = list(oracles.hostings(instance))
    if not options:
        return
    on = data.draw(st.sampled_from(options))
    row = [expert for held, count in zip(on, instance.slots, strict=True) for expert in _padded(held, count)]
    assert (faults(instance, Placement.of([row])) == []) == keeps(instance, on)


def _padded(held: tuple[int, ...], count: int) -> list[int]:
    return [*held, *[-1] * (count - len(held))]


@pytest.mark.parametrize("split", ["even", "free"])
def test_the_programme_keeps_the_rules(split: str) -> None:
    """The programme's optimum is that of all plans that keep least numbers and nodes."""
    from moeopt.backends import LinearModel, solve_model

    instance = PlacementInstance(
        [[9, 4, 2]], slots=[2, 2, 2], nodes=[0, 0, 1], min_replicas=[1, 2, 1], split=split, fill="at_most"
    )
    for rules in ({"survive_nodes": 0}, {"survive_nodes": 1, "slots": [2, 2, 3]}):
        fields = {"slots": [2, 2, 2], "nodes": [0, 0, 1], "min_replicas": [1, 2, 1], "split": split, "fill": "at_most"}
        instance = PlacementInstance([[9, 4, 2]], **(fields | rules))
        linear = LinearModel.from_pulp(exact.build(instance, 0).problem)
        answer = solve_model(linear, in_process=True, backend="scipy")
        loads = [9, 4, 2]
        judge = oracles.free_cost if split == "free" else oracles.even_cost
        best = min(judge(instance, loads, 0, on) for on in oracles.hostings(instance) if keeps(instance, on))
        assert answer.objective == pytest.approx(float(best), rel=1e-6)


def message(**rules: Any) -> str:
    result = placement.solve(PlacementInstance(rules.pop("loads", [[1, 1, 1, 1]]), **rules), method="auto")
    assert result.status is Status.INFEASIBLE and result.conflicts[0]["shortfall"] > 0
    return str(result.conflicts[0]["message"])


def test_rules_that_cannot_be_kept_are_explained_with_what_is_short() -> None:
    assert "8 replicas in all, there are 6 slots: 2 replicas too many" in message(gpus=2, slots=6, min_replicas=2)
    assert "expert 1" in (said := message(gpus=2, slots=8, min_replicas=[1, 3, 1, 1])) and "2 GPUs" in said
    assert "on 3 nodes, there are 2: 1 too few" in message(gpus=4, slots=12, nodes=2, survive_nodes=2)
    uneven = message(slots=[4, 4, 1], nodes=[0, 0, 1], survive_nodes=1)
    assert "8 replicas on different nodes, which have room for 5" in uneven and "3 replicas too many" in uneven
    grouped = message(gpus=4, slots=8, nodes=2, groups=2, survive_nodes=1)
    assert "groups" in grouped and "contradict" in grouped
    forbidden = message(gpus=3, slots=9, loads=[[1, 1, 1]], min_replicas=[3, 1, 1], forbid=[(0, 1)], fill="at_most")
    assert "min_replicas, forbid" in forbidden and "1 replica" in forbidden


def test_which_failures_lose_experts() -> None:
    instance = PlacementInstance([[1] * 7], gpus=4, slots=12)
    found = lost_if(instance, Placement.of(SEVEN))
    assert {gpu: lost.get(0, []) for gpu, lost in found.items()} == {0: [], 1: [], 2: [5], 3: [6]}
    two = PlacementInstance([[1] * 7], gpus=4, slots=12, nodes=2)
    assert lost_if(two, Placement.of(SEVEN), by="node") == {0: {0: [2]}, 1: {0: [5, 6]}}
    assert survival(two, Placement.of(SEVEN)).tolist() == [[1, 1, 0, 1, 1, 0, 0]]
    assert survival(two, Placement.of(SEVEN), by="gpu").tolist() == [[1, 1, 1, 1, 1, 0, 0]]
