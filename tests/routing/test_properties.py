"""What holds for every routing method: the list of laws, looped over all that are registered.

Struck from the list: ``extra load never helps`` and ``a further replica never hurts`` for baselines, whose rules can
trip over both; they are tested for the optimum. ``lp`` starts a solver's process and is tried on one example in
forty. Under a floor for each replica a further replica costs its floor, so that law is tested without floors.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from moeopt import routing
from moeopt.errors import InstanceError, PlanError
from moeopt.limits import Limits
from moeopt.result import Result, Status
from moeopt.routing import METHODS, Routing, RoutingInstance, verify
from tests.routing import oracle
from tests.routing.strategies import instances

ROOT = Path(__file__).parents[2]
OPTIMAL = ("newton", "local_first", "auto")


def applicable(instance: RoutingInstance) -> Iterator[str]:
    for name, method in METHODS.items():
        quick = name != "lp" or int(instance.sha256, 16) % 40 == 0
        if quick and method.claim != "plug-in" and method.applies(instance) is None:
            note(f"method {name}")
            yield name


def solved(instance: RoutingInstance) -> Iterator[tuple[str, Result]]:
    for name in applicable(instance):
        yield name, routing.solve(instance, method=name)


def best(instance: RoutingInstance) -> Fraction:
    """The optimum as the certificate of `newton` states it."""
    result = routing.solve(instance, method="newton")
    assert result.certificate is not None
    return sum((Fraction(row["value"]) for row in result.certificate["layers"]), Fraction(0))


def changed(instance: RoutingInstance, **fields: Any) -> RoutingInstance:
    return RoutingInstance.from_dict(instance.to_dict() | fields)


@given(instances() | instances(whole=True))
def test_every_solution_is_accepted_and_its_figures_are_the_referee_s(instance: RoutingInstance) -> None:
    for name, result in solved(instance):
        judged = verify.evaluate(instance, result.plan)
        assert result.objective == float(judged.objective)
        assert result.solution is not None and result.certificate is not None
        again = Routing.of(result.solution["shares"], result.solution["unit"] == "tokens")
        assert verify.evaluate(instance, again).max_load == judged.max_load
        assert verify.recheck(instance, result.certificate) == []
        if name == "even" and not instance.whole:
            assert result.solution["even_objective"] == pytest.approx(result.objective, rel=1e-9)


@given(instances(), st.data())
def test_every_kind_of_damage_is_rejected(instance: RoutingInstance, data: st.DataObject) -> None:
    plan = routing.solve(instance, method="newton").plan
    row = data.draw(st.integers(0, instance.num_layers - 1))
    place = data.draw(st.integers(0, len(plan.shares[row]) - 1))
    expert, gpu, part = plan.shares[row][place]
    known = {(one[0], one[1]) for one in plan.shares[row]}
    elsewhere = next((g for g in range(instance.num_gpus + 1) if (expert, g) not in known), None)
    for wrong in (
        (expert, gpu, part + 0.25),
        (expert, gpu, -0.5),
        (expert, gpu, float("nan")),
        (expert, elsewhere, part),
        (instance.num_experts, gpu, part),
    ):
        shares = list(plan.shares[row])
        shares[place] = wrong
        damaged = Routing((*plan.shares[:row], tuple(shares), *plan.shares[row + 1 :]))
        assert verify.faults(instance, damaged), wrong
        with pytest.raises(PlanError):
            routing.evaluate(instance, damaged)
    doubled = (*plan.shares[row], (expert, gpu, 0.0))
    assert verify.faults(instance, Routing((*plan.shares[:row], doubled, *plan.shares[row + 1 :])))
    assert verify.faults(instance, Routing(plan.shares[1:]))
    if instance.hostings[row].hosts[expert] > 1:
        lost = tuple(one for one in plan.shares[row] if one[0] != expert)
        assert verify.faults(instance, Routing((*plan.shares[:row], lost, *plan.shares[row + 1 :])))


@given(instances())
def test_the_optimum_is_that_of_every_set_of_gpus(instance: RoutingInstance) -> None:
    value = sum((oracle.optimum(instance, row) for row in range(instance.num_layers)), Fraction(0))
    assert best(instance) == value
    for name in OPTIMAL:
        result = routing.solve(instance, method=name)
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(float(value), rel=1e-12)


@given(instances(most_tokens=4, layers=1, whole=True))
def test_whole_tokens_are_dealt_as_well_as_by_trying_every_deal(instance: RoutingInstance) -> None:
    held = oracle.hosts(instance)
    loads = instance.loads[0].tolist()
    deals = 1
    for expert, copies in held.items():
        deals *= (loads[expert] + 1) ** (len(copies) - 1)
    assume(deals <= 3000)
    value, stayed = oracle.whole(instance)
    for name in ("integer", "local_first", "auto"):
        result = routing.solve(instance, method=name)
        assert result.status is Status.OPTIMAL
        assert verify.evaluate(instance, result.plan).objective == value
        assert result.plan.in_tokens
        if name == "local_first" and len(set(instance.node)) > 1:
            assert result.solution is not None
            assert result.solution["layers"][0]["local_tokens"] >= float(stayed) - 1e-9


@given(instances() | instances(whole=True))
def test_bounds_lie_below_the_optimum_and_the_optimum_below_every_method(instance: RoutingInstance) -> None:
    name = "integer" if instance.whole else "newton"
    top = routing.solve(instance, method=name)
    assert top.status is Status.OPTIMAL and top.objective is not None
    for _, result in solved(instance):
        assert result.objective is not None and result.lower_bound is not None
        assert result.lower_bound <= top.objective * (1 + 1e-12)
        assert result.objective >= top.objective * (1 - 1e-12)


@given(instances(), st.randoms(use_true_random=False))
def test_new_names_of_experts_and_gpus_change_nothing(instance: RoutingInstance, random: Any) -> None:
    experts, gpus = list(range(instance.num_experts)), list(range(instance.num_gpus))
    random.shuffle(experts)
    random.shuffle(gpus)
    document = instance.to_dict()
    loads = [[row[experts.index(e)] for e in range(len(row))] for row in document["loads"]]
    rows = [[experts[e] if e >= 0 else e for e in row] for row in document["slot_expert"]]
    back = [gpus.index(g) for g in range(len(gpus))]
    fields = {"loads": loads, "slot_expert": rows, "gpu_of_slot": [gpus[g] for g in document["gpu_of_slot"]]}
    fields["speed"] = [document["speed"][g] for g in back]
    fields["base"] = [document["base"][g] for g in back]
    assert best(changed(instance, **fields)) == best(instance)


@given(instances(), st.integers(2, 1000))
def test_k_times_the_load_is_k_times_the_optimum(instance: RoutingInstance, k: int) -> None:
    assume(instance.loads.dtype.kind == "i")
    document = instance.to_dict()
    loads = [[load * k for load in row] for row in document["loads"]]
    base = [float(Fraction(str(more)) * k) for more in document["base"]]
    more = changed(instance, loads=loads, base=base, floor_tokens=instance.floor_tokens * k)
    assert best(more) == k * best(instance)


@given(instances(), st.data())
def test_more_load_never_helps_and_more_replicas_never_hurt(instance: RoutingInstance, data: st.DataObject) -> None:
    document = instance.to_dict() | {"floor_tokens": 0.0}
    plain = RoutingInstance.from_dict(document)
    expert = data.draw(st.integers(0, instance.num_experts - 1))
    loads = [list(row) for row in document["loads"]]
    loads[0][expert] += 7
    assert best(changed(plain, loads=loads)) >= best(plain)
    gpu = data.draw(st.integers(0, instance.num_gpus - 1))
    rows = [[*row, expert] for row in document["slot_expert"]]
    wider = changed(plain, slot_expert=rows, gpu_of_slot=[*document["gpu_of_slot"], gpu])
    assert best(wider) <= best(plain)


@given(instances())
def test_documents_come_back_as_they_went(instance: RoutingInstance) -> None:
    document = instance.to_dict()
    assert RoutingInstance.from_dict(document) == instance
    assert RoutingInstance.from_dict(document).sha256 == instance.sha256
    with pytest.raises(InstanceError, match="speeed"):
        RoutingInstance.from_dict(document | {"speeed": [1.0]})
    with pytest.raises(InstanceError, match="moeopt/routing-instance/1"):
        RoutingInstance.from_dict(document | {"schema": "moeopt/routing-instance/2"})


@given(instances() | instances(whole=True))
def test_answers_are_the_same_again_and_inputs_stay_as_they_were(instance: RoutingInstance) -> None:
    before = instance.to_dict()
    for name in applicable(instance):
        first, second = (routing.solve(instance, method=name) for _ in range(2))
        assert first.canonical() == second.canonical()
    assert instance.to_dict() == before


@given(instances())
def test_a_warm_start_never_ends_worse_than_it_began(instance: RoutingInstance) -> None:
    warm = routing.solve(instance, method="newton")
    for name in ("even", "waterfill"):
        result = routing.solve(instance, method=name, warm_start=warm.plan)
        assert result.objective is not None and warm.objective is not None
        assert result.objective <= warm.objective


SOLVE = """
from moeopt import routing
import numpy as np
rng = np.random.default_rng(5)
rows = [np.concatenate([np.arange(24), rng.integers(0, 24, 16)]) for _ in range(3)]
instance = routing.RoutingInstance(rng.integers(0, 9000, (3, 24)), rows, gpus=8, nodes=2)
for method in ("newton", "local_first", "waterfill", "sglang_static_node"):
    print(routing.solve(instance, method=method).canonical().decode())
