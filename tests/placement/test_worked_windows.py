"""Bounds over several windows, by hand: which kind says most, and where one may not be used."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds, window_bounds

APART = [[[9, 1, 1]], [[1, 1, 9]]]
PAIRS = [[[6, 5, 1, 1]], [[1, 5, 6, 1]]]
TINY = 1 - Fraction(1, 10**10)


@pytest.mark.parametrize("pace", [0.25, 1.0, 3.0, 8.0])
@pytest.mark.parametrize(("combine", "kind", "value"), [("mean", "blend", 20), ("worst", "envelope", 36)])
def test_four_slots_are_too_few_for_two_heavy_experts(pace: float, combine: str, kind: str, value: int) -> None:
    """Of 11 tokens on four GPUs 9 are one expert's. A window alone has it on two of them, 18/11; both windows cannot:
    of (5, 1, 5) in the mean a GPU has 5, 20/11, and in one of the two it has all 9, 36/11."""
    instance = PlacementInstance(APART, slots=[1] * 4, speed=[pace] * 4, combine=combine)
    (found,) = bounds.cheap(instance)
    assert found.kind == kind and Fraction(value, 11) * TINY <= found.value <= Fraction(value, 11)
    assert bounds.check(instance, 0, found.certificate) == found.value
    (late,) = bounds.cheap(instance, Deadline(0.0))
    assert (late.kind, late.value) == ("windows", Fraction(18, 11))


@pytest.mark.parametrize("split", ["random", "free"])
@pytest.mark.parametrize("combine", ["worst", "mean"])
def test_other_splits_have_the_bounds_of_their_windows(split: str, combine: str) -> None:
    for loads, slots in ((APART, [1] * 4), (PAIRS, [2, 2])):
        instance = PlacementInstance(loads, slots=slots, split=split, combine=combine)
        (found,) = bounds.cheap(instance)
        tight = bounds.tighten(instance, found, 0, float(found.value) * 1.5)
        assert found.kind == "windows"
        assert bounds.check(instance, 0, tight.certificate) == tight.value >= found.value


def test_of_equal_bounds_that_of_the_windows_stays() -> None:
    """Blend and envelope are cut down to grains, and say a trifle less where the windows are alike."""
    for combine in ("worst", "mean"):
        (found,) = bounds.cheap(PlacementInstance([APART[0], APART[0]], slots=[1] * 4, combine=combine))
        assert (found.kind, found.value) == ("windows", Fraction(18, 11))


def test_time_is_asked_for_before_each_layer() -> None:
    class Soon(Deadline):
        """Comes after the first look."""

        looks = 0

        def passed(self) -> bool:
            self.looks += 1
            return self.looks > 1

    rows = [[one[0]] * 2 for one in APART]
    instance = PlacementInstance(rows, slots=[1] * 4, combine="worst")
    assert [bound.kind for bound in bounds.cheap(instance, Soon(None))] == ["windows"] * 2
    assert [bound.kind for bound in bounds.cheap(instance)] == ["envelope"] * 2


@pytest.mark.parametrize("speed", [[1.0] * 4, [1.0, 1.0, 1.0, 2.0]])
def test_floors_of_replicas_hold_in_an_envelope(speed: list[float]) -> None:
    """Counts (2, 1, 2) or worse, so that a piece is 9 for one of the heavy ones; a floor of 10 or 30 is more."""
    for floor, piece in ((1, 9), (10, 10), (30, 30)):
        fields: dict[str, Any] = {"floor_rule": "per_replica", "floor_tokens": floor, "combine": "worst"}
        instance = PlacementInstance(APART, slots=[1] * 4, speed=speed, **fields)
        value = Fraction(piece) / Fraction(max(speed)) / instance.windows[0].ideal[0]
        found = bounds.proved(instance, 0, {"kind": "envelope"})
        assert found is not None and value * TINY <= found <= value


@pytest.mark.parametrize("pace", [0.5, 2.0])
def test_a_blend_is_tightened_where_windows_are_not(pace: float) -> None:
    """In parts of 13 tokens over two GPUs, (3.5, 5, 3.5, 1): every window alone can be even, both are not."""
    instance = PlacementInstance(PAIRS, slots=[2, 2], speed=[pace] * 2, combine="mean")
    (cheap,) = bounds.cheap(instance)
    found = bounds.tighten(instance, cheap, 0, 1.5)
    assert cheap.value == 1 and found.kind == "blend" and found.value > Fraction(107, 100)
    assert bounds.check(instance, 0, found.certificate) == found.value


@pytest.mark.parametrize("combine", ["mean", "worst"])
def test_windows_are_tightened_up_to_all_that_may_count(combine: str) -> None:
    """A window of (10, 4, 4, 4, 4, 4) on two GPUs of three slots, 18 of 15 where 15 is even; the other is even."""
    instance = PlacementInstance([[[10, 4, 4, 4, 4, 4]], [[5] * 6]], slots=[3, 3], combine=combine, split="random")
    (cheap,) = bounds.cheap(instance)
    best = Fraction(11, 10) if combine == "mean" else Fraction(6, 5)
    found = bounds.tighten(instance, cheap, 0, float(best))
    assert cheap.value == 1 and best * Fraction(999, 1000) < found.value <= best
    assert found.kind == "windows"


def test_one_layer_of_many_windows_has_its_own_loads_and_floors() -> None:
    rows = [[[9, 1, 1], [1, 2, 3]], [[1, 1, 9], [3, 2, 1]]]
    instance = PlacementInstance(rows, slots=[1] * 4, combine="worst", floor_tokens=2, steps=[1, 3], layers=[4, 7])
    for window, steps in zip(instance.windows, (1, 3), strict=True):
        for row in range(2):
            one = window_bounds.one_layer(window, row)
            assert one.num_layers == len(one.layers) == 1 and one.loads.tolist() == [window.loads[row].tolist()]
            assert one.weights[0].tolist() == [max(load, 2 * steps) for load in window.loads[row].tolist()]


def test_an_envelope_of_idle_windows_is_nothing() -> None:
    instance = PlacementInstance([[[0, 0]], [[0, 0]]], slots=[1, 1], combine="worst")
    assert bounds.proved(instance, 0, {"kind": "envelope"}) == 0
    assert bounds.cheap(instance)[0].value == 1  # an idle window is in balance


@pytest.mark.parametrize("unit", [1, 0.25])
def test_a_blend_of_whole_grains_is_cut_nowhere(unit: float) -> None:
    """Ideals of 4 and 8, so that halves of (6, 10) and of (16, 16) are 6/8 + 16/16 and 10/8 + 1 of an ideal."""
    fields: dict[str, Any] = {"floor_rule": "per_replica", "floor_tokens": 2 * unit, "slots": [1] * 4}
    rows = [[[6 * unit, 10 * unit]], [[16 * unit, 16 * unit]]]
    instance = PlacementInstance(rows, **fields, fill="at_most")
    blended = window_bounds.blend(instance, 0, (Fraction(1, 2), Fraction(1, 2)))
    grain = window_bounds.grain(instance)
    assert [window.ideal[0] for window in instance.windows] == [4 * unit, 8 * unit] and grain == 4 * Fraction(1, 2**40)
    assert [load * grain for load in blended.loads[0].tolist()] == [Fraction(7, 4), Fraction(9, 4)]
    assert Fraction(blended.floor) * grain == Fraction(2, 8) + Fraction(2, 16)
