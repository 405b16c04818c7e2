"""Draft length: expected tokens against the enumeration of outcomes, best lengths, and a lossless correction."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    accepted_length,
    accepted_lengths,
    best_draft_length,
    concave_lengths,
    draft_acceptance,
    residual_distribution,
    touched_experts,
    verify_step_s,
)
from tests.cost.faults import names_all

chances = st.fractions(0, 1, max_denominator=50)
MEASURED = {
    "DeepSeek-V4-Pro, thinking": [1.79, 2.27, 2.49, 2.54, 2.55, 2.55, 2.54, 2.58],
    "DeepSeek-V4-Pro": [1.92, 2.61, 2.97, 3.00, 3.10, 3.16, 3.00, 3.11],
    "Kimi-K3": [1.84, 2.45, 2.87, 3.22, 3.44, 3.54, 3.78, 3.88],
    "Qwen3.5": [1.93, 2.73, 3.39, 3.97, 4.41, 4.80, 5.04, 5.21],
}
"""Mean tokens of a round for 1 to 8 drafted tokens, coding (InferenceX golden lengths, SPEED-Bench)."""


@given(st.lists(chances, max_size=6))
def test_expected_tokens_are_the_mean_over_every_outcome(rates: list[Fraction]) -> None:
    mean = Fraction(0)
    for outcome in product((True, False), repeat=len(rates)):
        weight = Fraction(1)
        for rate, accepted in zip(rates, outcome, strict=True):
            weight *= rate if accepted else 1 - rate
        run = next((place for place, accepted in enumerate(outcome) if not accepted), len(rates))
        mean += weight * (run + 1)  # the target's own token ends every round
    assert ([Fraction(1), *accepted_lengths(rates)])[-1] == mean


@given(chances, st.integers(0, 40))
def test_the_sum_is_the_closed_form_and_its_limit(chance: Fraction, length: int) -> None:
    found = accepted_length(chance, length=length)
    assert found == (length + 1 if chance == 1 else (1 - chance ** (length + 1)) / (1 - chance))
    assert 1 <= found <= length + 1
    assert accepted_length(chance, length=length + 1) >= found
    assert accepted_length(1.0, length=length) == length + 1.0 and accepted_length(0, length=length) == 1


def test_a_constant_chance_promises_60_percent_too_much_at_length_8() -> None:
    curve = MEASURED["DeepSeek-V4-Pro, thinking"]
    promised = float(accepted_length(curve[0] - 1, length=8))
    assert 1.55 < promised / curve[7] < 1.65


@st.composite
def curves(draw: st.DrawFn) -> list[float]:
    """Measured lengths: within what a round can bring, not monotone."""
    parts = draw(st.lists(st.floats(0, 1), min_size=1, max_size=8))
    return [1 + part * (place + 1) for place, part in enumerate(parts)]


@given(curves())
def test_the_hull_is_concave_and_above(curve: list[float]) -> None:
    hull = concave_lengths(curve)
    assert len(hull) == len(curve)
    assert all(smooth >= measured - 1e-9 for smooth, measured in zip(hull, curve, strict=True))
    rises = [after - before for before, after in pairwise([1.0, *hull])]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(rises))
    assert concave_lengths(hull) == pytest.approx(hull)
    assert all(any(math.isclose(smooth, measured) for measured in curve) for smooth in hull[-1:])


@given(st.lists(chances, min_size=1, max_size=8), st.floats(1e-4, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_best_length_is_the_least_of_all(
    rates: list[Fraction], step: float, growth: float, draft: float, overhead: float
) -> None:
    lengths = accepted_lengths(rates)

    def verify(length: int) -> float:
        return step + growth * length

    found = best_draft_length(lengths, draft_s=draft, verify_s=verify, overhead_s=overhead)
    each = [step]
    each += [(verify(k) + k * draft + overhead) / float(lengths[k - 1]) for k in range(1, len(lengths) + 1)]
    assert found.tokens_s == pytest.approx(each)
    assert found.token_s == min(found.tokens_s) == found.tokens_s[found.length]
    assert found.speedup == pytest.approx(step / found.token_s) and found.speedup >= 1
    slower = best_draft_length(lengths, draft_s=draft, verify_s=verify, overhead_s=overhead + 1)
    assert slower.token_s >= found.token_s
    scaled = best_draft_length(lengths, draft_s=8 * draft, verify_s=lambda k: 8 * verify(k), overhead_s=8 * overhead)
    assert scaled.length == found.length and scaled.token_s == 8 * found.token_s


@pytest.mark.parametrize("name", MEASURED)
def test_free_drafts_want_the_longest_round_and_dear_ones_none(name: str) -> None:
    curve = MEASURED[name]
    free = best_draft_length(curve, draft_s=0, verify_s=lambda length: 0.02)
    assert free.length == curve.index(max(curve)) + 1
    assert free.speedup == pytest.approx(max(curve))
    dear = best_draft_length(curve, draft_s=1.0, verify_s=lambda length: 0.02)
    assert (dear.length, dear.speedup) == (0, 1.0)


def test_a_tree_drafts_all_at_once() -> None:
    found = best_draft_length([1.5, 2.0], draft_s=lambda length: 0.01, verify_s=lambda length: 0.1)
    assert found.tokens_s == pytest.approx((0.1, 0.11 / 1.5, 0.11 / 2.0))


def test_experts_touched_shorten_the_best_draft_of_an_moe() -> None:
    curve = accepted_lengths([0.8] * 8)
    size = {"experts": 256, "top_k": 8, "expert_bytes": 44e6, "layers": 58, "bytes_per_s": 64 * 2.7e12}

    def moe(length: int) -> float:
        return verify_step_s(length, batch=4, fixed_s=0.0, **size)  # type: ignore[arg-type]

    def dense(length: int) -> float:
        return moe(0)

    lengths = [best_draft_length(curve, draft_s=2e-4, verify_s=step).length for step in (moe, dense)]
    assert lengths[0] < lengths[1]
    assert moe(3) == pytest.approx(58 * 44e6 * touched_experts(experts=256, top_k=8, tokens=16) / (64 * 2.7e12))


@st.composite
def distributions(draw: st.DrawFn) -> tuple[list[Fraction], list[Fraction]]:
    """Two exact distributions over one small vocabulary."""
    size = draw(st.integers(1, 6))
    found = []
    for _ in range(2):
        weights = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any))
        found.append([Fraction(weight, sum(weights)) for weight in weights])
    return found[0], found[1]


@given(distributions())
def test_speculative_sampling_is_lossless(pair: tuple[list[Fraction], list[Fraction]]) -> None:
    """Exactly: accepted mass plus what replaces rejected tokens is the target, whatever the draft."""
    target, draft = pair
    accepted = draft_acceptance(target, draft)
    assert accepted == draft_acceptance(draft, target) and 0 <= accepted <= 1
    assert (accepted == 1) == (target == draft)
    if target == draft:
        names_all(lambda: residual_distribution(target, draft), "draft")
        return
    left = residual_distribution(target, draft)
    assert sum(left) == 1
    for p, q, extra in zip(target, draft, left, strict=True):
        assert min(p, q) + (1 - accepted) * extra == p


@given(distributions())
def test_floats_give_the_same_within_rounding(pair: tuple[list[Fraction], list[Fraction]]) -> None:
    target, draft = ([float(chance) for chance in one] for one in pair)
    assert draft_acceptance(target, draft) == pytest.approx(float(draft_acceptance(*pair)))
    if pair[0] != pair[1]:
        exact = [float(chance) for chance in residual_distribution(*pair)]
        assert list(residual_distribution(target, draft)) == pytest.approx(exact, abs=1e-9)


def test_bad_input_is_named_all_at_once() -> None:
    names_all(lambda: accepted_length(1.5, length=-1), "acceptance", "length")
    message = names_all(lambda: accepted_lengths([0.5, -0.1, float("nan")]), "acceptance")
    assert "acceptance[1] = -0.1" in message and "acceptance[2] = nan" in message
    message = names_all(lambda: best_draft_length([0.9, 2.0, 4.5], draft_s=0, verify_s=lambda length: 1.0), "lengths")
    assert "lengths[0] = 0.9" in message and "lengths[2] = 4.5" in message
    names_all(lambda: concave_lengths([]), "lengths")
    names_all(
        lambda: best_draft_length([1.5], draft_s=-1, verify_s=lambda length: 1.0, overhead_s=-1),
        "draft_s",
        "overhead_s",
    )
    names_all(
        lambda: best_draft_length([1.5], draft_s=lambda length: -1.0, verify_s=lambda length: math.nan),
        *("draft_s", "verify_s"),
    )
    names_all(lambda: best_draft_length([1.5], draft_s=0, verify_s=lambda length: 0.0), "verify_s")
    names_all(
        lambda: verify_step_s(
            -1, batch=0, experts=8, top_k=9, expert_bytes=-1, layers=0, bytes_per_s=0, fixed_s=-1, token_s=-1
        ),
        *("length", "batch", "top_k", "expert_bytes", "layers", "bytes_per_s", "fixed_s", "token_s"),
    )
    names_all(lambda: draft_acceptance([0.5, 0.6], [1.2]), "target", "draft")
    names_all(lambda: residual_distribution([Fraction(1, 2)] * 2, [Fraction(1, 3)] * 2), "draft")
