"""What notes of a purchase say: of methods without a plan, of idle GPUs, and of sizes that were not looked at."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from moeopt import mesh
from moeopt.errors import NotApplicable
from moeopt.llm import find
from moeopt.mesh import ApartShape, Demand, GpuType, MeshInstance, Slo, Workload
from moeopt.mesh.plan_faults import plan_faults
from moeopt.result import Status
from tests.mesh.strategies import config
from tests.mesh.test_purchase_cases import TINY, budget


def test_what_a_method_lacks_is_not_blamed_on_the_stock() -> None:
    """With any number of GPUs none runs out: said is what the method does not have."""
    published = config(0, "apart", {"H100": 2}, 10, name="A")
    shape = ApartShape("H100", "H100", tp_a=1, n_a=1, tp_e=1, n_e=1, m=2)
    pools = (config(0, "prefill", {"H100": 8}, 10, name="P"), replace(published, shape=shape))
    for stock in (None, 64):
        asked = replace(budget(stock, "gpus", 5.0), families=("prefill", "apart"), configs=pools)
        result = mesh.solve(asked, method="megascale")
        assert result.solution is None and not any("the stock ran out" in note for note in result.notes)
        assert any("nothing of its enumeration is among the configurations" in note for note in result.notes)
    asked = MeshInstance.from_dict(json.loads((TINY / "two_types.json").read_text()))
    assert any("the stock ran out" in note for note in mesh.solve(asked, method="per_price").notes)


def test_idle_gpus_are_said_to_win_nothing_only_by_a_plan_that_is_proved() -> None:
    asked = MeshInstance.from_dict(json.loads((TINY / "mixed.json").read_text()))
    simple, best = mesh.solve(asked, method="uniform"), mesh.solve(asked)
    assert simple.status is Status.FEASIBLE and best.status is Status.OPTIMAL
    assert any("2 of 12 H100 stay idle: this plan has no use for them" in note for note in simple.notes)
    assert not any("win nothing" in note for note in simple.notes)
    proved = mesh.solve(budget())
    assert any("2 of 32 H100 stay idle: they would win nothing" in note for note in proved.notes)
    for result in (simple, proved):
        document = json.loads(result.to_json())
        assert plan_faults(MeshInstance.from_dict(document["instance"]["document"]), document)[0] == []


@pytest.mark.parametrize("stock", [None, 16])
def test_a_purchase_below_a_server_says_what_a_stock_below_it_would_add(stock: int | None) -> None:
    """Replicas of three GPUs leave two of a server over: only a stock of less than a server has them."""
    demand = Demand(find("mixtral-8x7b"), Workload(4000, 1000, rate_per_s=5.7), Slo(ttft_s=2.0, tpot_s=0.03))
    found = mesh.solve(MeshInstance((demand,), (GpuType.of("H100", stock=stock),), "gpus", ("colocated",)))
    assert found.objective == 4
    (note,) = [one for one in found.notes if "servers of 8 H100" in one]
    assert "a stock of 3 or fewer, stages of 3 GPUs" in note
    less = mesh.solve(MeshInstance((demand,), (GpuType.of("H100", stock=3),), "gpus", ("colocated",)))
    assert less.objective == 3 and not any("servers of" in one for one in less.notes)


def test_optimal_says_how_far_it_may_be_where_what_is_counted_differs() -> None:
    """Seven GPUs serve 3 requests a second, four serve 1.5: at 1e12 the greedy plan is a GPU above the bound."""
    pools = (config(0, "colocated", {"H100": 7}, 3, name="A"), config(0, "colocated", {"H100": 4}, 1.5, name="B"))
    for rate, near in ((1e12, True), (3e3, False)):
        asked = replace(budget(None, "gpus", rate), families=("colocated",), configs=pools)
        result = mesh.solve(asked, method="per_price")
        assert result.objective is not None and result.lower_bound is not None
        said = [
            note for note in result.notes if note.startswith("OPTIMAL allows a gap of 1e-09: the plan is 1 GPUs (4")
        ]
        assert bool(said) == near == (result.objective > result.lower_bound)
        assert result.status is Status.OPTIMAL


def test_a_method_of_tables_says_its_rule_and_which_methods_do_without() -> None:
    asked = replace(budget(None, "gpus", 1e9), families=("prefill", "decode"))
    with pytest.raises(NotApplicable) as refused:
        mesh.solve(asked, method="covering")
    said = str(refused.value)
    assert (
        "it makes a table of every number of GPUs of each type, of at most 8,192 rows, and here there would be" in said
    )
    assert said.endswith("exact and auto prove an optimum without one, and per_price, recipe and uniform find a plan")
