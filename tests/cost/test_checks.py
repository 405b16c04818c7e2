"""The shared checks: what counts as a number, and what a message says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from moeopt.cost import checks
from moeopt.errors import Violations

BAD = (True, np.bool_(True), None, "3", float("nan"), float("inf"), -float("inf"), 1j, [1])
GOOD = (1, 2.5, Fraction(1, 3), np.int64(3), np.float32(0.5), 10**400)


def refused(check: object, value: object) -> bool:
    found = Violations()
    check(found, field=value)  # type: ignore[operator]
    assert all(violation.field == "field" and violation.rule and violation.fix for violation in found.found)
    return bool(found.found)


@pytest.mark.parametrize("value", BAD)
def test_what_is_no_number_is_refused_by_every_check(value: object) -> None:
    for check in (checks.positive, checks.not_negative, checks.whole, checks.fraction, checks.probability):
        assert refused(check, value), check


@pytest.mark.parametrize("value", GOOD)
def test_numbers_of_every_kind_are_taken(value: object) -> None:
    assert not refused(checks.positive, value) and not refused(checks.not_negative, value)


def test_borders() -> None:
    assert refused(checks.positive, 0) and not refused(checks.not_negative, 0) and refused(checks.not_negative, -1e-300)
    assert refused(checks.fraction, 0) and not refused(checks.fraction, 1) and refused(checks.fraction, 1.0000001)
    assert not refused(checks.probability, 0) and refused(checks.probability, -0.1)
    assert refused(checks.whole, 3.0) and refused(checks.whole, 0) and not refused(checks.whole, np.int32(1))


def test_a_divisor_is_missed_by_name_with_the_nearest_ones() -> None:
    found = Violations()
    checks.divides(found, "tp", np.int64(5), "heads", 48)
    checks.divides(found, "ep", 100, "gpus", 64)
    checks.divides(found, "pp", 4, "layers", 60)
    checks.divides(found, "dp", 2.5, "gpus", 64)  # left to the check of whole numbers
    said = [str(violation) for violation in found.found]
    assert said == ["tp = 5: must divide heads = 48. Use 4 or 6.", "ep = 100: must divide gpus = 64. Use 64."]


def test_a_token_selects_at_most_all_experts() -> None:
    found = Violations()
    checks.top_k_of(found, experts=4, top_k=5)
    checks.top_k_of(found, experts=4, top_k=4)
    checks.top_k_of(found, experts=0, top_k=1.5)
    assert [violation.field for violation in found.found] == ["top_k", "experts", "top_k"]
