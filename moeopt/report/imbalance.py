"""The table of imbalance that the mesh takes, made from loads: the slots curve at every EP, for one placement rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from moeopt.cost.checks import whole
from moeopt.errors import Violations
from moeopt.mesh.imbalance import Imbalance, Row
from moeopt.placement import PlacementInstance
from moeopt.placement.curve import feasible_redundant, slots_curve
from moeopt.workload.resample import to_experts

METHOD = "eplb"
"""The rule that most engines run; the search of this package is better by less than one per cent on these loads."""
EXTRA_SLOTS = (0, 1, 2, 4)
"""Slots of a rank beyond the fewest that hold every expert."""
DEGREES = (2, 4, *range(8, 168, 8), *range(176, 336, 16), *range(352, 673, 32), *range(704, 1025, 64))
"""Degrees of EP that are looked at, up to twice the experts."""


def imbalance_table(
    loads: ArrayLike,
    *,
    source: str,
    experts: int | None = None,
    together: bool = False,
    degrees: Iterable[int] | None = None,
    extra_slots: Sequence[int] = EXTRA_SLOTS,
    method: str = METHOD,
) -> Imbalance:
    """Busiest rank over the mean, mean of layers, for every EP and some numbers of redundant experts.

    Parameters
    ----------
    loads
        (L, E) selections; or (W, L, E), windows that one placement serves one after another: each layer then counts
        with the mean of its windows.
    source
        What the loads are, kept in the table with the rule of placement.
    experts
        E of the table; ``None``: that of the loads. Another number is reached by quantiles (`to_experts`) and said.
    together
        Windows are served all at once: their sum counts, not each alone.
    degrees
        EP to look at; those of `DEGREES` up to 2 E by default.
    extra_slots
        Slots of a rank beyond the fewest that hold every expert; a rank never has an expert twice.
    method
        Rule of placement, a method of `moeopt.placement`.

    Raises
    ------
    InstanceError
        Loads that are no table, an EP below 1.

    Notes
    -----
    Strength: measured on these loads, in the sample that the placement was fitted to. The noise of single steps comes
    on top of it (`moeopt.mesh.expectations`).

    >>> imbalance_table([[8, 4, 2, 2]], source="four experts", degrees=[2, 4], extra_slots=(0, 1)).rows
    ((2, 0, 1.25), (2, 2, 1.0), (4, 0, 2.0), (4, 4, 1.0))
    """
    given = np.asarray(loads, dtype=float)
    check = Violations()
    if given.ndim not in (2, 3):
        check.add("loads", f"{given.ndim} axes", rule="must be (layers, experts) or (windows, layers, experts)", fix="")
    for place, degree in enumerate(() if degrees is None else (degrees := tuple(degrees))):
        whole(check, **{f"degrees[{place}]": degree})
    check.raise_if_any()
    known = given.shape[-1]
    wanted = known if experts is None else experts
    said = f"{source}; placed by {method}, mean of layers"
    if wanted != known:
        given = to_experts(given, wanted)
        said += f"; {known} experts resampled to {wanted} by quantiles of their popularity"
    if together and given.ndim == 3:
        given = given.sum(axis=0)
    rows: list[Row] = []
    for ep in degrees if degrees is not None else (degree for degree in DEGREES if degree <= 2 * wanted):
        if ep == 1:
            rows.append((1, 0, 1.0))
        else:
            rows += _rows(given, ep, extra_slots, method)
    return Imbalance(said, tuple(rows), wanted)


def _rows(loads: np.ndarray, ep: int, extra_slots: Sequence[int], method: str) -> list[Row]:
    """The rows of one degree."""
    experts = loads.shape[-1]
    least = -(-experts // ep) * ep
    one = PlacementInstance(loads, gpus=ep, slots=least, combine="mean")
    feasible = set(feasible_redundant(one))
    wanted = [extra for more in sorted(set(extra_slots)) if (extra := least - experts + more * ep) in feasible]
    curve = slots_curve(one, redundant=wanted, method=method)
    found = {point.redundant: point.imbalance_mean for point in curve.points}
    best = np.inf
    rows: list[Row] = []
    for redundant in sorted(found):  # a greedy rule may do worse with a slot more; nobody has to use it
        best = min(best, found[redundant])
        rows.append((ep, redundant, round(max(best, 1.0), 4)))
    return rows
