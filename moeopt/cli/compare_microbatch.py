"""Methods compared on a micro-batch instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from moeopt.cli.compare_room import Asked, Room, solution_of
from moeopt.cli.microbatch_files import PLAN_SAID, document_of, instance_in

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.microbatch import MicrobatchInstance


class MicrobatchRoom(Room):
    """An instance document, which says everything itself, or a plan that has one within."""

    name = "microbatch"
    what = "a micro-batch instance"
    rival = "simulate"
    heads: ClassVar = {"Gap to best bound": "gap"}

    def read(self, asked: Asked, say: Say) -> tuple[MicrobatchInstance, Sequence[str]]:
        """The document, or that within a plan."""
        (path,) = asked.inputs
        found = document_of(path)
        assert found is not None, "the document was recognised"
        what, content = found
        return instance_in(what, content, path), ()

    def plan(self, path: str, instance: Any) -> Any:
        """m, batch and order."""
        read = document_of(path)
        found = None if read is None or read[0] != PLAN_SAID else read
        solution = solution_of(path, found, PLAN_SAID, "moeopt microbatch")
        return {key: solution.get(key) for key in ("m", "batch", "sequences")}
