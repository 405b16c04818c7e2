"""Choose a parallel mesh: degrees, pools, GPU types and how many, with a bound, the runners-up and the command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.ask import After, ask
from moeopt.cli.interrupts import stopping
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_options import Asked, Choice, Curving, Fleet, Simulating
from moeopt.cli.options import Output
from moeopt.cli.pace import Gap, Seed, Threads, TimeLimit, time_s
from moeopt.cli.say import Say, complain
from moeopt.cli.verb import DONE, INFEASIBLE, NO_PLAN, verb
from moeopt.errors import Violations
from moeopt.limits import Deadline, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moeopt.mesh import MeshInstance, SloPoint
    from moeopt.mesh.goodput.plans import PlanGoodput
    from moeopt.result import Result

EXAMPLE = """Example:

moeopt mesh --llm deepseek-v3 --gpu h800 --gpus 320 --context 4096 --tpot 50ms

moeopt mesh --llm deepseek-v3 --gpu h800 --gpus 320 --context 4k --tpot 50ms --explain EP320

moeopt mesh --llm deepseek-v3 --gpu h200 --rate 20 --input-tokens 4000 --output-tokens 1000 --ttft 2s --tpot 50ms

moeopt mesh --hf-config config.json --gpu h100 --gpus 8 --tpot 10ms --json

moeopt mesh --llm deepseek-v3 --gpu h800 --gpus 96 --ttft 2s --tpot 50ms --simulate --attainment 0.95

moeopt mesh --llm mixtral-8x7b --gpu h100 --rate 20 --ttft 1s --tpot 30ms --slo-curve -o curve.svg

moeopt mesh --llm mixtral-8x22b --gpu h20::1.85 --gpu l40s::1.08 --roles attention=h20,experts=l40s --rate 50

moeopt mesh --gpu h20::1.85 --gpu h100::2.5 --demand llm=mixtral-8x7b,rate=10,ttft=2s --demand llm=qwen3-30b-a3b,rate=5

moeopt mesh --llm llama-3.1-405b --gpu gb200:64 --context 1M --families long --objective time -o front.svg"""

ENDINGS = (".json", ".svg", ".png")


@dataclass(frozen=True)
class Pace:
    """Limits of a solve."""

    time_limit: TimeLimit = None
    gap: Gap = None
    seed: Seed = 0
    threads: Threads = 1

    def limits(self) -> Limits:
        """Check and build the limits."""
        return Limits(time_s(self.time_limit), self.gap, None, None, self.threads)


LATER = {"TIME": "; a longer --time-limit, or fewer --families, leaves it time"}
"""What helps where there is no plan."""


@verb
def mesh(
    say: Say,
    which: WhichLlm,
    fleet: Fleet,
    asked: Asked,
    choice: Choice,
    pace: Pace,
    simulating: Simulating,
    curving: Curving,
    output: Output,
    input: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="An instance document instead of options; - is stdin.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="See moeopt info methods; or package.module:function.")
    ] = "auto",
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Why meshes with this in their names lose or win, as EP320 or 'TP8 MoE-TP8'.",
        ),
    ] = None,
) -> int:
    """Which parallel degrees, which pools, which GPUs and how many: the best of all that fit, with a bound.

    With --rate the fewest (or, with prices, the cheapest) GPUs that serve it within the service levels; else the most
    requests a second of the GPUs given. Times are modelled: they rank configurations; for figures of your own cluster
    fit the constants first (moeopt calibrate).

    --simulate lets requests come at random: the rate at which so many keep TTFT and TPOT, beside the rate of means.

    --slo-curve buys anew at tighter and looser TPOT and TTFT, one at a time.

    -o writes the plan (.json) or the front of configurations (.svg, .png). JSON is in seconds and bytes; --json has a
    short ranking, -o and --json -v all of it.
    """
    from moeopt.cli import mesh_curve as levels
    from moeopt.cli import mesh_simulate as simulation
    from moeopt.cli.mesh_input import question
    from moeopt.cli.solving import find_plugins, guarded_output, named
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.mesh import PROBLEM

    check = Violations()
    limits, found = None, None
    with check.within():
        limits = pace.limits()
    to_file = output.output if output.output != STDOUT else None
    if to_file is not None:
        with check.within():
            check_target(to_file, ENDINGS, output.force, what="a plan or a front")
    with check.within():
        simulation.check_options(simulating)
    with check.within():
        found = question(input, which, fleet, asked, choice)
        levels.check_curve(curving.slo_curve, found.instance)
    check.raise_if_any()
    assert found is not None and limits is not None
    instance = found.instance
    find_plugins([method])
    ours = named(PROBLEM, method, say.verbose)
    with stopping(limits) as until:
        deadline = Deadline(until.time_s, until.stop)
        with say.progress(instance.name or "mesh") as listener, guarded_output([method]), ours:
            result = ask(
                PROBLEM.solve,
                instance,
                method=method,
                limits=until,
                seed=pace.seed,
                on_progress=listener,
                after=After(found.notes),
            )
            curve = levels.curve_of(curving.slo_curve, instance, result, method, until, pace.seed, say)
        result = replace(result, notes=(*found.notes, *result.notes))
        chance = simulation.simulated(simulating, instance, result, pace.seed, say, deadline)
    if result.stop == "INTERRUPTED" and result.plan is not None:
        say.note("interrupted: this is the best plan so far")
    if to_file is not None:
        _write(to_file, instance, result, chance, curve, output.force)
    if output.json or output.output == STDOUT:
        short = output.output != STDOUT and not say.verbose
        say.document(simulation.document(result, chance, curve, short=short))
    elif result.solution is not None:
        from moeopt.cli.mesh_words import show

        show(result, instance, found.band, say)
        levels.show(curve, instance, say)
        simulation.show(chance, instance, say)
        if explain is not None:
            from moeopt.cli.mesh_explain import explain as said

            said(explain, result.solution, say)
    else:
        levels.show(curve, instance, say)
    if explain is not None and (output.json or output.output == STDOUT):
        say.note(
            "--explain is a table for people: in JSON the rows of ranking have their parts_s, with -v or -o all of them"
        )
    for note in result.notes:
        say.note(note)
    if to_file is not None and (result.solution is not None or curve or to_file.lower().endswith(".json")):
        say.note(f"written: {to_file}")
    for one in chance or ():
        for note in one.notes:
            say.note(note)
    for conflict in result.conflicts:
        complain(f"{instance.name or 'mesh'}: infeasible: {conflict['message']}")
    if result.status == "INFEASIBLE":
        return INFEASIBLE
    if result.status == "UNKNOWN":
        complain(f"{instance.name or 'mesh'}: no plan was found ({result.stop})" + LATER.get(str(result.stop), ""))
        return NO_PLAN
    return DONE


def _write(
    path: str,
    instance: MeshInstance,
    result: Result,
    chance: Sequence[PlanGoodput] | None,
    curve: Sequence[SloPoint] | None,
    force: bool,
) -> None:
    from moeopt.cli.mesh_simulate import document
    from moeopt.documents import to_json, write_file

    if path.lower().endswith(".json"):
        write_file(path, to_json(document(result, chance, curve)) + "\n", force=force)
    elif curve:
        from moeopt.report.plots.slo_curve import slo_curve_png, slo_curve_svg

        draw_curve = slo_curve_svg if path.lower().endswith(".svg") else slo_curve_png
        write_file(path, draw_curve(instance, curve), force=force)
    elif result.solution is not None:
        from moeopt.report.plots.mesh import pareto_png, pareto_svg

        draw = pareto_svg if path.lower().endswith(".svg") else pareto_png
        write_file(path, draw(result.solution), force=force)
