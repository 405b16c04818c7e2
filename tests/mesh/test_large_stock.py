"""Stocks so large that nothing may be counted replica by replica."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings

from moeopt.mesh import Demand, MeshInstance, Workload, faults, recheck, solve
from moeopt.mesh.heuristics import per_price
from moeopt.mesh.heuristics.per_price import greedy, theta_of
from moeopt.mesh.market import Market, market_of
from tests.mesh.strategies import LLMS, config, gpu_type, instances


def pools(stock: int) -> MeshInstance:
    """Whole requests on one GPU, and pools of three and five."""
    found = [
        config(0, "colocated", {"A": 3}, 1.7, tpot_s=0.02, name="whole"),
        config(0, "prefill", {"A": 5}, 10 / 3, name="prefill"),
        config(0, "decode", {"A": 8}, 11.0, tpot_s=0.02, name="decode"),
    ]
    families = ("colocated", "prefill", "decode")
    return MeshInstance(
        (Demand(LLMS[0], Workload(100, 10)),), (gpu_type("A", stock),), "goodput", families, configs=found
    )


@pytest.mark.parametrize("method", ["auto", "per_price", "uniform", "recipe"])
@pytest.mark.parametrize("stock", [10**6 + 3, 10**9 + 7])
def test_a_stock_of_billions_is_planned_and_bounded(method: str, stock: int) -> None:
    instance = pools(stock)
    result = solve(instance, method=method)
    assert result.plan is not None and not faults(instance, result.plan)
    assert result.gap is not None and result.gap < 1e-5
    certificate = result.certificate or {}
    assert recheck(instance, certificate.get("certified", certificate)) == []


def one_by_one(market: Market) -> Counter[int]:
    """The baseline as its rule says it: always one more replica for the row that is furthest behind."""
    counts: Counter[int] = Counter()
    served, left = dict.fromkeys(market.rows, Fraction(0)), list(market.stock)
    while True:
        row = min(served, key=lambda one: (served[one], one))
        ranked = per_price._ranked(market, row)
        offer = next((one for one in ranked if per_price._times(one, left) > 0), None)
        if offer is None:
            return counts
        counts[offer.place] += 1
        for phase in market.phases:
            served[offer.demand, phase] += offer.shares[phase]
        left = [None if most is None else most - need for most, need in zip(left, offer.gpus, strict=True)]


@settings(max_examples=30)
@given(instances(objectives=("goodput",), most_gpus=40))
def test_many_replicas_at_once_are_those_that_come_one_by_one(instance: MeshInstance) -> None:
    market = market_of(instance).pruned
    found = greedy(market, enough=False) if market.offers else None
    if found is not None:
        slowly = one_by_one(market)
        assert theta_of(market, found) == theta_of(market, dict(slowly))
        assert all(found.get(place, 0) <= count for place, count in slowly.items())


@settings(max_examples=30)
@given(instances(objectives=("goodput",), most_gpus=40))
def test_a_mix_that_is_repeated_stays_within_the_stock(instance: MeshInstance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(per_price, "ROUNDS", 2)
        result = solve(instance, method="per_price")
    assert result.plan is None or not faults(instance, result.plan)


def test_every_type_of_a_large_stock_is_bought_in_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[None] = []
    monkeypatch.setattr(per_price, "look", lambda: rounds.append(None))
    types = [gpu_type(name, 10**6 + place) for place, name in enumerate("ABCD")]
    found = []
    for place, name in enumerate("ABCD"):
        found += [
            config(0, "prefill", {name: 2 + place}, 10 / 3 + place, name=f"prefill {name}"),
            config(0, "decode", {name: 3 + place}, 1.7 * (place + 1), tpot_s=0.02, name=f"decode {name}"),
        ]
    instance = MeshInstance(
        (Demand(LLMS[0], Workload(100, 10)),), tuple(types), "goodput", ("prefill", "decode"), configs=found
    )
    market = market_of(instance).pruned
    counts = greedy(market, enough=False)
    assert counts is not None and len(rounds) < 8 * per_price.ROUNDS
    used = [sum(counts.get(one.place, 0) * one.gpus[kind] for one in market.offers) for kind in range(4)]
    assert all(have > 0.99 * 10**6 for have in used)
