"""Imbalance: the shipped table is what its loads give, and is read on the safe side."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import max_over_mean
from moeopt.errors import InstanceError
from moeopt.mesh.expectations import busiest, rank_skew, step_noise
from moeopt.mesh.imbalance import Imbalance
from moeopt.report.imbalance import imbalance_table
from moeopt.workload.resample import to_experts
from tests.benchmarks.imbalance import SIZES, TRAFFIC, table, written

DEGREES = {256: [32, 144], 8: [4, 8], 64: [8, 72], 384: [48]}


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("experts", DEGREES)
def test_shipped_entries_are_what_the_published_loads_give(traffic, experts):
    shipped = Imbalance.shipped(traffic).of(experts)
    found = table(traffic, experts, DEGREES[experts])
    assert shipped.experts == found.experts == experts and shipped.source == found.source
    assert [row for row in shipped.rows if row[0] in DEGREES[experts]] == list(found.rows)


def test_every_size_is_shipped_and_named():
    for traffic in TRAFFIC:
        one = Imbalance.shipped(traffic)
        assert [one.experts, *(other.experts for other in one.others)] == list(SIZES)
        for other in (one, *one.others):
            assert "placed by eplb" in other.source
            assert ("resampled" in other.source) == (other.experts not in (8, 64))


def test_known_meshes_are_in_the_table_and_one_domain_is_worse():
    mixed, alone = Imbalance.shipped(), Imbalance.shipped("one-domain")
    rows = {(ep, redundant) for ep, redundant, _ in mixed.rows}
    assert {(32, 0), (32, 32), (72, 32), (144, 32), (320, 64)} <= rows
    for ep, redundant in rows:
        assert 1 <= mixed.at(ep, redundant) <= alone.at(ep, redundant)
    assert mixed.at(72, 32) < 1.1 and alone.at(72, 32) > 1.5


@given(ep=st.integers(1, 700), redundant=st.integers(0, 400), experts=st.sampled_from(SIZES))
def test_more_replicas_never_read_as_worse(ep, redundant, experts):
    shipped = Imbalance.shipped()
    assert shipped.at(ep, redundant + 1, experts) <= shipped.at(ep, redundant, experts)
    assert 1 <= shipped.at(ep, redundant, experts) <= 5


def test_reading_takes_the_next_larger_degree_and_as_many_slots_a_rank():
    one = Imbalance("", ((8, 0, 1.2), (128, 0, 2.0), (128, 128, 1.1)), experts=256)
    assert one.at(7, 3) == one.at(8, 0) == 1.2
    assert one.at(9, 5) == 1.1  # 29 slots a rank are more than the three of the last row
    assert one.at(125, 119) == 1.1 and one.at(125, 0) == 2.0
    assert one.at(500, 244) == 2.0 and one.at(500, 0) == 2.0  # beyond the largest degree: it stands for them


def test_document_is_read_back_and_unknown_fields_are_refused():
    shipped = Imbalance.shipped()
    again = Imbalance.from_dict(json.loads(json.dumps(shipped.to_dict())))
    assert again == shipped and again.digest == shipped.digest
    assert Imbalance.from_dict(Imbalance.even().to_dict()) == Imbalance.even()
    with pytest.raises(InstanceError, match=r"imbalance\.mine = .* is no field"):
        Imbalance.from_dict({"source": "", "rows": [[1, 0, 1.0]], "mine": 1})
    tables = {"made_by": "x", "traffic": {"mixed": shipped.to_dict()}}
    assert json.loads(written(json.loads(json.dumps(tables)))) == json.loads(json.dumps(tables))


@pytest.mark.parametrize(
    ("rows", "others", "text"),
    [
        ((), (), "no rows"),
        (((8, 0, 0.9),), (), "must be a finite number >= 1"),
        (((8, 0, 1.1), (8, 0, 1.2)), (), "is there twice"),
        (((8, 0, 1.1),), (Imbalance("", ((8, 0, 1.1),), experts=4),), "does not tell the tables apart"),
    ],
)
def test_bad_tables_are_refused(rows, others, text):
    with pytest.raises(InstanceError, match=text):
        Imbalance("mine", rows, others=others)


def test_unknown_traffic_is_refused():
    with pytest.raises(InstanceError, match="Use mixed or one-domain"):
        Imbalance.shipped("all")


@given(seed=st.integers(0, 99), old=st.integers(1, 12), factor=st.integers(1, 5))
def test_resampling_keeps_the_mean_and_whole_multiples_keep_the_order(seed, old, factor):
    loads = np.random.default_rng(seed).gamma(1.0, 100.0, (2, 3, old))
    made = to_experts(loads, old * factor)
    np.testing.assert_allclose(made.mean(-1), loads.mean(-1))
    assert np.array_equal(to_experts(loads, old), loads)
    spread = made.max(-1) / made.mean(-1)
    assert (spread <= loads.max(-1) / loads.mean(-1) * 1.3).all()
    summed = made.reshape(2, 3, old, factor).sum(-1)
    assert np.array_equal(np.argsort(summed, -1), np.argsort(loads, -1))


def test_resampling_refuses_what_is_no_load():
    for bad in ([[-1.0, 2.0]], [[float("nan")]], []):
        with pytest.raises(InstanceError, match="must be finite numbers >= 0"):
            to_experts(bad, 4)


def test_table_from_own_loads_improves_with_slots_and_says_what_it_is():
    loads = np.random.default_rng(0).lognormal(0, 1, (3, 24)) * 1000
    made = imbalance_table(loads, source="mine", degrees=[4, 8, 16], extra_slots=(0, 1, 2))
    assert made.experts == 24 and made.source == "mine; placed by eplb, mean of layers"
    for ep in (4, 8, 16):
        ratios = [ratio for degree, _, ratio in made.rows if degree == ep]
        assert ratios == sorted(ratios, reverse=True) and ratios[0] > 1
    with pytest.raises(InstanceError, match="degrees\\[0\\] = 0"):
        imbalance_table(loads, source="mine", degrees=[0])


def test_windows_apart_are_worse_than_together():
    loads = np.random.default_rng(1).lognormal(0, 1, (3, 2, 16)) * 1000
    apart = imbalance_table(loads, source="mine", degrees=[8])
    together = imbalance_table(loads, source="mine", degrees=[8], together=True)
    assert all(one[2] >= other[2] for one, other in zip(apart.rows, together.rows, strict=True))


def test_noise_of_many_batches_agrees_with_the_proven_bracket():
    tokens = np.array([8, 64, 256, 2048, 16384])
    found = step_noise(tokens, ep=32, experts=256, top_k=8)
    for value, count in zip(found, tokens.tolist(), strict=True):
        bracket = max_over_mean(experts=256, top_k=8, tokens=count, units=32)
        assert bracket.low * 0.97 <= value <= bracket.high * 1.06
    assert step_noise(0, ep=4, experts=8, top_k=2) == 1 and step_noise([5], ep=1, experts=8, top_k=2) == 1
    assert (np.diff(step_noise(np.arange(100, 4000, 100), ep=32, experts=256, top_k=8)) < 0).all()


def test_skew_falls_with_requests_and_products_are_above_either():
    skew = rank_skew([8, 80, 800, 8000], ranks=8)
    assert (np.diff(skew) < 0).all() and skew[-1] > 1
    assert (busiest(1.2, skew) >= skew).all()
    for bad in (0.9, float("nan")):
        with pytest.raises(InstanceError, match="placement"):
            busiest(bad, 1.0)
    with pytest.raises(InstanceError, match="requests"):
        rank_skew([-1], ranks=8)
