"""What comes before planning: whole numbers, and layers without loads, which nothing can be planned for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.cover import Covered
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.plan import Plan
from moeopt.engines.policies.planning import plan
from moeopt.engines.policies.shape import Ints, Shape, start_up
from moeopt.limits import Deadline


def with_idle_layers(loads: Ints, shape: Shape, running: Covered | None, options: Options, deadline: Deadline) -> Plan:
    """`plan` for the layers that have loads; idle ones keep what runs, made full, or get the start-up map."""
    busy = loads.any(axis=1)
    if busy.all():
        return plan(loads, shape, running, options, deadline)
    zero = np.zeros(len(loads))
    held = start_up(shape) if running is None else running.held.copy()
    out = Plan(held, zero, zero.copy(), zero.copy(), None if running is None else zero.copy())
    rows = np.flatnonzero(busy)
    if len(rows):
        part = replace(shape, num_layers=len(rows))
        found = plan(loads[rows], part, None if running is None else running.part(rows), options, deadline)
        for name in ("held", "top", "bound", "ideal", "before"):
            if (values := getattr(found, name)) is not None:
                getattr(out, name)[rows] = values
        out.searched, out.open, out.stuck, out.notes = found.searched, found.open, found.stuck, found.notes
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
