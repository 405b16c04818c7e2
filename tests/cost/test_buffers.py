"""Transport buffers by DeepEP's layout, padded payload, compression and launches."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    LAUNCHES_PER_LAYER,
    compression_break_even,
    expected_payload,
    launch_overhead_s,
    low_latency_buffer_bytes,
    normal_buffer_bytes,
    payload_bound,
    receive_tensor_bytes,
)
from moeopt.errors import InstanceError
from tests.cost.faults import names_all

shapes = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), st.just(pair[0] * pair[1]), st.integers(1, min(4, pair[0] * pair[1])))
)


def test_the_buffer_of_a_known_deployment() -> None:
    """128 tokens of 7,168, 256 experts: 14,560 bytes a message, 256 x 128 of them, two ways, even and odd; signals."""
    messages = 256 * 128 * 14_560
    assert low_latency_buffer_bytes(max_tokens=128, hidden=7168, experts=256, ranks=8) == 4 * messages + 2 * 1024 + 128


@given(st.integers(1, 512), st.integers(1, 56), st.integers(1, 64), st.integers(1, 8))
def test_buffers_grow_with_experts_and_tokens_and_hold_what_arrives(
    tokens: int, blocks: int, ranks: int, each: int
) -> None:
    size: dict[str, Any] = {"max_tokens": tokens, "hidden": 128 * blocks, "experts": ranks * each, "ranks": ranks}
    found = low_latency_buffer_bytes(**size)
    assert found % 128 == 0
    assert low_latency_buffer_bytes(**{**size, "max_tokens": tokens + 1}) > found
    assert low_latency_buffer_bytes(**{**size, "experts": 2 * ranks * each}) > found
    copy = 128 * blocks * 2
    assert found >= receive_tensor_bytes(local_experts=each, max_tokens=tokens, ranks=ranks, copy_bytes=copy)


@given(shapes)
def test_expected_payload_is_that_of_every_choice_and_within_the_bound(shape: tuple[int, int, int]) -> None:
    devices, experts, top_k = shape
    expected = expected_payload(experts=experts, top_k=top_k, devices=devices)
    each = experts // devices
    subsets = list(combinations(range(experts), top_k))
    if devices > 1:
        copies = [len({expert // each for expert in chosen} - {0}) for chosen in subsets]  # home is device 0
        assert expected == Fraction(sum(copies), len(subsets) * (devices - 1))
        pairs = [sum(expert // each != 0 for expert in chosen) for chosen in subsets]
        room = len(subsets) * (devices - 1) * min(top_k, each)
        assert expected_payload(experts=experts, top_k=top_k, devices=devices, merged=False) == Fraction(
            sum(pairs), room
        )
    assert expected <= payload_bound(top_k=top_k, devices=devices) <= 1


def test_on_four_devices_two_experts_a_token_fill_less_than_half() -> None:
    """0.4375 in the limit of many experts, 0.5 with one expert a device: higher figures need skew or more experts."""
    found = [float(expected_payload(experts=experts, top_k=2, devices=4)) for experts in (4, 64, 4096)]
    assert found[0] == 0.5 and found[0] > found[1] > found[2] > 0.4375
    assert payload_bound(top_k=8, devices=64) == Fraction(8, 63)
    assert payload_bound(top_k=8, devices=4) == 1


@given(st.floats(0, 1e10), st.floats(0, 1.5), st.floats(1e6, 1e12), st.floats(0, 1e-2), st.floats(0, 1e-2))
def test_compression_pays_on_links_slower_than_its_break_even(
    size: float, ratio: float, rate: float, pack: float, unpack: float
) -> None:
    found = compression_break_even(size, ratio=ratio, bytes_per_s=rate, quantize_s=pack, dequantize_s=unpack)
    assert found.pays == (found.saved_s > found.cost_s)
    if found.break_even_bytes_per_s is not None and found.break_even_bytes_per_s > rate * (1 + 1e-9):
        assert found.pays
    if found.break_even_bytes_per_s is not None and found.break_even_bytes_per_s < rate * (1 - 1e-9):
        assert not found.pays
    if ratio >= 1:
        assert not found.pays
    assert found.changes_numerics


def test_only_lossless_compression_leaves_the_numbers_alone() -> None:
    shape: dict[str, Any] = {"ratio": 0.9, "bytes_per_s": 1e9, "quantize_s": 0, "dequantize_s": 0}
    found = compression_break_even(1e6, **shape, lossless=True)
    assert not found.changes_numerics and found.pays and found.break_even_bytes_per_s is None


def test_launches_add_up() -> None:
    assert list(LAUNCHES_PER_LAYER.values()) == [33, 85, 261, 432, 550]
    assert launch_overhead_s(10, launch_s=2e-6, layers=3) == pytest.approx(60e-6)
    assert launch_overhead_s(0, launch_s=2e-6) == 0


def test_bad_input_is_named_all_at_once() -> None:
    names_all(
        lambda: low_latency_buffer_bytes(max_tokens=0, hidden=0, experts=10, ranks=4), "max_tokens", "hidden", "ranks"
    )
    names_all(
        lambda: receive_tensor_bytes(local_experts=0, max_tokens=0, ranks=0, copy_bytes=0),
        *("local_experts", "max_tokens", "ranks", "copy_bytes"),
    )
    names_all(lambda: payload_bound(top_k=0, devices=0), "top_k", "devices")
    names_all(lambda: expected_payload(experts=8, top_k=9, devices=3), "top_k", "devices")
    names_all(
        lambda: compression_break_even(-1, ratio=-1, bytes_per_s=0, quantize_s=-1, dequantize_s=float("nan")),
        *("size_bytes", "ratio", "bytes_per_s", "quantize_s", "dequantize_s"),
    )
    names_all(lambda: launch_overhead_s(-1, launch_s=-1, layers=-1), "launches", "launch_s", "layers")


def test_windows_of_normal_mode_within_a_node() -> None:
    """Ten channels of 8 peers with 256 tokens of 14,336 bytes, 128 places of 16 bytes each and 8 bytes of origin."""
    exact = 10 * 8 * (256 * (14_336 + 2_048 + 8) + 5 * 4)
    assert normal_buffer_bytes(hidden=7168, ranks=8) == exact + -exact % 128


def test_windows_of_normal_mode_between_nodes() -> None:
    token = 14_336 + 2_048 + 8
    nvl, rdma = 12 * 8 * (288 * token + 11 * 4), 12 * 4 * 2 * (128 * token + 18 * 4)
    assert 0 <= normal_buffer_bytes(hidden=7168, ranks=32, sms=24) - nvl - rdma < 256


def test_normal_mode_wants_whole_nodes() -> None:
    with pytest.raises(InstanceError, match=r"ranks = 12: beyond 8 must be a multiple of 8\. Use 8 or 16\."):
        normal_buffer_bytes(hidden=7168, ranks=12)
