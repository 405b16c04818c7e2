"""Collectives: latency and bandwidth of each operation on so many ranks, from a table of times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import BaseModel

from moeopt.calibrate.fit import Errors, Frozen, errors_of, held_out_error, least_deviations, outside
from moeopt.calibrate.names import OPS
from moeopt.calibrate.table import Table
from moeopt.cost.collectives import collective_schedule
from moeopt.cost.links import Link
from moeopt.errors import Violations

OP, RANKS = ("op", "op_name"), ("ranks", "num_gpus")
ELEMENT_BYTES = {"half": 2.0, "bfloat16": 2.0, "float16": 2.0, "float": 4.0, "int8": 1.0, "fp8": 1.0}
FEWEST = 3


class CollectiveFit(BaseModel):
    """``t = alpha + bytes / beta`` of one operation on so many ranks.

    Parameters
    ----------
    op, ranks, gpu
        What was measured; the GPU as the table has it, or as it was named.
    alpha_s, bytes_per_s
        Latency of the whole operation, and bytes of a rank's buffer a second (no bus bandwidth); ``None`` where the
        measurements show no growth with the size.
    errors, ranges, notes
        As of a kernel.
    """

    model_config = Frozen
    op: str
    ranks: int
    gpu: str
    alpha_s: float
    bytes_per_s: float | None
    errors: Errors
    ranges: dict[str, tuple[float, float]] = {}
    notes: list[str] = []

    def seconds(self, size_bytes: float) -> float:
        """Seconds of a buffer of so many bytes."""
        return self.alpha_s + (size_bytes / self.bytes_per_s if self.bytes_per_s else 0.0)

    def outside(self, size_bytes: float) -> list[str]:
        """Whether this is an extrapolation, in words."""
        return outside(self.ranges, {"bytes": size_bytes})

    def link(self) -> Link | None:
        """The link with which `moeopt.cost.collective_s` gives these times; ``None`` where there is no bandwidth.

        Of the first algorithm of the operation there: rings, and for an all-to-all one latency for all peers.
        """
        if self.bytes_per_s is None:
            return None
        stage = collective_schedule(self.op, ranks=self.ranks).inner
        return Link(self.alpha_s / stage.steps, self.bytes_per_s * float(stage.part))


def is_collective_table(table: Table) -> bool:
    """Whether the columns are those of collectives."""
    return all(table.find(names) for names in (OP, RANKS, ("bytes", "message_size")))


def fit_collectives(table: Table, gpu: str | None, skipped: list[str]) -> Iterator[CollectiveFit]:
    """A fit for each operation, number of ranks and GPU; what cannot be fitted goes into `skipped`."""
    check = Violations(table.source)
    notes = []
    ranks = table.numbers(RANKS, check)
    for place in np.flatnonzero((ranks < 2) | (np.isfinite(ranks) & (ranks % 1 != 0))).tolist():
        rule, fix = "must be a whole number >= 2", "Leave the row out"
        check.add("ranks", float(ranks[place]), rule=rule, fix=fix, where=f"row {place + 1}")
    if table.find(("bytes",)):
        sizes = table.numbers(("bytes",), check)
        column, unit = table.seconds_column() or ("seconds", 1.0)
    else:  # elements, and milliseconds
        dtypes = table.words(("nccl_dtype", "dtype"), "half")
        sizes = table.numbers(("message_size",), check) * np.array([ELEMENT_BYTES.get(name, 2.0) for name in dtypes])
        notes.append("message_size is taken as elements of the row's format (half: 2 bytes), latency as milliseconds")
        column, unit = ("latency", 1e-3) if "latency" in table.columns else table.seconds_column() or ("seconds", 1.0)
    seconds = table.numbers((column,), check) * unit
    check.raise_if_any()
    devices = [gpu] * len(table) if gpu else table.words(("gpu", "device"), "")
    keys = list(zip(table.words(OP, ""), ranks.astype(int).tolist(), devices, strict=True))
    for key in sorted(set(keys)):
        op, number, device = key
        name = ", ".join(str(part) for part in (op, f"{number} ranks", device) if part)
        chosen = np.array([one == key for one in keys])
        if op.lower() not in OPS:
            skipped.append(f"{name}: {chosen.sum()} points of an operation that is not known; known: {', '.join(OPS)}")
            continue
        if len(set(sizes[chosen].tolist())) < FEWEST:
            skipped.append(f"{name}: fewer than {FEWEST} sizes")
            continue
        terms = np.stack([np.ones(chosen.sum()), sizes[chosen]], axis=1)
        found = least_deviations(terms, seconds[chosen])
        said = list(notes)
        if found[1] == 0:
            said.append("the bandwidth is not determined: times do not grow with the size")
        yield CollectiveFit(
            op=OPS[op.lower()],
            ranks=number,
            gpu=device or "",
            alpha_s=float(found[0]),
            bytes_per_s=None if found[1] == 0 else float(1 / found[1]),
            errors=errors_of(terms @ found, seconds[chosen], held_out_error(terms, seconds[chosen])),
            ranges={"bytes": (float(sizes[chosen].min()), float(sizes[chosen].max()))},
            notes=said,
        )
