"""Decode steps: seconds by batch and context, from a table of inter-token latencies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import BaseModel

from moeopt.calibrate.fit import Errors, Frozen, errors_of, held_out_error, least_deviations, outside
from moeopt.calibrate.table import Table
from moeopt.errors import Violations

FEWEST = 4


class StepFit(BaseModel):
    """``t = fixed + a batch + b batch context``: what every step costs, what a sequence adds, what its cache adds.

    Parameters
    ----------
    config
        What was measured.
    fixed_s, per_sequence_s, per_cached_token_s
        The constants; 0 where the measurements show none.
    errors, ranges, notes
        As of a kernel.
    """

    model_config = Frozen
    config: str
    fixed_s: float
    per_sequence_s: float
    per_cached_token_s: float
    errors: Errors
    ranges: dict[str, tuple[float, float]] = {}
    notes: list[str] = []

    def seconds(self, batch: float, context: float = 0.0) -> float:
        """Seconds of a step of so many sequences of so many tokens."""
        return self.fixed_s + batch * (self.per_sequence_s + self.per_cached_token_s * context)

    def outside(self, batch: float, context: float | None = None) -> list[str]:
        """Whether this is an extrapolation, in words."""
        return outside(self.ranges, {"batch": batch} | ({} if context is None else {"context": context}))


def is_step_table(table: Table) -> bool:
    """Whether the columns are those of decode steps."""
    return bool(table.find(("batch", "batch_size"))) and table.seconds_column() is not None


def fit_steps(table: Table, skipped: list[str]) -> Iterator[StepFit]:
    """A fit for each configuration; what cannot be fitted goes into `skipped`."""
    check = Violations(table.source)
    batch = table.numbers(("batch", "batch_size"), check)
    with_context = table.find(("context", "seq_len")) is not None
    context = table.numbers(("context", "seq_len"), check, default=1.0)
    column, unit = table.seconds_column() or ("seconds", 1.0)
    seconds = table.numbers((column,), check) * unit
    check.raise_if_any()
    configs = np.array(table.words(("config", "engine", "name"), "all rows"))
    for config in sorted(set(configs.tolist())):
        chosen = configs == config
        count = int(chosen.sum())
        use = np.array([True, True, with_context and len(set(context[chosen].tolist())) > 1])
        if count < FEWEST or len(set(batch[chosen].tolist())) < 2:
            skipped.append(f"{config}: {count} points of {len(set(batch[chosen].tolist()))} batches are too few")
            continue
        terms = np.stack([np.ones(count), batch[chosen], batch[chosen] * context[chosen]], axis=1)
        found = np.zeros(3)
        found[use] = least_deviations(terms[:, use], seconds[chosen])
        ranges = {"batch": (float(batch[chosen].min()), float(batch[chosen].max()))}
        notes = []
        if with_context:
            ranges["context"] = (float(context[chosen].min()), float(context[chosen].max()))
        if not use[2]:
            notes.append("what a cached token adds is not determined: one context was measured")
        yield StepFit(
            config=config,
            fixed_s=float(found[0]),
            per_sequence_s=float(found[1]),
            per_cached_token_s=float(found[2]),
            errors=errors_of(terms @ found, seconds[chosen], held_out_error(terms[:, use], seconds[chosen])),
            ranges=ranges,
            notes=notes,
        )
