"""The referee's two ways to add up a split give the same fractions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import routing
from moeopt.routing import Routing, RoutingInstance, sums, verify
from tests.routing.strategies import instances


@given(instances() | instances(whole=True), st.data())
def test_all_at_once_and_pair_by_pair_agree(instance: RoutingInstance, data: st.DataObject) -> None:
    plan = routing.solve(instance, method=data.draw(st.sampled_from(("even", "waterfill", "auto")))).plan
    for row, quick in sums.judged(instance, range(instance.num_layers), plan).items():
        slow = verify._layer(instance, row, plan.shares[row], plan.in_tokens)
        assert quick[:2] == slow[:2]
        assert quick[2] == pytest.approx(slow[2], rel=1e-14, abs=0)


@pytest.mark.parametrize("size", [10**3, 10**9, 10**11, 10**15])
@pytest.mark.parametrize("parts", [(1 / 3, 1 / 7), (1e-9, 1 - 1e-9), (2.0**-95, 0.3), (0.1, 0.9 + 5e-11), (0.0, 1.0)])
def test_large_loads_and_tiny_parts_agree(size: int, parts: tuple[float, float]) -> None:
    instance = RoutingInstance([[7 * size, 3 * size + 1]], [[0, 1, 0, 1, 0, 1]], gpus=3)
    shares = [(e, g, part) for e in range(2) for g, part in enumerate((*parts, max(1 - sum(parts), 0.0)))]
    plan = Routing.of([shares])
    slow = verify._layer(instance, 0, plan.shares[0], False)
    quick = sums.judged(instance, [0], plan).get(0)
    assert routing.evaluate(instance, plan).max_load == (slow[0],)
    if quick is not None:
        assert quick[:2] == slow[:2]
    assert (quick is None) == (size > 10**11 or parts[0] == 2.0**-95)


def test_a_plan_from_columns_is_the_plan_from_triples() -> None:
    columns = (np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0.25, 0.75, 1.0]))
    plan = Routing.of_columns([columns])
    assert plan == Routing.of([(0, 0, 0.25), (0, 1, 0.75), (1, 1, 1.0)])
    assert [column.tolist() for column in Routing.of(plan.shares).columns(0)] == [c.tolist() for c in columns]
