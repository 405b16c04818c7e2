"""``moeopt mesh --simulate``: the plan beside requests that come at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moeopt.cli.mesh_options import Simulating, given
from moeopt.cli.say import count
from moeopt.errors import NotApplicable, Violations
from moeopt.percent import percent
from moeopt.report.mesh_words import per_second
from moeopt.report.words import seconds

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.limits import Deadline
    from moeopt.mesh import MeshInstance, SloPoint
    from moeopt.mesh.goodput.plans import PlanGoodput
    from moeopt.result import Result

BINDS = {
    "ttft": "above it the first token comes too late",
    "tpot": "above it tokens come too slowly",
    "capacity": "more than that the pools cannot do",
}


USUAL = 8
"""Rates that are simulated, more or less: for the bar."""


def check_options(simulating: Simulating) -> None:
    """Refuse what has no meaning, before the work."""
    check = Violations()
    if not simulating.simulate:
        values = {"--attainment": simulating.attainment, "--requests": simulating.requests}
        for option in given(simulating):
            rule = "is for --simulate and has no effect without it: other rates and times are means"
            check.add(option, values[option], rule=rule, fix="Give --simulate too, or leave it out")
    part, asked = simulating.attainment, simulating.requests
    if part is not None and not 0 < part <= 1:
        check.add("--attainment", part, rule="must be a number above 0, at most 1", fix="Write 0.9 for nine of ten")
    if asked is not None and asked < 1:
        check.add("--requests", asked, rule="must be a whole number >= 1", fix="Leave it out for 2,000")
    check.raise_if_any()


def simulated(
    simulating: Simulating, instance: MeshInstance, result: Result, seed: int, say: Say, deadline: Deadline
) -> Sequence[PlanGoodput] | None:
    """What the plan serves by chance; ``None`` where that was not asked, or there is nothing or no time to simulate."""
    if not simulating.simulate or result.plan is None:
        return None
    from moeopt.mesh.clock import OutOfTime, look, watching
    from moeopt.mesh.goodput.plans import REQUESTS, simulate_plan
    from moeopt.registry import Progress

    with say.progress("simulated rates") as listener:

        def step(done: int) -> None:
            if listener is not None:
                listener(Progress(done, max(done, USUAL)))

        try:
            with watching(deadline):
                look()
                return simulate_plan(
                    instance,
                    result.plan,
                    attainment=simulating.attainment,
                    requests=simulating.requests or REQUESTS,
                    seed=seed,
                    on_step=step,
                )
        except NotApplicable as error:
            say.note(str(error))
        except OutOfTime:
            why = "interrupted" if deadline.stopped() else "time ran out"
            say.note(f"{why} before the rates of --simulate were found: the plan is that of means")
    return None


def document(
    result: Result,
    chance: Sequence[PlanGoodput] | None,
    curve: Sequence[SloPoint] | None = None,
    *,
    short: bool = False,
) -> dict[str, Any]:
    """The result, with a `short` ranking if wanted, and the simulation and the curve where there are any."""
    found = result.to_dict()
    if short and found["solution"] is not None:
        from moeopt.mesh.short import shortened

        found["solution"] = shortened(found["solution"])
    beside = {"simulation": chance, "slo_curve": curve}
    return found | {key: [one.to_dict() for one in listed] for key, listed in beside.items() if listed is not None}


def show(chance: Sequence[PlanGoodput] | None, instance: MeshInstance, say: Say) -> None:
    """A few lines a demand."""
    if chance is None or say.quiet:
        return
    say.line("")
    for one in chance:
        demand = instance.demands[one.demand]
        name = f"{demand.llm.name}: " if len(chance) > 1 else ""
        of_means = percent(one.rate_per_s / one.means_per_s)
        levels = [
            f"{word} {seconds(level)}"
            for word, level in (("TTFT", demand.slo.ttft_s), ("TPOT", demand.slo.tpot_s))
            if level is not None
        ]
        kept = f"{percent(one.attainment)} of requests keep {' and '.join(levels) or 'up'}"
        text = f"{name}up to {per_second(one.rate_per_s)} requests/s, {kept}: {of_means} of the rate of means"
        say.line(f"simulated    {text}; {BINDS[one.binds]}")
        say.line(
            f"at means     {percent(one.at_means)} of requests keep them at {per_second(one.means_per_s)} requests/s"
        )
        for word, values in (("TTFT", one.ttft_s), ("TPOT", one.tpot_s)):
            if values is not None:
                shown = ", ".join(
                    f"{seconds(value)} ({part} %)" for value, part in zip(values, (50, 90, 99), strict=True)
                )
                say.line(f"{word:<12} {shown}")
        say.line(
            f"drawn        {one.requests:,} requests of each replica, {count(one.simulations, 'rate')}, seed {one.seed}"
        )
