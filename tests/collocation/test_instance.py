"""Bad input is refused with every fault named at once, and what was assumed is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cluster import Cluster, reference
from moeopt.cluster.readers.matrices import read_costs
from moeopt.collocation import CollocationInstance, Transport
from moeopt.errors import InstanceError

GOOD = [[0, 1], [2, 3], [0, 2]]


@pytest.mark.parametrize(
    ("ids", "more", "message"),
    [
        ([[0, 0]], {}, "a token selects an expert once"),
        ([[0, 7]], {"experts": 4}, "must be -1 or an expert below experts = 4"),
        ([[0, -2]], {"experts": 4}, "must be -1 or an expert"),
        ([[-1, -1]], {"experts": 4}, "a layer must have a token"),
        ([[0, 1, 2, 3, 4]], {"experts": 4}, "expert below experts = 4"),
        ([[0.5, 1]], {}, "must be whole numbers"),
        ([], {}, "must be whole numbers"),
        (GOOD, {"gpus": 3}, "must divide gpus = 3"),
        (GOOD, {"slots": 5}, "must be a multiple of gpus = 2. Use 4 or 6"),
        (GOOD, {"slots": 2}, "must hold all experts = 4"),
        (GOOD, {"slots": [4, 5]}, "cannot hold more than experts = 4"),
        (GOOD, {"source": [0, 1]}, "must be 3 GPUs, one a token"),
        (GOOD, {"source": [0, 1, 2]}, "must be a GPU from 0 to 1"),
        (GOOD, {"transport": "nccl"}, "is not one of deepep-normal"),
        (GOOD, {"transport": "custom"}, "needs what is merged"),
        (GOOD, {"transport": "allgather"}, "no placement changes the bytes"),
        (GOOD, {"transport": "deepep-ll", "objective": "copies"}, "no plan changes the bytes"),
        (GOOD, {"objective": "time"}, "needs a link graph"),
        (GOOD, {"objective": "tokens"}, "copies are merged"),
        (GOOD, {"max_imbalance": 0.5}, "must be a finite number >= 1"),
        (GOOD, {"hidden": 10**30}, "must be at most 1e+15"),
        (GOOD, {"batch_tokens": 1e300}, "must be between 1e-15 and 1e+15"),
        (GOOD, {"step_s": 1e-300}, "must be between 1e-15 and 1e+15"),
        ([[-1, -1], [0, 1]], {"held_out": 0.5}, "that plans are made for, the layer has none but padding"),
        ([[0, 1], [-1, -1]], {"held_out": 0.5}, "that are held out, the layer has none but padding"),
        (GOOD, {"cluster": "4x8-h100", "nodes": None, "gpus": None}, "must be a Cluster. Build it: cluster.reference"),
        (GOOD, {"held_out": 1.5}, "share of the tokens"),
        (GOOD, {"held_out": 0.99}, "must leave some of the 3 tokens"),
        (GOOD, {"groups": 2}, "groups and top_groups belong together"),
        (GOOD, {"groups": 2, "top_groups": 1}, "come from at most top_groups = 1"),
        (GOOD, {"current": [[0, 1, 2]]}, "must be 1 layers x 4 slots"),
        (GOOD, {"layers": [1, 2]}, "must be 1 different whole numbers"),
        (GOOD, {"replica_rule": "random"}, "must be one of nearest"),
    ],
)
def test_bad_input_is_refused(ids: Any, more: dict[str, Any], message: str) -> None:
    given = {"nodes": 2, "gpus": 2} | more
    with pytest.raises(InstanceError) as error:
        CollocationInstance(ids, **given)
    assert message in str(error.value)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(InstanceError) as error:
        CollocationInstance([[0, 0], [1, 9]], experts=4, nodes=2, gpus=2, transport="x", fill="some", hidden=0)
    assert {one.field for one in error.value.violations} == {"ids", "transport", "fill", "hidden"}


def test_padding_and_idle_columns_are_taken() -> None:
    instance = CollocationInstance([[0, 1, -1], [2, -1, -1], [-1, -1, -1]], experts=4, nodes=2, gpus=2)
    layer = collocation.evaluate(instance, [0, 1, 2, 3]).layers[0]
    assert layer.counts.tokens == 2 and layer.touched == 2


def test_pair_counts_are_called_an_approximation() -> None:
    pairs = np.zeros((4, 4), dtype=int)
    pairs[0, 1] = pairs[1, 0] = 9
    pairs[2, 3] = pairs[3, 2] = 5
    instance = CollocationInstance(pairs=pairs, nodes=2, gpus=2)
    result = collocation.solve(instance)
    assert result.unit == "pairs apart" and result.objective == 0
    assert any("approximation" in note for note in result.notes)
    with pytest.raises(InstanceError, match="must be symmetric"):
        CollocationInstance(pairs=np.triu(pairs), nodes=2, gpus=2)


@pytest.mark.parametrize(("counts", "message"), [
    ([[[7]]], "no two experts that are selected together"),
    ([[[3, 0], [0, 4]]], "no two experts that are selected together"),
    ([[[0, 2**62], [2**62, 0]]], "counted up to 1,125,899,906,842,624"),
    (np.full((1, 2, 2), 2**64 - 1, dtype=np.uint64), "counted up to 1,125,899,906,842,624"),
])  # fmt: skip
def test_pairs_that_are_none_or_too_many_are_refused(counts: Any, message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        CollocationInstance(pairs=counts, nodes=2, gpus=2)


def test_links_of_any_speed_have_finite_times() -> None:
    for speed in (1e-24, 1.0, 1e24):
        links = Cluster.from_links(2, [(0, 1, speed)], nodes=[0, 1])
        result = collocation.solve(CollocationInstance(GOOD, cluster=links, batch_tokens=1e15), method="id_order")
        assert result.objective is not None and np.isfinite(result.objective)
    for speed in (5e-324, 1e-300, 1.7e308):
        with pytest.raises(InstanceError, match="no link has this"):
            Cluster.from_links(2, [(0, 1, speed)])


def test_group_limited_routing_is_taken_where_tokens_keep_it() -> None:
    instance = CollocationInstance([[0, 1], [2, 3]], nodes=2, gpus=2, groups=2, top_groups=1)
    assert collocation.solve(instance).solution["lambda"] == 1


def test_low_latency_balances_tokens_and_says_so() -> None:
    instance = CollocationInstance(GOOD, nodes=2, gpus=2, transport="deepep-ll")
    result = collocation.solve(instance)
    assert result.unit == "tokens" and result.objective == 3
    assert any("only the balance of tokens" in note for note in result.notes)


def test_a_cap_that_no_plan_keeps_is_infeasible() -> None:
    instance = CollocationInstance([[0, 1], [0, 2], [0, 3]], experts=4, nodes=2, gpus=4, max_imbalance=1.5)
    result = collocation.solve(instance)
    assert str(result.status) == "INFEASIBLE" and "expert 0 alone" in result.conflicts[0]["message"]


def test_a_rack_of_one_domain_is_one_unit() -> None:
    instance = CollocationInstance(GOOD, experts=72, cluster=reference("gb200-nvl72"))
    assert instance.num_units == 1
    assert any("one node" in note for note in collocation.solve(instance, method="id_order").notes)


def test_custom_transports_have_their_own_bytes() -> None:
    assert Transport("mine", "node", dispatch_bytes=0.5).copy_bytes(4096) == (2048.0, 8192.0)
    with pytest.raises(InstanceError, match="is not one of node"):
        Transport("mine", "all")


def test_held_out_tokens_are_scored_and_not_fitted() -> None:
    ids = [[0, 1]] * 10 + [[0, 2]] * 10
    instance = CollocationInstance(ids, experts=4, nodes=2, gpus=2, held_out=0.5)
    found = collocation.solve(instance).solution
    assert found["lambda"] == 1 and found["lambda_held_out"] == 2


def test_the_load_cap_is_kept_by_every_method() -> None:
    rng = np.random.default_rng(0)
    ids = np.stack([rng.choice(16, size=3, replace=False, p=np.arange(1, 17) / 136) for _ in range(300)])
    instance = CollocationInstance(ids, experts=16, nodes=2, gpus=4, max_imbalance=1.1)
    for name in ("id_order", "load_only", "greedy", "kernighan_lin", "spectral", "search"):
        result = collocation.solve(instance, method=name)
        assert result.solution["imbalance"] <= 1.1, name
    free = CollocationInstance(ids, experts=16, nodes=2, gpus=4)
    assert collocation.solve(free).objective <= collocation.solve(instance).objective


def test_no_plan_within_the_cap_is_said() -> None:
    ids = [[0, 1]] * 10 + [[2, 3]] * 9  # loads 10, 10, 9, 9 fill two GPUs evenly, and not four
    result = collocation.solve(CollocationInstance(ids, nodes=2, gpus=4, max_imbalance=1.04))
    assert str(result.status) in ("UNKNOWN", "INFEASIBLE")


def test_one_token_leaves_none_to_hold_out() -> None:
    with pytest.raises(InstanceError, match=r"held_out = 0.5: must leave some of the 1 tokens on either side. Use 0\."):
        CollocationInstance([[0, 1]], experts=4, nodes=2, gpus=2, held_out=0.5)


def test_a_matrix_that_shows_no_nodes_does_not_say_them_itself() -> None:
    alike = read_costs((1 - np.eye(4)).tolist(), "", "alike")
    with pytest.raises(InstanceError, match=r"shows no nodes. Say them: gpus=4 and nodes") as refused:
        CollocationInstance([[0, 1]], experts=4, cluster=alike, nodes=2)
    assert len(refused.value.violations) == 1
