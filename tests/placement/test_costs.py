"""Seconds, floors, shared experts, single passes and free shares, each against arithmetic of the tests' own."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.cost import GPUS, compute_bound_tokens, floor_of
from moeopt.cost.floor import BYTES
from moeopt.cost.noise import expected_maximum
from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.placement import Placement, PlacementInstance, bounds, seconds
from moeopt.placement.load_plan import document_faults, read_result
from moeopt.placement.per_step import noise_floor, per_step_imbalance
from moeopt.placement.shares import with_best_shares
from tests import oracles, strategies

LIMITS = Limits(iterations=20)


# --- shared experts ---------------------------------------------------------------------------------------------------


@st.composite
def with_shared(draw: st.DrawFn) -> PlacementInstance:
    plain = draw(strategies.tiny(kinds=("ints", "ties", "floats")))
    document = plain.to_dict()
    document |= {"shared": "replicated", "num_shared": draw(st.integers(1, 2)), "top_k": draw(st.integers(1, 3))}
    document["floor_tokens"] = draw(st.sampled_from([0, 0, 0.5, 7.3]))
    return PlacementInstance.from_dict(document)


def constant_load(instance: PlacementInstance, loads: list[Fraction]) -> Fraction:
    """What each GPU with slots carries, by the printed formula."""
    tokens, gpus = sum(loads) / instance.top_k, sum(count > 0 for count in instance.slots)
    floor = Fraction(instance.floor_tokens) * instance.steps
    if instance.floor_rule == "per_replica":
        return instance.num_shared * max(tokens / gpus, floor)
    return instance.num_shared * max(tokens, floor) / gpus


def bare_cost(instance: PlacementInstance, row: list[int]) -> list[Fraction]:
    """Cost of each GPU without constant loads: one GPU at a time by the oracle's sums."""
    loads = [Fraction(value) for value in instance.loads[0].tolist()]
    floor = Fraction(instance.floor_tokens) * instance.steps
    on = oracles.hosting(instance, row)
    copies = [sum(held.count(e) for held in on) for e in range(len(loads))]
    if instance.floor_rule == "per_expert":
        piece = [max(load, floor) / max(count, 1) for load, count in zip(loads, copies, strict=True)]
    else:
        piece = [max(load / max(count, 1), floor) for load, count in zip(loads, copies, strict=True)]
    return [sum((piece[e] for e in held), Fraction(0)) for held in on]


@settings(max_examples=150)
@given(with_shared())
def test_constant_loads_are_added_to_every_gpu_and_bounds_hold(instance: PlacementInstance) -> None:
    loads = [Fraction(value) for value in instance.loads[0].tolist()]
    base = constant_load(instance, loads)
    carries = [base * (count > 0) for count in instance.slots]
    speeds = [Fraction(pace) for pace in instance.speed]

    def value(row: list[int]) -> Fraction:
        costs = zip(bare_cost(instance, row), carries, speeds, strict=True)
        return max((tokens + more) / pace for tokens, more, pace in costs)

    best = None
    if instance.split == "even":
        rows = ([e for held in on for e in held] for on in oracles.hostings(instance))
        if instance.fill == "all":
            best = min(map(value, rows))
    for method in ("eplb", "lpt", "search"):
        if placement.METHODS[method].applies(instance) is not None:
            continue
        result = placement.solve(instance, method=method, limits=LIMITS)
        (row,) = result.plan.slot_expert.tolist()
        judged = placement.evaluate(instance, result.plan)
        if instance.split == "even":
            assert judged.max_load[0] == value(row)
        proved = bounds.check(instance, 0, result.certificate["layers"][0])
        assert proved <= judged.max_load[0]
        if best is not None:
            assert proved <= best <= judged.max_load[0]
        floor = Fraction(instance.floor_tokens) * instance.steps
        weights = sum(max(load, floor) for load in loads)
        assert judged.ideal[0] == (weights + sum(carries)) / sum(speeds)


def test_equal_speeds_keep_the_best_plan_whatever_the_shared_experts_weigh() -> None:
    loads = [[9, 5, 3, 2, 1, 1]]
    plain = placement.solve(PlacementInstance(loads, gpus=2, slots=8), method="exact")
    shared = placement.solve(PlacementInstance(loads, gpus=2, slots=8, shared="replicated", top_k=3), method="exact")
    assert shared.objective == plain.objective + 7 / 2 and str(shared.status) == "OPTIMAL"
    assert shared.lower_bound == pytest.approx(plain.lower_bound + 3.5)


