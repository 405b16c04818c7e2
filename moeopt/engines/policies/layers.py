"""What comes before planning: whole numbers, and layers without loads, which nothing can be planned for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.options import Options
from moeopt.engines.policies.planning import Plan, plan
from moeopt.engines.policies.shape import Ints, Shape, legal_rows, start_up
from moeopt.limits import Deadline


def with_idle_layers(loads: Ints, shape: Shape, old: Ints | None, options: Options, deadline: Deadline) -> Plan:
    """`plan` for the layers that have loads; idle ones keep what runs, or get the start-up map."""
    busy = loads.any(axis=1)
    resting = start_up(shape)
    if old is not None:
        resting = np.where(legal_rows(shape, old)[:, None], old, resting)
    if busy.all():
        return plan(loads, shape, old, options, deadline)
    zero = np.zeros(len(loads))
    out = Plan(resting, zero, zero.copy(), zero.copy(), None if old is None else zero.copy())
    if busy.any():
        rows = np.flatnonzero(busy)
        part = replace(shape, num_layers=len(rows))
        found = plan(loads[rows], part, None if old is None else old[rows], options, deadline)
        out.held[rows], out.top[rows], out.bound[rows], out.ideal[rows] = (
            found.held,
            found.top,
            found.bound,
            found.ideal,
        )
        if out.before is not None and found.before is not None:
            out.before[rows] = found.before
        out.searched, out.open, out.notes = found.searched, found.open, found.notes
    else:
        out.notes.append("no loads yet")
    return out


def whole(loads: NDArray[np.number]) -> Ints:
    """Loads as whole numbers: as they are if they are whole, else every layer scaled so that 2**40 is its largest.

    Plans are compared within layers, so a scale a layer changes nothing but 12 digits.

    >>> whole(np.array([[0.5, 0.25]])).tolist()
    [[1099511627776, 549755813888]]
    """
    if loads.dtype.kind in "iub" and (not loads.size or int(loads.max()) < 2**62):
        return loads.astype(np.int64)
    table = loads.astype(np.float64)
    if table.max() < 2**53 and (table == np.rint(table)).all():
        return table.astype(np.int64)
    largest = table.max(axis=1, keepdims=True)
    return np.asarray(np.rint(table / np.where(largest > 0, largest, 1.0) * 2.0**40), dtype=np.int64)
