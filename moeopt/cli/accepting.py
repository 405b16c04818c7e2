"""Findings on the command line: shown by inspect, and between loads and plan until they are accepted by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.cli.options import Shape
    from moeopt.cli.say import Say
    from moeopt.workload import LoadTable
    from moeopt.workload.laws import Finding

DROPS = ("dummy-rows",)
"""Findings whose data can be left out."""


def guarded(table: LoadTable, path: str, shape: Shape, say: Say) -> LoadTable:
    """The loads to plan on, what is to be dropped left out; refused where a finding matters and is not accepted.

    What was dropped and accepted is kept by `say` for the notes of the result.

    Raises
    ------
    InstanceError
        Findings that matter, all of them; or a name that is no finding's.
    """
    from moeopt.workload.dummies import without_dummies

    check_names(shape.accept, shape.drop)
    kept = dropped(table, shape.drop)
    if kept is not table:
        say.keep(f"{path}: {kept.notes[-1]}")
        kept = replace(kept, notes=kept.notes[:-1])
    accepted = set(shape.accept or ())
    refused = []
    for finding in findings_of(kept, shape):
        if finding.severity != "matters":
            continue
        if finding.name in DROPS and not without_dummies(kept).loads.any():
            rule, fix = "nothing is left without them, and no plan can be made of it", "Record real requests"
            refused.append(Violation(finding.name, "", finding.text, rule, fix))
            continue
        if finding.name in accepted:
            say.keep(f"{path}: accepted {finding.name}: {finding.text}")
            continue
        fix = f"Give --accept {finding.name} to plan all the same"
        if finding.name in DROPS:
            fix += f", or --drop {finding.name} to leave them out"
        refused.append(Violation(finding.name, "", finding.text, "this matters to a plan", fix))
    if refused:
        raise InstanceError(refused, path)
    return kept


def dropped(table: LoadTable, names: Sequence[str] | None) -> LoadTable:
    """The table without what ``--drop`` names; the same object where there is nothing of it."""
    if not names:
        return table
    from moeopt.workload.dummies import without_dummies

    kept = without_dummies(table)
    if not kept.loads.any() and table.loads.any():
        rule = "are all that there is"
        raise InstanceError([Violation("--drop", "", "dummy-rows", rule, "Record real requests")], table.source)
    return kept


def said_of(table: LoadTable, path: str, say: Say) -> None:
    """Notes on what matters, for a verb that judges the loads as they are."""
    from moeopt.workload.laws import MATTERS, findings

    for finding in findings(table):
        if finding.severity == MATTERS:
            hint = f" (--drop {finding.name})" if finding.name in DROPS else ""
            say.note(f"{path}: {finding.name}: {finding.text}{hint}")


def check_names(accept: Sequence[str] | None, drop: Sequence[str] | None) -> None:
    """Names of ``--accept`` and ``--drop`` that there are not, each with the nearest one."""
    from moeopt.workload.laws import LAWS

    check = Violations()
    for option, names, known in (("--accept", accept, tuple(LAWS)), ("--drop", drop, DROPS)):
        for name in names or ():
            if name not in known:
                near = get_close_matches(name, known, 1, 0)[0]
                rule = "is not a finding" if option == "--accept" else "cannot be dropped"
                fix = f"Nearest is {near}" + (f"; known are {', '.join(known)}" if len(known) > 1 else "")
                check.add(option, name, rule=rule, fix=fix)
    check.raise_if_any()


def findings_of(table: LoadTable, shape: Shape) -> list[Finding]:
    """What the laws say about the layers that are wanted, by all that the options tell."""
    from moeopt.workload.laws import findings

    if shape.layers is not None:
        from moeopt.cli import units

        wanted = units.ids("--layers", shape.layers, Violations())
        rows = [table.layers.index(layer) for layer in wanted if layer in table.layers]
        table = _cut(table, rows) if rows else table
    facts = shape.facts
    top_k, experts, dense, mtp = shape.top_k, None, None, None
    if facts is not None:
        top_k, experts = shape.top_k or table.top_k or facts.top_k, facts.experts
        dense, mtp = facts.dense_layers, range(facts.layers, facts.layers + facts.mtp_layers)
    if top_k is not None and top_k > table.loads.shape[-1]:
        top_k = None  # no law holds for it; the instance says what is wrong
    gpus = shape.gpus if shape.gpus is not None and shape.gpus > 0 else None
    absolute = shape.floor_tokens is not None or shape.floor_gpu is not None or shape.c_tok is not None
    return findings(
        table,
        top_k=top_k,
        experts=experts,
        gpus=gpus,
        absolute=absolute,
        dense_layers=dense,
        mtp_layers=mtp,
        recorded=table.top_k is not None or table.per_step is not None,  # by the file, not by an option
    )


def _cut(table: LoadTable, rows: Sequence[int]) -> LoadTable:
    """Some layers of a table."""
    return replace(
        table,
        loads=table.loads[list(rows)],
        layers=tuple(table.layers[row] for row in rows),
        windows=None,
        per_step=None if table.per_step is None else table.per_step[:, list(rows)],
        dummies=None if table.dummies is None else table.dummies.cut(rows),
    )
