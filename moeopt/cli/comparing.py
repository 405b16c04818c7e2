"""Comparisons one after another, each of any problem: tables or JSON, one report of all, one exit code."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.cli.compare_gate import code
from moeopt.cli.compare_room import Answer, Asked, Room
from moeopt.cli.header import header
from moeopt.cli.options import Output
from moeopt.cli.say import Say
from moeopt.cli.target import check_target, refuse_stdout, targets


def run(parts: Sequence[tuple[Room, Asked]], output: Output, say: Say) -> int:
    """Compare, show, and write what was asked for.

    Ctrl-C ends it after the comparison being made; what is left out is said.
    """
    answers: list[Answer] = []
    for room, asked in parts:
        try:
            answers.append(room.answer(asked, say))
        except KeyboardInterrupt:
            if not answers:
                raise
            break
        if not output.json:
            if len(answers) > 1 and not say.quiet:
                say.line("")
            room.show(answers[-1], say)
        if answers[-1].comparison.interrupted:
            break
    left = [f"interrupted: {', '.join(asked.inputs)} was not compared" for _, asked in parts[len(answers) :]]
    heard = say.kept()
    for note in (*heard, *left):
        say.note(note)
    told = [*heard, *(note for answer in answers for note in answer.notes)]
    problems = list(dict.fromkeys(answer.room.name for answer in answers))
    if output.json:
        one = {"problem": problems[0]} if len(problems) == 1 else {}
        blocks = [answer.room.document(answer) for answer in answers]
        say.document({"schema": "moeopt/comparison/1", **one, "blocks": blocks, **({"notes": told} if told else {})})
    if output.output is not None:
        _report(output, answers, parts[0][1].solving.seed, [*told, *left, *_scored(parts)])
        say.note(f"written: {', '.join(reports_of(output))}")
    return code(answers, parts[0][1].gate.fail_if_worse, say)


def check_output(output: Output) -> None:
    """Refuse, before the work, reports that could not be written after it."""
    from moeopt.errors import Violations
    from moeopt.report import FORMATS

    check = Violations()
    for path in reports_of(output):
        with check.within():
            refuse_stdout(path, "Use --json, or give a file such as report.html")
            advice = "the verb of a problem writes plans"
            check_target(path, tuple(FORMATS), output.force, what="a report", advice=advice)
    check.raise_if_any()


def reports_of(output: Output) -> list[str]:
    """The files of the report."""
    from moeopt.report import FORMATS

    return targets(output.output, tuple(FORMATS))


def _scored(parts: Sequence[tuple[Room, Asked]]) -> list[str]:
    scored = [path for _, asked in parts for path in asked.score]
    return [f"held out, and seen by no method: {', '.join(scored)}"] if scored else []


def _report(output: Output, answers: Sequence[Answer], seed: int, notes: Sequence[str]) -> None:
    from moeopt.report import Block, write_report

    made = header(seed, notes)
    blocks = [Block(answer.instance, answer.comparison) for answer in answers]
    for path in reports_of(output):
        write_report(path, blocks, made, force=output.force)
