"""Grids of policies, shapes, loads and seeds: one result file a cell, gone on with after a kill, pivoted into a table.

>>> from moeopt import bench
>>> grid = bench.Grid.from_dict({
...     "policies": ["contiguous", "lpt"],
...     "shapes": {"four": {"gpus": 4, "slots": 8}},
...     "loads": {"steep": {"generator": "zipf", "alpha": 1.2, "layers": 2, "experts": 6, "top_k": 2}},
...     "seeds": [0, 1],
... })
>>> documents = [bench.run_cell(cell) for cell in grid.cells()]
>>> print(bench.pivot(documents, ["policy", "shape"], "imbalance_mean").as_text())
policy        four
contiguous  1.8757
lpt         1.0801
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.bench.public import *  # noqa: F403

__all__ = [
    "METRICS",
    "Cell",
    "Grid",
    "Pivot",
    "pivot",
    "read_cells",
    "read_grid",
    "run_cell",
    "run_grid",
]


__getattr__ = exports(__name__, __all__)
