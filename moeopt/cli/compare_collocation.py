"""Methods compared on a collocation: copies, the busiest link, and tokens held out, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from moeopt.cli.collocate_options import Sharing, Travel
from moeopt.cli.collocation_files import INSTANCE_SAID, document_of
from moeopt.cli.options import Gate, Output, Shape, Solving
from moeopt.cli.say import complain
from moeopt.cli.verb import BAD_USAGE, COMMAND, DONE, GATE, INFEASIBLE
from moeopt.errors import InstanceError, Violations

if TYPE_CHECKING:
    from rich.table import Table

    from moeopt.cli.say import Say
    from moeopt.collocation import CollocationInstance
    from moeopt.registry import Comparison, Row

RIVAL, RUNNING = "load_only", "running plan"
TAKEN = ("--gpus", "--nodes", "--slots", "--fill", "--groups", "--experts", "--current", "--batch-tokens")
"""Options of placements that mean the same here."""
HEADS = {
    "Lambda, fitted": "lambda",
    "Lambda, held out": "held out",
    "Imbalance, fitted": "imbalance",
    "Imbalance, worst": "imbalance",
    "Imbalance, held out": "held out",
    "On the critical path, no overlap": "no overlap",
    "On the critical path, overlap": "overlap",
    "Gap to best bound, all": "gap",
    "Gap to best bound, worst layer": "worst",
}
"""Heads of columns as a terminal has room for them."""


def is_collocation(inputs: list[str] | None, travel: Travel, sharing: Sharing) -> bool:
    """Whether an input or an option says so."""
    if travel.given() or sharing.given():
        return True
    found = document_of(inputs[0]) if inputs is not None and len(inputs) == 1 else None
    return found is not None and found[0] == INSTANCE_SAID


def compare_collocation(
    inputs: list[str],
    methods: list[str] | None,
    plans: list[str],
    shape: Shape,
    travel: Travel,
    sharing: Sharing,
    solving: Solving,
    output: Output,
    gate: Gate,
    others: list[str],
    say: Say,
) -> int:
    """Run all methods, or those that are named, and judge the plans; what does not apply is a row with its reason."""
    from moeopt.cli.solving import find_plugins, guarded_output
    from moeopt.collocation import PROBLEM
    from moeopt.collocation.exact import no_programme
    from moeopt.report import FORMATS

    check, instance = Violations(), None
    if len(inputs) != 1:
        seen = ", ".join(inputs) or "missing"
        check.add("input", seen, rule="must be one trace", fix="Compare one at a time")
    for option in [*others, *(one for one in shape.given() if one not in TAKEN)]:
        check.add(option, "given", rule="is for placements, and this is a collocation", fix="Leave it out")
    if output.output is not None:
        from moeopt.cli.target import check_target, refuse_stdout

        with check.within():
            refuse_stdout(output.output, "Use --json, or give a file such as report.html")
            check_target(output.output, tuple(FORMATS), output.force, what="a report", advice="collocate writes plans")
    check.raise_if_any()
    instance = _instance(inputs[0], shape, travel, sharing)
    limits = solving.limits()
    names = [name for name in PROBLEM.methods if name != "auto"] if methods is None else methods
    if methods is None and limits.time_s is None and no_programme(instance) is None:
        names.remove("exact")
        say.note("exact is left out, as it may take for ever: give --time-limit, or name it (--methods)")
    if gate.fail_if_worse and instance.current is None and RIVAL not in names:
        names.append(RIVAL)
    ready, refused = _plans(plans, instance, names)
    find_plugins(names)
    with say.progress(instance.name) as listener, guarded_output(names):
        comparison = PROBLEM.compare(
            instance, names, plans=ready, limits=limits, seed=solving.seed, on_progress=listener
        )
    if output.json:
        from moeopt.report.collocation_rows import document, figures_of

        block = document(instance, comparison, figures_of(comparison))
        say.document({"schema": "moeopt/comparison/1", "problem": "collocation", "blocks": [block]})
    else:
        say.show(_table(instance, comparison))
        _notes(instance, comparison, say)
    if output.output is not None:
        _report(output, instance, comparison, solving.seed)
        say.note(f"written: {output.output}")
    for name, reason in refused.items():
        complain(f"{name}: {reason}")
    return BAD_USAGE if refused else _code(comparison, list(ready), gate.fail_if_worse, say)


def _instance(path: str, shape: Shape, travel: Travel, sharing: Sharing) -> CollocationInstance:
    """The instance that all are compared on."""
    from moeopt.cli import units
    from moeopt.cli.collocate_input import read_instance

    check = Violations()
    arguments: dict[str, Any] = {"fill": shape.fill or "all", **sharing.arguments()}
    for key in ("slots", "nodes", "groups"):
        text = getattr(shape, key)
        arguments[key] = None if text is None else units.count(f"--{key}", text, check)
    check.raise_if_any()
    arguments |= {"gpus": shape.gpus, "batch_tokens": shape.batch_tokens}
    current = shape.current
    given = [*travel.given(), *sharing.given(), *shape.given()]
    return read_instance(path, travel, arguments, experts=shape.experts, current=current, given=given)


def _plans(paths: list[str], instance: CollocationInstance, names: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Ready-made plans by the names of their files, and why others cannot be judged."""
    from moeopt.cli.collocate_input import running

    found: dict[str, Any] = {}
    refused: dict[str, str] = {}
    if instance.current is not None:
        found[RUNNING] = instance.current
    for path in dict.fromkeys(part.strip() for given in paths for part in given.split(",") if part.strip()):
        label = path if Path(path).name in (*names, *found) else Path(path).name
        try:
            found[label] = running(path, instance.layers)
        except InstanceError as error:
            refused[label] = str(error)
    return found, refused


