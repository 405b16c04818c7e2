"""Replay policies of re-planning over a history of loads, each scored on windows it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.ask import ask
from moeopt.cli.header import header
from moeopt.cli.options import Output, Shape, Solving
from moeopt.cli.replay_options import Playing, Pricing
from moeopt.cli.say import Say, complain
from moeopt.cli.spread import Spread
from moeopt.cli.verb import BAD_USAGE, DONE, INFEASIBLE, NO_PLAN, verb
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.replay import Replay

EXAMPLE = """Example:

moeopt replay 'hour_*.csv' --gpus 16 --slots 80 --policies keep,eplb,search --max-moves 10% -o replay.html

moeopt replay history.npz --gpus 32 --slots 288 --every 4 --policies keep,search@2%,search@10%

moeopt replay law.csv intent.csv --slices 6 --gpus 8 --slots 72 --json

moeopt replay history.npz --gpus 32 --slots 288 --current plan.json --llm deepseek-v3 --bandwidth 50GB --step-time 30ms
--steps 5000 --if-it-pays"""

HEADS = {
    "Imbalance, worst window": "worst window",
    "Imbalance, worst layer": "worst layer",
    "Imbalance, mean": "imbalance",
    "Imbalance, total": "total",
    "Moves, in all": "moves",
    "Moves, a re-plan": "a re-plan",
    "Moves, most": "most",
    "Bytes moved": "bytes",
    "Seconds, experts": "seconds",
    "Seconds, stall": "stall",
    "Seconds, saved": "saved",
}
"""Heads of a terminal's columns, where the report's stand in groups."""


@verb
def replay(
    say: Say,
    history: Annotated[
        list[str],
        typer.Argument(
            metavar="HISTORY...",
            help="Loads in the order of time: files, a quoted pattern, or a file with an axis of windows.",
        ),
    ],
    playing: Playing,
    pricing: Pricing,
    shape: Shape,
    solving: Solving,
    output: Output,
    spread: Spread,
) -> int:
    """Play policies of re-planning over a history of loads: what each is worth on windows it has not seen.

    All begin with one placement, made from the first --lookback windows, or with --current. Then every --every windows
    each policy plans from the last --lookback ones, within --max-moves, and is scored until its next plan. Windows seen
    together are added up; --combine worst, mean or cvar keeps them apart.

    With -o the answer is a page (.html), a table (.md, .csv, .tex), a picture (.svg, .png) or the document with every
    map (.json), which moeopt verify computes again. --time-limit is for all plans together. Ctrl-C keeps the periods
    that were played.
    """
    from moeopt.cli.expert_size import size_of_expert
    from moeopt.cli.interrupts import stopping
    from moeopt.cli.replay_input import read_history, without_budget
    from moeopt.cli.solving import find_plugins, guarded_output
    from moeopt.cli.target import STDOUT, check_target, targets
    from moeopt.errors import Violations
    from moeopt.replay import replay as play
    from moeopt.replay.policies import SUM, check_names
    from moeopt.report.replay_file import FORMATS

    limits, prices, names, executor = solving.limits(), pricing.prices(), playing.names(), spread.made()
    files = targets(output.output, tuple(FORMATS)) if output.output != STDOUT else []
    check = Violations()
    for file in files:
        with check.within():
            check_target(file, tuple(FORMATS), output.force, what="a replay")
    check.raise_if_any()
    _refuse(shape)
    methods = [*names, *([playing.first] if playing.first is not None else [])]
    find_plugins(methods)
    check = Violations()
    with guarded_output(methods):
        check_names(names, shape.max_moves, check)
    check.raise_if_any()
    sized = size_of_expert(shape, say)
    instance, windows = read_history(
        history, without_budget(sized), playing.slices, solving.seed, prices is not None, say
    )
    kept = say.kept()
    with say.progress(f"{instance.name}: replay") as listener, guarded_output(methods), stopping(limits) as until:
        found = ask(
            play,
            instance,
            names,
            every=playing.every,
            lookback=playing.lookback,
            combine=shape.combine or SUM,
            first=playing.first,
            max_moves=shape.max_moves,
            max_moves_per_layer=shape.max_moves_per_layer,
            prices=prices,
            if_it_pays=playing.if_it_pays,
            windows=None if windows == list(map(str, range(len(windows)))) else windows,
            notes=kept,
            prepared=None if playing.slices is None else {"slices": playing.slices},
            limits=until,
            seed=solving.seed,
            on_progress=listener,
            executor=executor,
        )
    if found.first is None:
        for conflict in found.conflicts:
            complain(f"{instance.name}: infeasible: {conflict['message']}")
        if not found.conflicts:
            complain(f"{instance.name}: the {found.stop} limit was hit before there was a first placement")
        if output.json:
            say.document(found.to_dict())
        return INFEASIBLE if found.conflicts else NO_PLAN
    if output.json or output.output == STDOUT:
        say.document(found.to_dict())
    else:
        _show(found, say)
    for note in found.notes:
        say.note(note)
    if files:
        _write(files, output.force, found)
        say.note(f"written: {', '.join(files)}")
    failed = [row for row in found.rows if row.reason]
    for row in failed:
        complain(f"{row.policy}: {row.reason}")
    ours = [row for row in failed if ":" not in row.method]
    return BAD_USAGE if len(failed) > len(ours) or len(failed) == len(found.rows) else DONE


def _refuse(shape: Shape) -> None:
    """What has no meaning over a history."""
    given = (("--lost", shape.lost), ("--lost-nodes", shape.lost_nodes), ("--retire", shape.retire))
    found = [
        Violation(option, "", str(value), "has no meaning in a replay", "Leave it out")
        for option, value in given
        if value
    ]
    if found:
        raise InstanceError(found)


def _write(files: list[str], force: bool, found: Replay) -> None:
    from moeopt.report.replay_file import write_replay

    for file in files:
        write_replay(file, found, header(found.seed), force=force)


def _show(found: Replay, say: Say) -> None:
    from moeopt.cli.tables import duration, sheet, table
    from moeopt.report import words
    from moeopt.report.replay import sheet as sheet_of
    from moeopt.report.replay_words import budget

    made = sheet_of(found)
    shown = sheet(made.name, [head.title for head in made.heads], made.lines, HEADS)
    shown.columns[0].header = "policy"
    say.show(shown)
    if say.verbose:
        rows = [row for row in found.rows if row.scores]
        times = table("imbalance, mean over layers, and moves", "window", *(row.policy for row in rows), "bound")
        for place, window in enumerate(found.scored):
            cells = []
            for row in rows:
                moved = {replan.window: replan.moves for replan in row.replans}
                value = words.ratio(row.scores[place].imbalance_mean) if place < len(row.scores) else words.NONE
                cells.append(value + (f" ({moved[window]:,})" if window in moved else ""))
            times.add_row(found.windows[window], *cells, words.ratio(found.bound[place]))
        say.show(times)
    lines = [*((name.lower(), text) for name, text in made.facts if name in ("History", "First placement"))]
    lines += [("budget", budget(found)), ("time", duration(found.runtime_s))]
    say.show("\n".join(f"{name:<16} {text}" for name, text in lines))