def test_a_fused_copy_takes_a_slot_of_every_gpu() -> None:
    fields = {"shared": "fused", "top_k": 2, "num_shared": 1}
    instance = PlacementInstance([[6, 4, 2, 2]], gpus=2, slots=6, **fields)  # type: ignore[arg-type]
    assert instance.slots == (2, 2) and instance.to_dict()["slots"] == [3, 3]
    assert PlacementInstance.from_dict(instance.to_dict()) == instance
    result = placement.solve(instance, method="auto")
    assert len(result.solution["layers"][0]["slot_expert"]) == 4 and result.objective == 8 + 7 / 2
    with pytest.raises(InstanceError, match="fused"):
        PlacementInstance([[1, 1]], gpus=2, slots=[1, 3], shared="fused", num_shared=2, top_k=2)
    with pytest.raises(InstanceError, match="slots"):
        PlacementInstance([[6, 4, 2, 2]], gpus=2, slots=4, **fields)  # type: ignore[arg-type]


def test_hosted_shared_experts_are_further_experts() -> None:
    instance = PlacementInstance(
        [[6, 4, 2, 2]], gpus=3, slots=9, shared="hosted", num_shared=2, top_k=2, names=["a", "b", "c", "d"]
    )
    assert instance.loads.tolist() == [[6, 4, 2, 2, 7, 7]] and instance.names[4:] == ("shared 0", "shared 1")
    assert PlacementInstance.from_dict(instance.to_dict()) == instance
    assert instance.to_dict()["loads"] == [[6, 4, 2, 2]]
    result = placement.solve(instance, method="search")
    assert len(result.solution["layers"][0]["replicas"]) == 6
    assert document_faults(read_result(json.loads(result.to_json())), [[6, 4, 2, 2]]) == []
    with pytest.raises(InstanceError, match="top_k"):
        PlacementInstance([[1, 1]], gpus=1, slots=2, shared="hosted")
    with pytest.raises(InstanceError, match="no group"):
        PlacementInstance([[1, 1]], gpus=2, slots=4, nodes=2, groups=2, shared="hosted", top_k=1)


def test_constant_loads_on_unequal_speeds_are_searched() -> None:
    """Both GPUs carry 3.5 more; two experts are on one GPU alone, and the lightest on the slow one costs 8.5."""
    instance = PlacementInstance([[6, 4, 2, 2]], slots=[3, 3], speed=[1, 2], shared="replicated", top_k=2)
    result = placement.solve(instance, method="search")
    assert result.lower_bound == pytest.approx((14 + 7) / 3)
    costs = placement.evaluate(instance, result.plan).gpu_cost[0]
    assert result.objective == pytest.approx(max(costs)) and result.objective == 8.5


# --- seconds ----------------------------------------------------------------------------------------------------------


@given(strategies.tiny(splits=("even",), fills=("all",), kinds=("ints", "floats"), rules=False), st.data())
def test_prices_are_the_printed_formula(plain: PlacementInstance, data: st.DataObject) -> None:
    document = plain.to_dict() | {"c_slot": 3e-6, "c_tok": 1e-7, "floor_tokens": 0}
    instance = PlacementInstance.from_dict(document)
    row = data.draw(strategies.plans(instance))[0]
    found = seconds.price(instance, Placement.of([row]))
    loads = instance.loads[0].tolist()
    tokens = bare_cost(instance, row)
    expected = max(
        3e-6 * sum(loads[e] > 0 for e in held) + 1e-7 * float(cost) / pace / instance.steps
        for held, cost, pace in zip(oracles.hosting(instance, row), tokens, instance.speed, strict=True)
    )
    assert found.after[0] == pytest.approx(expected, rel=1e-12) and found.now is None


def test_with_equal_slots_the_order_of_plans_is_the_same_in_tokens_and_seconds() -> None:
    instance = PlacementInstance([[9, 5, 3, 2]], gpus=3, slots=6, c_slot=5e-6, c_tok=1e-7)
    pairs = list(itertools.combinations(range(4), 2))
    plans = [rows for rows in itertools.product(pairs, repeat=3) if len(set(itertools.chain(*rows))) == 4]
    priced = []
    for rows in plans:
        plan = Placement.of([list(itertools.chain(*rows))])
        tokens = placement.evaluate(instance, plan).max_load[0]
        priced.append((float(tokens), float(seconds.price(instance, plan).after[0])))
    priced.sort()
    assert all(b[1] - a[1] == pytest.approx((b[0] - a[0]) * 1e-7, abs=1e-18) for a, b in itertools.pairwise(priced))


def test_now_and_after_are_both_priced_and_kept_in_the_document() -> None:
    loads = [[90, 10, 10, 10]]
    instance = PlacementInstance(loads, gpus=2, slots=6, c_tok=1e-6, current=[[0, 1, 2, 3, 1, 2]])
    result = placement.solve(instance, method="search")
    layer = result.solution["layers"][0]
    assert layer["seconds_now"] == pytest.approx(100e-6) and layer["seconds"] == pytest.approx(result.objective * 1e-6)
    assert result.solution["seconds"]["ideal"] == pytest.approx(60e-6)
    assert document_faults(read_result(json.loads(result.to_json())), loads) == []


