"""The methods of the house: to which instances each applies, and what `auto` and `search` do with a running plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moeopt.placement import engine_rule, exact
from moeopt.placement.heuristics import dispatch, eplb, equal_split, fold, repair, search, simple, windowed
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.problem import house
from moeopt.placement.replanning import method as replanning
from moeopt.registry import Context, Method, Outcome

Run = Callable[[PlacementInstance, Context], Outcome[Placement]]

KNOWN_TO_ALL: frozenset[str] = frozenset({"lost", "windows", "base", "engine_split"})
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


def _searched(instance: PlacementInstance) -> str | None:
    return windowed.applies(instance) or _unknown(instance, search.KNOWS)


def _programmed(instance: PlacementInstance) -> str | None:
    if engine_rule.fixed(instance):
        return f"its programme knows even and free parts, not {instance.split}; use search"
    return windowed.applies(instance) or _unknown(instance, ("min_replicas", "survive_nodes"))


def _repaired(instance: PlacementInstance) -> str | None:
    return repair.applies(instance) or _unknown(instance, ("lost", "moves", "min_replicas", "survive_nodes"))


def _replanned(instance: PlacementInstance) -> str | None:
    return replanning.applies(instance) or _unknown(instance, ("moves", "min_replicas", "survive_nodes"))


def _any(instance: PlacementInstance) -> str | None:
    if "lost" in instance.extras:
        return _repaired(instance)
    return _searched(instance) if instance.current is None else _replanned(instance)


def _from_running(run: Run) -> Run:
    """The method where nothing runs yet; where a plan runs, `replan`, and where GPUs of it are gone, `repair`."""

    def either(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
        if "lost" in instance.extras:
            return repair.repair(instance, context)
        return (run if instance.current is None else replanning.replan)(instance, context)

    return either


HEURISTIC, BASELINE = "heuristic", "baseline"
METHODS = (
    Method("contiguous", simple.contiguous, "experts in order, slot after slot", BASELINE, _flat_only),
    Method("round_robin", simple.round_robin, "experts in order, one GPU after another", BASELINE, _flat_only),
    Method("snake", simple.snake, "replicas by load, dealt to and fro", BASELINE, _flat_only),
    Method("lpt", eplb.lpt, "greedy counts, largest first, no doubles", HEURISTIC, _no_pins),
    Method("eplb", eplb.eplb, "the public rule, doubles swapped away", HEURISTIC, _no_pins),
    Method("eplb_raw", eplb.eplb_raw, "the public rule to the slot, in float32", BASELINE, _raw),
    Method("fold", fold.fold, "two slots a GPU: heaviest with lightest", HEURISTIC, _two_slots),
    Method(
        "search",
        _from_running(dispatch.under_rule(search.search)),
        "counts and packing together, never worse than eplb",
        HEURISTIC,
        _any,
    ),
    Method("equal_split", equal_split.equal_split, "every GPU equally many tokens, few copies", "optimal", _equal),
    Method("replan", replanning.replan, "from the running plan, for few moves", HEURISTIC, _replanned),
    Method("repair", repair.repair, "after a failure: fewest loads and moves, then balance", HEURISTIC, _repaired),
    Method(
        "exact", dispatch.under_rule(exact.solve_exact), "search, then the programme", "exact when it ends", _programmed
    ),
    Method(
        "auto",
        _from_running(dispatch.under_rule(exact.solve_auto)),
        "search; exact where a layer is small and open; replan or repair what runs",
        "as reached",
        _any,
    ),
)

for _method in METHODS:
    house(_method)