"""


def test_a_fresh_process_gives_the_same_bytes_compiled_or_not() -> None:
    found = []
    for interpreted in ("0", "1"):
        environment = {**os.environ, "MOEOPT_INTERPRET": interpreted}
        command = [sys.executable, "-c", SOLVE]
        found.append(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True))
    assert found[0].stdout == found[1].stdout != ""


# --- trivial ----------------------------------------------------------------------------------------------------------


def test_one_gpu_one_expert_and_no_load() -> None:
    for instance, value in (
        (RoutingInstance([[5, 3]], [[0, 1]], gpus=1), 8.0),
        (RoutingInstance([[12]], [[0, 0, 0]], gpus=3), 4.0),
        (RoutingInstance([[0, 0, 0, 0]], [[0, 1, 2, 3, 0, 1, 2, 3]], gpus=4), 0.0),
        (RoutingInstance([[4, 4, 4, 4]], [[0, 1, 2, 3, 0, 1, 2, 3]], gpus=4), 4.0),
    ):
        for name in (name for name, method in METHODS.items() if method.applies(instance) is None):
            result = routing.solve(instance, method=name)
            assert (result.objective, result.status) == (value, Status.OPTIMAL), name
            assert result.solution is not None
            assert all(np.isfinite(layer["imbalance"]) for layer in result.solution["layers"])


def test_an_expert_with_tokens_and_no_replica_is_named_with_what_is_short() -> None:
    result = routing.solve(RoutingInstance([[5, 3]], [[0, 0]], gpus=2))
    assert result.status is Status.INFEASIBLE
    assert result.conflicts[0]["expert"] == 1 and result.conflicts[0]["shortfall"] == 3.0
    assert routing.solve(RoutingInstance([[5, 0]], [[0, 0]], gpus=2)).objective == 2.5


def test_a_deadline_that_has_passed_leaves_even_parts_and_the_mean() -> None:
    instance = RoutingInstance([[9, 4, 2]] * 3, [[0, 1, 0, 2]] * 3, gpus=2)
    result = routing.solve(instance, limits=Limits(time_s=1e-9))
    assert (result.objective, result.lower_bound, str(result.stop)) == (25.5, 22.5, "TIME")
    assert any("split evenly" in text for text in result.notes)
