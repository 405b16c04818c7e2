"""The configuration bound: its certificates are exact, damaged ones are refused, and it is searched where it helps."""

from __future__ import annotations

import copy
import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from moeopt import placement
from moeopt.limits import Deadline, Limits
from moeopt.placement import PlacementInstance, bounds, configuration, fillings
from moeopt.placement.bounds import LayerBound
from moeopt.placement.fillings import FULL, Kind, Layer
from moeopt.placement.load_plan import document_faults
from moeopt.placement.plan_document import read_result
from moeopt.workload import generate
from tests import oracles
from tests.benchmarks.brute_force_bounds import priced_of, quick_of, random_instance, searched_of


def test_no_certificate_is_above_the_brute_force_optimum() -> None:
    """Random prices and made-up pigeonholes at the optimum itself, and what is searched with leave to go too far."""
    rng = random.Random(23)
    tried: dict[str, int] = {}
    for number in range(100):
        instance = random_instance(rng)
        best = oracles.optimum(instance)
        assert best is not None
        found = [*priced_of(rng, instance, best), *quick_of(rng, instance, best)]
        if number % 10 == 0:
            found.extend(searched_of(instance, best))
        for kind, value in found:
            assert value <= best, (kind, instance)
            tried[kind] = tried.get(kind, 0) + (value > 0)
    assert tried["searched"] > 3
    assert min(tried[kind] for kind in ("crowd", "partner", "pigeonhole", "prices at 70%")) > 0


def zipf(experts: int, gpus: int, slots: int, **rules: Any) -> PlacementInstance:
    """One layer of Zipf loads."""
    table = generate("zipf", layers=1, experts=experts, top_k=4, tokens=16_384, seed=3, alpha=1.0).loads
    return PlacementInstance(table, gpus=gpus, slots=slots, **rules)


def searched(instance: PlacementInstance, gap: float = 0.001) -> tuple[LayerBound, float]:
    """The configuration bound of the search's plan, and that plan's cost."""
    result = placement.solve(instance, method="search")
    assert result.objective is not None
    (cheap,) = bounds.cheap(instance)
    return bounds.priced(instance, cheap, 0, result.objective, gap, Deadline(None)), result.objective


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"distinct": False},
        {"fill": "at_most"},
        {"floor_tokens": 900.0},
        {"floor_tokens": 900.0, "floor_rule": "per_replica"},
        {"speed": [1.0] * 9 + [0.5] * 9},
        {"speed": [2.0] * 18},
    ],
)
def test_it_closes_most_of_the_gap_that_the_quick_bounds_leave(rules: dict[str, Any]) -> None:
    instance = zipf(48, 18, 54, **rules)
    bound, top = searched(instance, gap=0.005)
    assert bound.kind == "configuration" or "speed" in rules  # with two speeds the mean may do
    assert bounds.check(instance, 0, json.loads(json.dumps(bound.certificate))) == bound.value <= top
    assert 1 - float(bound.value) / top < 0.03


def test_uneven_slots_and_five_of_them() -> None:
    """GPUs of two kinds, and fillings of five pieces, of which halves are not listed."""
    instance = zipf(36, 9, 38, uneven_slots=True)
    (cheap,) = bounds.cheap(instance)
    top = float(cheap.value) * 1.1
    bound = bounds.priced(instance, LayerBound("mean", cheap.value / 2, {"kind": "mean"}), 0, top, 0.05, Deadline(None))
    assert bound.kind == "configuration"
    assert bounds.check(instance, 0, bound.certificate) == bound.value
    assert float(bound.value) > 0.99 * float(cheap.value)


