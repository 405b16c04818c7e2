"""What holds for every placement method: the list of laws, looped over all that are registered.

A method is left out of an example only where it says itself, through ``applies``, that it cannot work there. Methods
that may start a solver's process are tried on one example in eight, and on small ones only, to spare time.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import NotApplicable
from moeopt.limits import Limits
from moeopt.placement import METHODS, Placement, PlacementInstance, bounds
from moeopt.result import Result, Status
from tests import oracles, strategies

LIMITS = Limits(iterations=25, nodes=50)
SMALL = 8
"""(Expert, GPU) pairs up to which a method that may start a solver's process is tried."""


def applicable(instance: PlacementInstance) -> Iterator[str]:
    """Methods that work on the instance; noted, so that a failing example says which one it was."""
    for name, method in METHODS.items():
        quick = method.claim in ("baseline", "heuristic", "plug-in")
        small = instance.num_experts * instance.num_gpus * instance.num_layers <= SMALL
        drawn = int(instance.sha256, 16) % 8 == 0
        if name == "equal_split" and not splits_equally(instance):
            continue
        if method.applies(instance) is None and (quick or (small and drawn)):
            note(f"method {name}")
            yield name


def splits_equally(instance: PlacementInstance) -> bool:
    """Whether there is a plan with exactly equal loads: found out only by looking for one."""
    try:
        placement.solve(instance, method="equal_split", limits=LIMITS)
    except NotApplicable:
        return False
    return True


def solve(instance: PlacementInstance, method: str, **more: object) -> Result:
    result = placement.solve(instance, method=method, limits=LIMITS, **more)
    assert isinstance(result.plan, Placement)
    return result


def exact_layers(instance: PlacementInstance, plan: Placement) -> list[Fraction]:
    """Cost of each layer by the tests' own arithmetic."""
    return [
        oracles.cost(instance, row, held, None if plan.shares is None else plan.shares[row])
        for row, held in enumerate(plan.slot_expert.tolist())
    ]


def exact_bounds(instance: PlacementInstance, result: Result) -> list[Fraction]:
    """Bound of each layer, recomputed from its certificate."""
    assert result.certificate is not None
    return [bounds.check(instance, row, item) for row, item in enumerate(result.certificate["layers"])]


# --- feasible, honest -------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(strategies.instances())
def test_every_method_gives_a_legal_plan_worth_what_it_says(instance: PlacementInstance) -> None:
    for method in applicable(instance):
        result = solve(instance, method)
        assert placement.faults(instance, result.plan) == []
        layers = exact_layers(instance, result.plan)
        judged = placement.evaluate(instance, result.plan)
        assert list(judged.max_load) == layers
        assert result.objective == float(sum(layers))
        assert [layer["max_load"] for layer in result.solution["layers"]] == [float(value) for value in layers]
        assert [layer["slot_expert"] for layer in result.solution["layers"]] == result.plan.slot_expert.tolist()
        np.testing.assert_allclose(judged.gpu_cost.max(axis=1), [float(value) for value in layers], rtol=1e-9)


@settings(max_examples=100)
@given(strategies.instances())
def test_every_bound_is_certified_and_below_the_plan(instance: PlacementInstance) -> None:
    for method in applicable(instance):
        result = solve(instance, method)
        layers = exact_layers(instance, result.plan)
        if result.bound_kind == "certified":
            proved = exact_bounds(instance, result)
            assert all(floor <= top for floor, top in zip(proved, layers, strict=True))
            assert [layer["lower_bound"] for layer in result.solution["layers"]] == [float(value) for value in proved]
        if result.status is Status.OPTIMAL:
            assert result.gap_worst_layer is not None and result.gap_worst_layer <= 1e-6


