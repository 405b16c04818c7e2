"""Documents of rooms in the verbs that take any file: how each room knows its own, and what it does with them."""

from __future__ import annotations

from typing import Any

from moeopt.cli import (
    calibration_files,
    collocation_files,
    mesh_files,
    microbatch_files,
    replay_files,
    route_files,
)
from moeopt.cli.room_files import Kind, room_document
from moeopt.errors import Violations

ROOMS: tuple[Any, ...] = (
    calibration_files,
    collocation_files,
    replay_files,
    microbatch_files,
    route_files,
    mesh_files,
)
"""Each is a module with `SAID`, `JUDGED`, `KINDS`, `document_of`, `facts`, `show` and `verify`."""
KINDS: tuple[Kind, ...] = tuple(kind for room in ROOMS for kind in room.KINDS)


def document_of(path: str) -> tuple[str, Any] | None:
    """What a file is and its content, where a room knows it; ``None`` for any other file."""
    return room_document(path, KINDS)


def room_of(what: str) -> Any | None:
    """The room that calls its documents so, or ``None``."""
    return next((room for room in ROOMS if what in room.SAID), None)


def refuse_options(path: str, what: str, given: list[str]) -> None:
    """Options that say of a placement what the document of another room says itself."""
    check = Violations()
    for option in given:
        check.add(option, "given", rule=f"{path} is a {what}, which says it itself", fix="Leave it out")
    check.raise_if_any()