LAYER = Layer([10, 4, 4, 4, 4, 4], 0, 1, [Kind(2, 3)], True, 1)
GOOD: dict[str, Any] = {"sizes": [FULL * 4 // 17, FULL * 10 // 17], "prices": [1, 2]}


def test_cases_cover_every_count() -> None:
    """Each case needs its own proof; one that no plan falls into needs none."""
    nothing: dict[str, Any] = {"sizes": [], "prices": []}
    assert not fillings.proves(LAYER, Fraction(17), [], [])
    assert fillings.proves(LAYER, Fraction(17), [], [], {0: (2, 2)})  # six experts fill the six slots
    assert fillings.proves_tree(LAYER, Fraction(17), {"expert": 0, "count": 1, "few": GOOD, "many": nothing})
    assert not fillings.proves_tree(LAYER, Fraction(17), {"expert": 0, "count": 1, "few": nothing, "many": GOOD})
    assert not fillings.proves_tree(LAYER, Fraction(17), {"expert": 0, "count": 1, "few": GOOD})
    deeper = {"expert": 0, "count": 2, "few": {"expert": 1, "count": 1, "few": GOOD, "many": nothing}, "many": nothing}
    assert fillings.proves_tree(LAYER, Fraction(17), deeper)


@pytest.mark.parametrize(
    "damage",
    [
        {"prices": [1]},
        {"prices": [2, 1]},
        {"prices": [1, -2]},
        {"prices": [1, 2.0]},
        {"prices": [1, True]},
        {"prices": [1, 10**30]},
        {"prices": "12"},
        {"prices": None},
        {"sizes": [FULL * 10 // 17, FULL * 4 // 17]},
        {"sizes": [0, 0]},
        {"sizes": [1, FULL + 1]},
        {"sizes": [1, 2**80]},
        {"sizes": []},
        {"sizes": list(range(10_000)), "prices": [1] * 10_000},
        {"sizes": None},
        {"sizes": [FULL * 4 // 17 + 1, FULL * 10 // 17]},
        {"expert": 0, "count": 1},
        {"expert": 0, "count": 0, "few": GOOD, "many": GOOD},
        {"expert": 6, "count": 1, "few": GOOD, "many": GOOD},
        {"expert": "a", "count": 1, "few": GOOD, "many": GOOD},
        {"expert": 0, "count": True, "few": GOOD, "many": GOOD},
        {"expert": 0, "count": 1, "few": GOOD, "many": [1]},
        {"prices": [0, 0]},
    ],
)
def test_damaged_prices_prove_nothing(damage: dict[str, Any]) -> None:
    assert fillings.proves_tree(LAYER, Fraction(17), GOOD)
    assert not fillings.proves_tree(LAYER, Fraction(17), {**GOOD, **damage})


def test_a_certificate_for_a_lower_threshold_proves_no_higher_one() -> None:
    instance = zipf(64, 24, 72)
    bound, top = searched(instance)
    good = dict(bound.certificate)
    for factor in (1.001, 1.05, 2.0, float("nan"), float("inf"), -1.0, 0.0):
        with pytest.raises(ValueError, match="proves nothing"):
            bounds.check(instance, 0, {**good, "threshold": top * factor})
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(instance, 0, {**good, "sizes": [size // 2 for size in good["sizes"]]})


def test_too_many_nested_cases_are_refused() -> None:
    tree: dict[str, Any] = dict(GOOD)
    for _ in range(fillings.MOST_DEPTH + 2):
        tree = {"expert": 0, "count": 1, "few": tree, "many": GOOD}
    assert not fillings.proves_tree(LAYER, Fraction(17), tree)


def test_it_is_refused_for_free_shares() -> None:
    even, free = (PlacementInstance([[10, 4, 4, 4, 4, 4]], slots=[3, 3], split=split) for split in ("even", "free"))
    proof = {"kind": "configuration", "threshold": 17, **GOOD}
    assert bounds.check(even, 0, proof) == 17
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(free, 0, proof)
    cheap = bounds.cheap(free)[0]
    assert bounds.priced(free, cheap, 0, 100.0, 0.0, Deadline(None)) is cheap
    assert not configuration.searched(free, 0)


def test_with_a_time_limit_auto_proves_what_the_search_leaves_open_and_says_how_far_it_is() -> None:
    instance = zipf(64, 24, 72)
    heard: list[str] = []
    quick = placement.solve(instance, method="search")
    result = placement.solve(
        instance, limits=Limits(time_s=30), on_progress=lambda progress: heard.append(progress.message)
    )
    assert result.gap is not None and quick.gap is not None
    assert result.gap <= quick.gap
    assert result.certificate is not None and result.certificate["layers"][0]["kind"] == "configuration"
    assert "proving" in heard
    document = json.loads(json.dumps(result.to_dict()))
    assert document_faults(read_result(document), instance.loads) == []
    broken = copy.deepcopy(document)
    broken["certificate"]["layers"][0]["threshold"] *= 1.1
    assert document_faults(read_result(broken), instance.loads)


def test_exact_prices_fillings_before_it_writes_a_programme() -> None:
    instance = zipf(64, 24, 72)
    result = placement.solve(instance, method="exact", limits=Limits(time_s=6))
    assert result.certificate is not None
    assert result.gap is not None and result.gap < 0.02


GROUPED = PlacementInstance(
    [[10, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1]], slots=[3, 3, 3, 3], nodes=[0, 0, 1, 1], groups=[0] * 6 + [1] * 6
)


def test_nodes_that_decide_the_best_deal_get_sharper_bounds() -> None:
    (cheap,) = bounds.cheap(GROUPED)
    tight = bounds.tighten(GROUPED, cheap, 0, 19.0)
    assert tight.kind == "deals" and cheap.value < tight.value <= 18
    assert bounds.check(GROUPED, 0, json.loads(json.dumps(tight.certificate))) == tight.value
    priced = bounds.priced(GROUPED, cheap, 0, 19.0, 0.0, Deadline(None))
    assert priced.kind == "deals" and float(priced.value) == pytest.approx(18, rel=2e-3)
    assert bounds.check(GROUPED, 0, {"kind": "deals"}) == cheap.value


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        "12",
        [[0]],
        [[2, {"kind": "mean"}]],
        [[-1, {"kind": "mean"}]],
        [["a", {"kind": "mean"}]],
        [[0, "mean"]],
        [[0, {"kind": "guess"}]],
        [[0, {"kind": "pigeonhole", "threshold": 18.5, "experts": [0]}]],
        [[1, {"kind": "pigeonhole", "threshold": 17.5, "experts": [0]}]],
        [[0, {"kind": "solver", "value": 30.0}]],
    ],
)
def test_damaged_certificates_of_nodes_prove_nothing(nodes: Any) -> None:
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(GROUPED, 0, {"kind": "deals", "nodes": nodes})


def test_lifting_needs_different_gpus_for_the_replicas_of_an_expert() -> None:
    table = generate("zipf", layers=5, experts=256, top_k=8, tokens=65_536, seed=0, alpha=1.0).loads
    instance = PlacementInstance(table, gpus=72, slots=288)
    doubled = PlacementInstance(table, gpus=72, slots=288, distinct=False)
    lifted = 0
    for row, cheap in enumerate(bounds.cheap(instance)):
        bound = bounds.tighten(instance, cheap, row, float(cheap.value) * 1.05)
        if not bound.certificate.get("lifts"):
            continue
        lifted += 1
        assert bounds.check(instance, row, bound.certificate) == bound.value
        good = bound.certificate["lifts"]
        for lifts in ([[999]], [["a"]], "a", [[0]] * 1000, [[*good[0], row], *good], [list(range(256)), *good]):
            with pytest.raises(ValueError, match="proves nothing"):
                bounds.check(instance, row, {**bound.certificate, "lifts": lifts})
        with pytest.raises(ValueError, match="proves nothing"):
            bounds.check(doubled, row, bound.certificate)
    assert lifted > 3


def test_least_total_equals_the_plain_knapsack_where_experts_are_left_out() -> None:
    """Experts that save as much as others for more slots are dropped; the least total stays."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        spare = int(rng.integers(0, 7))
        cost = rng.integers(0, 3, (int(rng.integers(1, 9)), int(rng.integers(1, spare + 2))))
        best = np.zeros(spare + 1, dtype=np.int64)
        for row in cost:
            choices = [
                [best[slots - more] + price for more, price in enumerate(row[: slots + 1])]
                for slots in range(spare + 1)
            ]
            best = np.array([min(options) for options in choices])
        assert fillings.least_total(cost, spare) == best.min()