# --- sandwich and oracle ----------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(strategies.tiny())
def test_lower_bound_and_every_plan_enclose_the_brute_force_optimum(instance: PlacementInstance) -> None:
    best = oracles.optimum(instance)
    assert best is not None
    for method in applicable(instance):
        result = solve(instance, method)
        (top,) = exact_layers(instance, result.plan)
        assert best <= top
        if result.bound_kind == "certified":
            assert exact_bounds(instance, result)[0] <= best
        if result.status is Status.OPTIMAL:
            assert top <= best * (1 + Fraction(1, 10**6))
        event(f"{method} {'meets' if top == best else 'misses'} the optimum")


@settings(max_examples=100)
@given(strategies.tiny(rules=False), st.data())
def test_rules_that_leave_no_plan_are_infeasible_and_only_those(free: PlacementInstance, data: st.DataObject) -> None:
    experts, gpus = st.integers(0, free.num_experts - 1), st.integers(0, free.num_gpus - 1)
    document = free.to_dict()
    document |= {
        "groups": None,  # with groups and pins together no method here claims to answer
        "group_rule": "auto",
        "pin": data.draw(st.lists(st.tuples(experts, gpus).map(list), max_size=3)),
        "forbid": data.draw(st.lists(st.tuples(st.one_of(st.none(), experts), gpus).map(list), max_size=3)),
    }
    instance = PlacementInstance.from_dict(document)
    best = oracles.optimum(instance)
    for method in applicable(instance):
        result = placement.solve(instance, method=method, limits=LIMITS)
        assert (result.status is Status.INFEASIBLE) == (best is None)
        if best is None:
            assert result.plan is None and all(conflict["message"] for conflict in result.conflicts)
        else:
            assert exact_layers(instance, result.plan)[0] >= best


# --- relabel, scale, monotone -----------------------------------------------------------------------------------------


def relabelled(instance: PlacementInstance, experts: list[int], gpus: list[int]) -> PlacementInstance:
    """Place p holds what was expert ``experts[p]``, GPU ``gpus[p]``."""
    new_expert = {old: new for new, old in enumerate(experts)}
    new_gpu = {old: new for new, old in enumerate(gpus)}
    return PlacementInstance(
        instance.loads[:, experts],
        slots=[instance.slots[g] for g in gpus],
        speed=[instance.speed[g] for g in gpus],
        nodes=[instance.node[g] for g in gpus],
        groups=None if instance.groups is None else [instance.groups[e] for e in experts],
        pin=[(new_expert[e], new_gpu[g]) for e, g in instance.pin],
        forbid=[(None if e is None else new_expert[e], new_gpu[g]) for e, g in instance.forbid],
        **{
            name: getattr(instance, name)
            for name in ("steps", "floor_tokens", "floor_rule", "split", "fill", "distinct", "group_rule")
        },
    )


@given(strategies.tiny(), st.data())
def test_names_of_experts_and_gpus_change_neither_optimum_nor_bound(
    instance: PlacementInstance, data: st.DataObject
) -> None:
    experts = data.draw(st.permutations(range(instance.num_experts)))
    gpus = data.draw(st.permutations(range(instance.num_gpus)))
    other = relabelled(instance, experts, gpus)
    best = oracles.optimum(instance)
    assert best is not None and oracles.optimum(other) == best
    ours, theirs = bounds.cheap(instance)[0], bounds.cheap(other)[0]
    assert ours.value == theirs.value
    tight = [bounds.tighten(each, floor, 0, float(best)) for each, floor in ((instance, ours), (other, theirs))]
    assert float(tight[0].value) == pytest.approx(float(tight[1].value), rel=1e-6)


def scaled(instance: PlacementInstance, factor: int) -> PlacementInstance:
    document = instance.to_dict()
    document["loads"] = [[value * factor for value in row] for row in document["loads"]]
    document["floor_tokens"] *= factor
    return PlacementInstance.from_dict(document)


