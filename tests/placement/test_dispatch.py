"""Dispatch rules of engines: judged exactly, conserved, bounded, and searched to the even split's value."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement
from moeopt.kernels import dispatch as kernel
from moeopt.kernels.sources import sources_per_slot
from moeopt.limits import Limits
from moeopt.placement import Placement, PlacementInstance, bounds, engine_rule
from moeopt.placement.heuristics import layouts
from moeopt.workload import generate
from tests import oracles, strategies
from tests.benchmarks import brute_force_sources

FOLDER = Path(__file__).parents[2] / "instances" / "published"
ROWS = {row["name"]: row for row in json.loads((FOLDER / "shapes.json").read_text())["instances"]}
PUBLIC = json.loads((FOLDER / "balancers.json").read_text())["rows"]
FIXED = ("sglang-static", "sglang-static-node")


def published(name: str, *, layers: int | None = None, **fields: object) -> PlacementInstance:
    row = ROWS[name]
    sizes = {field: row[field] for field in ("layers", "experts", "top_k", "tokens", "seed")}
    table = generate(row["generator"], **sizes, **row["parameters"])
    shape = {key: row[key] for key in ("gpus", "slots", "nodes")}
    return PlacementInstance(table.loads[:layers], **shape, **fields)  # type: ignore[arg-type]


@st.composite
def judged(draw: st.DrawFn, /, **fixed: object) -> tuple[PlacementInstance, list[list[int]]]:
    """An instance under a rule of whole sources, and a plan of it."""
    instance = draw(strategies.instances(splits=FIXED, rules=False, **fixed))  # type: ignore[arg-type]
    return instance, draw(strategies.plans(instance))


@given(judged())
def test_evaluate_equals_dealing_source_by_source(case: tuple[PlacementInstance, list[list[int]]]) -> None:
    instance, rows = case
    value = placement.evaluate(instance, Placement.of(rows))
    expected = [oracles.engine_cost(instance, layer, row) for layer, row in enumerate(rows)]
    assert list(value.max_load) == expected


def test_evaluate_knows_that_lost_gpus_send_nothing() -> None:
    instance = PlacementInstance([[6, 6, 6]], slots=[2, 2, 2, 2], lost=[3], split="sglang-static")
    plan = Placement.of([[0, 1, 0, 2, 1, 2]])
    assert placement.evaluate(instance, plan).max_load == (oracles.engine_cost(instance, 0, [0, 1, 0, 2, 1, 2]),)
    assert placement.evaluate(instance, plan).max_load == (Fraction(8),)


@given(judged())
def test_every_source_sends_every_expert_once(case: tuple[PlacementInstance, list[list[int]]]) -> None:
    instance, rows = case
    node, sources = engine_rule.nodes_and_sources(instance, instance.split)
    number = sources_per_slot(np.array(rows), instance.gpu_of_slot, node, sources)
    for row, counts in zip(rows, number.tolist(), strict=True):
        for expert in range(instance.num_experts):
            used = [count for held, count in zip(row, counts, strict=True) if held == expert]
            assert sum(used) == sources.sum()


@given(judged(fills=("all",)))
def test_kernel_has_the_loads_of_the_referee(case: tuple[PlacementInstance, list[list[int]]]) -> None:
    instance, rows = case
    even = placement.evaluate(instance, Placement.of(rows), "even")
    value = placement.evaluate(instance, Placement.of(rows))
    node, sources = engine_rule.nodes_and_sources(instance, instance.split)
    for layer, row in enumerate(rows):
        scale = float(instance.ideal[layer]) or 1.0
        per_replica = instance.floor_rule == "per_replica"
        loads = instance.loads[layer].astype(float) if per_replica else instance.weights[layer]
        view = kernel.Layer(
            loads / scale,
            float(instance.floor) / scale if per_replica else 0.0,
            instance.gpu_of_slot,
            instance.slot_start,
            1.0 / np.array(instance.speed),
            np.zeros(instance.num_gpus),
            node,
            sources,
            np.zeros(instance.num_gpus, dtype=np.int64),
            np.zeros((0, 0), dtype=np.int8),
            instance.distinct,
            instance.num_slots,
            -1,
            np.ones(instance.num_slots + 2, dtype=np.bool_),
            False,
            int(sources.sum()),
        )
        state = kernel.fresh(view, np.array(row, dtype=np.int64))
        top, even_top = (float((loads * view.pace).max()) * scale for loads in (state.total, state.even))
        assert top == pytest.approx(float(value.max_load[layer]), rel=1e-9, abs=1e-300)
        assert even_top == pytest.approx(float(even.max_load[layer]), rel=1e-9, abs=1e-300)


@given(st.data())
def test_renaming_gpus_keeps_the_even_value(data: st.DataObject) -> None:
    instance = data.draw(strategies.instances(splits=FIXED, rules=False, speed=None, groups=None))
    if len(set(instance.slots)) > 1:
        return
    rows = data.draw(strategies.plans(instance))
    order = data.draw(st.permutations(range(instance.num_gpus)))
    width = instance.slots[0]
    moved = [[row[gpu * width + at] for gpu in order for at in range(width)] for row in rows]
    first, second = (placement.evaluate(instance, Placement.of(table), "even") for table in (rows, moved))
    assert first.max_load == second.max_load


@settings(max_examples=40)
@given(strategies.tiny(splits=FIXED, rules=False, kinds=("ints", "ties", "floats")))
def test_bounds_hold_for_every_plan_and_optimal_needs_one(instance: PlacementInstance) -> None:
    best = oracles.engine_optimum(instance)
    assert best is not None
    (bound,) = bounds.cheap(instance)
    assert bound.value <= best
    assert bounds.check(instance, 0, bound.certificate) == bound.value
    result = placement.solve(instance, limits=Limits(gap=0.0, iterations=50))
    value = placement.evaluate(instance, result.plan).objective
    assert value >= best
    assert result.status == "FEASIBLE" or float(value) <= float(bound.value) * (1 + 1e-9)
    eplb = placement.solve(instance, method="eplb")
    assert value <= placement.evaluate(instance, eplb.plan).objective * Fraction(1 + 1e-9)


def test_bounds_hold_against_all_plans_of_many_layers() -> None:
    """A sample of what ``tests/benchmarks/brute_force_sources.py`` checks on 50,000 layers."""
    assert "no bound above" in brute_force_sources.check(1000, seed=5)


@pytest.mark.parametrize(
    "certificate",
    [
        {"kind": "alone", "expert": 0},
        {"kind": "largest"},
        {"kind": "pigeonhole", "threshold": 1.0, "experts": [0]},
        {"kind": "enumeration", "value": "1"},
    ],
    ids=lambda certificate: certificate["kind"],
)
@pytest.mark.parametrize("split", FIXED)
def test_check_refuses_bounds_of_the_even_split(certificate: dict[str, object], split: str) -> None:
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=4, slots=8, split=split)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(instance, 0, certificate)


def test_whole_sources_raise_the_bound_of_the_largest_replica() -> None:
    instance = PlacementInstance([[90, 1, 1]], gpus=4, slots=5, split="sglang-static", uneven_slots=True)
    (bound,) = bounds.cheap(instance)
    assert bound.kind == "sources"
    assert bound.value == Fraction(90, 2)  # three replicas of four sources: one has two of them
    even = PlacementInstance([[90, 1, 1]], gpus=4, slots=5, uneven_slots=True)
    assert bounds.cheap(even)[0].value == Fraction(90, 3)


@pytest.mark.parametrize(
    "name", ["dsv3_288_g32/zipf1.0/flat", "mixtral_12_g4/zipf1.0/flat", "qwen3_160_g32/zipf1.2/flat"]
)
def test_public_plans_lose_what_was_published(name: str) -> None:
    instance = published(name, distinct=False)
    plan = placement.solve(instance, method="eplb_raw").plan
    for split, key in (("sglang-static", "sglang_static"), ("sglang-static-node", "sglang_static_node")):
        if PUBLIC[name]["eplb"][key] is not None:
            found = placement.evaluate(instance, plan, split).imbalance_mean
            assert found == pytest.approx(PUBLIC[name]["eplb"][key], abs=6e-6)


@pytest.mark.parametrize("split,factor", [("sglang-static", 1.01), ("sglang-static-node", 1.05)])
@pytest.mark.parametrize("name", ["dsv3_288_g32/zipf1.0/flat", "dsv3_288_g32/lognormal/flat"])
def test_search_comes_near_the_even_split_and_keeps_it(name: str, split: str, factor: float) -> None:
    even = placement.solve(published(name, layers=4), method="search")
    found = placement.solve(published(name, layers=4, split=split), method="search")
    assert found.solution is not None and even.solution is not None
    for layer, before in zip(found.solution["layers"], even.solution["layers"], strict=True):
        assert layer["imbalance"] <= factor * before["imbalance"]
        assert layer["max_load_even"] <= max(before["max_load"], before["lower_bound"] / 0.999) * (1 + 1e-9)


def test_random_is_the_even_split_with_a_deviation() -> None:
    loads = [[40, 30, 20, 10, 5, 1]]
    plain = placement.solve(PlacementInstance(loads, gpus=4, slots=8))
    drawn = placement.solve(PlacementInstance(loads, gpus=4, slots=8, split="random"))
    assert plain.solution is not None and drawn.solution is not None
    (layer,) = drawn.solution["layers"]
    assert (drawn.objective, drawn.lower_bound) == (plain.objective, plain.lower_bound)
    assert layer["max_load"] == layer["max_load_even"] and layer["draw_deviation"] > 0


def test_deviation_of_a_draw_is_that_of_all_outcomes() -> None:
    instance = PlacementInstance([[3, 2]], gpus=2, slots=4, split="random")
    plan = Placement.of([[0, 1, 1, 0]])
    value = placement.evaluate(instance, plan)
    totals = [bin(outcome).count("1") for outcome in range(2**5)]  # tokens that draw GPU 0
    assert engine_rule.draw_deviation(instance, plan, value.gpu_cost) == [pytest.approx(float(np.std(totals)))]


def test_layouts_give_every_replica_equally_many_sources() -> None:
    for sources in ([8] * 4, [8] * 9, [4], [32], [8] * 16):
        for count in range(1, sum(sources) + 1):
            for way in layouts.layouts(count, sources):
                if way.lump > 0:
                    continue
                size = sources[0]
                gpus = np.array([node * size + at for node in range(way.nodes) for at in range(way.per_node)])
                node = np.repeat(np.arange(len(sources)), sources)
                number = sources_per_slot(np.zeros((1, count), dtype=np.int64), gpus, node, np.array(sources))
                assert set(number[0].tolist()) == {sum(sources) // count}


@pytest.mark.parametrize("method", ["contiguous", "round_robin", "snake", "lpt", "eplb", "search", "auto"])
@pytest.mark.parametrize("split", [*FIXED, "random"])
def test_every_method_is_judged_under_the_rule(method: str, split: str) -> None:
    instance = PlacementInstance([[40, 30, 20, 10, 5, 1]], gpus=4, slots=8, nodes=2, split=split)  # type: ignore[arg-type]
    result = placement.solve(instance, method=method)
    assert result.objective == float(placement.evaluate(instance, result.plan, split).objective)
    assert result.solution is not None and "imbalance_even_mean" in result.solution


@pytest.mark.parametrize("split", FIXED)
def test_exact_refuses_rules_of_whole_sources(split: str) -> None:
    instance = PlacementInstance([[4, 3, 2, 1]], gpus=2, slots=4, split=split)  # type: ignore[arg-type]
    assert "use search" in str(placement.METHODS["exact"].applies(instance))


@settings(max_examples=40)
@given(strategies.instances(splits=FIXED, max_layers=2, kinds=("ints", "ties", "floats")))
def test_search_keeps_every_rule_under_a_dispatch_rule(instance: PlacementInstance) -> None:
    if placement.METHODS["search"].applies(instance):
        return  # groups beside pins are not searched
    result = placement.solve(instance, method="search", limits=Limits(iterations=5))
    assert placement.faults(instance, result.plan) == []
    again = placement.solve(instance, method="search", limits=Limits(iterations=5))
    assert again.canonical() == result.canonical()


def test_compiled_and_interpreted_search_take_the_same_steps() -> None:
    rng = np.random.default_rng(5)
    instance = PlacementInstance(rng.integers(1, 90, (1, 10)), gpus=4, slots=16, nodes=2, split="sglang-static-node")
    node, sources = engine_rule.nodes_and_sources(instance, instance.split)
    view = kernel.Layer(
        instance.weights[0] / float(instance.ideal[0]),
        0.0,
        instance.gpu_of_slot,
        instance.slot_start,
        np.ones(4),
        np.zeros(4),
        node,
        sources,
        np.zeros(4, dtype=np.int64),
        np.zeros((0, 0), dtype=np.int8),
        True,
        4,
        -1,
        np.ones(6, dtype=np.bool_),
        False,
        4,
    )
    start = placement.solve(instance, method="eplb").plan.slot_expert[0].astype(np.int64)
    found = []
    for improve in (kernel.improve, kernel.improve.plain()):
        best, memory = start.copy(), kernel.remember(2.0, 0.0)
        improve(view, start.copy(), best, 0.0, 9.0, 20, 1e6, memory, np.array([3], dtype=np.int64))
        found.append((best.tolist(), memory.tolist()))
    assert found[0] == found[1]
