"""Several windows in one plan: the referee, the bounds, the search and the programme against brute force."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import InstanceError, NotApplicable
from moeopt.kernels import windows as kernel
from moeopt.limits import Limits
from moeopt.placement import Placement, PlacementInstance, bounds
from moeopt.placement.combined import combine, tail
from moeopt.placement.load_plan import document_faults, read_result
from moeopt.result import Status
from tests import oracles, strategies

LIMITS = Limits(iterations=20, nodes=200)


@st.composite
def windowed(draw: st.DrawFn, *, most: int = 3, **fixed: Any) -> PlacementInstance:
    """A tiny instance with two or more windows, idle ones among them."""
    plain = draw(strategies.tiny(splits=("even",), **fixed))
    count = draw(st.integers(2, most))
    rows = strategies.load_rows(plain.num_experts, plain.num_layers, ("ints", "ties", "floats"))
    document = plain.to_dict()
    document["loads"] = [draw(rows) for _ in range(count)]
    document["steps"] = draw(st.one_of(st.just(1), st.lists(st.integers(1, 3), min_size=count, max_size=count)))
    document["combine"] = draw(st.sampled_from(["worst", "mean", "cvar"]))
    document["alpha"] = draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))
    document["floor_tokens"] = draw(st.sampled_from([0, 0, 0.5, 2, 7.3]))
    return PlacementInstance.from_dict(document)


def slow_combined(instance: PlacementInstance, ratios: list[Fraction]) -> Fraction:
    """The printed formulas; CVaR has its least at one of the ratios."""
    if instance.combine == "worst":
        return max(ratios)
    if instance.combine == "mean":
        return sum(ratios) / len(ratios)
    share = (1 - Fraction(instance.alpha)) * len(ratios)
    return min(t + sum(max(ratio - t, Fraction(0)) for ratio in ratios) / share for t in ratios)


def slow_value(instance: PlacementInstance, on: oracles.Hosting) -> Fraction:
    """Combined ratio of a hosting of one layer by the tests' own arithmetic."""
    ratios = []
    speed = sum(map(Fraction, instance.speed))
    for loads, steps in zip(instance.window_loads.tolist(), instance.window_steps, strict=True):
        floor = Fraction(instance.floor_tokens) * steps
        exact = [Fraction(load) for load in loads[0]]
        ideal = sum(max(load, floor) for load in exact) / speed
        ratios.append(oracles.even_cost(instance, exact, floor, on) / ideal if ideal else Fraction(1))
    return slow_combined(instance, ratios)


@settings(max_examples=150)
@given(windowed(max_layers=1))
def test_referee_bounds_and_methods_agree_with_brute_force(instance: PlacementInstance) -> None:
    best = min((slow_value(instance, on) for on in oracles.hostings(instance)), default=None)
    assert best is not None
    for method in ("eplb", "lpt", "search"):
        if placement.METHODS[method].applies(instance) is not None:
            continue
        result = placement.solve(instance, method=method, limits=LIMITS)
        (row,) = result.plan.slot_expert.tolist()
        value = slow_value(instance, oracles.hosting(instance, row))
        assert placement.evaluate(instance, result.plan).objective == value
        assert result.objective == float(value) and result.unit == "imbalance"
        proved = bounds.check(instance, 0, result.certificate["layers"][0])
        assert proved <= best <= value and result.lower_bound == float(proved)
        assert document_faults(read_result(json.loads(result.to_json())), instance.given_loads) == []


@settings(max_examples=25)
@given(windowed(max_layers=1, most=2))
def test_tightened_bounds_stay_below_the_optimum(instance: PlacementInstance) -> None:
    best = min(slow_value(instance, on) for on in oracles.hostings(instance))
    first = bounds.cheap(instance)[0]
    found = bounds.tighten(instance, first, 0, float(best), 0.0)
    assert first.value <= found.value <= best
    assert bounds.check(instance, 0, found.certificate) == found.value


@pytest.mark.parametrize("combined", ["worst", "mean", "cvar"])
@pytest.mark.parametrize("floor_rule", ["per_expert", "per_replica"])
def test_exact_is_optimal_for_every_combination(combined: str, floor_rule: str) -> None:
    rng = np.random.default_rng(len(combined) + len(floor_rule))
    loads = rng.integers(0, 20, (4, 1, 4))
    loads[1] = 0
    instance = PlacementInstance(
        loads, gpus=3, slots=6, combine=combined, alpha=0.4, floor_tokens=3, floor_rule=floor_rule
    )
    result = placement.solve(instance, method="exact")
    best = min(slow_value(instance, on) for on in oracles.hostings(instance))
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(float(best), rel=1e-6)


