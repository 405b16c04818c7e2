"""Every kind of lower bound against brute force, its certificate re-checked, and damaged certificates refused."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from moeopt.placement import PlacementInstance, bounds, pigeonhole
from tests import oracles
from tests.benchmarks.brute_force_bounds import bounds_of, random_instance


def test_one_expert_alone_shares_its_floor_between_replicas() -> None:
    """The bound of one expert alone once charged the whole floor per expert to every replica: above the optimum."""
    instance = PlacementInstance([[0]], slots=[1, 1], split="free", floor_tokens=1)
    assert bounds.check(instance, 0, {"kind": "alone", "expert": 0}) == oracles.optimum(instance) == Fraction(1, 2)


def test_pigeonhole_is_as_strong_at_any_common_speed() -> None:
    """Its threshold was once certified in tokens and checked as a cost, so that only speed 1 had the bound."""
    loads = [[10, 4, 4, 4, 4, 4]]
    for speed in (1.0, 2.0, 0.5, 0.3):
        instance = PlacementInstance(loads, slots=[3, 3], speed=[speed, speed])
        cheap = bounds.cheap(instance)[0]
        tight = bounds.tighten(instance, cheap, 0, 19 / speed)
        assert tight.kind == "pigeonhole"
        assert float(tight.value) == pytest.approx(18 / speed, rel=1e-4)


def test_largest_replica_is_bounded_where_doubles_round_the_loads() -> None:
    """Greedy counts in doubles took the wrong one of two loads that round to the same, and solve broke down."""
    instance = PlacementInstance([[2**60, 2**60 + 1]], gpus=3, slots=3)
    assert bounds.check(instance, 0, {"kind": "largest"}) == oracles.optimum(instance) == 2**60
    assert bounds.cheap(instance)[0].value == 2**60


def test_bounds_take_loads_many_orders_apart() -> None:
    """Whole numbers over one denominator went beyond the range of a double."""
    instance = PlacementInstance([[1.0, 1.5e-295]], gpus=2, slots=2)
    assert bounds.cheap(instance)[0].value == 1


def test_every_bound_is_at_most_the_brute_force_optimum() -> None:
    rng = random.Random(11)
    exact: dict[str, int] = {}
    for _ in range(300):
        instance = random_instance(rng)
        best = oracles.optimum(instance)
        assert best is not None
        for kind, value in bounds_of(instance, best):
            assert value <= best, (kind, instance)
            exact[kind] = exact.get(kind, 0) + (value == best)
    assert {"mean", "alone", "largest", "cheap", "tightened", "pigeonhole", "enumeration", "deals"} <= set(exact)
    assert min(exact["mean"], exact["alone"], exact["largest"]) > 30  # each is tight somewhere


def test_brute_force_with_shortcuts_equals_brute_force_without() -> None:
    rng = random.Random(5)
    for _ in range(150):
        instance = random_instance(rng)
        if instance.num_slots <= 6:
            assert oracles.optimum(instance) == oracles.plain_optimum(instance), instance


def test_pigeonhole_certificates_are_rechecked_and_never_too_high() -> None:
    """Thresholds above the optimum prove nothing, whatever set of experts is claimed to refute them."""
    rng = random.Random(3)
    found = 0
    for _ in range(300):
        loads = [[rng.choice([1, 2, 3, 4, 9, 10]) for _ in range(rng.randint(3, 5))]]
        instance = PlacementInstance(loads, gpus=2, slots=6, distinct=rng.random() < 0.5)
        best = oracles.optimum(instance)
        assert best is not None
        start = bounds.LayerBound("mean", bounds.check(instance, 0, {"kind": "mean"}) / 2, {"kind": "mean"})
        tight = bounds.tighten(instance, start, 0, float(best) * 1.5)
        if tight.kind == "pigeonhole":
            found += 1
            assert bounds.check(instance, 0, tight.certificate) == tight.value <= best
            assert Fraction(tight.certificate["threshold"]) == tight.value
        for experts in ([], [0], [0, 1], list(range(instance.num_experts)), tight.certificate.get("experts", [])):
            high = {"kind": "pigeonhole", "threshold": float(best), "experts": experts}
            with pytest.raises(ValueError, match="proves nothing"):
                bounds.check(instance, 0, high)
    assert found > 100


HEAVY = PlacementInstance([[10, 4, 4, 4, 4, 4]], slots=[3, 3])
GOOD = {"kind": "pigeonhole", "threshold": 17.5, "experts": [0]}


def test_a_sound_pigeonhole_certificate_proves_its_threshold() -> None:
    assert bounds.check(HEAVY, 0, GOOD) == Fraction(35, 2)


@pytest.mark.parametrize(
    "damage",
    [
        {"threshold": 18.0},
        {"threshold": 1e9},
        {"threshold": 0.0},
        {"threshold": -1.0},
        {"experts": []},
        {"experts": [1]},
        {"experts": [0, 1, 2, 3, 4, 5]},
        {"experts": [6]},
        {"experts": [-1]},
        {"kind": "guess"},
        {"kind": None},
        {"kind": "alone", "expert": 6},
        {"kind": "alone", "expert": -1},
        {"threshold": float("nan")},
        {"threshold": float("inf")},
        {"threshold": None},
        {"threshold": "many"},
        {"experts": None},
        {"experts": ["a"]},
        {"kind": "alone"},
        {"kind": "enumeration"},
        {"kind": "enumeration", "value": "1/0"},
        {"kind": "enumeration", "value": "a"},
        {"kind": "enumeration", "value": "19"},
        {"kind": "enumeration", "value": float("nan")},
        {"kind": "deals"},
        {"kind": "alone", "expert": "first"},
    ],
)
def test_a_damaged_certificate_proves_nothing(damage: dict[str, Any]) -> None:
    """Certificates come from files that somebody may have edited: every defect is the same ValueError."""
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(HEAVY, 0, {**GOOD, **damage})


@pytest.mark.parametrize("missing", ["kind", "threshold", "experts"])
def test_a_certificate_with_a_missing_part_proves_nothing(missing: str) -> None:
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(HEAVY, 0, {key: value for key, value in GOOD.items() if key != missing})


@pytest.mark.parametrize(
    "fields", [{"split": "free"}, {"floor_rule": "per_replica"}, {"speed": [1.0, 2.0]}, {"slots": [3, 4]}]
)
def test_pigeonhole_is_refused_where_its_proof_does_not_hold(fields: dict[str, Any]) -> None:
    instance = PlacementInstance([[10, 4, 4, 4, 4, 4]], **{"slots": [3, 3], **fields})
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(instance, 0, {"kind": "pigeonhole", "threshold": 7.0, "experts": [0]})
    cheap = bounds.cheap(instance)[0]
    assert bounds.tighten(instance, cheap, 0, 30.0) is cheap


def test_largest_is_refused_for_a_free_split() -> None:
    instance = PlacementInstance([[10, 1]], slots=[1, 1], split="free")
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(instance, 0, {"kind": "largest"})


def test_pigeonhole_search_and_proof_agree() -> None:
    found = pigeonhole.search(HEAVY.weights[0], 2, 3, 15.0, 19.0)
    assert found is not None
    threshold, experts, lifts = found
    assert pigeonhole.proves([10, 4, 4, 4, 4, 4], 2, 3, Fraction(threshold), experts, lifts)
