"""The methods of the house."""

from __future__ import annotations

from collections.abc import Callable

from moeopt.mesh import exact, purchase
from moeopt.mesh.brute_force import brute_force, too_many
from moeopt.mesh.covering import Counts
from moeopt.mesh.heuristics.megascale import megascale, not_apart
from moeopt.mesh.heuristics.per_price import per_price
from moeopt.mesh.heuristics.recipe import no_shapes, recipe
from moeopt.mesh.heuristics.uniform import not_one_price, uniform
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import market_of
from moeopt.mesh.plan import MeshPlan, plan_of
from moeopt.mesh.problem import house
from moeopt.registry import Context, Method, Outcome


def _counted(choose: Callable[[MeshInstance], Counts | None]) -> Callable[[MeshInstance, Context], Outcome[MeshPlan]]:
    def run(instance: MeshInstance, context: Context) -> Outcome[MeshPlan]:
        counts = choose(instance)
        if counts is None:
            return Outcome(None, notes=["no plan found: the stock ran out before everything was served"])
        return Outcome(plan_of(instance, counts))

    return run


def _per_price(instance: MeshInstance) -> Counts | None:
    return per_price(market_of(instance), enough=instance.objective != "goodput")


def _auto(instance: MeshInstance, context: Context) -> Outcome[MeshPlan]:
    if purchase.no_table(instance) is None:
        found = _counted(purchase.by_tables)(instance, context)
        if found.plan is not None:
            return found
    return exact.solve_exact(instance, context)


METHODS = (
    Method(
        "per_price", _counted(_per_price), "most requests per GPU or price first, for whoever is behind", "baseline"
    ),
    Method("recipe", _counted(recipe), "tensor parallel in the node, data parallel across", "baseline", no_shapes),
    Method("megascale", _counted(megascale), "attention and experts apart as published", "baseline", not_apart),
    Method("uniform", _counted(uniform), "one configuration for each phase of each demand", "baseline", not_one_price),
    Method("brute_force", _counted(brute_force), "every purchase, one after another", "exact", too_many),
    Method(
        "covering",
        _counted(purchase.by_tables),
        "tables of what every number of GPUs serves, in whole numbers",
        "exact",
        purchase.no_table,
    ),
    Method("exact", exact.solve_exact, "the programme by a MILP solver", "exact when it ends"),
    Method("auto", _auto, "covering where there is a table, else exact", "as reached"),
)

for _method in METHODS:
    house(_method)
