"""Options of the verbs of single problems, as `moeopt compare` takes them: those that it has not got already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from moeopt.cli.collocate_options import Sharing, Travel
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_options import Asked, Choice, Fleet
from moeopt.cli.options import Shape
from moeopt.cli.route_input import Hosts

MESH = (WhichLlm, Fleet, Asked, Choice)
OF_MESH = {"gpus": 0, "engine": 0, "hf_config": 0, "llm": 0, "cluster": 1, "transport": 1, "objective": 2}
"""Options of a mesh that other problems have by the same name: of `Shape`, `Travel` or `Sharing`."""
OF_HOSTS = ("gpus", "nodes", "speed", "floor_tokens", "steps", "drop")
"""Options of a routing that `Shape` has."""


def typed(names: Collection[str]) -> list[str]:
    """Names of fields as options.

    >>> typed(["floor_tokens"])
    ['--floor-tokens']
    """
    return [f"--{name.replace('_', '-')}" for name in names]


def options_of(*groups: Any) -> list[str]:
    """All options of some groups."""
    return typed([one.name for group in groups for one in fields(group)])


def _given(own: Any) -> list[str]:
    return typed([one.name for one in fields(own) if getattr(own, one.name) != one.default])


def _others(name: str, panel: str, groups: Sequence[Any], shared: Collection[str]) -> type:
    """A group of the options of several groups that are not shared, in a panel of their own."""
    found = []
    for group in groups:
        hints = get_type_hints(group, include_extras=True)
        for one in fields(group):
            if one.name not in shared:
                kind, option = get_args(hints[one.name])
                option = copy(option)
                option.rich_help_panel = panel
                found.append((one.name, Annotated[kind, option], one.default))
    return make_dataclass(name, found, frozen=True, namespace={"given": _given})


if TYPE_CHECKING:

    @dataclass(frozen=True)
    class MeshOptions:
        """The options of ``moeopt mesh`` that no other problem has."""

        def given(self) -> list[str]:
            """Those that were given, as they are typed."""

    @dataclass(frozen=True)
    class RouteOptions:
        """The options of ``moeopt route`` that no other problem has."""

        base: str | None = None
        integer: bool = False

        def given(self) -> list[str]:
            """Those that were given, as they are typed."""
else:
    MeshOptions = _others("MeshOptions", "Mesh, as moeopt mesh has them", MESH, OF_MESH)
    RouteOptions = _others("RouteOptions", "Routing, as moeopt route has them", (Hosts,), OF_HOSTS)


def hosts_of(shape: Shape, own: RouteOptions) -> Hosts:
    """The options of a routing from both groups that have them."""
    return Hosts(**{name: getattr(shape, name) for name in OF_HOSTS}, base=own.base, integer=own.integer)


def mesh_groups(shape: Shape, travel: Travel, sharing: Sharing, own: MeshOptions) -> list[Any]:
    """The groups of ``moeopt mesh`` from all that have their options."""
    taken = (shape, travel, sharing)
    values = {name: getattr(taken[place], name) for name, place in OF_MESH.items()}
    if values["cluster"] is not None:
        values["cluster"] = ",".join(values["cluster"])
    made = []
    for group in MESH:
        names = [one.name for one in fields(group)]
        made.append(group(**{name: values[name] if name in OF_MESH else getattr(own, name) for name in names}))
    return made
