"""Balance of a megakernel, and waves of experts against their simulation."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import balance_flops_per_byte, best_waves, communication_hides, waves_s
from tests.cost.faults import names_all

stages = st.tuples(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10)).map(
    lambda times: dict(zip(("dispatch_s", "compute_s", "combine_s"), times, strict=True))
)


@given(st.integers(1, 10**5), st.integers(1, 4), st.integers(1, 8), st.integers(1, 8))
def test_the_balance_is_operations_over_bytes_of_a_pair(width: int, matrices: int, out: int, back: int) -> None:
    hidden = 7168
    flops, moved = 2 * matrices * hidden * width, hidden * (out + back)
    found = balance_flops_per_byte(width, matrices=matrices, dispatch_bytes=out, combine_bytes=back)
    assert found == Fraction(flops, moved)
    assert balance_flops_per_byte(width) == 2 * width
    assert balance_flops_per_byte(width, dispatch_bytes=0.5, combine_bytes=2) == pytest.approx(6 * width / 2.5)


@given(st.floats(1e9, 1e16), st.floats(1e6, 1e13), st.integers(1, 10**5))
def test_it_hides_from_the_bandwidth_that_is_named(flops: float, rate: float, width: int) -> None:
    found = communication_hides(flops_per_s=flops, bytes_per_s=rate, intermediate=width)
    assert found.hidden == (found.flops_per_byte <= 2 * width)
    needed = found.bytes_per_s_needed
    assert communication_hides(flops_per_s=flops, bytes_per_s=needed * (1 + 1e-9), intermediate=width).hidden
    assert not communication_hides(flops_per_s=flops, bytes_per_s=needed * (1 - 1e-9), intermediate=width).hidden


@given(stages, st.integers(1, 20), st.floats(0, 1))
def test_waves_take_what_a_simulation_of_three_stages_takes(times: dict[str, float], waves: int, extra: float) -> None:
    each = [times[name] / waves + extra for name in ("dispatch_s", "compute_s", "combine_s")]
    free = [0.0, 0.0, 0.0]
    for _ in range(waves):
        ready = 0.0
        for stage, duration in enumerate(each):
            free[stage] = ready = max(ready, free[stage]) + duration
    assert waves_s(waves, **times, wave_s=extra) == pytest.approx(free[-1], rel=1e-9, abs=1e-12)


@given(stages, st.floats(1e-3, 1), st.one_of(st.none(), st.integers(1, 300)))
def test_the_best_number_of_waves_is_the_least_of_all(times: dict[str, float], extra: float, most: int | None) -> None:
    found = best_waves(**times, wave_s=extra, most=most)
    every = [waves_s(waves, **times, wave_s=extra) for waves in range(1, (most or 300) + 1)]
    assert found.time_s == pytest.approx(min(every), rel=1e-12)
    assert found.one_wave_s == every[0] and 1 <= found.waves <= (most or 300)
    hideable = sum(times.values()) - max(times.values())
    if hideable / 2 > extra * (1 + 1e-9) and most != 1:
        assert found.waves >= 2
    if hideable / 2 < extra * (1 - 1e-9):
        assert found.waves == 1


def test_free_waves_take_all_there_are_and_nothing_to_hide_takes_one() -> None:
    assert best_waves(dispatch_s=1, compute_s=2, combine_s=1, wave_s=0, most=8).waves == 8
    assert best_waves(dispatch_s=0, compute_s=2, combine_s=0, wave_s=0, most=8).waves == 1
    assert best_waves(dispatch_s=1e9, compute_s=1e9, combine_s=1e9, wave_s=5e-324).waves > 1


def test_bad_input_is_named_all_at_once() -> None:
    names_all(
        lambda: balance_flops_per_byte(0, matrices=0, dispatch_bytes=0, combine_bytes=-1),
        *("intermediate", "matrices", "dispatch_bytes", "combine_bytes"),
    )
    names_all(
        lambda: communication_hides(flops_per_s=0, bytes_per_s=0, intermediate=0),
        *("flops_per_s", "bytes_per_s", "intermediate"),
    )
    names_all(
        lambda: waves_s(0, dispatch_s=-1, compute_s=-1, combine_s=float("nan"), wave_s=-1),
        *("waves", "dispatch_s", "compute_s", "combine_s", "wave_s"),
    )
    names_all(lambda: best_waves(dispatch_s=-1, compute_s=1, combine_s=1, wave_s=0, most=0), "dispatch_s", "most")
    message = names_all(lambda: best_waves(dispatch_s=1, compute_s=1, combine_s=1, wave_s=0), "wave_s")
    assert "have no best number" in message
