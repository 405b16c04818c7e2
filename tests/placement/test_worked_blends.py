"""Bounds of windows by hand: envelopes, blends and each window by itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds, window_bounds

WINDOWS = [[[6, 2, 2, 2]], [[2, 2, 2, 6]], [[0, 0, 0, 0]]]


def windowed(**fields: Any) -> PlacementInstance:
    return PlacementInstance(WINDOWS, **{"gpus": 4, "slots": 4, "combine": "worst", **fields})


THIRDS = ["1/3"] * 3


ENVELOPE = {"kind": "envelope"}


BLEND = {"kind": "blend", "weights": THIRDS, "blended": {"kind": "largest"}}


EACH = {"kind": "windows", "windows": [{"kind": "largest"}] * 3}


@pytest.mark.parametrize(
    ("fields", "certificate", "value"),
    [
        ({}, EACH, Fraction(2)),
        ({"combine": "mean"}, EACH, Fraction(5, 3)),  # the idle window counts as 1
        ({"combine": "cvar", "alpha": 0.5}, EACH, Fraction(2)),
        ({}, {**EACH, "windows": [{"kind": "mean"}, {"kind": "largest"}, {"kind": "mean"}]}, Fraction(2)),
        ({}, {**EACH, "windows": [{"kind": "largest"}] * 2}, None),
        ({}, {**EACH, "windows": [{"kind": "largest"}, {"kind": "largest"}, "x"]}, None),
        ({}, {**EACH, "windows": "xyz"}, None),
        ({}, {**EACH, "windows": [{"kind": "guess"}] * 3}, None),
        ({}, ENVELOPE, Fraction(2)),
        ({"combine": "mean"}, ENVELOPE, None),
        ({"split": "free"}, ENVELOPE, None),
        ({}, BLEND, Fraction(8, 9)),  # a third of 6/3 and of 2/3, and nothing of the idle one
        ({"combine": "mean"}, BLEND, Fraction(8, 9)),
        ({}, {**BLEND, "weights": ["1", "0", "0"]}, Fraction(2)),
        ({}, {**BLEND, "weights": ["2", "-1", "0"]}, None),
        ({"combine": "mean"}, {**BLEND, "weights": ["1", "0", "0"]}, None),
        ({"combine": "cvar", "alpha": 0.5}, {**BLEND, "weights": ["2/3", "1/3", "0"]}, Fraction(14, 9)),
        ({"combine": "cvar", "alpha": 0.5}, {**BLEND, "weights": ["3/4", "1/4", "0"]}, None),
        ({}, {**BLEND, "weights": ["1/2", "1/4", "0"]}, None),
        ({}, {**BLEND, "weights": [1, 1, -1]}, None),
        ({}, {**BLEND, "weights": ["1/2", "1/2"]}, None),
        ({}, {**BLEND, "weights": "111"}, None),
        ({}, {**BLEND, "blended": 3}, None),
        ({}, {**BLEND, "blended": {"kind": "guess"}}, None),
        ({"split": "sglang-static"}, BLEND, None),
        ({}, {"kind": "largest"}, None),
    ],
)
def test_windows_by_hand(fields: dict[str, Any], certificate: dict[str, Any], value: Fraction | None) -> None:
    found = bounds.proved(windowed(**fields), 0, certificate)
    if value is None or certificate["kind"] == "windows":
        assert found == value
    else:
        assert found is not None and value * (1 - Fraction(1, 10**10)) <= found <= value


@pytest.mark.parametrize("floor_rule", ["per_expert", "per_replica"])
def test_a_blend_has_the_loads_and_floors_of_its_windows(floor_rule: str) -> None:
    instance = windowed(slots=8, floor_tokens=1, floor_rule=floor_rule, steps=[1, 2, 1])
    blended = window_bounds.blend(instance, 0, (Fraction(1, 4), Fraction(3, 4), Fraction(0)))
    grain = window_bounds.grain(instance)
    ideals = [window.ideal[0] for window in instance.windows]
    for expert, load in enumerate(blended.loads[0].tolist()):
        wanted = sum(
            weight * (max(loads[0][expert], steps) if floor_rule == "per_expert" else loads[0][expert]) / ideal
            for weight, loads, steps, ideal in zip(
                (Fraction(1, 4), Fraction(3, 4)), WINDOWS[:2], (1, 2), ideals[:2], strict=True
            )
        )
        assert 0 <= wanted - load * grain <= 2 * grain
    floor = (Fraction(1, 4) / ideals[0] + Fraction(3, 4) * 2 / ideals[1]) * (floor_rule == "per_replica")
    assert 0 <= floor - Fraction(blended.floor_tokens) * grain <= 2 * grain


def test_without_time_windows_keep_their_own_bounds() -> None:
    """The envelope says more here, and takes time that there is not."""
    instance = PlacementInstance([[[6, 1, 1]], [[1, 1, 6]]], slots=[2, 2], combine="worst")
    (late,) = bounds.cheap(instance, Deadline(0.0))
    (found,) = bounds.cheap(instance)
    assert late.kind == "windows" and found.value >= late.value
    assert (found.kind, found.value > late.value) == ("envelope", True)


def test_tightened_windows_are_never_worse_and_hold() -> None:
    instance = PlacementInstance([[[10, 4, 4, 4, 4, 4]], [[4, 4, 4, 4, 4, 10]]], slots=[3, 3])
    (cheap,) = bounds.cheap(instance)
    best = Fraction(18, 15)
    for gap in (0.0, 1e-3):
        tight = bounds.tighten(instance, cheap, 0, float(best), gap)
        assert cheap.value < tight.value <= best and bounds.check(instance, 0, tight.certificate) == tight.value
    assert bounds.tighten(instance, cheap, 0, float(cheap.value)) is cheap
    assert bounds.tighten(instance, cheap, 0, 0.0) is cheap


def test_tightened_windows_under_a_rule_of_whole_sources_hold() -> None:
    loads = [[[10, 4, 4, 4, 4, 4]], [[4, 4, 4, 4, 4, 10]]]
    instance = PlacementInstance(loads, slots=[3, 3], split="sglang-static")
    (cheap,) = bounds.cheap(instance)
    tight = bounds.tighten(instance, cheap, 0, float(cheap.value) * 2)
    assert bounds.check(instance, 0, tight.certificate) == tight.value >= cheap.value
