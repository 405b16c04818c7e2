"""Run a grid of policies, shapes, loads and seeds, and compare them in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.ask import ask
from moeopt.cli.header import header
from moeopt.cli.options import OUTPUT, Json, Showing
from moeopt.cli.say import Say, complain, count, few
from moeopt.cli.spread import Spread
from moeopt.cli.verb import BAD_USAGE, DONE, NO_PLAN, verb

if TYPE_CHECKING:
    from moeopt.bench import Grid, Pivot
    from moeopt.bench.run import Ran

EXAMPLE = """Example:

moeopt bench grid.yaml -o results

moeopt bench grid.yaml -o results --resume --executor processes:2

moeopt bench grid.yaml -o results --resume --pivot policy,loads --metric gap --table gaps.html,gaps.tex

A grid: policies: [eplb, lpt, search], shapes: {g8: {gpus: 8, slots: 72}}, seeds: [0, 1, 2],
loads: {z: {generator: zipf, alpha: 1.0, layers: 4, experts: 64, top_k: 6}}"""


@verb
def bench(
    say: Say,
    output: Json,
    spread: Spread,
    showing: Showing,
    grid: Annotated[str, typer.Argument(metavar="GRID", help="A .yaml, .json or .toml file; see the example below.")],
    folder: Annotated[
        str, typer.Option("--output", "-o", metavar="FOLDER", help="Where results go, a file a cell.")
    ] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the results that are in the folder, and run what is missing.")
    ] = False,
    by: Annotated[
        str,
        typer.Option(
            "--pivot",
            help="Down and across: of policy, shape, loads and seed one or two, or as the grid calls them.",
            rich_help_panel=OUTPUT,
        ),
    ] = "policy,shape",
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            help="imbalance_mean, imbalance_worst, objective, lower_bound, gap, gap_worst or runtime_s.",
            rich_help_panel=OUTPUT,
        ),
    ] = "imbalance_mean",
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE[,FILE]",
            help="Write the table: .html, .md, .csv, .tex, .json, .svg or .png.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file of the table if it exists.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Run every policy on every shape under all loads, once a seed, and show means of one metric.

    A cell's result is a file of its own, written whole or not at all: after a kill, --resume runs what is missing and
    the files are those of an undisturbed run. Seconds stand apart, in times.jsonl. A cell whose policy does not apply,
    or whose experts have no room, is a result with its reason.

    In a grid, shapes are arguments of a placement (gpus, slots, nodes, groups, split, ...) or deployments by name (see
    moeopt info shapes); loads are files, or a generator with its numbers; limits are time_s, gap, iterations or nodes.
    """
    from moeopt.bench import pivot, read_grid, run_grid
    from moeopt.bench.tables import axes_of
    from moeopt.cli.solving import find_plugins, guarded_output
    from moeopt.cli.target import check_target, refuse_stdout, targets
    from moeopt.errors import Violations
    from moeopt.report.grid_file import FORMATS

    check, read, made = Violations(), None, None
    tables = targets(table, tuple(FORMATS))
    axes = axes_of(by)
    with check.within():
        read = read_grid(grid)
    with check.within():
        made = spread.made()
    with check.within():
        pivot([], axes, metric)
    for file in tables:
        with check.within():
            refuse_stdout(file, "Use --json, or give a file such as table.md", "--table")
            check_target(file, tuple(FORMATS), force, what="a table", option="--table")
    if not folder:
        check.add("--output", "missing", rule="is needed: results go there", fix="Use -o results")
    check.raise_if_any()
    assert read is not None
    place = Path(folder)
    if not resume and (held := _held(place)):
        check.add(
            "--output", folder, rule=f"holds {count(held, 'result')} already", fix="Add --resume, or name another"
        )
        check.raise_if_any()
    policies = list(read.policies)
    results: dict[int, dict[str, Any]] = {}
    find_plugins(policies)
    try:
        with say.progress(f"{grid}: cells") as listener, guarded_output(policies):
            told = {"on_cell": _told(listener), "on_result": results.__setitem__}
            ran = ask(run_grid, read, place, executor=made, **told)
    except KeyboardInterrupt:
        say.note(f"{count(len(results), 'cell')} of {len(read):,} are done: --resume goes on")
        raise
    documents = [results[index] for index in sorted(results)]
    found = pivot(documents, axes, metric)
    _show(read, found, output.json, say, ran)
    if tables:
        _write(found, tables, Path(grid).stem, force)
        say.note(f"table: {', '.join(tables)}")
    for cell, reason in ran.lost:
        complain(f"{cell.label}: ended its worker, and has no result ({reason})")
    if ran.lost:
        return NO_PLAN
    return DONE if any(one["status"] for one in documents) else BAD_USAGE


def _held(folder: Path) -> int:
    """Results that are in a folder."""
    from moeopt.bench import read_cells

    return len(read_cells(folder)) if folder.is_dir() else 0


def _told(listener: Any) -> Any:
    from moeopt.registry import Progress

    return None if listener is None else lambda done, total: listener(Progress(done, total))


def _show(read: Grid, found: Pivot, json: bool, say: Say, ran: Ran) -> None:
    from moeopt.bench.written import heading

    if json:
        known = {"schema": "moeopt/bench/1", "cells": len(read), "ran": ran.ran, "kept": ran.kept}
        say.document({**known, "without_result": dict(found.reasons), "pivot": found.to_dict()})
    elif not say.quiet:
        say.line(heading(found))
        say.line(found.as_text())
    say.note(f"{count(ran.ran, 'cell')} run, {ran.kept:,} kept, of {len(read):,}")
    for line in few([f"{count(times, 'cell')}: {reason}" for reason, times in found.reasons], say.verbose):
        say.note(line)


def _write(found: Pivot, tables: list[str], name: str, force: bool) -> None:
    from moeopt.report.grid_file import write_pivot

    for file in tables:
        write_pivot(file, found, header(None), name=name, force=force)
