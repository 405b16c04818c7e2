"""Compare methods and ready-made plans: one referee for all, the best and the bound marked."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.collocate_options import Sharing, Travel
from moeopt.cli.compare_gate import RIVAL, code
from moeopt.cli.compare_mesh import MeshOptions, compare_mesh, is_mesh
from moeopt.cli.options import Gate, Output, Shape, Solving
from moeopt.cli.ready_plans import fit_plans, read_plans, scored_on
from moeopt.cli.say import Say
from moeopt.cli.verb import COMMAND, verb

if TYPE_CHECKING:
    from moeopt.engines.base import ExpertMap
    from moeopt.limits import Limits
    from moeopt.placement import PlacementInstance
    from moeopt.placement.load_plan import ResultDocument
    from moeopt.registry import Comparison

EXAMPLE = """Example:

moeopt compare loads.csv --gpus 32 --slots 96 --methods eplb,search -o report.html

moeopt compare loads.csv --gpus 32 --slots 96 --plans ours.json,theirs.json

moeopt compare trace.npz --cluster 4x8-h100 -o collocations.html

moeopt compare --llm deepseek-v3 --gpu h200 --gpus 64 --tpot 50ms -o meshes.html

moeopt compare --fit 'week_1_*.csv' --score 'week_2_*.csv' --gpus 32 --slots 96"""

METHODS = "contiguous,eplb,lpt,search"
SEARCHES = frozenset({"search", "auto", "exact", "replan", "repair"})
RUNNING = "running plan"
"""The row of the plan that runs."""


@verb
def compare(
    say: Say,
    shape: Shape,
    solving: Solving,
    output: Output,
    gate: Gate,
    travel: Travel,
    sharing: Sharing,
    mesh: MeshOptions,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT...]",
            help="Loads, FILE.npz:KEY, or an instance; - is stdin. Several loads are windows, as in place.",
        ),
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Compare several INPUTs one by one, a block each, instead of as windows.")
    ] = False,
    methods: Annotated[
        str, typer.Option("--methods", help="Names with commas; also package.module:function.")
    ] = METHODS,
    plans: Annotated[
        list[str] | None,
        typer.Option(
            "--plans", metavar="FILE,...", help="Ready-made plans or maps of an engine; may be given repeatedly."
        ),
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option("--fit", metavar="GLOB", help="Plan on these loads, as windows; may be given repeatedly."),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option("--score", metavar="GLOB", help="Score the plans on these loads, which they have not seen."),
    ] = None,
) -> int:
    """Run several methods on the same loads and judge them all by one referee.

    Several INPUTs are windows that one plan is made for; with --apart each is a comparison of its own. With --fit and
    --score instead of INPUT, plans are made for the first and scored on the others too.

    With --current the running plan is a row, and a column has the moves that each plan costs.

    Gaps are measured against the best bound that any of them proved. With -o the report is HTML, Markdown, LaTeX, CSV
    or JSON, as the ending says. --fail-if-worse looks at the plans, and without plans at the best other method.

    A micro-batch instance is compared by all methods of its own, and with plans of its own. A routing trace with
    --cluster or --transport is a collocation: all methods on copies and the busiest link, scored on tokens held out. A
    mesh is compared from its instance, from a plan, or from the options of moeopt mesh.
    """
    from moeopt.cli.compare_collocation import compare_collocation, is_collocation
    from moeopt.cli.inputs import names_of, sources
    from moeopt.cli.microbatch_files import read_instance as read_microbatch
    from moeopt.cli.solving import find_plugins
    from moeopt.cli.tables import comparison_table

    limits = solving.limits()
    wanted = None if methods == METHODS else [name.strip() for name in methods.split(",") if name.strip()]
    others = [name for name, one in (("--apart", apart), ("--fit", fit), ("--score", score)) if one]
    if is_mesh(inputs, mesh):
        groups = (shape, travel, sharing)
        return compare_mesh(inputs or [], wanted, plans or [], mesh, groups, solving, output, gate, others, say)
    if is_collocation(inputs, travel, sharing):
        return compare_collocation(
            inputs or [], wanted, plans or [], shape, travel, sharing, solving, output, gate, others, say
        )
    if inputs is not None and len(inputs) == 1 and not (fit or score):
        steps = read_microbatch(inputs[0], shape.given(), "compare")
        if steps is not None:
            from moeopt.cli.compare_microbatch import compare_microbatch

            return compare_microbatch(inputs[0], steps, wanted, plans or [], solving, output, say)
    fitted, scored = _held_out_files(inputs or [], fit or [], score or [], apart)
    inputs, fitted, scored = sources(inputs or [], say), sources(fitted, say), sources(scored, say)
    _check_output(output)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if gate.fail_if_worse and RIVAL not in names:
        names.append(RIVAL)
    documents = read_plans(plans or [], names)
    find_plugins(names)
    blocks: list[tuple[PlacementInstance, Comparison]] = []
    taken = [[path] for path in inputs or []] if apart else [inputs or fitted]
    labels: list[str | None] = [*names_of(inputs or [])] if apart else [None]
    for paths, name in zip(taken, labels, strict=True):
        try:
            block = _block(paths, name, names, documents, shape, solving, limits, say, scored)
        except KeyboardInterrupt:
            if not blocks:
                raise
            break
        blocks.append(block)
        if not output.json:
            if len(blocks) > 1 and not say.quiet:
                say.line("")
            say.show(comparison_table(block[1], everything=say.verbose))
            _notes(block[1], say)
        if block[1].interrupted:
            break
    kept = say.kept()
    for note in kept:
        say.note(note)
    left_out = [*kept, *(f"interrupted: {', '.join(paths)} was not compared" for paths in taken[len(blocks) :])]
    for note in left_out[len(kept) :]:
        say.note(note)
    if scored:
        left_out.append(f"held out, and seen by no method: {', '.join(scored)}")
    if output.json:
        noted = {"notes": kept} if kept else {}
        say.document({"schema": "moeopt/comparison/1", "blocks": [_document(*block) for block in blocks], **noted})
    if output.output is not None:
        _report(output, blocks, solving.seed, left_out)
        say.note(f"written: {output.output}")
    policies = [name for name in names if ":" in name]
    return code([comparison for _, comparison in blocks], list(documents), policies, gate.fail_if_worse, say)


def _check_output(output: Output) -> None:
    """What is wrong with the file of the report is said before the work."""
    if output.output is None:
        return
    from moeopt.cli.target import check_target, refuse_stdout
    from moeopt.report import FORMATS

    refuse_stdout(output.output, "Use --json, or give a file such as report.html")
    check_target(output.output, tuple(FORMATS), output.force, what="a report", advice="moeopt place writes plans")


def _held_out_files(inputs: list[str], fit: list[str], score: list[str], apart: bool) -> tuple[list[str], list[str]]:
    """The files to plan on and the files to score on; either is empty with plain inputs."""
    from moeopt.cli.windows import files_of
    from moeopt.errors import Violations

    check = Violations()
    if inputs and (fit or score):
        rule = "cannot be given beside --fit and --score, which say what is planned on"
        check.add("input", ", ".join(inputs), rule=rule, fix="Leave the inputs out")
    elif apart and (fit or score):
        check.add("--apart", "", rule="is for inputs; the files of --fit are windows", fix="Leave it out")
    elif not inputs and not (fit and score):
        missing = "INPUT" if not (fit or score) else "--score" if fit else "--fit"
        check.add(missing, "missing", rule="is needed", fix="Give inputs, or --fit and --score")
    fitted, scored = files_of("--fit", fit, check), files_of("--score", score, check)
    for path in [path for path in scored if path in fitted]:
        rule = "is fitted to already, and would flatter every plan"
        check.add("--score", path, rule=rule, fix="Leave it out of --fit or of --score")
    check.raise_if_any()
    return fitted, scored


def _block(
    paths: list[str],
    name: str | None,
    methods: list[str],
    documents: dict[str, ResultDocument | ExpertMap],
    shape: Shape,
    solving: Solving,
    limits: Limits,
    say: Say,
    scored: list[str],
) -> tuple[PlacementInstance, Comparison]:
    """One input, or several as windows, and the methods and plans compared on it."""
    from moeopt.cli.inputs import layer_facts
    from moeopt.cli.solving import guarded_output
    from moeopt.cli.windows import read_inputs
    from moeopt.limits import Deadline
    from moeopt.placement import PROBLEM
    from moeopt.placement.heuristics.deep import engine
    from moeopt.placement.replanning.report import running_plan

    instance = read_inputs(paths, shape, say, name)
    ready, refused = fit_plans(documents, instance, layer_facts(shape))
    if instance.current is not None:
        ready = {RUNNING: running_plan(instance), **ready}
    with say.progress(instance.name) as listener, guarded_output(methods):
        if limits.time_s is None and SEARCHES & set(methods):
            engine(Deadline(None))  # compiled code is loaded before, or the first method's time would have it
        comparison = PROBLEM.compare(
            instance, methods, plans=ready, limits=limits, seed=solving.seed, on_progress=listener
        )
    comparison = replace(comparison, rows=comparison.rows + refused)
    return instance, scored_on(comparison, scored, shape, say) if scored else comparison


def _notes(comparison: Comparison, say: Say) -> None:
    for note in comparison.notes:
        say.note(note)
    for row in comparison.rows:
        if row.error is not None and say.debug:
            traceback.print_exception(row.error)
        for note in row.result.notes if row.result is not None else ():
            say.note(f"{row.method}: {note}")


def _document(instance: PlacementInstance, comparison: Comparison) -> dict[str, Any]:
    from moeopt.cli.tables import figures, floors_of

    floors = floors_of(comparison)
    rows = []
    for row in comparison.rows:
        result = row.result
        known: dict[str, Any] = {"method": row.method, "reason": row.reason or None, "remark": row.remark or None}
        if result is not None:
            known |= {"status": str(result.status), "stop": str(result.stop), "notes": list(result.notes)}
            known["conflicts"] = [dict(conflict) for conflict in result.conflicts]
            if result.solution is not None:
                known |= figures(result, floors)
            if row.held_out is not None:
                known["held_out"] = dict(row.held_out)
        rows.append(known)
    return {
        "instance": {"name": instance.name, "sha256": instance.sha256},
        "interrupted": comparison.interrupted,
        "not_run": list(comparison.not_run),
        "best": comparison.best,
        "lower_bound": comparison.lower_bound,
        "rows": rows,
    }


def _report(output: Output, blocks: list[tuple[PlacementInstance, Comparison]], seed: int, notes: list[str]) -> None:
    import shlex

    from moeopt.report import Block, Header, write_report

    assert output.output is not None
    header = Header(command=shlex.join(["moeopt", *COMMAND.get()]), seed=seed, notes=tuple(notes))
    made = [Block(instance, comparison) for instance, comparison in blocks]
    write_report(Path(output.output), made, header, force=output.force)
