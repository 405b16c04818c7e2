"""The header of what a command writes: the command itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moeopt.cli.verb import COMMAND

if TYPE_CHECKING:
    from moeopt.report import Header


def header(seed: int | None, notes: Sequence[str] = ()) -> Header:
    """That of the command that is running; without a seed where there are several."""
    from moeopt.report import Header

    return Header(command=shlex.join(["moeopt", *COMMAND.get()]), seed=seed, notes=tuple(notes))
