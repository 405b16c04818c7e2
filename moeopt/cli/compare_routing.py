"""Splits compared on a fixed placement: even parts, rules of engines, and the best of all with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from moeopt.cli.compare_options import OF_HOSTS, RouteOptions, options_of, typed
from moeopt.cli.compare_room import Asked, Room
from moeopt.cli.route_files import RESULT_SAID, document_of
from moeopt.cli.route_input import COLLOCATED, PLACEMENT, read_given, schema_of
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.limits import Limits
    from moeopt.routing import RoutingInstance


class RoutingRoom(Room):
    """A routing instance, or a plan, a map or a routing and the loads that are routed."""

    name = "routing"
    what = "a routing"
    takes = (*options_of(RouteOptions), *typed(OF_HOSTS))
    rival = "even"
    heads: ClassVar = {
        "Imbalance, mean": "imbalance",
        "Imbalance, worst": "worst",
        "Gap to best bound, all": "gap",
        "Gap to best bound, worst layer": "worst gap",
        "Stay on their node": "local",
    }

    def read(self, asked: Asked, say: Say) -> tuple[RoutingInstance, Sequence[str]]:
        """With the rule by which the plan's engine splits, where it says one."""
        if not asked.inputs:
            rule = "is needed: a plan, map or routing and its loads, or a routing instance"
            raise InstanceError([Violation("INPUT", "", "missing", rule, "Give it first")])
        given = read_given(asked.inputs[0], asked.inputs[1:], asked.hosts, say)
        noted = () if given.rule is None else (f"the plan was made for an engine that splits by {given.rule}",)
        return given.instance, noted

    def default(self, instance: Any, asked: Asked, say: Say) -> list[str]:
        """Without what is for several nodes, where there is one."""
        names = super().default(instance, asked, say)
        return names if len(set(instance.node)) > 1 else [name for name in names if name not in OF_NODES]

    def prepare(self, instance: Any, names: Sequence[str], limits: Limits) -> None:
        """Compiled code is loaded, by a split of its own."""
        from moeopt.routing import RoutingInstance

        if limits.time_s is None:
            self.problem.solve(RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2), method="newton")

    def plan(self, path: str, instance: Any) -> Any:
        """A routing that was written."""
        from moeopt.routing.result_document import as_plan, read_result

        found = document_of(path)
        if found is None or found[0] != RESULT_SAID:
            fix = "Write one with moeopt route -o routing.json"
            raise InstanceError([Violation("--plans", "", path, f"is no {RESULT_SAID}", fix)])
        return as_plan(read_result(found[1], path), instance.layers, path)


OF_NODES = ("local_first", "sglang_static_node")
LEAST_EXPERTS = 8
"""Fewer could be the counts of a toy."""


def is_routing(asked: Asked) -> bool:
    """Whether an option or the first input says so."""
    from moeopt.cli.piped import file_of
    from moeopt.engines.kinds import MAPS, what_is

    if asked.routing.given():
        return True
    if not asked.inputs or asked.fit or asked.score:
        return False
    path = asked.inputs[0]
    if document_of(path) is not None:
        return True
    if len(asked.inputs) == 1:
        return False
    with file_of(path) as file:
        known = schema_of(path).startswith((PLACEMENT, COLLOCATED)) or what_is(file) in MAPS
    return known or _is_table_of_slots(path)


def _is_table_of_slots(path: str) -> bool:
    """Whether a table without a name has every expert in every row: no loads look like that."""
    import numpy as np

    from moeopt.cli.verify_map import map_of

    try:
        found = map_of(path)
    except InstanceError:  # a recording, or broken: whoever reads it says so
        return False
    if found is None or found[0] is None:
        return False
    slots = found[0].slot_expert
    experts = int(slots.max(initial=-1)) + 1
    return experts >= LEAST_EXPERTS and all(len(np.unique(row[row >= 0])) == experts for row in slots)
