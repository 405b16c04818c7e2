"""Expert placement with replicas: how many copies of each expert, and the GPU of each; see ``models/placement.md``.

>>> from moeopt import placement
>>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=8, slots=8)
>>> result = placement.solve(instance, method="lpt")
>>> result.objective, str(result.status), result.solution["layers"][0]["replicas"]
(2.0, 'OPTIMAL', [4, 2, 1, 1])
"""

from __future__ import annotations

from collections.abc import Iterable

from moeopt.placement import engine_rule, exact
from moeopt.placement.heuristics import dispatch, eplb, fold, search, simple
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.problem import PROBLEM, house
from moeopt.placement.verify import Evaluation, faults
from moeopt.registry import Method

KNOWN_TO_ALL: frozenset[str] = frozenset({"engine_split"})
"""Further rules (`PlacementInstance.extras`) that every method lives with, as the referee alone has to know them."""


def _unknown(instance: PlacementInstance, knows: Iterable[str] = ()) -> str | None:
    """Why a method that knows these further rules does not apply."""
    strange = sorted(instance.extras - KNOWN_TO_ALL - frozenset(knows))
    return f"it does not know these rules: {', '.join(strange)}" if strange else None


def _flat_only(instance: PlacementInstance) -> str | None:
    if instance.hierarchical:
        return "it knows no groups; use eplb, lpt or search"
    return _no_pins(instance)


def _no_pins(instance: PlacementInstance) -> str | None:
    return "it knows no pin and no forbid; use search" if instance.constrained else _unknown(instance)


def _two_slots(instance: PlacementInstance) -> str | None:
    return fold.applies(instance) or _unknown(instance)


def _raw(instance: PlacementInstance) -> str | None:
    return eplb.raw_applies(instance) or _unknown(instance)


def _searched(instance: PlacementInstance) -> str | None:
    return search.applies(instance) or _unknown(instance)


def _programmed(instance: PlacementInstance) -> str | None:
    if engine_rule.fixed(instance):
        return f"its programme knows even and free parts, not {instance.split}; use search"
    return _searched(instance)


_search = dispatch.under_rule(search.search)
_exact = dispatch.under_rule(exact.solve_exact)
_auto = dispatch.under_rule(exact.solve_auto)

for _method in (
    Method("contiguous", simple.contiguous, "experts in order, slot after slot", "baseline", _flat_only),
    Method("round_robin", simple.round_robin, "experts in order, one GPU after another", "baseline", _flat_only),
    Method("snake", simple.snake, "replicas by load, dealt to and fro", "baseline", _flat_only),
    Method("lpt", eplb.lpt, "greedy counts, largest first, no doubles", "heuristic", _no_pins),
    Method("eplb", eplb.eplb, "the public rule, doubles swapped away", "heuristic", _no_pins),
    Method("eplb_raw", eplb.eplb_raw, "the public rule to the slot, in float32", "baseline", _raw),
    Method("fold", fold.fold, "two slots a GPU: heaviest with lightest", "heuristic", _two_slots),
    Method("search", _search, "counts and packing together, never worse than eplb", "heuristic", _searched),
    Method("exact", _exact, "search, then a mixed-integer programme", "exact when it ends", _programmed),
    Method("auto", _auto, "search; exact where a layer is small and open", "as reached", _searched),
):
    house(_method)

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate

__all__ = [
    "METHODS",
    "PROBLEM",
    "Evaluation",
    "Placement",
    "PlacementInstance",
    "compare",
    "evaluate",
    "faults",
    "register",
    "solve",
]
