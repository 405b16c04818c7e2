"""Choose how many micro-batches a step is cut into, with the exact time of each, a bound and a timeline."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.ask import After, ask
from moeopt.cli.microbatch_instance import Asked, from_options
from moeopt.cli.microbatch_options import Choices, StageTimes, Wanted, given
from moeopt.cli.modelled_times import Modelled
from moeopt.cli.options import OUTPUT, SOLVING, Output
from moeopt.cli.pace import Gap, Seed, Threads, TimeLimit, time_s
from moeopt.cli.say import PIPE_WIDTH, Say
from moeopt.cli.stage_times import UNITS
from moeopt.cli.verb import verb
from moeopt.errors import InstanceError, Violation, Violations
from moeopt.limits import Limits

if TYPE_CHECKING:
    from moeopt.cli.modelled_rest import Dense
    from moeopt.microbatch import MicrobatchInstance
    from moeopt.result import Result

EXAMPLE = """Example:

moeopt microbatch --ta 0.4 --te 0.5 --tc 0.3 --layers 40

moeopt microbatch --ta 0.1+0.002n --te 0.2+0.001n --tc 5us+14336B*n/50GB/s --layers 61 --batch 64-512:64 --tbt 50ms

moeopt microbatch --pattern hop-b --ta 2us --tc 1.2us --t0 6us --layers 61 --m 1-8 -o timeline.svg

moeopt microbatch --llm dbrx --gpu A800 --context 651 --attention-nodes 3 --tp-a 2 --batch 256-4096:256 --tbt 150ms