# --- laws -------------------------------------------------------------------------------------------------------------


@given(windowed(), st.data())
def test_order_of_windows_does_not_matter(instance: PlacementInstance, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(instance.windows))))
    document = instance.to_dict()
    document["loads"] = [document["loads"][w] for w in order]
    document["steps"] = [instance.window_steps[w] for w in order]
    other = PlacementInstance.from_dict(document)
    plan = Placement.of(data.draw(strategies.plans(_free(instance))))
    assert placement.evaluate(_free(instance), plan).max_load == placement.evaluate(_free(other), plan).max_load


def _free(instance: PlacementInstance) -> PlacementInstance:
    return PlacementInstance.from_dict({**instance.to_dict(), "pin": [], "forbid": []})


@given(windowed(), st.data())
def test_worst_is_at_least_cvar_is_at_least_mean_is_at_least_one(
    instance: PlacementInstance, data: st.DataObject
) -> None:
    plan = Placement.of(data.draw(strategies.plans(_free(instance))))
    document = _free(instance).to_dict()
    values = [
        placement.evaluate(PlacementInstance.from_dict({**document, "combine": how}), plan).max_load
        for how in ("worst", "cvar", "mean")
    ]
    for worst, cvar, mean in zip(*values, strict=True):
        assert worst >= cvar >= mean >= 1


@settings(max_examples=40)
@given(strategies.tiny(splits=("even",), rules=False), st.integers(2, 3), st.data())
def test_equal_windows_are_the_plain_problem_in_parts_of_the_ideal(
    plain: PlacementInstance, count: int, data: st.DataObject
) -> None:
    document = plain.to_dict()
    document |= {"loads": [document["loads"]] * count, "combine": data.draw(st.sampled_from(["worst", "mean"]))}
    many = PlacementInstance.from_dict(document)
    plan = Placement.of(data.draw(strategies.plans(plain)))
    one = placement.evaluate(plain, plan)
    ratios = [top / even if even else 1 for top, even in zip(one.max_load, one.ideal, strict=True)]
    assert list(placement.evaluate(many, plan).max_load) == ratios


def test_closed_form_of_cvar_is_the_minimum_over_levels() -> None:
    ratios = [Fraction(n, 7) for n in (9, 14, 7, 11, 8)]
    for alpha in (0.0, 0.1, 0.5, 0.75, 0.8, 0.95):
        share = (1 - Fraction(alpha)) * len(ratios)
        slow = min(t + sum(max(r - t, Fraction(0)) for r in ratios) / share for t in ratios)
        assert combine(ratios, tail("cvar", alpha, len(ratios))) == slow
    assert combine(ratios, tail("cvar", 0.0, 5)) == combine(ratios, tail("mean", 0.0, 5))


def test_idle_windows_count_one_and_idle_layers_are_solved() -> None:
    instance = PlacementInstance([[[4, 0, 0, 0]], [[0, 0, 0, 0]]], gpus=2, slots=4, combine="mean")
    result = placement.solve(instance, method="search")
    assert result.solution["layers"][0]["windows"][1] == 1.0
    assert placement.solve(PlacementInstance(np.zeros((3, 2, 4)), gpus=2, slots=4)).objective == 2.0


# --- the search -------------------------------------------------------------------------------------------------------


def drifting(layers: int = 3, experts: int = 24, count: int = 4) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    mean = np.exp(rng.normal(0, 1, (layers, experts))) * 1000
    return np.stack([np.round(mean * np.exp(rng.normal(0, 0.5, mean.shape))) for _ in range(count)]).astype(int)


@pytest.mark.parametrize("combined", ["worst", "mean", "cvar"])
def test_search_is_never_worse_than_the_plan_of_the_sum(combined: str) -> None:
    loads = drifting()
    instance = PlacementInstance(loads, gpus=6, slots=36, combine=combined, alpha=0.5)
    whole = placement.solve(PlacementInstance(loads.sum(axis=0), gpus=6, slots=36), method="search")
    of_sum = placement.evaluate(instance, whole.plan)
    found = placement.evaluate(instance, placement.solve(instance, method="search", limits=Limits(iterations=30)).plan)
    assert all(mine <= other for mine, other in zip(found.max_load, of_sum.max_load, strict=True))
    assert float(found.objective) < 0.97 * float(of_sum.objective)


