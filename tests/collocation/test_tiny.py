"""Instances solved by hand, with every method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moeopt import collocation
from moeopt.collocation import CollocationInstance

TINY = Path(__file__).parents[2] / "instances" / "tiny" / "collocation"
OPTIMA = json.loads((TINY / "optima.json").read_text())["optima"]


@pytest.mark.parametrize("name", OPTIMA)
def test_instances_solved_by_hand(name: str) -> None:
    instance = CollocationInstance.from_dict(json.loads((TINY / f"{name}.json").read_text()))
    for method, known in collocation.METHODS.items():
        if known.applies(instance) is None:
            result = collocation.solve(instance, method=method)
            assert result.objective >= OPTIMA[name] * (1 - 1e-12)
            assert result.lower_bound <= OPTIMA[name] * (1 + 1e-12)
            if method in ("search", "exact", "auto"):
                assert result.objective == pytest.approx(OPTIMA[name], rel=1e-12)
            if method == "exact":
                assert str(result.status) == "OPTIMAL"


def test_every_tiny_instance_has_an_optimum() -> None:
    assert {path.stem for path in TINY.glob("*.json")} - {"optima"} == set(OPTIMA)
