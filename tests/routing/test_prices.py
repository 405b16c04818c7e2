"""Dual prices: the referee re-checks them, no split beats what they prove, and a token costs at least its price."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moeopt import routing
from moeopt.routing import RoutingInstance, verify
from tests.routing import oracle
from tests.routing.strategies import instances


def priced(instance: RoutingInstance, method: str = "newton") -> list[dict[str, Any]]:
    certificate = routing.solve(instance, method=method).certificate
    assert certificate is not None
    assert verify.recheck(instance, certificate) == []
    rows: list[dict[str, Any]] = certificate["layers"]
    return rows


@settings(max_examples=30)
@given(instances(layers=1), st.data())
def test_one_token_more_costs_at_least_its_price_and_no_less_helps_more(
    instance: RoutingInstance, data: st.DataObject
) -> None:
    row, top = priced(instance)[0], oracle.optimum(instance)
    assert Fraction(row["value"]) == top
    expert = data.draw(st.integers(0, instance.num_experts - 1))
    price = Fraction(row["price"]) if expert in row["experts"] else Fraction(0)
    document = instance.to_dict()
    for change in (1, -1):
        loads = list(document["loads"][0])
        loads[expert] += change
        assume(loads[expert] >= 0)
        change_exact = oracle.number(loads[expert]) - oracle.number(document["loads"][0][expert])
        more = RoutingInstance.from_dict(document | {"loads": [loads]})
        assert oracle.optimum(more) >= top + price * change_exact
    base = [float(oracle.number(value) + (gpu in row["gpus"])) for gpu, value in enumerate(document["base"])]
    more = RoutingInstance.from_dict(document | {"base": base})
    assert oracle.optimum(more) >= top + Fraction(row["price"]) * len(row["gpus"])


def test_a_floor_for_each_replica_has_prices_from_every_method() -> None:
    rows, loads = [[0, 1, 0, 2, 1, 3, 0, 2]], [[900, 40, 20, 3]]
    instance = RoutingInstance(loads, rows, gpus=4, speed=[1, 2, 0.5, 1], floor_tokens=25, floor_rule="per_replica")
    found = {method: priced(instance, method)[0] for method in ("lp", "newton", "even")}
    assert found["lp"] == found["newton"] == found["even"]
    assert 3 not in found["lp"]["experts"]  # below its floor a token costs nothing


def test_wrong_prices_are_named() -> None:
    instance = RoutingInstance([[9, 4, 2, 1]], [[0, 1, 0, 2, 3, 3]], gpus=3, floor_tokens=1)
    result = routing.solve(instance, method="newton")
    good = result.certificate
    assert good is not None and good["layers"][0]["gpus"] == [0, 1]

    def faults(**changes: Any) -> str:
        damaged = copy.deepcopy(dict(good or {}))
        damaged["layers"][0] |= changes
        return "\n".join(verify.recheck(instance, damaged))

    assert faults() == ""
    assert "at most 1 is allowed" in faults(price="1")
    assert "at most 1 is allowed" in faults(price="-1/2")
    assert "the dual prices prove" in faults(price="1/3")
    assert "the dual prices prove" in faults(experts=[0, 1])
    assert "expert 3 has a price" in faults(experts=[0, 1, 2, 3])
    assert "no set of experts" in faults(experts=[0, 0, 1, 2])
    assert "no set of experts" in faults(experts=[0, 1, 2, 4])
    assert faults(price=None) == ""  # documents written before there were prices
