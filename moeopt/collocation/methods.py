"""The methods of the house."""

from __future__ import annotations

from dataclasses import replace

from moeopt.collocation import exact
from moeopt.collocation.heuristics import greedy, kernighan_lin, search, simple, spectral
from moeopt.collocation.heuristics.repair import held_to_cap
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.problem import house
from moeopt.registry import Method


def _needs_pairs(instance: CollocationInstance) -> str | None:
    if not instance.transport.merges:
        return f"with {instance.transport.name} nothing is merged, so experts selected together save nothing"
    return None


METHODS = (
    Method("id_order", simple.id_order, "experts in order, as engines load them", "baseline"),
    Method("load_only", simple.load_only, "replicas by load, heaviest first; no pairs of experts", "baseline"),
    Method("greedy", greedy.greedy, "each expert where it adds fewest copies, most selected first", "heuristic"),
    Method(
        "kernighan_lin",
        kernighan_lin.kernighan_lin,
        "recursive bisection of the pair graph",
        "heuristic",
        _needs_pairs,
    ),
    Method("spectral", spectral.spectral, "eigenvectors of the pair graph, equal groups", "heuristic", _needs_pairs),
    Method("search", search.search, "swaps on exact copies from several starts", "heuristic"),
    Method(
        "exact", exact.solve_exact, "search, then the programme: tiny sizes", "exact when it ends", exact.no_programme
    ),
    Method("auto", search.search, "search", "as reached"),
)

for _method in METHODS:
    house(replace(_method, run=held_to_cap(_method.run)))
