"""The example of a microbatch in the pages does what is said beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_example_of_the_page_runs_and_its_step_is_that_of_the_formula() -> None:
    """With two parts of 128 tokens a layer takes a round trip, 213.6 + 140 + 310 + 140 us; the last one 310 us more."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (block,) = [one for one in blocks if "microbatch.MicrobatchInstance" in one]
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    cut = names["cut"]
    assert cut.status == "OPTIMAL" and cut.solution["m"] == 2
    assert cut.objective == pytest.approx(58 * 803.6e-6 + 310e-6, rel=1e-9)
    times = {row["m"]: row["time_s"] for row in cut.solution["sweep"]}
    assert set(times) == {1, 2, 4} and min(times.values()) == times[2]
    assert times[1] == pytest.approx(58 * (367.2e-6 + 240e-6 + 310e-6 + 240e-6), rel=1e-9)