def test_prices_need_no_loads_and_lost_experts_have_no_price_now() -> None:
    idle = PlacementInstance([[0, 0]], gpus=2, slots=2, c_slot=1e-6, current=[[0, 1]])
    assert seconds.price(idle, Placement.of([[0, 1]])).to_dict() == {"now": 0.0, "after": 0.0, "ideal": 0.0}
    dead = PlacementInstance([[1, 1]], gpus=3, slots=6, c_slot=1e-6, lost=[0], current=[[0, -1, 1, -1, -1, -1]])
    assert seconds.running(dead) is None


# --- free imbalance ---------------------------------------------------------------------------------------------------


def test_imbalance_is_free_under_the_floor_and_nothing_moves() -> None:
    current = [[3, 2, 1, 0]]
    fields: dict[str, Any] = {"gpus": 2, "slots": 4, "floor_tokens": 100, "current": current}
    for rule in ("per_expert", "per_replica"):
        instance = PlacementInstance([[90, 50, 20, 1]], floor_rule=rule, **fields)
        result = placement.solve(instance, method="search")
        assert result.solution["advice"]["action"] == "keep" and "imbalance is free" in result.notes[-1]
        assert result.plan.slot_expert.tolist() == current
        assert document_faults(read_result(json.loads(result.to_json())), [[90, 50, 20, 1]]) == []


@pytest.mark.parametrize(
    "rules",
    [
        {"floor_tokens": 89},  # one expert above the floor
        {"floor_tokens": 0},
        {"floor_tokens": 100, "current": [[3, 2, 1, 0, -1, -1, -1]], "current_gpu": [0, 0, 0, 0, 1, 1, 1]},
    ],
)
def test_imbalance_is_not_free_above_the_floor_or_where_a_gpu_has_more_slots(rules: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"gpus": 2, "slots": 4, "current": [[3, 2, 1, 0]], **rules}
    result = placement.solve(PlacementInstance([[90, 50, 20, 1]], **fields), method="search")
    assert "advice" not in result.solution


def test_replicas_not_experts_are_held_against_the_floor() -> None:
    loads = [[150, 50, 20]]
    single = PlacementInstance(loads, gpus=2, slots=4, floor_tokens=100, floor_rule="per_replica")
    result = placement.solve(single, method="search")
    assert result.solution["layers"][0]["replicas"][0] == 2 and result.solution["advice"]["action"] == "any"


# --- the floor of a GPU -----------------------------------------------------------------------------------------------


def test_floor_of_the_published_thresholds() -> None:
    assert floor_of("H800", "fp8").tokens == pytest.approx(258, abs=0.5)
    assert compute_bound_tokens(989e12, 3.35e12, 2, compute_efficiency=0.7, memory_efficiency=0.8) == pytest.approx(
        258.32089552238807
    )
    weights, tokens = 44e6, floor_of("h800", "fp8").tokens
    reading, computing = weights / (0.8 * 3.352e12), 2 * tokens * weights / (0.7 * 1979e12)
    assert reading == pytest.approx(computing)


def test_every_gpu_has_a_floor_or_says_what_is_not_confirmed() -> None:
    said = set()
    for gpu, dtype in itertools.product(GPUS, BYTES):
        try:
            assert math.isfinite(floor_of(gpu, dtype).tokens)
        except InstanceError as error:
            said.add(gpu)
            assert "confirmed" in str(error)
    assert "Ascend-910B" in said
    table = json.loads((Path(__file__).parents[2] / "moeopt/llm/gpus.json").read_text())
    assert tuple(row["name"] for row in table["gpus"]) == GPUS and all(row["source"] for row in table["gpus"])
    with pytest.raises(InstanceError, match="floor_gpu"):
        floor_of("GTX 1080", "fp8")


# --- single passes ----------------------------------------------------------------------------------------------------


def test_expected_maximum_of_normals() -> None:
    known = {1: 0.0, 2: 1 / math.sqrt(math.pi), 3: 1.5 / math.sqrt(math.pi), 5: 1.1629644736405196}
    for count, value in known.items():
        assert expected_maximum(count) == pytest.approx(value, abs=1e-12)
    drawn = np.random.default_rng(0).normal(size=(40_000, 32)).max(axis=1)
    assert drawn.mean() == pytest.approx(expected_maximum(32), abs=0.02)
    assert noise_floor(1, 8, 128) == 1.0
    assert 1.06 < noise_floor(32, 8, 128) < noise_floor(144, 8, 64) < 1.2


