"""What a report is made of: one block an instance, and a header that says how to make the same again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moeopt import kinds
from moeopt.errors import Violations
from moeopt.registry import PROBLEMS, Comparison
from moeopt.versions import versions as current_versions

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance
    from moeopt.mesh.instance import MeshInstance
    from moeopt.microbatch.instance import MicrobatchInstance
    from moeopt.placement.instance import PlacementInstance
    from moeopt.routing.instance import RoutingInstance


@dataclass(frozen=True)
class Block:
    """One instance and the methods that were compared on it.

    Raises
    ------
    InstanceError
        The comparison is of another problem or of another instance, by digest.
    """

    instance: PlacementInstance | RoutingInstance | CollocationInstance | MicrobatchInstance | MeshInstance
    comparison: Comparison

    def __post_init__(self) -> None:
        check = Violations()
        kinds.is_a(check, "comparison", self.comparison, Comparison)
        if not hasattr(self.instance, "sha256"):
            fix = "Give the instance that was compared"
            check.refuse("instance", self.instance, rule="must be an instance of a problem", fix=fix)
        check.raise_if_any()
        room = PROBLEMS.get(self.comparison.problem)
        if room is None:
            rule = "is a problem this report has no tables for"
            fix = f"Give a comparison of {' or '.join(PROBLEMS)}"
            check.add("comparison.problem", repr(self.comparison.problem), rule=rule, fix=fix)
        elif not any(kind.__module__.startswith(f"{room}.") for kind in type(self.instance).__mro__):
            rule = f"is not the problem of the instance, a {type(self.instance).__name__}"
            fix = "Give the instance that was compared"
            check.add("comparison.problem", repr(self.comparison.problem), rule=rule, fix=fix)
        digest = self.comparison.instance.get("sha256", self.instance.sha256)  # absent where no method answered
        if digest != self.instance.sha256:
            rule = f"does not belong to the instance, whose digest is {self.instance.sha256}"
            check.add("comparison.instance.sha256", str(digest), rule=rule, fix="Give the instance that was compared")
        check.raise_if_any()


@dataclass(frozen=True)
class Header:
    """How the report was made.

    Parameters
    ----------
    command
        What to type to make it again; empty where it was not made by a command.
    seed
        The seed of every method; None where there are several.
    versions
        Packages that had a hand in it; by default moeopt, Python and numpy.
    created
        A time stamp, where one is wanted: without it equal inputs give equal bytes, measured times apart.
    notes
        What happened to the report as a whole, such as inputs that were not looked at.
    """

    command: str = ""
    seed: int | None = 0
    versions: Mapping[str, str] = field(default_factory=lambda: current_versions("numpy"))
    created: str | None = None
    notes: tuple[str, ...] = ()
