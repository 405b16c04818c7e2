"""Options and words of a re-planning: what moves, what that buys, and whether it is worth the stall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.rules import RUNNING
from moeopt.cli.spoken import spoken
from moeopt.errors import Violations
from moeopt.percent import percent

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.placement import PlacementInstance
    from moeopt.result import Result


@dataclass(frozen=True)
class Deciding:
    """What moving costs; with ``--steps-until-next`` the answer is `keep` or `move`."""

    stall: Annotated[
        str | None,
        typer.Option("--stall", help="Time serving stands still for the move, as 2s.", rich_help_panel=RUNNING),
    ] = None
    bandwidth: Annotated[
        str | None,
        typer.Option("--bandwidth", help="Instead: bytes a second weights come at, as 50GB.", rich_help_panel=RUNNING),
    ] = None
    step_time: Annotated[
        str | None,
        typer.Option("--step-time", help="Time of the experts in a step today, as 30ms.", rich_help_panel=RUNNING),
    ] = None
    steps_until_next: Annotated[
        int | None,
        typer.Option(
            "--steps-until-next", help="Steps until the next plan: asks keep or move.", rich_help_panel=RUNNING
        ),
    ] = None

    def arguments(self) -> dict[str, float | int | None]:
        """Arguments of `placement.decide`; empty when nothing was asked."""
        from moeopt.placement import checks

        check = Violations()
        found: dict[str, float | int | None] = {
            "stall_seconds": None if self.stall is None else units.seconds("--stall", self.stall, check),
            "bytes_per_s": None if self.bandwidth is None else units.size("--bandwidth", self.bandwidth, check),
            "step_seconds": None if self.step_time is None else units.seconds("--step-time", self.step_time, check),
            "steps_until_next": self.steps_until_next,
        }
        if self.steps_until_next is not None:
            checks.whole("--steps-until-next", self.steps_until_next, 0, check)
        check.raise_if_any()
        return found if any(value is not None for value in found.values()) else {}

    def check(self, instance: PlacementInstance) -> None:
        """Refuse, before any work, a question that could not be answered: everything that is missing at once."""
        if not self.arguments():
            return
        check = Violations()

        def missing(option: str, rule: str, fix: str) -> None:
            check.add(option, "missing", rule=rule, fix=fix)

        if instance.current is None:
            missing("--current", "is needed to weigh a move", "Give the running plan")
        if self.steps_until_next is None:
            missing("--steps-until-next", "is needed to weigh a move", "Give the steps that the plan will be used for")
        if self.step_time is None and instance.c_tok is None:
            missing("--step-time", "is needed to weigh a move", "Give the time of the experts in a step, or --c-tok")
        if self.stall is None and self.bandwidth is None:
            fix = "Give the time that serving stands still, or --bandwidth and --expert-bytes (or --llm)"
            missing("--stall", "is needed to weigh a move", fix)
        elif self.stall is None and instance.expert_bytes is None:
            missing("--expert-bytes", "is needed beside --bandwidth", "Give the size of an expert, --llm, or --stall")
        check.raise_if_any()


def decided(result: Result, deciding: Deciding) -> Result:
    """The result with the decision in its solution, where one was asked for."""
    from moeopt.placement import decide

    arguments = deciding.arguments()
    if not arguments or result.solution is None:
        return result
    decision = decide(result, **arguments)  # type: ignore[arg-type]
    return replace(result, solution={**result.solution, "decision": decision.to_dict()})


def not_worth_it(result: Result) -> bool:
    """Whether moving was weighed and found to lose."""
    solution = result.solution or {}
    decision = solution.get("decision")
    return bool(decision and decision["decision"] == "keep" and solution["moves"] > 0)


def move_lines(instance: PlacementInstance, result: Result) -> list[tuple[str, str]]:
    """Rows for the summary of a plan."""
    from moeopt.placement.replanning.report import cannot_stay

    solution = result.solution
    if solution is None or "moves" not in solution:
        return []
    moves, slots = solution["moves"], sum(len(layer["slot_expert"]) for layer in solution["layers"])
    text = f"{moves:,} of {slots:,} slots new ({percent(moves / slots)})"
    text += _fewest(solution.get("repair"), moves)
    if solution.get("moved_bytes"):
        text += f", {_size(solution['moved_bytes'])}"
    now = solution.get("imbalance_now")
    after = solution["imbalance_total"]
    before = "" if now is None else f"{now:.4f} now, "
    found = [("moves", f"{text}; imbalance of all layers together {before}{after:.4f} after it")]
    if now is None:
        found.append(("running plan", f"cannot stay: {spoken(cannot_stay(instance))}"))
    decision = solution.get("decision")
    if decision:
        even = decision["break_even_steps"]
        pays = "" if even is None else f"; breaks even after {even:,} steps"
        net = "" if decision["net_seconds"] is None else f"; net {decision['net_seconds']:.6g} s"
        found.append(("decision", f"{decision['decision']}: {decision['reason']}{net}{pays}"))
    return found


def _fewest(repair: Mapping[str, Any] | None, moves: int) -> str:
    least = None if repair is None else repair["moves_fewest"]
    if least is None:
        return ""
    return ", the fewest that restore every expert" if moves == least else f"; {least:,} would restore every expert"


def show_frontier(result: Result, say: Say) -> None:
    """A small table of what more moves would buy."""
    from moeopt.cli.tables import table

    points = (result.solution or {}).get("frontier")
    if not points or len(points) < 2:
        return
    rows = table("what moves buy", "moves", "imbalance")
    for moves, imbalance in points:
        mark = " <" if result.solution is not None and moves == result.solution["moves"] else ""
        rows.add_row(f"{moves:,.0f}{mark}", f"{imbalance:.4f}")
    say.show(rows)


def _size(count: float) -> str:
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:.4g} {unit}"
    return f"{count:.0f} bytes"
