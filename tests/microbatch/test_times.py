"""Times of stages: tables, functions, numbers of numpy, and curves of efficiency."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moeopt import microbatch
from moeopt.errors import InstanceError
from moeopt.microbatch import Linear, MicrobatchInstance, Table

TIMES: dict[str, Any] = {"attention": 10, "dispatch": 4, "experts": 10}


def refusal(times: Any = TIMES, **fields: Any) -> str:
    with pytest.raises(InstanceError) as caught:
        MicrobatchInstance(times, **{"layers": 4, **fields})
    return str(caught.value)


def names(text: str, *words: str) -> None:
    missing = [word for word in words if word.lower() not in text.lower()]
    assert not missing, f"{missing} not in: {text}"


def test_a_table_is_exact_where_measured_and_straight_between_with_a_note() -> None:
    times = {"attention": {8: 1.0, 16: 3.0}, "dispatch": 1, "experts": 1}
    instance = MicrobatchInstance(times, layers=1, m=[1, 2], batches=[16])
    assert [float(instance.seconds("attention", n)) for n in (8, 16)] == [1.0, 3.0]
    assert instance.notes == ()
    between = MicrobatchInstance(times, layers=1, m=[2], batches=[24])
    assert float(between.seconds("attention", 12)) == 2.0
    assert any("1 of 1 sizes were not measured (12 tokens)" in note for note in between.notes)


def test_a_table_is_refused_outside_its_range_unless_said() -> None:
    times = {"attention": {8: 1.0, 16: 3.0}, "dispatch": 1, "experts": 1}
    names(refusal(times, m=[1], batches=[32]), "32 tokens", "8 to 16", "extend")
    wider = {**times, "attention": Table.of({8: 1.0, 16: 3.0}, extend=True)}
    instance = MicrobatchInstance(wider, layers=1, m=[1], batches=[32])
    assert float(instance.seconds("attention", 32)) == 7.0
    falling = {**times, "attention": Table.of({8: 3.0, 16: 1.0}, extend=True)}
    names(refusal(falling, m=[1], batches=[32]), "falls below 0")


def test_a_function_is_kept_as_a_table_of_the_sizes_that_are_needed() -> None:
    asked = []

    def roofline(tokens: int) -> float:
        asked.append(tokens)
        return max(2e-4, tokens * 1e-6)

    instance = MicrobatchInstance(
        {"attention": roofline, "dispatch": 1e-4, "experts": 1e-4}, layers=2, m=[1, 2], batches=[256, 512]
    )
    assert asked == [128, 256, 512]
    again = MicrobatchInstance.from_dict(instance.to_dict())
    assert again == instance and isinstance(again.times["attention"], Table)


def test_numbers_of_numpy_are_numbers() -> None:
    times = {"attention": np.float64(0.1), "dispatch": {np.int64(4): np.float32(0.5)}, "experts": np.float32(0.25)}
    instance = MicrobatchInstance(
        times,
        layers=np.int64(3),
        m=np.array([1]),
        batches=np.array([4]),
        tbt_slo_s=np.float32(100),
        micro_batch=np.int32(1),
    )  # type: ignore[arg-type]
    plain = MicrobatchInstance(
        {"attention": 0.1, "dispatch": {4: 0.5}, "experts": 0.25}, layers=3, m=1, batches=4, tbt_slo_s=100.0
    )
    assert instance == plain
    assert (
        microbatch.solve(instance).to_json()
        and microbatch.solve(instance).canonical() == microbatch.solve(plain).canonical()
    )


def test_a_function_that_gives_no_time_is_refused() -> None:
    names(refusal({**TIMES, "attention": lambda tokens: -1.0}, m=[1]), "function", "-1.0")


def test_chunks_too_small_for_their_kernels_do_not_pay() -> None:
    """A curve of efficiency: half of the peak at 128 tokens, a quarter at 64."""

    def kernel(tokens: int) -> float:
        return tokens * 1e-6 / min(1.0, tokens / 256)

    times = {"dispatch": Linear(5e-6, 1e-6), "experts": kernel}
    result = microbatch.solve(MicrobatchInstance(times, layers=1, pattern="chunks", m=[1, 2, 4, 8, 16], batches=1024))
    assert result.solution is not None and result.solution["m"] == 4
    slower = [row["time_s"] > result.solution["time_s"] for row in result.solution["sweep"]]
    assert slower == [True, True, False, True, True]


def test_a_time_beyond_the_largest_double_is_refused() -> None:
    for attention in (10**400, lambda tokens: 10**400, {1: 1.0, 4: 10**400}):
        with pytest.raises(InstanceError, match="finite"):
            MicrobatchInstance({"attention": attention, "dispatch": 1, "experts": 1}, layers=4, m=[1, 2], batches=[4])
