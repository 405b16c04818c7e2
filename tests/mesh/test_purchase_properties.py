"""What holds for every method of the mesh: the list of laws, looped over all that are registered.

Struck from the list: one more replica of a baseline may cost more than none, so ``an extra free choice never hurts`` is
tested for the exact methods. ``exact`` starts a solver's process and is tried on one example in twenty.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from moeopt import mesh
from moeopt.errors import InstanceError, PlanError
from moeopt.mesh import METHODS, MeshInstance, MeshPlan, Pool
from moeopt.mesh.market import market_of
from moeopt.mesh.plan import as_plan
from moeopt.result import Result, Status
from tests.mesh import oracle, strategies

ROOT = Path(__file__).parents[2]
few = settings(max_examples=12)
MOST = 4
"""Replicas of a configuration that the oracle tries at most."""


def applicable(instance: MeshInstance) -> Iterator[str]:
    for name, method in METHODS.items():
        quick = name != "exact" or int(instance.sha256, 16) % 20 == 0
        if quick and method.claim != "plug-in" and method.applies(instance) is None:
            note(f"method {name}")
            yield name


def solved(instance: MeshInstance) -> Iterator[tuple[str, Result]]:
    for name in applicable(instance):
        yield name, mesh.solve(instance, method=name)


def again(instance: MeshInstance, **changes: Any) -> MeshInstance:
    """The same instance with other fields, nothing remembered."""
    return replace(instance, **changes)


@few
@given(strategies.instances())
def test_every_plan_is_accepted_and_its_figures_are_the_referee_s(instance: MeshInstance) -> None:
    for _, result in solved(instance):
        if result.plan is None:
            assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
            continue
        judged = mesh.evaluate(instance, result.plan)
        assert result.solution is not None
        assert result.objective == float(judged.objective)
        assert result.solution["gpus"] == dict(judged.gpus)
        for gpu in instance.gpus:
            if gpu.stock is not None:
                idle = result.solution["idle_gpus"].get(gpu.name, 0)
                assert judged.gpus[gpu.name] + idle == gpu.stock
        assert as_plan(instance, result.solution) == MeshPlan(judged.pools)
        result.to_json()


@few
@given(strategies.instances(), st.data())
def test_damaged_plans_are_refused(instance: MeshInstance, data: st.DataObject) -> None:
    result = mesh.solve(instance, method="per_price")
    if result.plan is None:
        return
    pools = result.plan.pools
    place = data.draw(st.integers(0, len(pools) - 1))
    pool = pools[place]
    rest = pools[:place] + pools[place + 1 :]
    better = replace(pool.config, decode_per_s=pool.config.decode_per_s + 1)
    with pytest.raises(PlanError, match="the instance says"):
        mesh.evaluate(instance, MeshPlan((*rest, Pool(better, pool.replicas))))
    with pytest.raises(PlanError, match="no configuration of this instance"):
        mesh.evaluate(instance, MeshPlan((*rest, Pool(replace(pool.config, batch=77), pool.replicas))))
    with pytest.raises(PlanError, match="at least 1"):
        mesh.evaluate(instance, MeshPlan((*rest, Pool(pool.config, 0))))
    with pytest.raises(PlanError, match="nothing serves"):
        mesh.evaluate(instance, MeshPlan(()))
    if any(gpu.stock is not None for gpu in instance.gpus if gpu.name in pool.config.gpus):
        with pytest.raises(PlanError, match="the stock is"):
            mesh.evaluate(instance, MeshPlan((*rest, Pool(pool.config, 100))))


@few
@given(strategies.instances())
def test_bounds_lie_below_every_plan_and_certificates_hold(instance: MeshInstance) -> None:
    for _, result in solved(instance):
        if result.objective is None:
            continue
        assert result.lower_bound is not None and result.lower_bound <= result.objective
        certificate = dict(result.certificate or {})
        assert mesh.recheck(instance, certificate.get("certified", certificate)) == []


@few
@given(strategies.instances(objectives=("gpus", "price", "goodput")))
def test_certificates_that_claim_more_are_refused(instance: MeshInstance) -> None:
    result = mesh.solve(instance)
    if result.objective is None:
        return
    certificate = dict(result.certificate or {})
    certificate = certificate.get("certified", certificate)
    value = Fraction(certificate["value"])
    worse = value / 2 if instance.objective == "goodput" else value * 2 + 1
    assert mesh.recheck(instance, {**certificate, "value": str(worse)})


@few
@given(strategies.instances(most_gpus=6, per_family=1))
def test_exact_methods_equal_trying_everything(instance: MeshInstance) -> None:
    found = oracle.best(instance, MOST)
    for name in ("covering", "auto", "exact"):
        if METHODS[name].applies(instance) is not None or (name == "exact" and int(instance.sha256, 16) % 6):
            continue
        result = mesh.solve(instance, method=name)
        if result.objective is None:
            assert found is None
            continue
        assert result.status is Status.OPTIMAL
        if found is not None:
            assert result.objective <= float(found[0]) * (1 + 1e-12)
        if all(pool.replicas <= MOST for pool in result.plan.pools):  # it is among those that were tried
            assert found is not None and result.objective == pytest.approx(float(found[0]), rel=1e-12)
            assert result.solution is not None and result.solution["total_gpus"] == found[1]


@few
@given(strategies.instances())
def test_heuristics_are_never_better_than_the_optimum(instance: MeshInstance) -> None:
    best = mesh.solve(instance)
    if best.objective is None:
        return
    assert best.status is Status.OPTIMAL
    for _, result in solved(instance):
        if result.objective is not None:
            assert result.objective >= best.objective * (1 - 1e-6)


@few
@given(strategies.instances())
def test_prices_prove_no_more_than_tables_do(instance: MeshInstance) -> None:
    from moeopt.mesh import bounds, dual

    market = market_of(instance)
    best = mesh.solve(instance)
    if best.objective is None or instance.objective == "time":
        return
    if instance.objective == "goodput":
        prices = dual.theta_prices(market)
        assert prices is not None and dual.faults(market, prices, theta=True) == []
        assert 1 / (prices.value * bounds.wanted_rate(instance)) <= Fraction(best.objective) * (1 + Fraction(1, 10**12))
        return
    prices = dual.cost_prices(market)
    assert prices is not None and dual.faults(market, prices, theta=False) == []
    assert prices.value <= Fraction(best.objective) * (1 + Fraction(1, 10**12))


@few
@given(strategies.instances(max_types=1, max_demands=1))
def test_rate_and_gpus_agree(instance: MeshInstance) -> None:
    """The most that some GPUs serve needs just these GPUs, and they serve it."""
    gpus = tuple(gpu.with_stock(7) for gpu in instance.gpus)
    most = again(instance, objective="goodput", gpus=gpus)
    served = mesh.solve(most)
    if served.solution is None:
        return
    rate, used = served.solution["rate_per_s"], served.solution["total_gpus"]
    demand = instance.demands[0]
    wanted = replace(demand, workload=replace(demand.workload, rate_per_s=rate))
    needed = mesh.solve(again(most, objective="gpus", demands=(wanted,)))
    assert needed.objective == used
    back = mesh.solve(again(most, gpus=(gpus[0].with_stock(used),)))
    assert back.solution is not None and back.solution["rate_per_s"] == rate


@few
@given(strategies.instances(objectives=("gpus", "price", "goodput")), st.data())
def test_more_to_choose_from_never_hurts(instance: MeshInstance, data: st.DataObject) -> None:
    configs = instance.configs or ()
    gone = data.draw(st.integers(0, len(configs) - 1))
    fewer = again(instance, configs=configs[:gone] + configs[gone + 1 :])
    ours, theirs = mesh.solve(instance).objective, mesh.solve(fewer).objective
    if theirs is not None:
        assert ours is not None and ours <= theirs * (1 + 1e-12)


@few
@given(strategies.instances(objectives=("gpus", "goodput", "time")))
def test_one_more_gpu_never_hurts(instance: MeshInstance) -> None:
    gpus = tuple(gpu if gpu.stock is None else gpu.with_stock(gpu.stock + 1) for gpu in instance.gpus)
    before, after = mesh.solve(instance).objective, mesh.solve(again(instance, gpus=gpus)).objective
    if before is not None:
        assert after is not None and after <= before * (1 + 1e-12)


@few
@given(strategies.instances(objectives=("gpus", "price")), st.sampled_from([2, 5]))
def test_rates_k_times_as_large_on_both_sides_change_nothing(instance: MeshInstance, factor: int) -> None:
    def scaled(rate: float | None) -> float | None:
        return None if rate is None else float(Fraction(str(rate)) * factor)

    demands = tuple(
        replace(one, workload=replace(one.workload, rate_per_s=scaled(one.workload.rate_per_s)))
        for one in instance.demands
    )
    configs = tuple(
        replace(one, prefill_per_s=scaled(one.prefill_per_s), decode_per_s=scaled(one.decode_per_s))
        for one in instance.configs or ()
    )
    assert mesh.solve(again(instance, demands=demands, configs=configs)).objective == mesh.solve(instance).objective


@few
@given(strategies.instances(), st.randoms(use_true_random=False))
def test_the_order_of_configurations_does_not_matter(instance: MeshInstance, random: Any) -> None:
    configs = list(instance.configs or ())
    random.shuffle(configs)
    assert mesh.solve(again(instance, configs=tuple(configs))).objective == mesh.solve(instance).objective


@few
@given(strategies.instances(), st.booleans())
def test_written_and_read_is_the_same(instance: MeshInstance, named: bool) -> None:
    document = {**instance.to_dict(), "name": "x" if named else ""}
    back = MeshInstance.from_dict(document)
    assert back.to_dict() == document
    assert back.sha256 == instance.sha256
    assert back.configs == instance.configs
    with pytest.raises(InstanceError, match="Did you mean objective"):
        MeshInstance.from_dict({**document, "objectiv": "gpus"})
    with pytest.raises(InstanceError, match="mesh-instance/1"):
        MeshInstance.from_dict({**document, "schema": "moeopt/mesh-instance/2"})


@settings(max_examples=6)
@given(strategies.instances())
def test_answers_are_steady_and_a_warm_start_never_ends_worse(instance: MeshInstance) -> None:
    before = instance.to_dict()
    best = mesh.solve(instance)
    for name, result in solved(instance):
        assert mesh.solve(MeshInstance.from_dict(before), method=name).canonical() == result.canonical()
        if best.plan is not None:
            warm = mesh.solve(instance, method=name, seed=5, warm_start=best.plan)
            assert warm.objective == pytest.approx(best.objective, rel=1e-12)
    assert instance.to_dict() == before


FRESH = """
from moeopt import mesh
from moeopt.mesh.document import load_instance
for name in ("thirty", "two_types"):
    for method in ("covering", "exact")[: 2 if name == "thirty" else 1]:
        print(mesh.solve(load_instance(f"instances/tiny/mesh/{name}.json"), method=method).canonical().decode())
"""


def test_a_fresh_process_gives_the_same_bytes() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", FRESH],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout and runs[0].stdout.count("\n") == 3
