"""What `moeopt.bench` offers."""

from __future__ import annotations

from moeopt.bench.cell import Cell, run_cell
from moeopt.bench.folder import read_cells
from moeopt.bench.grid import Grid
from moeopt.bench.grid_file import read_grid
from moeopt.bench.run import run_grid
from moeopt.bench.tables import METRICS, Pivot, pivot

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
