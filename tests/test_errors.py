"""Errors name field, place, value, rule and next step, show all violations, and cross process borders."""

from __future__ import annotations

import copy
import pickle

import pytest

from moeopt import collocation, mesh, microbatch, routing
from moeopt.errors import (
    SHOWN,
    BackendUnavailable,
    InstanceError,
    MoeoptError,
    NotApplicable,
    PlanError,
    Violation,
    Violations,
)
from moeopt.limits import Limits
from moeopt.placement import PlacementInstance, solve


def test_a_violation_reads_field_place_value_rule_and_fix() -> None:
    violation = Violation("loads", "layer 3, expert 17", "nan", "loads must be finite tokens >= 0.", "Drop the window.")
    assert str(violation) == "loads[layer 3, expert 17] = nan: loads must be finite tokens >= 0. Drop the window."
    assert str(Violation("gpus", "", "0", "must be >= 1", "")) == "gpus = 0: must be >= 1."
    assert str(Violation("gpus", "", "0", "must be >= 1", "Is it?")) == "gpus = 0: must be >= 1. Is it?"


def test_every_error_is_a_moeopt_error_and_what_python_expects() -> None:
    for kind, base in (
        (InstanceError, ValueError),
        (PlanError, ValueError),
        (NotApplicable, ValueError),
        (BackendUnavailable, ImportError),
    ):
        assert issubclass(kind, MoeoptError) and issubclass(kind, base)


def test_violations_are_all_kept_and_the_first_are_shown() -> None:
    many = [Violation("loads", str(place), "nan", "must be finite", "Repair it") for place in range(SHOWN + 5)]
    error = InstanceError(many, "a.csv")
    lines = str(error).splitlines()
    assert len(error.violations) == SHOWN + 5
    assert len(lines) == SHOWN + 1 and lines[-1] == "a.csv: ... and 5 more of this kind."
    assert all(line.startswith("a.csv: ") for line in lines)


def test_an_error_without_a_violation_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one violation"):
        InstanceError([])


@pytest.mark.parametrize(
    "error",
    [
        InstanceError([Violation("slots", "GPU 1", "7", "must be even", "Use 8")], "a.json"),
        PlanError([f"fault {number}" for number in range(SHOWN + 1)]),
        NotApplicable("fold needs two slots"),
        BackendUnavailable("pip install 'moeopt[fast]'"),
    ],
)
def test_errors_survive_pickling_and_copying(error: MoeoptError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error)
        assert getattr(again, "violations", None) == getattr(error, "violations", None)
        assert getattr(again, "faults", None) == getattr(error, "faults", None)


def test_a_plan_error_keeps_all_faults_and_shows_the_first() -> None:
    error = PlanError([f"fault {number}" for number in range(SHOWN + 3)])
    assert len(error.faults) == SHOWN + 3
    assert str(error).endswith(f"fault {SHOWN - 1}; ... and 3 more")


def test_long_values_are_cut_and_text_is_shown_as_it_is() -> None:
    check = Violations()
    check.add("names", list(range(1000)), rule="must be short")
    check.add("split", "odd", rule="must be even or free")
    assert len(check.found[0].value) == 80 and check.found[0].value.endswith("...")
    assert str(check.found[1]) == "split = odd: must be even or free."


def test_violations_of_an_inner_check_are_taken_over() -> None:
    check = Violations("a.json")
    with check.within():
        raise InstanceError([Violation("slots", "", "0", "must be >= 1", "Use 1")])
    check.add("gpus", 0, rule="must be >= 1")
    with pytest.raises(InstanceError) as caught:
        check.raise_if_any()
    assert [violation.field for violation in caught.value.violations] == ["slots", "gpus"]
    Violations().raise_if_any()


def test_a_text_where_a_number_belongs_is_shown_in_quotes() -> None:
    """`gpus = 8: must be a whole number` was said of a text."""
    times = {"attention": 1.0, "dispatch": 1.0, "experts": 1.0}
    for make, words in (
        (lambda: PlacementInstance([[1, 2]], gpus="8"), "gpus = '8': must be a whole number >= 1"),
        (lambda: PlacementInstance([[1, 2]], gpus=1, floor_tokens="3"), "floor_tokens = '3': must be a finite number"),
        (lambda: PlacementInstance([[1, 2]], gpus=1, alpha="0.9"), "alpha = '0.9': must be at least 0"),
        (lambda: PlacementInstance([[1, 2]], gpus=1, distinct="yes"), "distinct = 'yes': must be true or false"),
        (lambda: routing.RoutingInstance([[9, 4]], [[0, 1]], gpus="2"), "gpus = '2': must be a whole number"),
        (lambda: collocation.CollocationInstance([[0, 1]], experts="4"), "experts = '4': must be a whole number"),
        (lambda: microbatch.MicrobatchInstance(times, layers="4"), "layers = '4': must be a whole number"),
        (lambda: microbatch.MicrobatchInstance(times, layers=4, tbt_slo_s="1"), "tbt_slo_s = '1': must be finite"),
        (lambda: mesh.GpuType.of("H800", stock="16"), "stock = '16': must be a whole number"),
        (lambda: mesh.Workload("4000", 10), "input_tokens = '4000': must be a whole number"),
        (lambda: Limits(time_s="5"), "limits.time_s = '5': must be finite seconds"),
        (lambda: solve(PlacementInstance([[1, 2]], gpus=1, slots=2), seed="0"), "seed = '0': must be a whole number"),
    ):
        with pytest.raises(InstanceError) as caught:
            make()  # type: ignore[no-untyped-call]
        assert words in str(caught.value)
