"""Expected copies against the enumeration of every choice, copies of given routings against counting by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    MERGES,
    Copies,
    Link,
    busiest_rank,
    expected_copies,
    expert_counts,
    routed_copies,
    token_bytes,
    touched_units,
    unit_probability,
)
from tests.cost.faults import names_all


@st.composite
def meshes(draw: st.DrawFn, most_experts: int = 8) -> dict[str, int]:
    """Tiny shapes: nodes of GPUs with equal numbers of experts, and a top-k."""
    nodes, g = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    each = draw(st.integers(1, max(1, most_experts // (nodes * g))))
    return {
        "experts": nodes * g * each,
        "top_k": draw(st.integers(1, min(4, nodes * g * each))),
        "gpus": nodes * g,
        "nodes": nodes,
    }


def by_hand(chosen: tuple[int, ...], home: int, mesh: dict[str, int], merge: str) -> tuple[int, int]:
    """Copies of one token over the network and within nodes, counted one by one."""
    each, g = mesh["experts"] // mesh["gpus"], mesh["gpus"] // mesh["nodes"]
    targets: list[int] = [expert // each for expert in chosen]
    if merge in ("gpu", "node"):
        targets = sorted({*targets})
    hops: list[tuple[int, int]] = []
    landed: set[int] = set()
    for target in targets:
        landing = target // g * g + home % g
        if target // g == home // g or merge in ("none", "gpu"):
            hops.append((home, target))
        else:
            if merge == "rail" or landing not in landed:
                hops.append((home, landing))
            landed.add(landing)
            hops.append((landing, target))
    hops = [hop for hop in hops if hop[0] != hop[1]]
    nic = sum(start // g != end // g for start, end in hops)
    return nic, len(hops) - nic


@pytest.mark.parametrize("merge", MERGES)
@given(mesh=meshes())
def test_expected_copies_are_the_mean_over_every_choice_and_home(mesh: dict[str, int], merge: str) -> None:
    subsets = list(combinations(range(mesh["experts"]), mesh["top_k"]))
    counted = [by_hand(chosen, home, mesh, merge) for chosen in subsets for home in range(mesh["gpus"])]
    expected = expected_copies(**mesh, merge=merge)
    assert expected.nic == Fraction(sum(pair[0] for pair in counted), len(counted))
    assert expected.nvlink == Fraction(sum(pair[1] for pair in counted), len(counted))


@pytest.mark.parametrize("merge", MERGES)
@given(mesh=meshes(), data=st.data())
def test_copies_of_a_routing_are_those_counted_by_hand(mesh: dict[str, int], merge: str, data: st.DataObject) -> None:
    subsets = list(combinations(range(mesh["experts"]), mesh["top_k"]))
    routing = data.draw(st.lists(st.sampled_from(subsets), min_size=1, max_size=12))
    home = data.draw(st.lists(st.integers(0, mesh["gpus"] - 1), min_size=len(routing), max_size=len(routing)))
    each = mesh["experts"] // mesh["gpus"]
    hosts = [expert // each for expert in range(mesh["experts"])]
    sent = routed_copies(routing, home=home, gpu_of_expert=hosts, gpus=mesh["gpus"], nodes=mesh["nodes"], merge=merge)
    counted = [by_hand(chosen, start, mesh, merge) for chosen, start in zip(routing, home, strict=True)]
    assert (sent.nic.sum(), sent.nvlink.sum()) == tuple(np.sum(counted, axis=0))
    for copies in (sent.nic, sent.nvlink):
        assert not np.diagonal(copies).any() and copies.dtype == np.int64
        assert copies.sum(axis=1).sum() == copies.sum(axis=0).sum()  # what is sent is received
    g = mesh["gpus"] // mesh["nodes"]
    node = np.arange(mesh["gpus"]) // g
    same = node[:, None] == node[None, :]
    assert not sent.nic[same].any() and not sent.nvlink[~same].any()
    assert expert_counts(routing, experts=mesh["experts"]).sum() == len(routing) * mesh["top_k"]


def test_blocks_of_tokens_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    routing = np.array([generator.choice(16, 4, replace=False) for _ in range(200)])
    shape: dict[str, Any] = {"home": np.arange(200) % 8, "gpu_of_expert": np.arange(16) // 2, "gpus": 8, "nodes": 2}
    whole = [routed_copies(routing, **shape, merge=merge) for merge in MERGES]
    monkeypatch.setattr("moeopt.cost.routed.BLOCK", 56)
    for merge, expected in zip(MERGES, whole, strict=True):
        parts = routed_copies(routing, **shape, merge=merge)
        assert np.array_equal(parts.nic, expected.nic) and np.array_equal(parts.nvlink, expected.nvlink)


@st.composite
def limited(draw: st.DrawFn) -> dict[str, int]:
    """Node-limited routing on tiny sizes: units cut groups, or hold whole ones."""
    groups = draw(st.sampled_from([1, 2, 3, 4]))
    units = draw(st.sampled_from([unit for unit in (1, 2, 4, 6, 8) if unit % groups == 0 or groups % unit == 0]))
    experts = draw(st.sampled_from([count for count in (8, 12, 24) if count % groups == 0 and count % units == 0]))
    top_groups = draw(st.integers(1, groups))
    top_k = draw(st.integers(1, min(3, top_groups * experts // groups)))
    return {"experts": experts, "top_k": top_k, "units": units, "groups": groups, "top_groups": top_groups}


@given(limited())
def test_node_limited_chances_are_those_of_every_choice(shape: dict[str, int]) -> None:
    size, held = shape["experts"] // shape["groups"], shape["experts"] // shape["units"]
    touched = total = 0
    for groups in combinations(range(shape["groups"]), shape["top_groups"]):
        members = [expert for group in groups for expert in range(group * size, (group + 1) * size)]
        for chosen in combinations(members, shape["top_k"]):
            total += 1
            touched += any(expert < held for expert in chosen)
    assert unit_probability(**shape) == Fraction(touched, total)


@given(meshes(24))
def test_units_touched_agree_with_the_other_closed_form(mesh: dict[str, int]) -> None:
    units, size = mesh["gpus"], mesh["experts"] // mesh["gpus"]
    chance = unit_probability(experts=mesh["experts"], top_k=mesh["top_k"], units=units)
    assert units * chance == touched_units(sizes=[size] * units, top_k=mesh["top_k"])


def test_the_limit_of_deepseek_v3_touches_3_63_of_8_nodes() -> None:
    free = [round(float(n * unit_probability(experts=256, top_k=8, units=n)), 3) for n in (2, 4, 8, 16)]
    assert free == [1.993, 3.614, 5.295, 6.523]
    limited_to_four = 8 * unit_probability(experts=256, top_k=8, units=8, groups=8, top_groups=4)
    assert limited_to_four == 4 * (1 - Fraction(comb(96, 8), comb(128, 8)))
    assert round(float(limited_to_four), 3) == 3.629


@given(meshes(24))
def test_merging_more_never_sends_more_over_the_network(mesh: dict[str, int]) -> None:
    nic = {merge: expected_copies(**mesh, merge=merge).nic for merge in MERGES}
    assert nic["node"] <= nic["gpu"] <= nic["none"] == nic["rail"]
    if mesh["nodes"] == 1:
        assert not any(nic.values())
    if mesh["top_k"] == 1:
        assert nic["node"] == nic["none"]


DEEPEP = {32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}
"""Microseconds of dispatch and combine by EP: low-latency kernels, 128 tokens of 7,168, top-8, H800 (DeepEP README)."""


@pytest.mark.parametrize("ep", DEEPEP)
def test_network_bytes_explain_the_measured_times_of_deepep(ep: int) -> None:
    """FP8 with scales out, BF16 back, nothing merged, 40 of 50 GB/s: within 10 % once most copies leave the node."""
    copies = expected_copies(experts=256, top_k=8, gpus=ep, nodes=ep // 8)
    sizes = token_bytes(7168, 1, scale_block=128), token_bytes(7168, 2)
    ours = [Link.nic("H800").time_s(copies.nic_bytes(128, size)) * 1e6 for size in sizes]
    assert ours == pytest.approx(DEEPEP[ep], rel=0.10)


def test_bytes_of_a_token_count_scales_and_metadata() -> None:
    assert token_bytes(7168, 1, scale_block=128, meta=16) == 7168 + 56 * 4 + 16
    assert token_bytes(130, 1, scale_block=128) == 130 + 2 * 4
    assert token_bytes(7168, 0.5) == 3584.0
    assert Copies(Fraction(3, 2), Fraction(0)).nic_bytes(10, 7168) == 107520


@given(st.lists(st.lists(st.floats(0, 1e9), min_size=4, max_size=4), min_size=4, max_size=4), st.floats(1, 1e12))
def test_the_busiest_rank_is_a_bound_that_scales(rows: list[list[float]], rate: float) -> None:
    table = np.array(rows)
    before = table.copy()
    found = busiest_rank(table, send_bytes_per_s=rate)
    assert np.array_equal(table, before)
    np.fill_diagonal(table, 0)
    assert found.time_s >= table.sum() / 4 / rate * (1 - 1e-12)  # no less than the mean rank
    assert found.time_s == pytest.approx(max(table.sum(axis=0).max(), table.sum(axis=1).max()) / rate)
    assert busiest_rank(3 * table, send_bytes_per_s=3 * rate).time_s == pytest.approx(found.time_s)
    back = busiest_rank(table.T, send_bytes_per_s=rate)  # combine
    assert back.time_s == found.time_s


def test_the_busiest_rank_may_have_a_slow_link() -> None:
    table = [[0, 100.0], [300.0, 0]]
    assert busiest_rank(table, send_bytes_per_s=[1.0, 100.0]).rank == 0
    found = busiest_rank(table, send_bytes_per_s=[1.0, 100.0], recv_bytes_per_s=0.5, fixed_s=1.0)
    assert (found.rank, found.direction, found.time_s) == (0, "recv", 601.0)


def test_bad_input_is_named_all_at_once() -> None:
    names_all(
        lambda: expected_copies(experts=8, top_k=9, gpus=3, nodes=2, merge="all"), "top_k", "gpus", "nodes", "merge"
    )
    names_all(lambda: unit_probability(experts=8, top_k=2, units=3, groups=2), "units", "groups, top_groups")
    names_all(lambda: unit_probability(experts=12, top_k=5, units=4, groups=3, top_groups=1), "top_k", "units")
    names_all(lambda: unit_probability(experts=12, top_k=2, units=4, groups=2, top_groups=3), "top_groups")
    names_all(lambda: token_bytes(0, -1, scale_block=0, meta=-1), "hidden", "bytes_per_element", "scale_block", "meta")
    names_all(lambda: Copies(Fraction(1), Fraction(1)).nic_bytes(-1, float("nan")), "tokens", "token_bytes")
    message = names_all(
        lambda: routed_copies([[0, 0], [1, 9]], home=[0, 7, 1], gpu_of_expert=[0, 5], gpus=4, nodes=3, merge="x"),
        *("routing", "home", "gpu_of_expert", "nodes", "merge"),
    )
    assert "routing[1, 1] = 9" in message and "selects an expert once" in message
    names_all(lambda: expert_counts([0.5, 1.0], experts=0), "routing", "experts")
    names_all(
        lambda: busiest_rank([[0, -1], [1, 0]], send_bytes_per_s=0, fixed_s=-1),
        "sent_bytes",
        "send_bytes_per_s",
        "fixed_s",
    )
    names_all(lambda: busiest_rank([[1, 2]], send_bytes_per_s=1), "sent_bytes")
    names_all(lambda: busiest_rank([[0, 1], [1, 0]], send_bytes_per_s=[1, 2, 3]), "send_bytes_per_s")
