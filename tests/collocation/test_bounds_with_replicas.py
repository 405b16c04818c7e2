"""Bounds where there are slots to spare, and where nodes bind though the transport merges by GPU."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance
from moeopt.collocation.rows import rows_of
from tests.collocation.strategies import legal, objective

IDS = [[0, 1], [0, 1], [0, 1], [2, 3], [2, 3], [1, 2], [0, 3]]


@pytest.mark.parametrize("slots", [4, [3, 2]])
def test_spare_slots_cost_a_bound_no_more_than_the_loads_they_can_hold(slots: int | list[int]) -> None:
    one = CollocationInstance(IDS, experts=4, nodes=2, gpus=2)
    more = CollocationInstance(IDS, experts=4, nodes=2, gpus=2, slots=slots, fill="at_most")
    floor = collocation.bound(more, 0)
    best = min(objective(more, 0, held) for held in legal(more))
    loads = sorted(rows_of(one, 0).loads(4).tolist())[::-1][: more.num_slots - 4]
    assert floor.touched is not None
    assert floor.touched / 2 - Fraction(sum(loads), 2) <= floor.value <= best
    assert collocation.recheck(more, 0, floor.certificate) == []


def test_one_spare_slot_is_nearly_met() -> None:
    """Two groups of four, a lone expert between them: what its second replica can save is all the bound gives up."""
    rng = np.random.default_rng(0)
    ids = [[*(rng.permutation(4)[:3] + 4 * (t % 2)).tolist(), 8] if t % 10 == 0 else
           [*(rng.permutation(4)[:3] + 4 * (t % 2)).tolist(), -1] for t in range(200)]  # fmt: skip
    found = collocation.solve(CollocationInstance(ids, experts=9, nodes=2, gpus=2, slots=[5, 5]))
    assert found.objective == 100  # half of the tokens are away from their group, and every node has the lone expert
    assert found.gap is not None and found.gap < 0.25


@pytest.mark.parametrize("slots", [16, 20])
def test_the_network_between_nodes_binds_where_copies_are_merged_by_gpu(slots: int) -> None:
    ids = np.random.default_rng(0).permuted(np.tile(np.arange(16), (200, 1)), axis=1)[:, :4]
    sizes = {"slots": [2] * (slots - 16) + [1] * (32 - slots), "fill": "at_most"}
    instance = CollocationInstance(ids, experts=16, cluster=reference("2x8-h100"), transport="nvl-domain", **sizes)
    floor = collocation.bound(instance, 0)
    assert floor.touched is not None
    assert len(floor.certificate["node_cuts_bytes_per_s"]) == 2
    assert collocation.recheck(instance, 0, floor.certificate) == []
    assert collocation.recheck(instance, 0, {**floor.certificate, "value": str(floor.value * 2)}) != []
    for method in ("id_order", "load_only", "greedy"):
        result = collocation.solve(instance, method=method)
        assert floor.value <= result.objective
    if slots == 16:  # an expert a GPU: four copies a token, half of them cross into two nodes of eight cards of 50 GB/s
        copies = 4096 * 16 * 4 / 2
        assert float(floor.value) == pytest.approx(copies * sum(instance.transport.copy_bytes(7168)) / 800e9, rel=1e-12)