def _table(instance: CollocationInstance, comparison: Comparison) -> Table:
    from moeopt.cli.tables import sheet
    from moeopt.report.collocation import columns_of, lines
    from moeopt.report.collocation_rows import figures_of

    rows = figures_of(comparison)
    columns = columns_of(instance, comparison, rows)
    titles = [head.title for head, _, _ in columns]
    return sheet(instance.name, titles, lines(comparison, rows, columns), HEADS)


def _notes(instance: CollocationInstance, comparison: Comparison, say: Say) -> None:
    from moeopt.cli.spoken import spoken

    for note in (*comparison.notes, *instance.notes):
        say.note(spoken(note))
    for row in comparison.rows:
        for note in row.result.notes if row.result is not None else ():
            if note not in instance.notes:
                say.note(f"{row.method}: {spoken(note)}")


def _report(output: Output, instance: CollocationInstance, comparison: Comparison, seed: int) -> None:
    import shlex

    from moeopt.report import Block, Header, write_report

    assert output.output is not None
    header = Header(command=shlex.join(["moeopt", *COMMAND.get()]), seed=seed)
    write_report(Path(output.output), [Block(instance, comparison)], header, force=output.force)


def _code(comparison: Comparison, plans: list[str], gate: bool, say: Say) -> int:
    results = [row.result for row in comparison.rows if row.result is not None]
    if not results or any(row.result is None for row in comparison.rows if row.method in plans):
        for row in comparison.rows:
            if row.result is None and row.method in plans:
                complain(f"{row.method}: {row.reason}")
        return BAD_USAGE
    if all(result.status == "INFEASIBLE" for result in results):
        return INFEASIBLE
    return GATE if gate and _worse(comparison, plans, say) else DONE


def _worse(comparison: Comparison, plans: list[str], say: Say) -> bool:
    """Whether a plan, or without plans the best method, is worse than what runs, or than loads alone."""
    from moeopt.cli.solving import WORSE

    def value(row: Row) -> float | None:
        return None if row.result is None else row.result.objective

    values = {row.method: value(row) for row in comparison.rows if not row.remark}
    rival = RUNNING if RUNNING in values else RIVAL
    least = values.pop(rival, None)
    if least is None:
        say.note(f"--fail-if-worse has nothing to compare with: {rival} gave no plan")
        return False
    judged = {name: values.get(name) for name in plans if name != rival}
    known = {name: one for name, one in values.items() if one is not None}
    if not judged and known:
        best = min(known, key=lambda name: known[name])
        judged = {best: known[best]}
    worse = False
    for name, one in judged.items():
        if one is None or one > least * WORSE:
            found = "gave no plan" if one is None else f"has {one:g}"
            say.note(f"worse than {rival}: {name} {found}, {rival} {least:g}")
            worse = True
    return worse
