"""The methods of the house."""

from __future__ import annotations

from moeopt.microbatch import exact
from moeopt.microbatch.heuristics import lpt, search, sweep
from moeopt.microbatch.problem import house
from moeopt.registry import Method

METHODS = (
    Method("lpt", lpt.lpt, "the longest waiting item first, every candidate simulated", "baseline", sweep.too_long),
    Method("simulate", sweep.simulate, "every candidate by the event simulator", "heuristic"),
    Method(
        "closed_form",
        sweep.closed_form,
        "every candidate by its formula",
        "optimal where its bound is met",
        sweep.no_formula,
    ),
    Method("search", search.search, "first come, first served; then other orders of what could still win", "heuristic"),
    Method("exact", exact.solve_exact, "the programme; on small sizes the order too", "exact when it ends"),
    Method("auto", search.search, "search", "as reached"),
)

for _method in METHODS:
    house(_method)
