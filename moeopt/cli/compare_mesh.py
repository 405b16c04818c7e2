"""Methods compared on a mesh: what each buys and serves, and the bound, in one table."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from moeopt.cli.collocate_options import Sharing, Travel
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_files import INSTANCE_SAID, RESULT_SAID, document_of, instance_of
from moeopt.cli.mesh_options import Asked, Choice, Fleet
from moeopt.cli.options import Gate, Output, Shape, Solving
from moeopt.cli.say import complain
from moeopt.cli.verb import BAD_USAGE, COMMAND, DONE, INFEASIBLE
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from rich.table import Table

    from moeopt.cli.mesh_input import Question
    from moeopt.cli.say import Say
    from moeopt.mesh import MeshInstance
    from moeopt.registry import Comparison

SHARED = {"gpus": 0, "engine": 0, "hf_config": 0, "cluster": 1, "transport": 1, "objective": 2}
"""Options that other problems have by the same name: of `Shape`, `Travel` or `Sharing`."""
HEADS = {
    "GPUs, used": "GPUs",
    "GPUs, idle": "idle",
    "In the mean, TTFT": "TTFT",
    "In the mean, TPOT": "TPOT",
    "Gap to best bound": "gap",
}
"""Heads of columns as a terminal has room for them."""
PANEL = "Mesh, as moeopt mesh has them"


def _own_options() -> type:
    """The options of ``moeopt mesh`` that no other problem has, in a panel of their own."""
    from copy import copy
    from typing import Annotated

    found = []
    for group in (WhichLlm, Fleet, Asked, Choice):
        hints = get_type_hints(group, include_extras=True)
        for one in fields(group):
            if one.name not in SHARED:
                kind, option = get_args(hints[one.name])
                option = copy(option)
                option.rich_help_panel = PANEL
                found.append((one.name, Annotated[kind, option], one.default))
    return make_dataclass("MeshOptions", found, frozen=True)


if TYPE_CHECKING:

    class MeshOptions:
        """The options of ``moeopt mesh`` that no other problem has."""
else:
    MeshOptions = _own_options()


def given(own: MeshOptions) -> list[str]:
    """The options that were given, as they are typed."""
    from moeopt.cli.mesh_options import given as named

    return named(own)


def is_mesh(inputs: list[str] | None, own: MeshOptions) -> bool:
    """Whether an input or an option says so."""
    if given(own):
        return True
    return inputs is not None and len(inputs) == 1 and document_of(inputs[0]) is not None


def compare_mesh(
    inputs: list[str],
    methods: list[str] | None,
    plans: list[str],
    own: MeshOptions,
    taken: tuple[Shape, Travel, Sharing],
    solving: Solving,
    output: Output,
    gate: Gate,
    others: list[str],
    say: Say,
) -> int:
    """Run all methods, or those that are named, and judge the plans; what does not apply is a row with its reason."""
    from moeopt.cli.solving import find_plugins, guarded_output
    from moeopt.mesh import PROBLEM
    from moeopt.mesh.market import market_of
    from moeopt.report import FORMATS

    check, found, ready = Violations(), None, dict[str, Any]()
    names = list(PROBLEM.methods) if methods is None else methods
    said = {f"--{name.replace('_', '-')}" for name in SHARED}
    strange = [option for group in taken for option in group.given() if option not in said]
    for option in [*others, *(["--fail-if-worse"] if gate.fail_if_worse else []), *strange]:
        check.add(option, "given", rule="is not for a mesh", fix="Leave it out")
    if output.output is not None:
        from moeopt.cli.target import check_target, refuse_stdout

        with check.within():
            refuse_stdout(output.output, "Use --json, or give a file such as report.html")
            check_target(
                output.output, tuple(FORMATS), output.force, what="a report", advice="moeopt mesh writes plans"
            )
    with check.within():
        found = _question(inputs, own, taken)
    with check.within():
        ready = _plans(plans, names)
    check.raise_if_any()
    assert found is not None
    instance = found.instance
    find_plugins(names)
    limits = solving.limits()
    market_of(instance)  # enumerated before, or the first method's time would have it
    with say.progress(instance.name or "mesh") as listener, guarded_output(names):
        comparison = PROBLEM.compare(
            instance, names, plans=ready, limits=limits, seed=solving.seed, on_progress=listener
        )
    if output.json:
        from moeopt.report.mesh_rows import document, figures_of

        block = document(instance, comparison, figures_of(comparison))
        noted = {"notes": list(found.notes)} if found.notes else {}
        say.document({"schema": "moeopt/comparison/1", "problem": "mesh", "blocks": [block], **noted})
    else:
        say.show(_table(instance, comparison))
        _notes(comparison, found, say)
    if output.output is not None:
        _report(output, instance, comparison, solving.seed, found.notes)
        say.note(f"report: {output.output}")
    return _code(comparison, list(ready))


def _question(inputs: list[str], own: MeshOptions, taken: tuple[Shape, Travel, Sharing]) -> Question:
    """The instance that all are compared on: of a document, of a plan, or of options."""
    from moeopt.cli.mesh_input import Question, from_options

    values = {name: getattr(taken[place], name) for name, place in SHARED.items()}
    if len(inputs) > 1:
        rule = "must be one mesh instance"
        raise InstanceError([Violation("input", "", ", ".join(inputs), rule, "Compare one at a time")])
    if inputs:
        shared = [f"--{name.replace('_', '-')}" for name, value in values.items() if value is not None]
        instance = instance_of(inputs[0], [*given(own), *shared])
        if instance is None:
            rule = f"is no {INSTANCE_SAID} or {RESULT_SAID}, and {', '.join(given(own))} are options of a mesh"
            raise InstanceError([Violation("input", "", inputs[0], rule, "Give options without an input")])
        return Question(instance)
    if values["cluster"] is not None:
        values["cluster"] = ",".join(values["cluster"])
    made: list[Any] = []
    for group in (WhichLlm, Fleet, Asked, Choice):
        names = [one.name for one in fields(group)]
        made.append(group(**{name: values[name] if name in SHARED else getattr(own, name) for name in names}))
    return from_options(*made)


def _plans(paths: list[str], names: list[str]) -> dict[str, Any]:
    """Solutions of ready-made plans by the names of their files."""
    check, found = Violations(), dict[str, Any]()
    for path in dict.fromkeys(part.strip() for given in paths for part in given.split(",") if part.strip()):
        with check.within():
            read = document_of(path)
            solution = read[1].get("solution") if read is not None and read[0] == RESULT_SAID else None
            label = path if Path(path).name in (*names, *found) else Path(path).name
            if solution is None:
                fix = "Write one with moeopt mesh -o plan.json"
                check.add("--plans", path, rule="is no mesh plan with a solution", fix=fix)
            elif label in names:
                check.add("--plans", path, rule="is also the name of a method", fix="Rename the file")
            else:
                found[label] = solution
    check.raise_if_any()
    return found


def _table(instance: MeshInstance, comparison: Comparison) -> Table:
    from moeopt.cli.tables import sheet
    from moeopt.report.mesh import columns_of, lines
    from moeopt.report.mesh_rows import figures_of

    rows = figures_of(comparison)
    columns = columns_of(instance, comparison, rows)
    titles = [head.title for head, _, _ in columns]
    return sheet(instance.name, titles, lines(comparison, rows, columns), HEADS)


def _notes(comparison: Comparison, found: Question, say: Say) -> None:
    """What is bought by whom on standard output, all else beside it."""
    from moeopt.report.mesh import bought, notes

    if not say.quiet:
        for pools, methods in bought(comparison):
            say.line(f"{', '.join(methods)}: {pools}")
    for note in found.notes:
        say.note(note)
    for note, methods in notes(comparison):
        say.note(f"{', '.join(methods)}: {note}" if methods else note)


def _report(output: Output, instance: MeshInstance, comparison: Comparison, seed: int, noted: tuple[str, ...]) -> None:
    import shlex

    from moeopt.report import Block, Header, write_report

    assert output.output is not None
    header = Header(command=shlex.join(["moeopt", *COMMAND.get()]), seed=seed, notes=noted)
    write_report(Path(output.output), [Block(instance, comparison)], header, force=output.force)


def _code(comparison: Comparison, plans: list[str]) -> int:
    results = [row.result for row in comparison.rows if row.result is not None]
    refused = [row for row in comparison.rows if row.method in plans and row.result is None]
    for row in refused:
        complain(f"{row.method}: {row.reason}")
    if refused or not results:
        return BAD_USAGE
    impossible = [result for result in results if result.status == "INFEASIBLE"]
    if len(impossible) < len(results):
        return DONE
    for message in dict.fromkeys(str(one["message"]) for result in impossible for one in result.conflicts):
        complain(f"infeasible: {message}")
    return INFEASIBLE
