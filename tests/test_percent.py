"""Per cent looks alike everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import moeopt
from moeopt.percent import percent, percent_up

SHOWN = [(0.0999499, "9.99 %"), (0.09995, "10.0 %"), (0.009994, "0.999 %"), (0.009996, "1.00 %"), (1.0, "100.0 %")]


@pytest.mark.parametrize(("value", "shown"), SHOWN)
def test_percent_has_as_many_decimals_as_the_number_it_shows(value: float, shown: str) -> None:
    assert percent(value) == shown


@pytest.mark.parametrize("value", [1e-9, 0.00091, 0.0094001, 0.00999951, 0.0999501, 0.1234, 0.9999])
def test_percent_up_is_never_below_the_number(value: float) -> None:
    assert float(percent_up(value).split()[0]) >= value * 100 - 1e-9


def test_nobody_else_formats_per_cent() -> None:
    root = Path(moeopt.__file__).parent
    found = [path.name for path in root.rglob("*.py") if re.search(r":\.?\d*%\}", path.read_text(encoding="utf-8"))]
    assert found == []


def test_a_printed_comparison_and_the_table_of_the_command_line_write_one_number() -> None:
    from moeopt.cli.tables import tokens
    from moeopt.placement import PlacementInstance, compare

    loads = [[40000.25, 3000.5, 2000.0, 1000.0]]
    found = compare(PlacementInstance(loads, gpus=2, slots=4), ["lpt"])
    assert found.rows[0].result is not None and found.rows[0].result.objective is not None
    assert tokens(found.rows[0].result.objective) in str(found)
