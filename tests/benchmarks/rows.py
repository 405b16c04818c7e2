"""The rows every benchmark runs on: deployment shapes with drawn or recorded loads, and the figures of public peers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moeopt.placement import PlacementInstance
from moeopt.workload import generate, read_loads

HERE = Path(__file__).resolve().parents[2] / "instances" / "published"
SHAPES = HERE / "shapes.json"
BALANCERS = HERE / "balancers.json"


def all_rows(only: str = "") -> Iterator[dict[str, Any]]:
    """Rows of ``shapes.json`` whose name contains `only`, synthetic ones first."""
    document = json.loads(SHAPES.read_text())
    yield from (row for row in [*document["instances"], *document["recorded"]] if only in row["name"])


def public_figures() -> dict[str, Any]:
    """Figures of public balancers, by the name of the row; they hold for seed 0."""
    found: dict[str, Any] = json.loads(BALANCERS.read_text())["rows"]
    return found


def loads_of(row: dict[str, Any], seed: int | None = None) -> Any:
    """The load table of a row: recorded, or drawn with the row's seed or another one."""
    if "file" in row:
        return read_loads(str(HERE / row["file"])).loads
    sizes = {key: row[key] for key in ("layers", "experts", "top_k", "tokens", "seed")}
    if seed is not None:
        sizes["seed"] = seed
    return generate(row["generator"], **sizes, **row["parameters"]).loads


def instance_of(row: dict[str, Any], loads: Any, **rules: Any) -> PlacementInstance:
    """The instance of a row, with further rules if given."""
    shape = {key: row[key] for key in ("gpus", "slots", "nodes", "groups")}
    return PlacementInstance(loads, name=row["name"], **shape, **rules)
