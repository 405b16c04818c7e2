"""Hand-off of caches: units, sums of terms, and what two pools must win."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import Link, domain_bytes_per_s, handoff_bytes, handoff_s, separation_gain, usable_bytes_per_s
from moeopt.errors import InstanceError
from moeopt.llm import find, kv_bytes_per_token
from tests.cost.faults import names_all

seconds = st.floats(0, 10)


def test_the_example_of_distserve_takes_18_ms_and_units_decide_about_the_rest() -> None:
    """17.6 ms is 9.0 GiB read as GB; 4.5 MiB a token read as MB is 18.9 ms for what should be 18.0."""
    in_mb, in_mib = (handoff_bytes(2048, bytes_per_token=size) for size in (4_500_000, 2 * 96 * 12288 * 2))
    assert [round(handoff_s(size, bytes_per_s=64e9, links=8).time_s * 1e3, 1) for size in (in_mb, in_mib)] == [
        18.0,
        18.9,
    ]
    assert round(handoff_s(9.0e9, bytes_per_s=64e9, links=8).time_s * 1e3, 1) == 17.6


def test_caches_come_from_the_facts_of_an_llm() -> None:
    each = kv_bytes_per_token(find("deepseek-v3"))
    assert handoff_bytes(4096, bytes_per_token=each, cached_tokens=1024) == 3072 * 70272


@pytest.mark.parametrize("slip", [64, 400, 0.064])
def test_a_bandwidth_in_gigabytes_is_refused_with_what_to_do(slip: float) -> None:
    with pytest.raises(
        InstanceError, match=r"below 1 MB/s: a bandwidth is in bytes a second here\. Multiply GB/s by 1e9"
    ):
        handoff_s(9e9, bytes_per_s=slip)


@given(st.integers(0, 10**13), st.floats(1e6, 1e13), st.integers(1, 64), st.floats(0.01, 1), seconds, st.floats(1, 9))
def test_terms_add_up_and_links_share(
    size: int, rate: float, links: int, efficiency: float, fixed: float, factor: float
) -> None:
    found = handoff_s(size, bytes_per_s=rate, links=links, efficiency=efficiency, fixed_s=fixed, p95_factor=factor)
    assert found.time_s == found.fixed_s + found.transfer_s <= found.p95_s
    assert found.p95_s == pytest.approx(found.time_s * factor)
    one = handoff_s(size, bytes_per_s=rate, efficiency=efficiency)
    assert one.transfer_s == pytest.approx(found.transfer_s * links)
    assert handoff_s(2 * size, bytes_per_s=2 * rate).transfer_s == pytest.approx(
        handoff_s(size, bytes_per_s=rate).time_s
    )


@given(seconds, seconds, seconds, seconds)
def test_terms_of_two_pools_sum_up_to_the_gain(
    interference: float, handoff: float, deciding: float, waiting: float
) -> None:
    found = separation_gain(interference_s=interference, handoff_s=handoff, scheduling_s=deciding, queueing_s=waiting)
    assert sum(found.terms_s.values()) == pytest.approx(found.gain_s, abs=1e-12)
    assert found.possible == (found.gain_s > 0)
    assert list(found.terms_s) == ["interference", "handoff", "scheduling", "queueing"]


def test_a_tie_is_no_gain() -> None:
    assert not separation_gain(interference_s=0.25, handoff_s=0.125, scheduling_s=0.125).possible


@given(st.floats(0, 1e-3), st.floats(1e6, 1e13), st.integers(0, 10**12), st.integers(0, 99))
def test_a_link_is_a_latency_and_a_bandwidth(alpha: float, rate: float, size: int, steps: int) -> None:
    link = Link(alpha, rate)
    assert link.time_s(size, steps) == pytest.approx(steps * alpha + size / rate)


def test_ports_and_domains_in_bytes() -> None:
    assert usable_bytes_per_s(400e9, efficiency=1.0) == 50e9
    assert domain_bytes_per_s("GB200", both_directions=False) == 72 * 900e9
    with pytest.raises(InstanceError, match="gpu = "):
        domain_bytes_per_s("MI300X")


def test_bad_input_is_named_all_at_once() -> None:
    names_all(
        lambda: handoff_s(-1, bytes_per_s=0, links=0, efficiency=2, fixed_s=-1, p95_factor=0.5),
        *("size_bytes", "bytes_per_s", "links", "efficiency", "fixed_s", "p95_factor"),
    )
    names_all(
        lambda: handoff_bytes(-1, bytes_per_token=-1, cached_tokens=True), "tokens", "bytes_per_token", "cached_tokens"
    )
    names_all(lambda: handoff_bytes(10, bytes_per_token=1, cached_tokens=11), "cached_tokens")
    names_all(
        lambda: separation_gain(interference_s=-1, handoff_s=-1, scheduling_s=-1, queueing_s=float("nan")),
        *("interference_s", "handoff_s", "scheduling_s", "queueing_s"),
    )
    names_all(lambda: usable_bytes_per_s(0, efficiency=0), "bits_per_s", "efficiency")
    names_all(lambda: Link(0, 1).time_s(-1, -1), "size_bytes", "steps")
