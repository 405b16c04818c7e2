"""All-to-all straight and in two stages: a case worked by hand, and where one way overtakes the other."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    Copies,
    Fabric,
    Link,
    busiest_rank,
    expected_copies,
    flat_all_to_all_s,
    flat_range,
    routed_copies,
    staged_all_to_all_s,
)
from tests.cost.faults import names_all

COPY = 2**14
TOKENS = 256
links = st.builds(Link, st.floats(0, 1e-4), st.floats(1e6, 1e12))
fabrics = st.tuples(st.integers(1, 4), st.integers(1, 8), links, links).map(
    lambda shape: Fabric(shape[0] * shape[1], shape[0], shape[2], shape[3])
)
copies = st.builds(Copies, st.fractions(0, 16, max_denominator=64), st.fractions(0, 16, max_denominator=64))


def two_nodes_of_eight(together: bool, merge: str) -> tuple[Any, Any]:
    """Every GPU has 256 tokens, 32 of each of eight pairs; a pair shares a node, or lies on both."""
    routing, home = [], []
    for gpu in range(16):
        for pair in range(8):
            routing += [[2 * pair, 2 * pair + 1]] * 32
            home += [gpu] * 32
    hosts = list(range(16)) if together else [expert // 2 + 8 * (expert % 2) for expert in range(16)]
    sent = routed_copies(routing, home=home, gpu_of_expert=hosts, gpus=16, nodes=2, merge=merge)
    return sent.nic, sent.nvlink


@pytest.mark.parametrize(
    ("together", "merge", "crossing"),
    [(True, "rail", 4096), (True, "node", 2048), (False, "rail", 4096), (False, "node", 4096)],
)
def test_pairs_that_share_a_node_halve_the_traffic_only_where_copies_are_merged(
    together: bool, merge: str, crossing: int
) -> None:
    nic, nvlink = two_nodes_of_eight(together, merge)
    assert nic.sum() == crossing
    network = busiest_rank(nic * COPY, send_bytes_per_s=50e9)
    assert network.time_s * 1e6 == pytest.approx(crossing / 16 * COPY / 50e3, abs=1e-3)
    within = busiest_rank(nvlink * COPY, send_bytes_per_s=450e9)
    assert within.time_s * 1e6 == pytest.approx(16.311, abs=1e-3)


def test_the_two_ways_of_the_worked_case() -> None:
    fabric = Fabric(16, 2, nic=Link(5e-6, 50e9), nvlink=Link(1e-6, 450e9))
    shape: dict[str, Any] = {"fabric": fabric, "token_bytes": COPY}
    split, shared = Copies(Fraction(1), Fraction(7, 4)), Copies(Fraction(1, 2), Fraction(7, 4))
    assert flat_all_to_all_s(TOKENS, copies=split, **shape) * 1e6 == pytest.approx(123.886, abs=1e-3)
    assert staged_all_to_all_s(TOKENS, copies=split, **shape) * 1e6 == pytest.approx(112.197, abs=1e-3)
    assert staged_all_to_all_s(TOKENS, copies=shared, **shape) * 1e6 == pytest.approx(70.254, abs=1e-3)
    overlapped = staged_all_to_all_s(TOKENS, copies=shared, **shape, chunks=10**9)
    assert overlapped * 1e6 == pytest.approx(46.943, abs=1e-3)


def test_independent_choices_touch_23_15ths_of_two_nodes() -> None:
    found = expected_copies(experts=16, top_k=2, gpus=16, nodes=2, merge="node")
    assert 2 * found.nic == Fraction(23, 15)
    assert float(found.nic * 16 * TOKENS) == pytest.approx(3140.27, abs=0.01)


@given(fabrics, copies, copies, st.integers(0, 10**6))
def test_the_range_is_where_the_straight_way_is_no_slower(
    fabric: Fabric, flat: Copies, staged: Copies, tokens: int
) -> None:
    found = flat_range(fabric=fabric, flat=flat, staged=staged, token_bytes=7168)
    one = flat_all_to_all_s(tokens, fabric=fabric, copies=flat, token_bytes=7168)
    two = staged_all_to_all_s(tokens, fabric=fabric, copies=staged, token_bytes=7168)
    inside = found is not None and found[0] <= tokens and (found[1] is None or tokens <= found[1])
    if inside:
        assert one <= two * (1 + 1e-6) + 1e-15
    else:
        assert one >= two * (1 - 1e-6) - 1e-15


@given(fabrics, copies, st.floats(0, 1e6), st.integers(1, 64), st.floats(0, 1e-3))
def test_overlap_helps_when_chunks_are_free(
    fabric: Fabric, sent: Copies, tokens: float, chunks: int, chunk_s: float
) -> None:
    shape: dict[str, Any] = {"fabric": fabric, "copies": sent, "token_bytes": 7168}
    whole = staged_all_to_all_s(tokens, **shape)
    assert staged_all_to_all_s(tokens, **shape, chunks=chunks) <= whole * (1 + 1e-12)
    assert staged_all_to_all_s(tokens, **shape, chunks=chunks) >= whole / 2 * (1 - 1e-12)
    extra = staged_all_to_all_s(tokens, **shape, chunks=chunks, chunk_s=chunk_s)
    assert extra == pytest.approx(staged_all_to_all_s(tokens, **shape, chunks=chunks) + (chunks - 1) * chunk_s)


@given(fabrics, copies)
def test_one_node_has_one_stage(fabric: Fabric, sent: Copies) -> None:
    one = Fabric(fabric.gpus, 1, fabric.nic, fabric.nvlink)
    within = Copies(Fraction(0), sent.nvlink)
    shape: dict[str, Any] = {"fabric": one, "copies": within, "token_bytes": 7168}
    assert flat_all_to_all_s(64, **shape) == pytest.approx(staged_all_to_all_s(64, **shape))
    assert np.isfinite(flat_all_to_all_s(0, **shape))


def test_a_fabric_of_known_gpus() -> None:
    fabric = Fabric.of("H800", 32)
    assert (fabric.nic.bytes_per_s, fabric.nvlink.bytes_per_s) == (40e9, 160e9)
    assert (fabric.flat_messages, fabric.staged_messages, fabric.local_peers) == (24, 3, 7)
    message = names_all(lambda: Fabric.of("H800", 20), "gpus")
    assert "Use 16 or 24" in message
    names_all(lambda: Fabric.of("H800", 0), "gpus")
    names_all(lambda: Fabric.of("MI300X", 8), "nic_bytes_per_s")


def test_bad_input_is_named_all_at_once() -> None:
    link = Link(0.0, 1e9)
    names_all(lambda: Fabric(6, 4, link, link), "nodes")
    names_all(lambda: Fabric(0, 0, link, link), "gpus", "nodes")
    shape: dict[str, Any] = {"fabric": Fabric(4, 2, link, link), "copies": Copies(Fraction(1), Fraction(1))}
    names_all(lambda: flat_all_to_all_s(-1, **shape, token_bytes=float("nan")), "tokens", "token_bytes")
    names_all(
        lambda: staged_all_to_all_s(-1, **shape, token_bytes=-1, chunks=0, chunk_s=-1),
        *("tokens", "token_bytes", "chunks", "chunk_s"),
    )