@settings(max_examples=80)
@given(strategies.instances(max_experts=6, max_gpus=4, kinds=("ints", "floats"), rules=False), st.data())
def test_measured_passes_are_the_mean_of_their_ratios(instance: PlacementInstance, data: st.DataObject) -> None:
    plan = Placement.of(data.draw(strategies.plans(instance)))
    if instance.split == "free":
        plan = with_best_shares(instance, plan)
    table = strategies.load_rows(instance.num_experts, instance.num_layers, ("ints", "floats"))
    passes = data.draw(st.lists(table, min_size=1, max_size=3))
    found = per_step_imbalance(instance, plan, np.array(passes, dtype=float))
    one = instance.to_dict() | {"steps": 1}
    singles = [placement.evaluate(PlacementInstance.from_dict({**one, "loads": loads}), plan) for loads in passes]
    slow = np.mean([judged.imbalance for judged in singles], axis=0)
    np.testing.assert_allclose(found, slow, rtol=1e-9)


def test_passes_of_another_shape_are_refused() -> None:
    instance = PlacementInstance([[2, 2]], gpus=2, slots=2)
    plan = Placement.of([[0, 1]])
    for steps in ([[[1, 2, 3]]], [1, 2], [[[1, float("nan")]]], [[[1, 2], [1, 2]]]):
        with pytest.raises(InstanceError):
            per_step_imbalance(instance, plan, steps)
    static = PlacementInstance([[2, 2]], gpus=2, slots=2, split="random")
    with pytest.raises(InstanceError, match="engine's own rule"):
        per_step_imbalance(static, plan, [[[1, 2]]])


def test_noise_stands_beside_every_layer() -> None:
    instance = PlacementInstance([[2, 2], [3, 1]], gpus=2, slots=2, top_k=8, batch_tokens=128)
    result = placement.solve(instance, method="lpt")
    assert [layer["per_step_imbalance"] for layer in result.solution["layers"]] == [noise_floor(2, 8, 128)] * 2


# --- free shares ------------------------------------------------------------------------------------------------------


@given(strategies.tiny(splits=("free",), kinds=("ints", "floats"), rules=False), st.data())
def test_free_shares_are_the_best_ones_under_both_floor_rules(plain: PlacementInstance, data: st.DataObject) -> None:
    document = plain.to_dict() | {"floor_tokens": data.draw(st.sampled_from([0, 0.5, 2, 7.3, 30]))}
    instance = PlacementInstance.from_dict(document)
    row = data.draw(strategies.plans(instance))[0]
    plan = with_best_shares(instance, Placement.of([row]))
    best = oracles.cost(instance, 0, row, "best")
    found = placement.evaluate(instance, plan).max_load[0]
    assert best <= found <= best * (1 + Fraction(1, 10**7)) + Fraction(1, 10**9)


@pytest.mark.parametrize("split", ["even", "free", "sglang-static", "sglang-static-node", "random"])
@pytest.mark.parametrize("shared", ["replicated", "fused", "hosted"])
def test_shared_experts_are_counted_under_every_split(split: str, shared: str) -> None:
    loads = [[40, 9, 7, 5, 3, 2, 2, 1]]
    instance = PlacementInstance(loads, gpus=4, slots=12, nodes=2, split=split, shared=shared, top_k=2)
    result = placement.solve(instance, limits=LIMITS)
    assert result.lower_bound >= (69 + 69 / 2) / 4 * (1 - 1e-9)  # 69 routed selections and 34.5 shared ones
    assert result.objective >= result.lower_bound * (1 - 1e-9)
    assert document_faults(read_result(json.loads(result.to_json())), loads) == []


def test_an_engines_rule_leaves_the_copies_of_shared_experts_where_they_are() -> None:
    shape = {"gpus": 2, "slots": 2, "split": "sglang-static", "top_k": 2}
    plain = PlacementInstance([[6, 2]], **shape)
    beside = PlacementInstance([[6, 2]], **shape, shared="replicated")
    found = [placement.evaluate(instance, [[0, 1]]).objective for instance in (plain, beside)]
    assert found == [6, 8]  # 8 selections of 2 experts a token are 4 tokens, 2 on each GPU


def test_gpus_without_slots_that_are_gone_carry_no_shared_copies() -> None:
    shape = {"slots": [8, 4, 0, 0], "shared": "replicated", "top_k": 2}
    instance = PlacementInstance([[40, 9, 7, 5, 3, 2, 2, 1]], **shape, lost=[2, 3])
    assert instance.exact_base == PlacementInstance([[40, 9, 7, 5, 3, 2, 2, 1]], **shape).exact_base
    assert instance.exact_base == (Fraction(69, 4),)
