"""Run a grid into a folder: what is done already stays, every other cell is run once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moeopt import kinds
from moeopt.bench.cell import Cell, run_cell
from moeopt.bench.folder import kept, read_times, tidy, write_cell
from moeopt.bench.grid import Grid
from moeopt.executors import Lost, run_all
from moeopt.executors.spoken import Given, made_of


@dataclass(frozen=True)
class Ran:
    """How many cells were run now and how many were there, and those that no worker could end, with the reason."""

    ran: int
    kept: int
    lost: tuple[tuple[Cell, str], ...] = ()


@kinds.expects(grid="moeopt.bench.grid:Grid", folder=kinds.path, on_cell=kinds.callback)
def run_grid(
    grid: Grid,
    folder: str | Path,
    *,
    executor: Given = None,
    on_cell: Callable[[int, int], Any] | None = None,
    on_result: Callable[[int, dict[str, Any]], Any] | None = None,
) -> Ran:
    """Run every cell whose result is not in the folder yet; the same files come of it however it is cut and spread.

    Parameters
    ----------
    folder
        Made if it is not there, but not its parents.
    executor
        As `moeopt.executors.run_all` takes it.
    on_cell
        Called with how many are done and how many there are.
    on_result
        Called with the place of a cell in the grid and its result, as `read_cells` would give it: first for what was
        there, then for each as it is done.

    Raises
    ------
    InstanceError
        The folder cannot be written.
    KeyboardInterrupt
        Results so far are in the folder.

    Notes
    -----
    Under a time limit results depend on the machine, and on how much runs beside them.

    >>> import tempfile
    >>> drawn = {"generator": "zipf", "layers": 1, "experts": 4, "top_k": 1}
    >>> grid = Grid(("lpt",), {"g2": {"gpus": 2, "slots": 4}}, {"drawn": drawn})
    >>> with tempfile.TemporaryDirectory() as here:
    ...     run_grid(grid, here), run_grid(grid, here)
    (Ran(ran=1, kept=0, lost=()), Ran(ran=0, kept=1, lost=()))
    """
    from moeopt.errors import InstanceError, Violation

    executor = made_of(executor)
    place = Path(folder)
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        rule = f"cannot be made ({error.strerror or error})"
        raise InstanceError([Violation("output", "", str(folder), rule, "Give a folder in one that exists")]) from None
    tidy(place)
    cells = list(grid.cells())
    times = {} if on_result is None else read_times(place)
    missing = []
    for index, cell in enumerate(cells):
        found = kept(place, cell)
        if found is None:
            missing.append(index)
        elif on_result is not None:
            on_result(index, {**found, "runtime_s": times.get(cell.fingerprint)})
    total, count = len(cells), len(cells) - len(missing)
    lost = []
    if on_cell is not None:
        on_cell(count, total)
    for at, document in run_all(run_cell, [cells[index] for index in missing], executor):
        cell = cells[missing[at]]
        if isinstance(document, Lost):
            lost.append((cell, document.reason))
        else:
            write_cell(place, cell, document)
            if on_result is not None:
                on_result(missing[at], document)
        count += 1
        if on_cell is not None:
            on_cell(count, total)
    return Ran(len(missing) - len(lost), total - len(missing), tuple(lost))