moeopt microbatch --times measured.csv --unit us --layers 61 --batch 128,256 --kv-bytes 280MB --memory 60GB --json"""

ENDINGS = (".json", ".svg", ".png")
NARROW = 50
"""Columns below which lines are not put below each other."""
FAMILIAR = 80
"""Columns where there is no terminal."""


@dataclass(frozen=True)
class Pace:
    """Limits of a solve."""

    time_limit: TimeLimit = None
    gap: Gap = None
    nodes_limit: Annotated[
        int | None, typer.Option("--nodes-limit", help="Branch-and-bound nodes of exact.", rich_help_panel=SOLVING)
    ] = None
    seed: Seed = 0
    threads: Threads = 1

    def limits(self) -> Limits:
        """Check and build the limits."""
        return Limits(time_s(self.time_limit), self.gap, None, self.nodes_limit, self.threads)


@verb
def microbatch(
    say: Say,
    stages: StageTimes,
    choices: Choices,
    wanted: Wanted,
    modelled: Modelled,
    pace: Pace,
    output: Output,
    input: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="An instance document instead of options; - is stdin.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="auto, exact, closed_form, simulate, lpt; or package.module:function.")
    ] = "auto",
    unit: Annotated[
        str, typer.Option("--unit", help="us, ms or s: of bare times, and of the answer.", rich_help_panel=OUTPUT)
    ] = "ms",
) -> int:
    """Into how many micro-batches is a step cut, so that computing hides communication, and how many tokens has it?

    A time is for one micro-batch in one layer: a number, a number with a unit, a fixed part and one per token
    (0.1+0.002n), a message (5us+14336B*n/50GB/s), or a table of measured ones. Answers are exact for the times given;
    where a published formula is not, that is said.

    -o writes the plan (.json) or the timeline (.svg, .png). JSON is in seconds and bytes.
    """
    from moeopt.cli.microbatch_ends import beside, code
    from moeopt.cli.solving import find_plugins, guarded_output, named
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.microbatch import PROBLEM

    check = Violations()
    limits = None
    with check.within():
        limits = pace.limits()
    if unit not in UNITS:
        check.add("--unit", unit, rule="is not a unit of the answer", fix=f"Use {', '.join(UNITS)}")
        unit = "ms"
    to_file = output.output if output.output != STDOUT else None
    if to_file is not None:
        with check.within():
            check_target(to_file, ENDINGS, output.force, what="a plan or a timeline")
    asked = None
    try:
        asked = _asked(input, stages, choices, wanted, modelled, unit)
    except InstanceError as error:
        if not check.found:
            raise  # with the name of its file
        check.found += error.violations
    check.raise_if_any()
    assert asked is not None and limits is not None
    instance, told = asked.instance, list(asked.notes)
    find_plugins([method])
    ours = named(PROBLEM, method, say.verbose)
    if _sizes_ignored(instance):
        told.append(
            "times do not depend on the size of a micro-batch: with --batch, write a part per token, as 0.1+0.002n"
        )
    with say.progress(instance.name or "micro-batches") as listener, guarded_output([method]), ours:
        result = ask(
            PROBLEM.solve,
            instance,
            method=method,
            limits=limits,
            seed=pace.seed,
            on_progress=listener,
            after=After(behind=told),
        )
    if asked.dense is not None and result.solution is not None:
        told.append(beside(asked.dense, result.solution, unit))
    result = replace(result, notes=(*result.notes, *told))
    if to_file is not None:
        _write(to_file, result, unit, output.force)
    if output.json or output.output == STDOUT:
        say.document(result.to_dict())
    elif result.solution is not None:
        _show(result, unit, say, asked.dense)
    for note in result.notes:
        say.note(note)
    if result.stop == "INTERRUPTED":
        say.note("interrupted: this is the best plan so far")
    if to_file is not None and (result.solution is not None or _is_plan(to_file)):
        say.note(f"{'plan' if _is_plan(to_file) else 'timeline'}: {to_file}")
    return code(result, asked, unit)


def _asked(
    path: str | None, stages: StageTimes, choices: Choices, wanted: Wanted, modelled: Modelled, unit: str
) -> Asked:
    """From a document, or from options."""
    if path is None:
        return from_options(stages, choices, wanted, modelled, unit)
    options = [*given(stages, choices, wanted), *modelled.given()]
    if options:
        rule = "is an instance document, which has its own times and limits"
        raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(options)}, or the document")])
    if path.lower().endswith((".csv", ".tsv", ".txt")):
        rule, fix = "is no instance document", f"Give a table of measured times as --times {path}"
        raise InstanceError([Violation("input", "", path, rule, fix)])
    from moeopt.cli.microbatch_files import is_plan
    from moeopt.documents import read_bytes, read_json
    from moeopt.microbatch.document import read_instance

    document = read_json(read_bytes(path), path, allow_nan=True)
    if is_plan(document):
        rule = "is a plan, not an instance"
        raise InstanceError(
            [Violation("input", "", path, rule, "Use moeopt verify, or the instance that it was made for")]
        )
    return Asked(read_instance(document, path))


def _sizes_ignored(instance: MicrobatchInstance) -> bool:
    """Whether batches are chosen by times that are the same for every size, which is hardly what was meant."""
    from moeopt.microbatch import Constant

    return instance.batches is not None and all(isinstance(time, Constant) for time in instance.times.values())


def _is_plan(path: str) -> bool:
    return path.lower().endswith(".json")


def _write(path: str, result: Result, unit: str, force: bool) -> None:
    from moeopt.documents import write_file

    if _is_plan(path):
        write_file(path, result.to_json() + "\n", force=force)
    elif result.solution is not None:
        from moeopt.report.plots.timeline import timeline_png, timeline_svg

        draw = timeline_svg if path.lower().endswith(".svg") else timeline_png
        write_file(path, draw(result.solution, unit), force=force)


def _show(result: Result, unit: str, say: Say, dense: Dense | None) -> None:
    """The sweep, the answer, and the step in time."""
    import shutil
    import textwrap

    from moeopt.cli.microbatch_words import Words, left_out
    from moeopt.cli.timeline import timeline_text
    from moeopt.report.timeline import Timeline

    assert result.solution is not None
    if say.quiet:
        return
    words = Words(result, unit, dense)
    width = shutil.get_terminal_size((FAMILIAR, 24)).columns
    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    broad = width if told else PIPE_WIDTH
    rows, rest = words.sweep(say.verbose, broad)
    if len(result.solution["sweep"]) > 1:
        say.show(rows)
        if rest:
            say.line(left_out(rest))
        say.line("")
    hang = 13 if broad >= NARROW else 2
    for name, text in words.lines():
        start = f"{name:<12} {text}" if broad >= NARROW else f"{name}: {text}"
        say.line(textwrap.fill(start, broad, subsequent_indent=" " * hang, break_on_hyphens=broad < NARROW))
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    drawn = timeline_text(Timeline.of(result.solution), width, unit, plain)
    if drawn is not None:
        say.line("")
        say.show(drawn)
