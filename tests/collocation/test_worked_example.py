"""Two nodes of eight GPUs, sixteen experts in eight fixed pairs: by hand, by formula and by the program.

256 tokens a GPU, two experts a token, copies of 16 KiB, NVLink 450 GB/s, network 50 GB/s, rails.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cluster import reference
from moeopt.collocation import CollocationInstance, Transport, affinity, bounds, seconds
from moeopt.cost.dispatch import expected_copies
from moeopt.cost.links import Link
from moeopt.cost.routed import routed_copies
from moeopt.cost.two_stage import Copies, Fabric, flat_all_to_all_s, staged_all_to_all_s

MIB = 2**20
SIZE = 8192 * 2
IDS = np.array([[2 * pair, 2 * pair + 1] for _ in range(16) for pair in range(8) for _ in range(32)])
SOURCE = np.repeat(np.arange(16), 256)
TOGETHER = list(range(16))  # expert e on GPU e: a pair shares a node
APART = [*range(0, 16, 2), *range(1, 16, 2)]  # a pair is split over the nodes


def instance(merge: str, **more: Any) -> CollocationInstance:
    way = Transport("custom", merge, dispatch_bytes=2, combine_bytes=2)
    given = {"source": SOURCE, "hidden": 8192, "batch_tokens": 256, "objective": "time"} | more
    return CollocationInstance(IDS, experts=16, cluster=reference("2x8-h100"), transport=way, **given)


@pytest.mark.parametrize(
    ("merge", "plan", "cross_mib", "nic_us"),
    [
        ("rail", TOGETHER, 64, 83.886),
        ("node", TOGETHER, 32, 41.943),
        ("rail", APART, 64, 83.886),
        ("node", APART, 64, 83.886),
    ],
)
def test_copies_bytes_and_microseconds(merge: str, plan: list[int], cross_mib: int, nic_us: float) -> None:
    problem = instance(merge)
    layer = collocation.evaluate(problem, plan).layers[0]
    sent = seconds.traffic(problem, layer.counts)
    assert sent.away.sum() * SIZE == cross_mib * MIB
    assert set(sent.away.sum(axis=1) * SIZE) == {cross_mib * MIB // 16}
    assert set(sent.within.sum(axis=1) * SIZE) == {7 * MIB}
    assert round(layer.seconds / 2 * 1e6, 3) == nic_us  # dispatch and combine are alike
    assert round(7 * MIB / 450e9 * 1e6, 3) == 16.311


def test_lambda_of_both_plans() -> None:
    problem = instance("node")
    assert collocation.evaluate(problem, TOGETHER).layers[0].mean_lambda == 1
    assert collocation.evaluate(problem, APART).layers[0].mean_lambda == 2


def test_the_formula_of_routed_copies_agrees_copy_by_copy() -> None:
    for plan, merge in ((TOGETHER, "node"), (APART, "node"), (TOGETHER, "rail"), (APART, "rail"), (APART, "none")):
        problem = instance(merge)
        sent = seconds.traffic(problem, collocation.evaluate(problem, plan).layers[0].counts)
        gpu = np.argsort(plan)
        known = routed_copies(IDS, home=SOURCE, gpu_of_expert=gpu, gpus=16, nodes=2, merge=merge)
        assert (sent.away == known.nic).all() and (sent.within == known.nvlink).all()


def test_independent_routing_by_formula() -> None:
    copies = expected_copies(experts=16, top_k=2, gpus=16, nodes=2, merge="node").nic
    assert 2 * copies == Fraction(23, 15)  # lambda
    assert round(float(4096 * copies), 2) == 3140.27
    assert round(float(4096 * copies) * SIZE / MIB, 3) == 49.067
    assert round(float(256 * copies) * SIZE / 50e9 * 1e6, 2) == 64.31


def test_stages_with_latencies() -> None:
    fabric = Fabric(16, 2, nic=Link(5e-6, 50e9), nvlink=Link(1e-6, 450e9))
    within = Fraction(448, 256)
    one, two = Copies(Fraction(1, 2), within), Copies(Fraction(1), within)

    def staged(copies: Copies) -> float:
        return round(staged_all_to_all_s(256, fabric=fabric, copies=copies, token_bytes=SIZE) * 1e6, 3)

    assert round(flat_all_to_all_s(256, fabric=fabric, copies=two, token_bytes=SIZE) * 1e6, 3) == 123.886
    assert (staged(two), staged(one)) == (112.197, 70.254)
    problem = instance("node")
    found = seconds.stages(problem, collocation.evaluate(problem, TOGETHER).layers[0].counts)
    assert round(found["network_s"] / 2 * 1e6, 3) == 46.943
    assert round(found["overlap_s"] / 2 * 1e6, 3) == 46.943


def test_the_cut_is_met_and_the_search_proves_it() -> None:
    problem = instance("node")
    assert bounds.cuts(problem) == [400e9, 400e9]
    result = collocation.solve(problem)
    assert round(result.objective / 2 * 1e6, 3) == 41.943
    assert result.objective / 2 == pytest.approx(16 * MIB / 400e9)
    uniform = collocation.solve(instance("node", source=None))
    assert str(uniform.status) == "OPTIMAL"  # sources alike: the cut of any plan is met
    assert uniform.solution["lambda"] == 1.0


ONE_WHOLE = [[0, 1, 2, 3], [4, 5, 0, 8], [6, 7, 1, 9], [10, 11, 2, 4]]
ALL_HALVED = [[0, 1, 2, 4], [0, 3, 5, 6], [1, 2, 8, 9], [7, 4, 10, 11]]


@pytest.mark.parametrize(("ids", "copies"), [(ONE_WHOLE, 10), (ALL_HALVED, 8)])
def test_pair_counts_mislead(ids: list[list[int]], copies: int) -> None:
    """Four tokens on three nodes, nine pairs of experts together either way: they touch ten nodes, or eight."""
    plan = list(range(12))
    tokens = CollocationInstance(ids, experts=12, nodes=3, gpus=3)
    assert collocation.evaluate(tokens, plan).layers[0].touched == copies
    table = np.zeros((1, 12, 12), dtype=int)
    for token in ids:
        table[0][np.ix_(token, token)] += 1
    together = sum(int(table[0, e, f]) for e in range(12) for f in range(e) if e // 4 == f // 4)
    assert together == 9
    pairs = CollocationInstance(pairs=table, nodes=3, gpus=3)
    assert collocation.evaluate(pairs, plan).objective == 4 * 6 - 9


def test_worth_is_said_in_shares_of_a_step() -> None:
    small = collocation.solve(instance("node", current=[APART], step_s=1.0))
    assert small.solution["advice"]["action"] == "keep"
    large = collocation.solve(instance("node", current=[APART], step_s=1e-3))
    assert large.solution["advice"]["action"] == "move"
    assert replace(large, notes=()).solution["advice"]["share_of_step"] == pytest.approx(83.886e-3, rel=1e-3)


def test_affinity_counts_only_where_results_stay() -> None:
    """Four experts of 100 tokens, 90 stay with theirs: aligned nodes see hops of the other tokens alone."""
    transitions = np.full((4, 4), 10) + 80 * np.eye(4, dtype=int)
    pairs = np.array([[90, 10, 0, 0], [10, 90, 0, 0], [0, 0, 90, 10], [0, 0, 10, 90]])
    node = np.array([0, 0, 1, 1])
    assert affinity.hops(pairs, node, node) == 0 and affinity.hops(pairs, node, np.array([0, 1, 0, 1])) == 200
    assert affinity.hops(transitions, node, 1 - node) > affinity.hops(transitions, node, node)
    assert affinity.aligned(transitions, node, 1 - node).tolist() == [1, 0]
    rng = np.random.default_rng(0)
    first = rng.integers(0, 8, 400)
    ids = np.stack([np.stack([first, (first + 4) % 8], 1), np.stack([first, (first + 4) % 8], 1)])
    stays = Transport("mine", "node", returns_home=False)
    found = collocation.solve(CollocationInstance(ids, experts=8, nodes=4, gpus=4, transport=stays)).solution
    assert found["affinity"]["hops"] == [0]
    assert "affinity" not in collocation.solve(CollocationInstance(ids, experts=8, nodes=4, gpus=4)).solution
