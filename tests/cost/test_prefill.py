"""Chunks of a prompt: rounds, and the chunk that keeps a TBT."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import best_chunk, chunk_rounds
from moeopt.errors import InstanceError
from tests.cost.faults import names_all

seconds = st.floats(0, 1e-3)


@given(st.integers(0, 10**6), st.integers(0, 4096), st.integers(1, 8192))
def test_rounds_are_as_many_as_chunks_are_needed(prompt: int, decode: int, room: int) -> None:
    rounds = chunk_rounds(prompt, budget=decode + room, decode=decode)
    assert (rounds - 1) * room < prompt <= rounds * room or prompt == rounds == 0
    assert chunk_rounds(prompt, budget=decode + room + 1, decode=decode) <= rounds
    assert chunk_rounds(prompt + 1, budget=decode + room, decode=decode) >= rounds


@given(
    st.integers(1, 400), st.integers(1, 64), st.floats(1e-4, 1e-2), seconds, st.floats(0, 1e-5), st.floats(1e-4, 0.5)
)
def test_the_chunk_is_the_quickest_that_keeps_the_tbt(
    prompt: int, multiple: int, fixed: float, token: float, context: float, tbt: float
) -> None:
    def step(tokens: int, before: int) -> float:
        return fixed + token * tokens + context * before

    every: dict[int, tuple[float, float]] = {}
    for size in {*range(multiple, prompt, multiple), prompt}:
        steps = [step(min(size, prompt - before), before) for before in range(0, prompt, size)]
        every[size] = (sum(steps), max(steps))
    kept = {size: total for size, (total, longest) in every.items() if longest <= tbt}
    if not kept:
        with pytest.raises(InstanceError, match="the shortest possible is"):
            best_chunk(prompt, step_s=step, tbt_s=tbt, multiple_of=multiple)
        return
    found = best_chunk(prompt, step_s=step, tbt_s=tbt, multiple_of=multiple)
    assert found.prefill_s == min(kept.values()) == kept[found.chunk]
    assert found.longest_s <= tbt
    assert found.rounds == chunk_rounds(prompt, budget=found.chunk)
    assert found.chunk == max(size for size, total in kept.items() if total == found.prefill_s)
    looser = best_chunk(prompt, step_s=step, tbt_s=2 * tbt, multiple_of=multiple)
    assert looser.prefill_s <= found.prefill_s


def test_an_engine_may_cap_the_chunk() -> None:
    def step(tokens: int, before: int) -> float:
        return 0.01 + 1e-6 * tokens

    assert best_chunk(10_000, step_s=step, tbt_s=1.0).chunk == 10_000
    assert best_chunk(10_000, step_s=step, tbt_s=1.0, most=2048).chunk == 2048
    assert best_chunk(5, step_s=step, tbt_s=1.0, multiple_of=128).chunk == 5


def test_bad_input_is_named_all_at_once() -> None:
    names_all(lambda: chunk_rounds(-1, budget=0, decode=-1), "prompt", "budget", "decode")
    message = names_all(lambda: chunk_rounds(100, budget=256, decode=256), "budget")
    assert "Use at least 257" in message
    bad: dict[str, Any] = {"step_s": lambda tokens, before: 1.0, "tbt_s": 0, "multiple_of": 0, "most": 0}
    names_all(lambda: best_chunk(0, **bad), "prompt", "tbt_s", "multiple_of", "most")
    message = names_all(lambda: best_chunk(256, step_s=lambda tokens, before: -1.0, tbt_s=1.0), "step_s")
    assert "step_s[128, 0] = -1.0" in message
