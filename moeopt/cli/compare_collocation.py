"""Methods compared on a collocation: copies, the busiest link, and tokens held out, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from moeopt.cli.collocate_options import Sharing, Travel
from moeopt.cli.compare_options import options_of
from moeopt.cli.compare_room import Asked, Room
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.collocation import CollocationInstance
    from moeopt.limits import Limits

OF_SHAPE = ("--gpus", "--nodes", "--slots", "--fill", "--groups", "--experts", "--current", "--batch-tokens")
"""Options of placements that mean the same here."""


class CollocationRoom(Room):
    """A routing trace with a cluster or a transport, or an instance."""

    name = "collocation"
    what = "a collocation"
    takes = (*OF_SHAPE, *options_of(Travel, Sharing))
    rival = "load_only"
    heads: ClassVar = {
        "Lambda, fitted": "lambda",
        "Lambda, held out": "held out",
        "Imbalance, fitted": "imbalance",
        "Imbalance, worst": "imbalance",
        "Imbalance, held out": "held out",
        "On the critical path, no overlap": "no overlap",
        "On the critical path, overlap": "overlap",
        "Gap to best bound, all": "gap",
        "Gap to best bound, worst layer": "worst",
    }

    def read(self, asked: Asked, say: Say) -> tuple[CollocationInstance, Sequence[str]]:
        """Of one trace and options, or of one document."""
        from moeopt.cli import units
        from moeopt.cli.collocate_input import read_instance

        if len(asked.inputs) != 1:
            seen = ", ".join(asked.inputs) or "missing"
            raise InstanceError([Violation("input", "", seen, "must be one trace", "Compare one at a time")])
        check, shape = Violations(), asked.shape
        arguments: dict[str, Any] = {"fill": shape.fill or "all", **asked.sharing.arguments()}
        for key in ("slots", "nodes", "groups"):
            text = getattr(shape, key)
            arguments[key] = None if text is None else units.count(f"--{key}", text, check)
        check.raise_if_any()
        arguments |= {"gpus": shape.gpus, "batch_tokens": shape.batch_tokens}
        given = asked.given()
        made = read_instance(
            asked.inputs[0], asked.travel, arguments, experts=shape.experts, current=shape.current, given=given
        )
        return made, ()

    def default(self, instance: Any, asked: Asked, say: Say) -> list[str]:
        """Without ``exact`` where it may take for ever."""
        from moeopt.collocation.exact import no_programme

        names = super().default(instance, asked, say)
        if asked.solving.time_limit is None and no_programme(instance) is None:
            names.remove("exact")
            say.note("exact is left out, as it may take for ever: give --time-limit, or name it (--methods)")
        return names

    def prepare(self, instance: Any, names: Sequence[str], limits: Limits) -> None:
        """Compiled code is loaded, by a search of its own."""
        from moeopt.collocation import CollocationInstance

        if limits.time_s is None and "search" in names:
            self.problem.solve(CollocationInstance([[0, 1], [2, 3]], experts=4, nodes=2, gpus=2), method="search")

    def running(self, instance: Any) -> Any:
        """That of ``--current``."""
        return instance.current

    def plan(self, path: str, instance: Any) -> Any:
        """A plan, or a map of an engine."""
        from moeopt.cli.collocate_input import running

        return running(path, instance.layers)
