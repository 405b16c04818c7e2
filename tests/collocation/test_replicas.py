"""Replicas in spare slots: against brute force, with more and more slots, and where there is room for everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance
from moeopt.collocation.heuristics.replicas import Spare
from moeopt.limits import Deadline, Limits
from tests.collocation.strategies import legal, objective, traces

LIMITS = Limits(iterations=300)
MERGING = st.sampled_from(["deepep-normal", "nvl-domain"])
NEAR = st.sampled_from(["nearest", "home_node"])


def value(instance: CollocationInstance) -> float:
    """The objective of the search."""
    return float(collocation.solve(instance, method="search", limits=LIMITS).objective or 0.0)


@given(traces(experts=3, max_layers=1), st.integers(2, 3), MERGING, NEAR, st.sampled_from(["all", "at_most"]))
@settings(max_examples=15)
def test_search_with_spare_slots_equals_brute_force(
    ids: object, gpus: int, transport: str, rule: str, fill: str
) -> None:
    instance = CollocationInstance(
        ids, experts=3, nodes=gpus, gpus=gpus, slots=6, transport=transport, replica_rule=rule, fill=fill
    )
    best = min(objective(instance, 0, held) for held in legal(instance))
    assert value(instance) == pytest.approx(float(best), abs=1e-12)


@given(traces(experts=5, max_layers=1), st.sampled_from([(2, 2), (2, 4), (3, 3)]), MERGING)
@settings(max_examples=6)
def test_more_slots_that_may_be_empty_never_make_it_worse(ids: object, size: tuple[int, int], transport: str) -> None:
    nodes, gpus = size
    values = []
    for each in range(-(-5 // gpus), 6):
        given = {"experts": 5, "nodes": nodes, "gpus": gpus, "slots": each * gpus, "fill": "at_most"}
        values.append(value(CollocationInstance(ids, **given, transport=transport)))
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0.0


@given(
    traces(experts=6, max_layers=1),
    st.sampled_from([(1, 2), (2, 2), (2, 4), (3, 3)]),
    st.integers(0, 2),
    MERGING,
    st.sampled_from(["nearest", "home_node", "even"]),
    st.sampled_from([None, 1.1, 2.0]),
)
@settings(max_examples=8)
def test_slots_that_may_be_empty_are_never_worse_than_filled_ones(
    ids: object, size: tuple[int, int], more: int, transport: str, rule: str, cap: float | None
) -> None:
    nodes, gpus = size
    each = min(6, -(-6 // gpus) + more)
    given = {"experts": 6, "nodes": nodes, "gpus": gpus, "slots": each * gpus, "transport": transport}
    given |= {"replica_rule": rule, "max_imbalance": cap}
    found = [
        collocation.solve(CollocationInstance(ids, fill=fill, **given), method="search", limits=LIMITS).objective
        for fill in ("all", "at_most")
    ]
    if found[0] is not None:
        assert found[1] is not None and found[1] <= found[0]


@given(traces(experts=6, max_layers=1), st.integers(2, 4), NEAR)
@settings(max_examples=6)
def test_spare_slots_are_never_worse_than_none(ids: object, nodes: int, rule: str) -> None:
    assume(12 % nodes == 0)
    given = {"experts": 6, "nodes": nodes, "gpus": nodes, "replica_rule": rule, "fill": "at_most"}
    tight = -(-6 // nodes) * nodes
    assert value(CollocationInstance(ids, slots=tight + nodes, **given)) <= value(
        CollocationInstance(ids, slots=tight, **given)
    )


@pytest.mark.parametrize("fill", ["all", "at_most"])
@pytest.mark.parametrize(
    ("nodes", "gpus", "transport"), [(4, 4, "deepep-normal"), (4, 16, "deepep-normal"), (3, 3, "nvl-domain")]
)
def test_room_for_every_expert_everywhere_costs_nothing(fill: str, nodes: int, gpus: int, transport: str) -> None:
    """No single replica spares a copy where tokens take eight experts: only all of them together do."""
    rng = np.random.default_rng(0)
    ids = np.stack([rng.permutation(24)[:8] for _ in range(150)])
    slots = 24 * nodes if transport == "deepep-normal" else 24 * gpus
    instance = CollocationInstance(
        ids, experts=24, nodes=nodes, gpus=gpus, slots=slots, transport=transport, fill=fill, max_imbalance=1.5
    )
    assert value(instance) == 0.0


def test_the_greedy_start_puts_what_spares_most_first() -> None:
    """Expert 0 is in every token: a replica of it on the other node spares most, and is the first."""
    ids = [[0, 2], [0, 3], [0, 2], [0, -1], [1, -1]]
    instance = CollocationInstance(ids, experts=4, nodes=2, gpus=2, slots=6, fill="at_most")
    spare = Spare(instance, 0, np.zeros(2), False, Deadline(None))
    found = spare.grown(np.array([0, 1, -1, 2, 3, -1]), 0.5).reshape(2, 3)
    assert sorted(found[1].tolist()) == [0, 2, 3]


def test_experts_in_order_are_dealt_over_all_gpus_where_slots_may_stay_empty() -> None:
    instance = CollocationInstance([[0, 1]], experts=6, nodes=2, gpus=4, slots=24, fill="at_most")
    held = collocation.solve(instance, method="id_order").plan.slot_expert[0].reshape(4, 6)
    assert [[int(one) for one in gpu if one >= 0] for gpu in held] == [[0], [1, 2], [3], [4, 5]]


def test_nothing_travels_and_nothing_is_searched_where_every_node_holds_all() -> None:
    ids = np.argsort(np.random.default_rng(3).random((1, 200, 16)), axis=2)[:, :, :3]
    instance = CollocationInstance(ids, experts=16, nodes=2, gpus=4, slots=64, fill="at_most")
    result = collocation.solve(instance, method="search")
    assert result.status == "OPTIMAL" and result.objective == 0 and result.iterations == 0
    assert result.certificate["layers"][0]["kind"] == "trivial" and result.solution["imbalance"] < 1.1
    assert result.plan.slot_expert.max(axis=1) == 15 and (result.plan.slot_expert < 0).sum() == 32


def test_where_time_counts_every_expert_on_every_node_is_a_plan_however_little_time_there_is() -> None:
    ids = np.argsort(np.random.default_rng(3).random((1, 200, 16)), axis=2)[:, :, :3]
    instance = CollocationInstance(ids, experts=16, cluster=reference("2x4-h100"), slots=128, fill="at_most")
    result = collocation.solve(instance, method="search", limits=Limits(time_s=1e-6))
    assert result.solution["lambda"] == 1.0 and result.objective < result.solution["advice"]["before"] / 2
