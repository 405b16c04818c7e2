"""Sample files of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moeopt.cluster import read_topology

FOLDER = Path(__file__).parents[1] / "data" / "topologies"


def read(name: str, **options: Any) -> Any:
    """What a sample is read as."""
    return read_topology(FOLDER / name, **options)
