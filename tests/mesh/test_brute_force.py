"""The method that tries every purchase equals an independent one in value, and the others in what they prove."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from moeopt import mesh
from moeopt.errors import NotApplicable
from moeopt.mesh import MeshInstance, brute_force
from moeopt.mesh.document import load_instance
from moeopt.result import Status
from tests.mesh.oracle import best
from tests.mesh.strategies import instances

TINY = Path(__file__).parents[2] / "instances" / "tiny" / "mesh"


@settings(max_examples=40, deadline=None)
@given(instances(max_types=2, max_demands=2, most_gpus=5))
def test_all_purchases_have_the_best_of_the_oracle(instance: MeshInstance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brute_force, "MOST_PLANS", 2000)  # the oracle is slower
        if brute_force.too_many(instance) is not None:
            return
    result, known = mesh.solve(instance, method="brute_force"), best(instance, 10**6)
    if known is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert result.objective == pytest.approx(float(known[0]), rel=1e-12)
    assert result.solution is not None and result.solution["total_gpus"] == known[1]


def test_a_stock_of_two_types_for_two_demands_is_bought_alike_by_three_ways() -> None:
    instance = load_instance(TINY / "two_types.json")
    comparison = mesh.compare(instance, ["brute_force", "covering", "exact"])
    assert [row.result.objective for row in comparison.rows if row.result is not None] == [20.25] * 3


def test_more_purchases_than_can_be_tried_are_refused() -> None:
    instance = load_instance(TINY / "two_types.json")
    large = MeshInstance.from_dict(instance.to_dict() | {"objective": "goodput"} | {
        "gpus": [gpu | {"stock": 5000} for gpu in instance.to_dict()["gpus"]]
    })  # fmt: skip
    with pytest.raises(NotApplicable, match="more than 100,000 purchases"):
        mesh.solve(large, method="brute_force")