@settings(max_examples=80)
@given(strategies.instances(kinds=("ints", "ties", "floats")), st.sampled_from([2, 1024, 2**33]))
def test_loads_times_a_power_of_two_cost_exactly_as_much_more_by_every_method(
    instance: PlacementInstance, factor: int
) -> None:
    larger = scaled(instance, factor)
    for method in applicable(instance):
        assert solve(larger, method).objective == solve(instance, method).objective * factor


@settings(max_examples=40)
@given(strategies.tiny(kinds=("ints", "ties")), st.sampled_from([3, 7, 10**9]))
def test_loads_times_any_number_cost_as_much_more_at_the_optimum(instance: PlacementInstance, factor: int) -> None:
    assume(instance.floor_tokens in (0, 2, 1e4))  # else the product would be rounded
    assert oracles.optimum(scaled(instance, factor)) == oracles.optimum(instance) * factor


@settings(max_examples=40)
@given(strategies.tiny(fills=("at_most",), distinct=True, kinds=("ints", "ties", "floats")), st.data())
def test_one_slot_more_never_hurts_the_optimum_when_slots_may_stay_empty(
    instance: PlacementInstance, data: st.DataObject
) -> None:
    room = instance.num_experts // (len(instance.node_ids) if instance.hierarchical else 1)
    growing = [gpu for gpu, count in enumerate(instance.slots) if count < room]
    if not growing:
        return
    gpu = data.draw(st.sampled_from(growing))
    document = instance.to_dict()
    document["slots"][gpu] += 1
    assert oracles.optimum(PlacementInstance.from_dict(document)) <= oracles.optimum(instance)


@settings(max_examples=40)
@given(strategies.tiny(kinds=("ints", "ties")), st.integers(1, 9), st.data())
def test_extra_load_never_helps_the_optimum(instance: PlacementInstance, extra: int, data: st.DataObject) -> None:
    document = instance.to_dict()
    document["loads"][0][data.draw(st.integers(0, instance.num_experts - 1))] += extra
    assert oracles.optimum(PlacementInstance.from_dict(document)) >= oracles.optimum(instance)


# --- trivial ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_trivial_instances_are_solved_to_the_proved_optimum(method: str) -> None:
    cases = {
        "one GPU": (PlacementInstance([[5, 3, 1]], gpus=1, slots=3, distinct=False), 9),
        "one expert": (PlacementInstance([[12]], gpus=4, slots=4, distinct=False), 3),
        "zero load": (PlacementInstance([[0, 0, 0, 0]], gpus=2, slots=4, distinct=False), 0),
        "all equal": (PlacementInstance([[3, 3, 3, 3]], gpus=2, slots=4, distinct=False), 6),
        "exactly full": (PlacementInstance([[4, 4]], gpus=2, slots=2, distinct=False), 4),
    }
    for name, (instance, best) in cases.items():
        if METHODS[method].applies(instance) is not None:
            continue
        result = solve(instance, method)
        assert (name, result.objective, result.status) == (name, best, Status.OPTIMAL)


# --- never worse ------------------------------------------------------------------------------------------------------


@given(strategies.instances(splits=("even",), rules=False), st.integers(0, 5))
def test_search_is_no_worse_than_the_baselines_on_any_layer(instance: PlacementInstance, seed: int) -> None:
    ours = placement.evaluate(instance, solve(instance, "search", seed=seed).plan).max_load
    for method in ("eplb", "lpt", "fold"):
        if METHODS[method].applies(instance) is None:
            theirs = placement.evaluate(instance, solve(instance, method).plan).max_load
            assert all(a <= b * (1 + Fraction(1, 10**9)) for a, b in zip(ours, theirs, strict=True)), method


@given(strategies.instances(rules=False), st.data())
def test_a_warm_start_never_ends_worse_than_it_began(instance: PlacementInstance, data: st.DataObject) -> None:
    start = data.draw(strategies.plans(instance))
    before = placement.evaluate(instance, Placement.of(start)).objective
    for method in applicable(instance):
        result = solve(instance, method, warm_start=start)
        assert placement.evaluate(instance, result.plan).objective <= before
