"""Roles: what is bought obeys them, families that contradict them are refused, and the best colocated stands beside."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from moeopt import mesh
from moeopt.errors import InstanceError, PlanError
from moeopt.limits import Limits
from moeopt.llm import find
from moeopt.mesh import ApartShape, Config, Demand, GpuType, MeshInstance, MeshPlan, Pool, Shape, Workload
from moeopt.mesh.beside import NOT_COMPARED
from moeopt.mesh.market import configs_of
from moeopt.mesh.plan_faults import plan_faults
from moeopt.mesh.roles import FAMILY_OF, breaches, families_of
from moeopt.result import Status
from tests.mesh.oracle import best
from tests.mesh.strategies import LLMS, config, gpu_type

PAIRS = [
    ({"prefill": "A", "decode": "B"}, {"prefill", "decode"}),
    ({"prefill": "B", "decode": "A"}, {"prefill", "decode"}),
    ({"attention": "A", "experts": "B"}, {"prefill", "apart"}),
    ({"attention": "B", "experts": "A"}, {"prefill", "apart"}),
    ({"attention": "A", "experts": "A"}, {"prefill", "apart"}),
    ({"prefill": "A", "long": "B"}, {"prefill", "long"}),
    ({"prefill": "A"}, {"prefill", "decode", "apart"}),
    ({"decode": "A"}, {"prefill", "decode"}),
    ({"attention": "B"}, {"prefill", "apart"}),
    ({"experts": "B"}, {"prefill", "apart"}),
    ({"colocated": "B"}, {"colocated"}),
    ({"colocated": "B", "prefill": "A"}, {"colocated", "prefill", "decode", "apart"}),
    ({"prefill": "A", "decode": "B", "attention": "B", "experts": "A"}, {"prefill", "decode", "apart"}),
]
ALL: Any = ("colocated", "prefill", "decode", "apart", "long")
PRICES = (None, (1.0, 2.5), (2.5, 1.0))


def apart(first: str, second: str, rate: float) -> Config:
    shape = ApartShape(first, second, 1, 1, 1, 1, 2)
    gpus = {first: 2} if first == second else {first: 1, second: 1}
    return Config(0, "apart", shape, 1, gpus, decode_per_s=rate, tpot_s=0.02, name=f"apart-{first}{second}")


def market(roles: dict[str, str], stock: int | None, prices: Any, objective: Any, **more: Any) -> MeshInstance:
    """One replica of each family on each type, and of every pair apart, where that without roles is a bargain."""
    listed = [apart(*pair, rate=3 + place) for place, pair in enumerate(product("AB", repeat=2))]
    for place, name in enumerate("AB"):
        listed.append(config(0, "colocated", {name: 1}, 20 + place, name=f"colocated-{name}", tpot_s=0.01))
        for family, gpus in (("prefill", 1), ("decode", 2 - place), ("long", 2)):
            tpot = {} if family == "prefill" else {"tpot_s": 0.03}
            listed.append(config(0, family, {name: gpus}, 4 + place, name=f"{family}-{name}", **tpot))
    rate = 9.0 if objective in ("gpus", "price") else None
    gpus_ = tuple(gpu_type(name, stock, None if prices is None else prices[k]) for k, name in enumerate("AB"))
    demand = Demand(LLMS[0], Workload(100, 10, rate_per_s=rate))
    return MeshInstance((demand,), gpus_, objective, configs=tuple(listed), sides=roles, **more)


def obeys(roles: dict[str, str], pool: Config) -> bool:
    """Written down once more, part by part."""
    shape = pool.shape
    if isinstance(shape, ApartShape):
        return (
            roles.get("attention", shape.gpu) == shape.gpu
            and roles.get("experts", shape.expert_gpu) == shape.expert_gpu
        )
    return set(pool.gpus) <= {roles.get(pool.family, next(iter(pool.gpus)))}


@pytest.mark.parametrize(("stock", "prices"), [*zip([None, 6, 40, 6], [*PRICES, None], strict=True)])
@pytest.mark.parametrize(("roles", "families"), PAIRS)
def test_what_is_bought_obeys_the_roles_and_is_the_best_that_does(
    roles: dict[str, str], families: set[str], stock: int | None, prices: Any
) -> None:
    objective = "gpus" if prices is None else "price"
    instance = market(roles, stock, prices, objective)
    assert set(instance.families) == families
    result = mesh.solve(instance)
    kept = [one for one in instance.configs or () if one.family in families and obeys(roles, one)]
    known = best(replace(instance, sides={}, families=tuple(families), configs=tuple(kept)), 9)
    if known is None:
        assert result.status is Status.INFEASIBLE
        return
    assert result.objective == pytest.approx(float(known[0])) and result.status is Status.OPTIMAL
    assert all(pool.config.family in families and obeys(roles, pool.config) for pool in result.plan.pools)
    assert any("leave the families" in note for note in result.notes)
    document: Any = json.loads(result.to_json())
    assert plan_faults(MeshInstance.from_dict(document["instance"]["document"]), document)[0] == []


@pytest.mark.parametrize("objective", ["gpus", "price", "goodput", "time"])
def test_a_plan_under_roles_stands_beside_the_best_colocated(objective: str) -> None:
    roles = {"prefill": "A", "decode": "B"}
    result = mesh.solve(market(roles, 6, (1.0, 2.5), objective))
    beside = result.solution["beside_colocated"]  # type: ignore[index]
    colocated = beside["colocated"]
    assert beside["unit"] == "price"
    assert beside["per_unit"] == pytest.approx(beside["tokens_per_s"] / beside["paid"])
    assert beside["ratio"] == pytest.approx(beside["per_unit"] / colocated["per_unit"])
    if objective in ("gpus", "price"):  # 9 requests a second of 10 tokens, by one replica on a cheap GPU
        assert (colocated["pools"], colocated["paid"], colocated["per_unit"]) == ([["colocated-A", 1]], 1.0, 90.0)
        assert beside["tokens_per_s"] == 90.0
    elif objective == "goodput":
        assert (colocated["pools"], colocated["per_unit"]) == ([["colocated-A", 1]], 200.0)


def test_without_prices_a_gpu_is_the_unit_and_without_roles_nothing_stands_beside() -> None:
    roles = {"attention": "A", "experts": "B"}
    beside = mesh.solve(market(roles, 6, None, "goodput")).solution["beside_colocated"]  # type: ignore[index]
    assert (beside["unit"], beside["colocated"]["pools"]) == ("GPU", [["colocated-B", 1]])
    assert beside["colocated"]["per_unit"] == 210.0
    assert mesh.solve(market({}, 6, None, "goodput", families=ALL)).solution["beside_colocated"] is None  # type: ignore[index]


def test_a_family_that_nobody_can_buy_colocated_is_said() -> None:
    instance = market({"prefill": "A", "decode": "B"}, 6, None, "goodput")
    alone = replace(instance, configs=tuple(one for one in instance.configs or () if one.family != "colocated"))
    beside = mesh.solve(alone).solution["beside_colocated"]  # type: ignore[index]
    assert beside["colocated"] is None and beside["ratio"] is None


@pytest.mark.parametrize(
    ("roles", "families", "words"),
    [
        ({"prefill": "A", "decode": "B"}, ("colocated",), ("prefill=A,decode=B", "no prefill", "colocated serves")),
        ({"attention": "A", "experts": "B"}, ("prefill", "decode"), ("no apart for attention=A,experts=B", "decode")),
        ({"attention": "A"}, ("prefill", "decode", "apart"), ("decode serves the same on GPUs of no role",)),
        ({"colocated": "A"}, ("prefill", "decode"), ("no colocated for colocated=A",)),
        ({"long": "A"}, ("prefill", "decode"), ("no long for long=A",)),
    ],
)
def test_families_that_contradict_the_roles_are_refused_with_both(
    roles: dict[str, str], families: tuple[Any, ...], words: tuple[str, ...]
) -> None:
    with pytest.raises(InstanceError) as caught:
        market(roles, 6, None, "goodput", families=families)
    message = str(caught.value)
    assert f"families = {', '.join(families)}" in message and "contradict the roles" in message
    assert all(word in message for word in words)
    assert f"Leave them out for {', '.join(families_of(roles))}" in message


def test_families_that_agree_with_the_roles_are_taken() -> None:
    instance = market({"decode": "B"}, 6, None, "goodput", families=("decode",))
    result = mesh.solve(instance)
    assert [pool.config.name for pool in result.plan.pools] == ["decode-B"]
    assert MeshInstance.from_dict(instance.to_dict()) == instance


def test_unknown_roles_and_gpus_come_with_what_may_have_been_meant() -> None:
    with pytest.raises(InstanceError, match=r"(?s)Did you mean prefill\?.*sides\[decode\] = H20: is no type of GPU"):
        MeshInstance(
            (Demand(LLMS[0], Workload(1, 1)),), (GpuType.of("H100", stock=8),), "goodput",
            sides={"prefil": "H100", "decode": "H20"},
        )  # fmt: skip


def test_a_plan_whose_gpus_break_the_roles_is_a_fault() -> None:
    instance = market({"prefill": "A", "decode": "B"}, 6, None, "goodput")
    byname = {one.name: one for one in configs_of(instance)}
    with pytest.raises(PlanError) as caught:
        mesh.evaluate(instance, MeshPlan((Pool(byname["prefill-B"], 1), Pool(byname["decode-B"], 1))))
    assert caught.value.faults == ("prefill-B: prefill on B, its role is prefill=A",)
    assert "leave no colocated" in mesh.faults(instance, MeshPlan((Pool(byname["colocated-A"], 1),)))[0]
    document: Any = json.loads(mesh.solve(instance).to_json())
    pool = next(one for one in document["solution"]["pools"] if one["label"] == "decode-B")
    pool["config"] |= {"gpus": {"A": 2}, "name": "decode-A"}
    pool["config"]["shape"]["gpu"] = "A"
    assert any("decode on A, its role is decode=B" in fault for fault in plan_faults(instance, document)[0])


def test_every_part_has_a_family() -> None:
    assert {FAMILY_OF[role] for role in FAMILY_OF} == {"prefill", "decode", "apart", "colocated", "long"}
    assert breaches(market({}, 6, None, "goodput", families=ALL), config(0, "decode", {"A": 1}, 1)) == []
    with_plain = market({"attention": "A", "experts": "B"}, 6, None, "goodput")
    plain = Config(0, "apart", Shape("decode", "A"), 1, {"A": 2}, decode_per_s=1)
    assert breaches(with_plain, plain) == ["runs on A, its roles are attention=A,experts=B"]
    assert breaches(with_plain, replace(plain, gpus={"A": 1, "B": 1})) == []


@pytest.mark.parametrize(
    ("roles", "families"),
    [({"prefill": "H800", "decode": "H20"}, {"prefill", "decode"}),
     ({"attention": "H20", "experts": "H800"}, {"prefill", "apart"})],
)  # fmt: skip
def test_enumerated_plans_obey_too_and_are_true(roles: dict[str, str], families: set[str]) -> None:
    demand = Demand(find("mixtral-8x7b"), Workload(1024, 256, rate_per_s=20.0))
    gpus = (GpuType.of("H800", stock=16, price=2.5), GpuType.of("H20", stock=16, price=1.2))
    instance = MeshInstance((demand,), gpus, "price", sides=roles, most_pp=1)
    assert set(instance.families) == families
    result = mesh.solve(instance)
    assert {pool.config.family for pool in result.plan.pools} == families
    assert all(obeys(roles, pool.config) for pool in result.plan.pools)
    beside = result.solution["beside_colocated"]  # type: ignore[index]
    assert beside["colocated"]["pools"] and beside["ratio"] > 0
    document: Any = json.loads(result.to_json())
    assert plan_faults(instance, document)[0] == []
    document["solution"]["beside_colocated"]["ratio"] *= 2
    assert any("beside_colocated.ratio" in fault for fault in plan_faults(instance, document)[0])


def test_where_time_is_too_short_for_the_comparison_it_is_said() -> None:
    demand = Demand(find("mixtral-8x7b"), Workload(1024, 256, rate_per_s=20.0))
    gpus = (GpuType.of("H800", stock=16), GpuType.of("H20", stock=16))
    instance = MeshInstance((demand,), gpus, "gpus", sides={"prefill": "H800", "decode": "H20"}, most_pp=1)
    instance.memo["colocated"] = None
    result = mesh.solve(instance, limits=Limits(time_s=60))
    assert result.solution["beside_colocated"] is None and NOT_COMPARED in result.notes  # type: ignore[index]
    document: Any = json.loads(result.to_json())
    faults, aside = plan_faults(MeshInstance.from_dict(document["instance"]["document"]), document)
    assert faults == [] and "solution.beside_colocated" in aside
