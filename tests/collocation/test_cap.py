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
