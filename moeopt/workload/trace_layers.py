"""What a trace has told of one layer so far, and the runs of equal rows that may be made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.workload.dummies import SHORTEST, Run, least_run, shared_runs


@dataclass
class LayerSoFar:
    """What is known of one layer so far."""

    rows: int = 0
    padded: int = 0
    zeros: int = 0
    first_zero: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    last: NDArray[Any] | None = None
    run_first: int = 0
    runs: list[Run] = field(default_factory=list)
    alike: int = 0
    steps: list[NDArray[np.int64]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """A buffer for a layer without experts: rows of zeros, or padding, and nothing else."""
        return self.zeros == self.rows - self.padded


def dummy_runs(states: list[LayerSoFar]) -> tuple[Run, ...]:
    """Runs of equal rows in all layers that route at all."""
    layers, found = [], []
    for state in states:
        runs = list(state.runs)
        if state.rows - state.run_first >= SHORTEST and state.last is not None:
            runs.append(Run(state.run_first, state.rows - state.run_first, (_set(state.last),)))
        inside = sum(run.rows for run in runs)
        alike = state.alike - sum(run.rows - 1 for run in runs)
        least = least_run(state.rows, alike, max(state.rows - inside - 1, 0))
        found.append([run for run in runs if run.rows >= least and run.experts[0]])
        if not state.idle:
            layers.append(found[-1])
    runs = []
    for first, end in shared_runs(layers):
        sets = [
            () if state.idle else next(r.experts[0] for r in mine if r.first <= first and end <= r.first + r.rows)
            for state, mine in zip(states, found, strict=True)
        ]
        runs.append(Run(first, end - first, tuple(sets)))
    return tuple(runs)


def note_run(state: LayerSoFar, first: int, end: int, row: NDArray[Any]) -> None:
    """Keep a run of equal rows."""
    state.runs.append(Run(first, end - first, (_set(row),)))


def _set(row: NDArray[Any]) -> tuple[int, ...]:
    return tuple(int(expert) for expert in row if expert >= 0)


def grown(counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Counts with room for so many experts."""
    return counts if len(counts) >= size else np.concatenate([counts, np.zeros(size - len(counts), dtype=np.int64)])
