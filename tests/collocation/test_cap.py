"""The cap on the busiest GPU: methods that look at copies keep it wherever loads alone do."""

from __future__ import annotations

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance
from moeopt.limits import Limits


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
