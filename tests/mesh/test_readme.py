"""The example of a mesh in the pages does what is said beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_example_of_the_page_runs_and_is_proved() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (block,) = [one for one in blocks if "mesh.MeshInstance" in one]
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    bought, asked = names["bought"], names["asked"]
    assert bought.status == "OPTIMAL" and bought.lower_bound == bought.objective
    assert (
        {pool["config"]["family"] for pool in bought.solution["pools"]} == {"prefill", "decode"} == set(asked.families)
    )
    for pool in bought.solution["pools"]:
        assert set(pool["gpus"]) == {asked.sides[pool["config"]["family"]]}
    assert bought.solution["beside_colocated"]["ratio"] > 0