def test_search_keeps_groups_on_nodes_pins_and_constant_loads() -> None:
    loads = drifting()
    for rules in (
        {"nodes": 2, "groups": 4},
        {"pin": [(0, 5), (3, 1)], "forbid": [(None, 2), (7, 0)], "slots": [7, 7, 0, 7, 7, 8]},
        {"fill": "at_most", "speed": [1, 1, 1, 2, 2, 2]},
        {"shared": "replicated", "top_k": 4},
        {"distinct": False},
    ):
        fields = {"gpus": 6, "slots": 36, **rules}
        instance = PlacementInstance(loads, **fields)  # type: ignore[arg-type]
        result = placement.solve(instance, method="search", limits=Limits(iterations=15))
        assert placement.faults(instance, result.plan) == []
        assert result.objective >= result.lower_bound


LASTING = ({"min_replicas": 2}, {"min_replicas": [3, 1, 1, 2] * 6}, {"nodes": 3, "survive_nodes": 1})


@pytest.mark.parametrize("rules", LASTING)
@pytest.mark.parametrize("combined", ["worst", "mean", "cvar"])
def test_search_and_replan_keep_least_replicas_and_nodes_beside_windows(combined: str, rules: dict[str, Any]) -> None:
    """A new plan was refused, a re-plan from a running one was not."""
    fields: dict[str, Any] = {"gpus": 6, "slots": 54, "combine": combined, "alpha": 0.5, **rules}
    instance = PlacementInstance(drifting(2), **fields)
    new = placement.solve(instance, method="search", limits=Limits(iterations=60))
    assert placement.faults(instance, new.plan) == []
    started = placement.solve(instance, method="search", limits=Limits(iterations=0))
    assert new.lower_bound <= new.objective < started.objective
    running = placement.solve(PlacementInstance(drifting(2), gpus=6, slots=54), method="eplb").plan
    moved = PlacementInstance(drifting(2), current=running.slot_expert, max_moves=200, **fields)
    found = placement.solve(moved, limits=Limits(iterations=2))
    assert placement.faults(moved, found.plan) == []


def lasts(instance: PlacementInstance, on: oracles.Hosting) -> bool:
    """Whether every expert has its least replicas, on enough nodes."""
    for expert, least in enumerate(instance.min_replicas):
        homes = [instance.node[gpu] for gpu, held in enumerate(on) for one in held if one == expert]
        if len(homes) < least or len(set(homes)) <= instance.survive_nodes:
            return False
    return True


@pytest.mark.parametrize("rules", [{"min_replicas": [2, 1, 1, 1]}, {"nodes": 2, "survive_nodes": 1, "slots": 8}])
@pytest.mark.parametrize("method", ["search", "exact", "auto"])
def test_lasting_windows_agree_with_brute_force(method: str, rules: dict[str, Any]) -> None:
    loads = [[[9, 4, 2, 2]], [[1, 3, 8, 4]]]
    instance = PlacementInstance(loads, **{"gpus": 4, "slots": 6, "uneven_slots": True, **rules})
    best = min(slow_value(instance, on) for on in oracles.hostings(instance) if lasts(instance, on))
    result = placement.solve(instance, method=method, limits=Limits(iterations=200))
    assert placement.faults(instance, result.plan) == []
    assert result.lower_bound <= float(best) * (1 + 1e-9)
    assert result.objective == pytest.approx(float(best), rel=1e-6)


