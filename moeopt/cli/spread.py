"""The option that spreads work over processes or a cluster, the same for every verb that has it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Annotated

import typer

from moeopt.cli.options import SOLVING


@dataclass(frozen=True)
class Spread:
    """Where work is done."""

    executor: Annotated[
        str,
        typer.Option(
            "--executor",
            help="serial, processes:N, threads:N, or dask:ADDRESS of a scheduler.",
            rich_help_panel=SOLVING,
        ),
    ] = "serial"

    def made(self) -> Callable[[], Executor] | None:
        """What makes it, or ``None`` for serial; see `make_executor`."""
        from moeopt.executors import make_executor

        return make_executor(self.executor)
