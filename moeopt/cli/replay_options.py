"""Options of a replay: times of planning, first placement, seconds, and how a history is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli import units
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.replay import Prices

TIMES, SECONDS = "What is played", "Seconds"


@dataclass(frozen=True)
class Playing:
    """When plans are made, from what, and by whom."""

    policies: Annotated[
        str,
        typer.Option(
            "--policies",
            help="keep, methods of place, package.module:function; search@5% has a budget of its own.",
            rich_help_panel=TIMES,
        ),
    ] = "keep,eplb,search"
    every: Annotated[
        int, typer.Option("--every", metavar="N", help="Windows between two plans.", rich_help_panel=TIMES)
    ] = 1
    lookback: Annotated[
        int | None,
        typer.Option(
            "--lookback", metavar="N", help="Windows that a plan is made from (as --every).", rich_help_panel=TIMES
        ),
    ] = None
    first: Annotated[
        str | None,
        typer.Option(
            "--first", metavar="METHOD", help="Makes the first placement, for all (search).", rich_help_panel=TIMES
        ),
    ] = None
    slices: Annotated[
        int | None,
        typer.Option(
            "--slices",
            metavar="N",
            help="Deal the selections of each file at random into N windows (by --seed).",
            rich_help_panel=TIMES,
        ),
    ] = None
    if_it_pays: Annotated[
        bool,
        typer.Option(
            "--if-it-pays",
            help="Move only where it saves more than its stall, by what was seen; needs times.",
            rich_help_panel=TIMES,
        ),
    ] = False

    def names(self) -> list[str]:
        """The policies."""
        return [name.strip() for name in self.policies.split(",") if name.strip()]


@dataclass(frozen=True)
class Pricing:
    """What moving costs, and what balance is worth."""

    stall: Annotated[
        str | None,
        typer.Option("--stall", help="Time serving stands still at every move, as 2s.", rich_help_panel=SECONDS),
    ] = None
    bandwidth: Annotated[
        str | None,
        typer.Option("--bandwidth", help="Instead: bytes a second weights come at, as 50GB.", rich_help_panel=SECONDS),
    ] = None
    step_time: Annotated[
        str | None,
        typer.Option(
            "--step-time", help="Time of the experts in a step of the first scored window.", rich_help_panel=SECONDS
        ),
    ] = None

    def prices(self) -> Prices | None:
        """Prices, where any was given."""
        from moeopt.replay import Prices

        check = Violations()
        step = None if self.step_time is None else units.seconds("--step-time", self.step_time, check)
        stall = None if self.stall is None else units.seconds("--stall", self.stall, check)
        rate = None if self.bandwidth is None else units.size("--bandwidth", self.bandwidth, check)
        check.raise_if_any()
        return None if (step, stall, rate) == (None, None, None) else Prices(step, stall, rate)
