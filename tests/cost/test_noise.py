"""Counting noise and popularity: brackets hold the truth, chances are those of drawing one by one."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.cost import (
    dp_skew,
    estimate_dp_skew,
    estimate_max_over_mean,
    hottest_over_mean,
    max_over_mean,
    normal_max_over_mean,
    selection_chances,
    zipf_weights,
)
from moeopt.errors import InstanceError
from moeopt.workload.popularity import inclusion


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens", "units"),
    [(4, 1, 4, None), (4, 2, 3, None), (6, 2, 2, 3), (6, 3, 3, 2), (3, 3, 2, 3)],
)
def test_the_bracket_holds_the_mean_over_all_batches(experts: int, top_k: int, tokens: int, units: int | None) -> None:
    size = experts // (units or experts)
    choices = list(itertools.combinations(range(experts), top_k))
    busiest = []
    for batch in itertools.product(choices, repeat=tokens):
        busiest.append(max(Counter(e // size for chosen in batch for e in chosen).values()))
    exact = sum(busiest) / len(busiest) / (tokens * top_k / (units or experts))
    found = max_over_mean(experts=experts, top_k=top_k, tokens=tokens, units=units)
    assert found.low <= exact <= found.high


@settings(max_examples=25)
@given(st.sampled_from([(8, 2), (16, 1), (32, 4), (64, 8)]), st.integers(1, 40), st.data())
def test_the_bracket_holds_simulated_batches(sizes: tuple[int, int], tokens: int, data: st.DataObject) -> None:
    experts, top_k = sizes
    units = data.draw(st.sampled_from([d for d in range(1, experts + 1) if experts % d == 0]))
    bracket = max_over_mean(experts=experts, top_k=top_k, tokens=tokens, units=units)
    of = [e * units // experts for e in range(experts)]
    drawn = estimate_max_over_mean([1.0] * experts, top_k=top_k, tokens=tokens, units=of, draws=100)
    slack = 5 * drawn.standard_error + 1e-9
    assert bracket.low - slack <= drawn.mean <= bracket.high + slack
    assert bracket.high <= bracket.low * np.e / (np.e - 1) + 1e-9


def test_the_bracket_in_its_limits() -> None:
    one = max_over_mean(experts=64, top_k=8, tokens=100, units=1)
    assert one.low == pytest.approx(1.0) and one.high == pytest.approx(1.0)
    everything = max_over_mean(experts=8, top_k=8, tokens=5)
    assert everything.low == pytest.approx(1.0) and everything.high == pytest.approx(1.0)
    nothing = max_over_mean(experts=8, top_k=2, tokens=0)
    assert (nothing.low, nothing.high) == (1.0, 1.0)
    assert 4.0 in max_over_mean(experts=8, top_k=2, tokens=1)  # one token: 1 over 2 / 8
    alone = dp_skew(requests=50, ranks=1)
    assert alone.low == pytest.approx(1.0) and alone.high == pytest.approx(1.0)


def test_noise_falls_with_the_batch_and_meets_the_normal_form() -> None:
    found = [max_over_mean(experts=256, top_k=8, tokens=n, units=32) for n in (16, 64, 256, 1024, 4096)]
    assert all(more.high < less.low for less, more in itertools.pairwise(found))
    skew = dp_skew(requests=16 * 4096, ranks=16)
    normal = normal_max_over_mean(units=16, mean=4096, spread=np.sqrt(15 / 16))
    assert normal == pytest.approx(skew.low, rel=2e-3)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=5), st.data())
def test_selection_chances_equal_drawing_one_by_one(weights: list[float], data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, len(weights)))
    chances = np.zeros(len(weights))
    for order in itertools.permutations(range(len(weights)), top_k):
        left, chance = list(range(len(weights))), 1.0
        for expert in order:
            chance *= weights[expert] / sum(weights[e] for e in left)
            left.remove(expert)
        chances[list(order)] += chance
    found = selection_chances(weights, top_k)
    assert found == pytest.approx(chances, abs=1e-11)
    assert found.sum() == pytest.approx(top_k, abs=1e-11)


def test_selection_chances_against_the_approximation_and_a_simulation() -> None:
    weights = zipf_weights(64, 1.0)
    found = selection_chances(weights, 8)
    assert np.abs(found - inclusion(weights, 8)).max() < 0.03
    rng = np.random.default_rng(0)
    scores = np.log(weights) + rng.gumbel(size=(20_000, 64))
    counts = np.bincount(np.argsort(-scores, axis=1)[:, :8].ravel(), minlength=64) / 20_000
    assert np.abs(found - counts).max() < 5 * 0.5 / np.sqrt(20_000)
    assert np.all(np.diff(found) < 0) and found.max() < 1
    assert selection_chances(weights, 64).tolist() == [1.0] * 64
    assert selection_chances(weights, 1) == pytest.approx(weights / weights.sum(), abs=1e-12)


def test_popular_experts_do_not_average_out() -> None:
    chances = selection_chances(zipf_weights(64, 0.6), 4)
    large = estimate_max_over_mean(zipf_weights(64, 0.6), top_k=4, tokens=20_000, draws=3)
    assert large.mean == pytest.approx(hottest_over_mean(chances), rel=0.02)
    assert hottest_over_mean([0, 0]) == 1.0


def test_equal_seeds_give_equal_estimates() -> None:
    one, other = (estimate_max_over_mean([1, 2, 3], top_k=2, tokens=9, draws=20, seed=7) for _ in range(2))
    assert one == other
    lengths = [100, 1, 1, 1]
    skew = estimate_dp_skew(lengths, ranks=2)
    assert skew == estimate_dp_skew(lengths, ranks=2)
    assert 100 / 51.5 <= skew.mean <= 2.0


def test_every_bad_number_is_named_at_once() -> None:
    with pytest.raises(InstanceError) as error:
        estimate_max_over_mean([1, -1], top_k=3, tokens=0, units=[0, 2], draws=1, seed=-1)
    assert {v.field for v in error.value.violations} == {"weights", "top_k", "tokens", "units", "draws", "seed"}
    with pytest.raises(InstanceError, match=r"units = 5: must divide experts = 8: units must be alike. Use 4"):
        max_over_mean(experts=8, top_k=2, tokens=4, units=5)
    with pytest.raises(InstanceError, match=r"(?s)requests = -1.*ranks = 0"):
        dp_skew(requests=-1, ranks=0)
    with pytest.raises(InstanceError, match=r"(?s)spread = -1.*mean = 0"):
        normal_max_over_mean(units=2, mean=0, spread=-1)