def test_interpreted_search_gives_the_same_bytes() -> None:
    instance = PlacementInstance(drifting(1, 10, 3), gpus=4, slots=12, combine="cvar", alpha=0.5)
    loads = np.stack([window.weights[0] / float(window.ideal[0]) for window in instance.windows], axis=1)
    field = kernel.Field(
        np.ascontiguousarray(loads),
        np.zeros(3),
        np.zeros((4, 3)),
        np.ones(3),
        instance.gpu_of_slot.astype(np.int64),
        instance.slot_start,
        np.ones(4),
        np.zeros((0, 0), dtype=np.int8),
        True,
        3,
        -1,
        1.5,
        np.ones(10, dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        1,
    )
    found = []
    for improve in (kernel.improve_windows, kernel.improve_windows.plain()):
        held = np.concatenate([np.arange(10), [0, 1]]).astype(np.int64)
        best, memory = held.copy(), kernel.remember_windows(9.0)
        improve(field, held, best, 1.0, 40, 1e9, memory, np.array([11], dtype=np.int64))
        found.append((held.tobytes(), best.tobytes(), memory.tobytes()))
    assert found[0] == found[1]


def test_search_cut_into_calls_takes_the_same_steps() -> None:
    instance = PlacementInstance(drifting(), gpus=6, slots=36)
    whole = placement.solve(instance, method="search", limits=Limits(iterations=25), seed=3)
    again = placement.solve(instance, method="search", limits=Limits(iterations=25), seed=3)
    assert whole.canonical() == again.canonical()


def test_short_deadlines_hold_with_windows() -> None:
    instance = PlacementInstance(drifting(8, 64, 4), gpus=16, slots=96)
    result = placement.solve(instance, method="search", limits=Limits(time_s=0.3))
    assert result.stop == "TIME" and placement.faults(instance, result.plan) == []


# --- refusals, documents ----------------------------------------------------------------------------------------------


def test_free_split_over_windows_is_refused_by_the_search_and_judged_by_the_referee() -> None:
    instance = PlacementInstance([[[3, 1, 2, 2]], [[1, 3, 2, 2]]], gpus=2, slots=6, split="free")
    with pytest.raises(NotApplicable, match="split even"):
        placement.solve(instance, method="search")
    result = placement.solve(instance, method="lpt")
    assert result.plan.shares is not None and result.objective >= 1


def test_edited_windows_are_a_fault() -> None:
    loads = drifting(1, 8, 2)
    result = placement.solve(PlacementInstance(loads, gpus=2, slots=10), method="lpt")
    document = json.loads(result.to_json())
    document["solution"]["layers"][0]["windows"][0] = 1.0
    assert any("windows say" in fault for fault in document_faults(read_result(document), loads))
    assert "windows, the plan was made for 2" in document_faults(read_result(document), loads[0])[0]


def test_windows_of_another_certificate_prove_nothing() -> None:
    instance = PlacementInstance([[[3, 1, 2, 2]], [[1, 3, 2, 2]]], gpus=2, slots=6)
    for certificate in (
        {"kind": "windows", "windows": [{"kind": "mean"}]},
        {"kind": "windows", "windows": "ab"},
        {"kind": "blend", "weights": ["1/2", "1/3"], "blended": {"kind": "mean"}},
        {"kind": "blend", "weights": ["3/2", "-1/2"], "blended": {"kind": "mean"}},
        {"kind": "blend", "weights": ["1/2", "1/2"]},
        {"kind": "mean"},
    ):
        with pytest.raises(ValueError, match="proves nothing"):
            bounds.check(instance, 0, certificate)


def test_a_window_that_is_bad_is_named() -> None:
    with pytest.raises(InstanceError, match=r"window 1, layer 0, expert 1"):
        PlacementInstance([[[1, 2]], [[1, float("nan")]]], gpus=2, slots=2)


# --- awkward loads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lpt", "search", "exact"])
def test_awkward_windows_are_planned(method: str) -> None:
    huge = [[1e12, 1e12, 1e-9, 1e-9]]
    mixed = PlacementInstance([huge, [[1e-9, 1e-9, 1e12, 1e12]]], gpus=2, slots=4)
    assert placement.solve(mixed, method=method).objective == pytest.approx(1.0)
    one = PlacementInstance([[[100, 0, 0, 0]], [[0, 100, 0, 0]]], gpus=4, slots=8)
    assert placement.solve(one, method=method).solution["layers"][0]["imbalance"] >= 1
    wide = np.full((2, 1, 4), 2_000_000_000, dtype=np.int32)
    full = placement.solve(PlacementInstance(wide, gpus=2, slots=4), method=method)
    assert full.objective == 1.0 and str(full.status) == "OPTIMAL"
    zeros = placement.solve(PlacementInstance(np.zeros((2, 1, 8)), gpus=4, slots=8), method=method)
    assert zeros.solution["imbalance_mean"] == 1.0


def test_sums_of_windows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InstanceError, match="sum over windows"):
        PlacementInstance(np.full((3, 1, 2), 2**62), gpus=1, slots=2)
