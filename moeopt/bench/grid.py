"""A grid: four axes, each value with a name, checked as a whole before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from moeopt.bench.cell import Cell
from moeopt.errors import Violations, did_you_mean
from moeopt.limits import Limits

FIELDS = ("policies", "shapes", "loads", "seeds", "limits", "plans")
LIMITS = ("time_s", "gap", "iterations", "nodes")
SIZES = ("layers", "experts", "top_k", "tokens")
PARAMETERS = ("alpha", "sigma", "noise")
TOKENS = 100_000
CELLS_MAX = 10**6
NAMED_BY_LOADS = ("loads", "layers", "name")
"""Arguments of an instance that loads bring, and no shape."""


@dataclass(frozen=True)
class Grid:
    """Every policy on every shape under all loads, once a seed.

    Parameters
    ----------
    policies
        Methods of placement, or ``package.module:function``.
    shapes
        By name, the arguments of a `PlacementInstance` besides its loads: ``{"gpus": 32, "slots": 288}``.
    loads
        By name, a file, ``{"file": "loads.csv"}``, or what is drawn: ``{"generator": "zipf", "alpha": 1.0, "layers": 4,
        "experts": 64, "top_k": 6, "tokens": 100000}``. Where sizes are missing, the shape must be a deployment of
        `moeopt.workload.SHAPES` and brings them.
    seeds
        Of the method, and of what is drawn.
    limits
        Of every solve, as `Limits`; answers under a time limit differ from machine to machine.
    plans
        Whether results keep the experts in slots, and not their digest alone.

    >>> grid = Grid(("lpt", "search"), {"g4": {"gpus": 4, "slots": 8}}, {"drawn": {"generator": "zipf"}}, (0, 1, 2))
    >>> len(grid), next(grid.cells()).label
    (6, 'lpt, g4, drawn, seed 0')
    """

    policies: tuple[str, ...]
    shapes: Mapping[str, Mapping[str, Any]]
    loads: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...] = (0,)
    limits: Limits = field(default_factory=Limits)
    plans: bool = False

    def __len__(self) -> int:
        return len(self.policies) * len(self.shapes) * len(self.loads) * len(self.seeds)

    def cells(self) -> Iterator[Cell]:
        """All of them: policies slowest, seeds fastest."""
        axes = product(self.policies, self.shapes.items(), self.loads.items(), self.seeds)
        for policy, (shape, rules), (loads, drawn), seed in axes:
            yield Cell(policy, shape, dict(rules), loads, dict(drawn), seed, self.limits, self.plans)

    @classmethod
    def from_dict(cls, document: Any, source: str = "") -> Grid:
        """Read a document; a list stands for values that name themselves.

        Raises
        ------
        InstanceError
            Fields that are unknown, missing or of the wrong kind, policies, shapes or generators that nobody knows:
            all of them at once.

        >>> Grid.from_dict({"policies": ["lpt"], "shapes": ["mixtral_12_g4"], "loads": ["zipf", "uniform"]}).seeds
        (0,)
        >>> Grid.from_dict({"policies": ["lptt"], "shape": {}, "loads": []})
        Traceback (most recent call last):
        ...
        moeopt.errors.InstanceError: grid.shape = {}: is no field of a grid. Did you mean shapes?
        grid.shapes = missing: must be given. Give names with gpus and slots.
        grid.loads = []: must have a value at least. Give a generator or a file.
        grid.policies = lptt: is not a method of placement. Did you mean lpt?
        """
        check = Violations(source)
        if not isinstance(document, Mapping):
            check.add("grid", document, rule="must be a mapping of axes", fix="Give policies, shapes and loads")
            check.raise_if_any()
        for name in document:
            if name not in FIELDS:
                fix = did_you_mean(str(name), FIELDS, "Leave it out", most=1)
                check.add(f"grid.{name}", document[name], rule="is no field of a grid", fix=fix)
        policies = _list(document, "policies", "methods such as lpt and search", check)
        shapes = _named(document, "shapes", "names with gpus and slots", _shape, check)
        loads = _named(document, "loads", "a generator or a file", _loads, check)
        seeds = _list(document, "seeds", "whole numbers", check) if "seeds" in document else [0]
        for seed in seeds:
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                check.add("grid.seeds", seed, rule="must be whole numbers >= 0", fix="Use [0, 1, 2]")
        _known_policies(policies, check)
        limits = _limits(document.get("limits", {}), check)
        plans = document.get("plans", False)
        if not isinstance(plans, bool):
            check.add("grid.plans", plans, rule="must be true or false", fix="Leave it out")
        check.raise_if_any()
        found = cls(tuple(policies), shapes, loads, tuple(seeds), limits, plans)
        if len(found) > CELLS_MAX:
            rule = f"has more than {CELLS_MAX:,} cells"
            check.add("grid", f"{len(found):,} cells", rule=rule, fix="Cut it into several grids")
        _sizes_known(found, check)
        check.raise_if_any()
        return found


def _list(document: Mapping[str, Any], name: str, what: str, check: Violations) -> list[Any]:
    """Values of an axis, each once."""
    found = document.get(name)
    if found is None:
        check.add(f"grid.{name}", "missing", rule="must be given", fix=f"Give {what}")
        return []
    if not isinstance(found, list | tuple):
        check.add(f"grid.{name}", found, rule="must be a list", fix=f"Give {what}, as [a, b]")
        return []
    if not found:
        check.add(f"grid.{name}", "[]", rule="must have a value at least", fix=f"Give {what}")
    seen: set[str] = set()
    for place, value in enumerate(found):
        if repr(value) in seen:
            check.add(f"grid.{name}", value, rule="stands twice", fix="Leave one out", where=str(place))
        seen.add(repr(value))
    return list(found)


def _named(document: Mapping[str, Any], name: str, what: str, read: Any, check: Violations) -> dict[str, Any]:
    """Values of an axis by their names; a list has the names alone."""
    found = document.get(name)
    values = found if isinstance(found, Mapping) else {one: one for one in _list(document, name, what, check)
                                                       if isinstance(one, str)}  # fmt: skip
    if isinstance(found, list | tuple):
        for one in found:
            if not isinstance(one, str):
                fix = f"Write name: {one}" if isinstance(one, Mapping) else "Give a name"
                check.add(f"grid.{name}", one, rule="in a list must be a name", fix=fix)
    elif isinstance(found, Mapping) and not found:
        check.add(f"grid.{name}", "{}", rule="must have a value at least", fix=f"Give {what}")
    made = {}
    for key, value in values.items():
        made[str(key)] = read(f"grid.{name}.{key}", value, check)
    return made


def _shape(where: str, value: Any, check: Violations) -> dict[str, Any]:
    """Arguments of an instance; a name alone is a known deployment."""
    from moeopt.placement import PlacementInstance
    from moeopt.workload import SHAPES

    if isinstance(value, str):
        value = {"deployment": value}
    if not isinstance(value, Mapping):
        check.add(where, value, rule="must be a mapping", fix="Give gpus and slots")
        return {}
    known = [name for name in inspect.signature(PlacementInstance).parameters if name not in NAMED_BY_LOADS]
    for name in value:
        if name not in known and name != "deployment":
            check.add(
                f"{where}.{name}",
                value[name],
                rule="is no rule of a shape",
                fix=did_you_mean(str(name), known, "Drop it", most=1),
            )
    deployment = value.get("deployment")
    if deployment is None:
        for name in ("gpus", "slots"):
            if name not in value:
                check.add(f"{where}.{name}", "missing", rule="must be given", fix="Give it, or a deployment")
    elif deployment not in SHAPES:
        fix = did_you_mean(str(deployment), SHAPES, f"Known are {', '.join(SHAPES)}", most=1)
        check.add(where, deployment, rule="is no known deployment", fix=fix)
    return dict(value)


def _loads(where: str, value: Any, check: Violations) -> dict[str, Any]:
    """A file, or a generator with its numbers; a name alone is a generator."""
    from moeopt.workload import GENERATORS

    if isinstance(value, str):
        value = {"generator": value}
    if not isinstance(value, Mapping):
        check.add(where, value, rule="must be a mapping", fix="Give a generator or a file")
        return {}
    known = ["file"] if "file" in value else ["generator", "seed", *SIZES, *PARAMETERS]
    for name in value:
        if name not in known:
            check.add(f"{where}.{name}", value[name], rule="does not belong here", fix=f"Known are {', '.join(known)}")
    if ("file" in value) == ("generator" in value):
        check.add(where, dict(value), rule="needs either a generator or a file", fix="Give one of them")
    elif "file" in value and not isinstance(value["file"], str):
        check.add(f"{where}.file", value["file"], rule="must be a path", fix="Give the path of loads")
    elif "file" not in value and str(value["generator"]) not in GENERATORS:
        fix = did_you_mean(str(value["generator"]), GENERATORS, f"Known are {', '.join(GENERATORS)}", most=1)
        check.add(f"{where}.generator", value["generator"], rule="is not a generator", fix=fix)
    return dict(value)


def _known_policies(policies: list[Any], check: Violations) -> None:
    from moeopt.placement import METHODS

    for name in policies:
        if not isinstance(name, str):
            check.add("grid.policies", name, rule="must be the name of a method", fix="Use lpt or search")
        elif ":" not in name and name not in METHODS:
            fix = did_you_mean(name, METHODS, f"Known are {', '.join(METHODS)}, or package.module:function", most=1)
            check.add("grid.policies", name, rule="is not a method of placement", fix=fix)


def _limits(given: Any, check: Violations) -> Limits:
    if not isinstance(given, Mapping):
        check.add("grid.limits", given, rule="must be a mapping", fix="Give time_s or iterations")
        return Limits()
    for name in given:
        if name not in LIMITS:
            fix = did_you_mean(str(name), LIMITS, f"Known are {', '.join(LIMITS)}", most=1)
            check.add(f"grid.limits.{name}", given[name], rule="is no limit", fix=fix)
    with check.within():
        return Limits(**{name: value for name, value in given.items() if name in LIMITS})
    return Limits()


def _sizes_known(grid: Grid, check: Violations) -> None:
    """Loads that are drawn have their sizes, of their own or of every shape."""
    bare = [name for name, rules in grid.shapes.items() if "deployment" not in rules]
    for name, drawn in grid.loads.items():
        missing = [size for size in SIZES[:3] if "file" not in drawn and size not in drawn]
        if missing and bare:
            rule = f"needs {', '.join(missing)}, which shape {bare[0]} does not bring"
            check.add(f"grid.loads.{name}", drawn, rule=rule, fix="Give them, or name deployments as shapes")
