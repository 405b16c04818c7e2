"""The search: what it reaches, what it does when it is cut short, and that its bytes depend on nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

from moeopt import placement
from moeopt.limits import Limits
from moeopt.placement import METHODS, PlacementInstance
from moeopt.registry import Progress
from moeopt.result import Status, Stop
from tests import oracles


def test_search_keeps_groups_where_nodes_have_their_gpus_in_another_order() -> None:
    """A node's plan was once taken over for a node with the same GPUs in another order, which made it illegal."""
    rng = random.Random(1)
    for _ in range(40):
        instance = PlacementInstance(
            [[rng.randint(0, 30) for _ in range(12)]],
            slots=[1, 4, 4, 1, 1, 4],
            nodes=[0, 0, 1, 1, 2, 2],
            groups=6,
        )
        result = placement.solve(instance, method="search", limits=Limits(iterations=30, gap=0))
        assert placement.faults(instance, result.plan) == []
        (held,) = result.plan.slot_expert.tolist()
        assert result.objective == float(oracles.cost(instance, 0, held))
        assert result.incumbents[-1][1] == pytest.approx(result.objective)
