"""The cap on the busiest GPU: methods that look at copies keep it wherever loads alone do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance
from moeopt.limits import Limits
from tests.collocation.strategies import legal, objective, traces


def skewed(seed: int) -> CollocationInstance:
    """Few hot experts that are selected together, two slots a GPU, some to spare."""
    rng = np.random.default_rng(seed)
    weight = rng.random(14) ** 3 + 0.05
    ids = np.array([rng.choice(14, size=3, replace=False, p=weight / weight.sum()) for _ in range(200)])
    return CollocationInstance(ids, experts=14, cluster=reference("2x4-h100"), slots=16)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("method", ["search", "spectral"])
def test_a_cap_that_loads_alone_keep_is_kept_by_all(seed: int, method: str) -> None:
    instance = skewed(seed)
    alone = collocation.solve(instance, method="load_only").solution["imbalance"]
    capped = CollocationInstance(
        instance.ids, experts=14, cluster=instance.cluster, slots=16, max_imbalance=alone * (1 + 1e-9)
    )
    result = collocation.solve(capped, method=method, limits=Limits(iterations=20))
    assert result.solution is not None, result.notes
    assert result.solution["imbalance"] <= alone * (1 + 1e-9)


def test_a_plan_that_saves_copies_and_loses_balance_says_so() -> None:
    ids = [[0, 1], [2, 3]] * 3 + [[0, 1]] * 6  # together 0 and 1 save copies, and have most tokens
    running = [[0, 2, 1, 3]]
    instance = CollocationInstance(ids, experts=4, nodes=2, gpus=2, current=running)
    advice = collocation.solve(instance).solution["advice"]
    assert advice["action"] == "move" and advice["imbalance_before"] == 1.0
    assert advice["balance"].startswith(
        "the busiest GPU has 1.500 times the mean of tokens, 1.000 with the running plan"
    )
    even = CollocationInstance(ids[:6], experts=4, nodes=2, gpus=2, current=running)
    assert "balance" not in collocation.solve(even).solution["advice"]


@pytest.mark.parametrize("slack", [1 + 1e-9, 1.1])
def test_a_cap_costs_fewer_copies_than_loads_alone(slack: float) -> None:
    """The search goes on under the cap from what loads alone give: it never ends there, nor above."""
    rng = np.random.default_rng(5)
    topics = rng.permutation(32) % 4  # experts of a topic are selected together, and one topic more than others
    weight = np.array([0.4, 0.25, 0.2, 0.15])
    chosen = rng.choice(4, size=400, p=weight)
    ids = np.array([rng.choice(np.flatnonzero(topics == topic), size=3, replace=False) for topic in chosen])
    fields = {"experts": 32, "nodes": 4, "gpus": 16, "slots": 32}
    alone = collocation.solve(CollocationInstance(ids, **fields), method="load_only")
    cap = alone.solution["imbalance"] * slack
    instance = CollocationInstance(ids, **fields, max_imbalance=cap)
    found = collocation.solve(instance, method="search", limits=Limits(iterations=300))
    assert found.solution is not None and found.solution["imbalance"] <= cap * (1 + 1e-12)
    assert found.objective is not None and alone.objective is not None
    assert found.objective < alone.objective
    again = collocation.solve(instance, method="search", limits=Limits(iterations=300))
    assert again.canonical() == found.canonical()


@given(traces(experts=4, max_layers=1), st.sampled_from([1.0, 1.2, 1.5, 2.0]), st.sampled_from(["all", "at_most"]))
@settings(max_examples=15)
def test_search_under_a_cap_is_near_brute_force(ids: object, cap: float, fill: str) -> None:
    """Two GPUs a node, so that copies look at nodes and the cap at GPUs."""
    fields = {"experts": 4, "nodes": 2, "gpus": 4, "slots": 4, "max_imbalance": cap, "fill": fill}
    instance = CollocationInstance(ids, **fields)
    kept = [one for one in legal(instance) if not collocation.faults(instance, collocation.Collocation.of(one))]
    result = collocation.solve(instance, method="search", limits=Limits(iterations=100))
    if not kept:
        assert result.objective is None
        return
    assert result.objective == pytest.approx(float(min(objective(instance, 0, one) for one in kept)), abs=1e-12)
