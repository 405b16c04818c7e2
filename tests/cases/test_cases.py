"""Every case of the table; the same as ``make cases``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.case import Case, Desk
from tests.cases.table import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, tmp_path: Path) -> None:
    case.check(Desk(tmp_path))


def test_names_are_unique_and_every_case_says_why() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.why.endswith(".") for case in CASES)
