"""Limits of a solve, as the verbs of several problems have them; each verb names those that its methods obey."""

from __future__ import annotations

from typing import Annotated

import typer

from moeopt.cli import units
from moeopt.cli.options import SOLVING
from moeopt.errors import Violations

TimeLimit = Annotated[
    str | None, typer.Option("--time-limit", help="Stop after 5s, 500ms; none by default.", rich_help_panel=SOLVING)
]
Gap = Annotated[
    float | None, typer.Option("--gap", help="Stop at this proven gap: 0.001 is 0.1 %.", rich_help_panel=SOLVING)
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed, for plug-ins.", rich_help_panel=SOLVING)]
Threads = Annotated[int, typer.Option("--threads", help="Threads a solver may use.", rich_help_panel=SOLVING)]


def time_s(text: str | None) -> float | None:
    """Seconds of ``--time-limit``.

    Raises
    ------
    InstanceError
        It is no time.
    """
    check = Violations()
    found = None if text is None else units.seconds("--time-limit", text, check)
    check.raise_if_any()
    return found
