"""Methods compared on a mesh: what each buys and serves, and the bound, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from moeopt.cli.compare_options import OF_MESH, MeshOptions, mesh_groups, options_of, typed
from moeopt.cli.compare_room import Answer, Asked, Room, solution_of
from moeopt.cli.mesh_files import INSTANCE_SAID, RESULT_SAID, document_of, instance_of
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.limits import Limits
    from moeopt.mesh import MeshInstance


class MeshRoom(Room):
    """An instance, a plan that has one within, or the options of ``moeopt mesh``."""

    name = "mesh"
    what = "a mesh"
    takes = (*options_of(MeshOptions), *typed(OF_MESH))
    rival = "recipe"
    heads: ClassVar = {
        "GPUs, used": "GPUs",
        "GPUs, idle": "idle",
        "In the mean, TTFT": "TTFT",
        "In the mean, TPOT": "TPOT",
        "Gap to best bound": "gap",
    }

    def read(self, asked: Asked, say: Say) -> tuple[MeshInstance, Sequence[str]]:
        """With what was assumed to make it."""
        from moeopt.cli.mesh_input import from_options

        if not asked.inputs:
            found = from_options(*mesh_groups(asked.shape, asked.travel, asked.sharing, asked.mesh))
            return found.instance, found.notes
        if len(asked.inputs) > 1:
            rule = "must be one mesh instance"
            raise InstanceError([Violation("input", "", ", ".join(asked.inputs), rule, "Compare one at a time")])
        instance = instance_of(asked.inputs[0], asked.given())
        if instance is None:
            rule = f"is no {INSTANCE_SAID} or {RESULT_SAID}, and {', '.join(asked.mesh.given())} are options of a mesh"
            raise InstanceError([Violation("input", "", asked.inputs[0], rule, "Give options without an input")])
        return instance, ()

    def plan(self, path: str, instance: Any) -> Any:
        """What it buys."""
        return solution_of(path, document_of(path), RESULT_SAID, "moeopt mesh")

    def prepare(self, instance: Any, names: Sequence[str], limits: Limits) -> None:
        """Configurations are listed."""
        from moeopt.mesh.market import market_of

        market_of(instance)

    def tell(self, answer: Answer, say: Say) -> None:
        """What is bought by whom."""
        from moeopt.report.mesh import bought

        for pools, methods in bought(answer.comparison):
            say.line(f"{', '.join(methods)}: {pools}")
