"""Expert placement with replicas: how many copies of each expert, and the GPU of each; see ``models/placement.md``.

>>> from moeopt import placement
>>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=8, slots=8)
>>> result = placement.solve(instance, method="lpt")
>>> result.objective, str(result.status), result.solution["layers"][0]["replicas"]
(2.0, 'OPTIMAL', [4, 2, 1, 1])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moeopt.limits import Limits
from moeopt.placement import exact
from moeopt.placement.heuristics import eplb, equal_split, fold, search, simple
from moeopt.placement.heuristics import repair as mend
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.lasting import lost_if, survival
from moeopt.placement.memory_budget import memory_budget
from moeopt.placement.plan import Placement
from moeopt.placement.problem import PROBLEM, house
from moeopt.placement.slots_curve import slots_curve
from moeopt.placement.verify import Evaluation, faults
from moeopt.registry import Context, Method, Outcome, Progress
from moeopt.result import Result

KNOWN_TO_ALL: frozenset[str] = frozenset({"lost", "windows", "base"})
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


def _equal(instance: PlacementInstance) -> str | None:
    return equal_split.applies(instance) or _unknown(instance, equal_split.KNOWS)


def _repaired(instance: PlacementInstance) -> str | None:
    return mend.applies(instance) or _unknown(instance, ("lost", "moves", "min_replicas", "survive_nodes"))


def _automatic(instance: PlacementInstance) -> str | None:
    return _repaired(instance) if "lost" in instance.extras else _searched(instance)


def auto(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """A repair where GPUs of a running plan are gone, else the search, and the exact programme where it is small."""
    return mend.repair(instance, context) if "lost" in instance.extras else exact.solve_auto(instance, context)


def _searched(instance: PlacementInstance) -> str | None:
    return search.applies(instance) or _unknown(instance)


for _method in (
    Method("contiguous", simple.contiguous, "experts in order, slot after slot", "baseline", _flat_only),
    Method("round_robin", simple.round_robin, "experts in order, one GPU after another", "baseline", _flat_only),
    Method("snake", simple.snake, "replicas by load, dealt to and fro", "baseline", _flat_only),
    Method("lpt", eplb.lpt, "greedy counts, largest first, no doubles", "heuristic", _no_pins),
    Method("eplb", eplb.eplb, "the public rule, doubles swapped away", "heuristic", _no_pins),
    Method("eplb_raw", eplb.eplb_raw, "the public rule to the slot, in float32", "baseline", _raw),
    Method("fold", fold.fold, "two slots a GPU: heaviest with lightest", "heuristic", _two_slots),
    Method("search", search.search, "counts and packing together, never worse than eplb", "heuristic", _searched),
    Method("equal_split", equal_split.equal_split, "every GPU equally many tokens, few copies", "optimal", _equal),
    Method("repair", mend.repair, "after a failure: fewest loads and moves, then balance", "heuristic", _repaired),
    Method("exact", exact.solve_exact, "search, then a mixed-integer programme", "exact when it ends", _searched),
    Method("auto", auto, "search; exact where a layer is small and open; repair", "as reached", _automatic),
):
    house(_method)

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate


def repair(
    instance: PlacementInstance,
    *,
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Restore every expert of the running plan after GPUs were lost or retired: ``solve`` with method ``repair``.

    The fewest loads from storage (proved), then the fewest moves, then balance with what `max_moves` leaves. What was
    lost, what is loaded and copied, and from where, stands in ``solution["repair"]``.

    >>> instance = PlacementInstance([[4, 3, 2, 1]], gpus=3, slots=6, current=[[0, 1, 2, 0, 3, 1]], lost=[1])
    >>> repair(instance).solution["repair"]["layers"][0]["from_storage"]
    [[2, 0, 1]]
    """
    return solve(instance, method="repair", limits=limits, seed=seed, on_progress=on_progress)


__all__ = [
    "METHODS",
    "PROBLEM",
    "Evaluation",
    "Placement",
    "PlacementInstance",
    "compare",
    "evaluate",
    "faults",
    "lost_if",
    "memory_budget",
    "register",
    "repair",
    "slots_curve",
    "solve",
    "survival",
]
