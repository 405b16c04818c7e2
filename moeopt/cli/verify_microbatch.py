"""A micro-batch plan held against itself: the schedule is let happen again, and every number and bound re-derived."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from moeopt.cli.say import few
from moeopt.cli.verb import DONE, GATE
from moeopt.errors import PlanError, Violations

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.microbatch import MicrobatchInstance

SCHEMA = "moeopt/microbatch-result/1"
TOLERANCE = 1e-9
"""Relative difference up to which a stated number and the recomputed one are the same."""
ASIDE = ("reason",)
"""Words, which say again what numbers say."""


def verify_microbatch(plan: str, document: Any, instance_path: str | None, json: bool, say: Say) -> int:
    """Every fault on standard output; 5 if there is one."""
    given = None
    if instance_path is not None:
        from moeopt.microbatch.document import load_instance

        given = load_instance(instance_path)
    faults, aside = faults_of(document, plan, given)
    checked = "structure, numbers and bounds"
    if json:
        say.document({"ok": not faults, "checked": checked, "unchecked": aside, "faults": faults})
        return GATE if faults else DONE
    for fault in few(faults, say.verbose):
        say.line(fault)
    if not faults and not say.quiet:
        say.line(f"{plan}: ok ({checked})")
    for what in aside:
        say.note(f"not re-checked: {what}")
    return GATE if faults else DONE


def faults_of(document: Any, source: str, given: MicrobatchInstance | None = None) -> tuple[list[str], list[str]]:
    """What is wrong, and what could not be re-checked.

    Raises
    ------
    InstanceError
        It is no document of a plan, or its instance is malformed.
    """
    instance = _instance(document, source)
    faults = []
    stated = document["instance"].get("sha256")
    if stated != instance.sha256:
        faults.append(f"instance.sha256 says {stated}, the instance in the plan is {instance.sha256}")
    if given is not None and given.sha256 != instance.sha256:
        faults.append(f"the plan was made for another instance: {given.sha256} is not {instance.sha256}")
    solution = document.get("solution")
    if solution is None:
        return faults + _without_plan(document, instance), []
    from moeopt.limits import Deadline, Limits
    from moeopt.microbatch import PROBLEM
    from moeopt.registry import Context, Outcome

    try:
        plan = PROBLEM.as_plan(instance, solution)
        context = Context(Limits(), 0, Deadline(None))
        ours = PROBLEM.result(instance, str(document.get("method")), Outcome(plan), context).to_dict()
    except PlanError as error:
        return faults + list(error.faults), []
    for key in ("unit", "objective"):
        faults += list(_differences(key, document.get(key), ours[key]))
    whole = _by_candidate(solution), _by_candidate(ours["solution"])
    aside = []
    for key, value in whole[0].items():
        if key not in whole[1]:
            aside.append(f"solution.{key}")
        elif key == "runner_up" and len(solution.get("sweep") or ()) < len(ours["solution"]["sweep"]):
            aside.append("solution.runner_up: the time was up before all candidates were looked at")
        else:
            faults += list(_differences(f"solution.{key}", value, whole[1][key]))
    faults += [f"solution.{key} = missing" for key in whole[1] if key not in whole[0]]
    bound_faults, claim = _bound_faults(document, instance)
    return faults + bound_faults, aside + claim


def _instance(document: Any, source: str) -> MicrobatchInstance:
    from moeopt.microbatch.document import read_instance

    check = Violations(source)
    if document.get("schema") != SCHEMA:
        rule = "is not a plan this version knows"
        check.add("schema", document.get("schema"), rule=rule, fix=f"This version reads {SCHEMA}")
    told = document.get("instance")
    if not isinstance(told, dict) or "document" not in told:
        check.add("instance", told, rule="must have the document of the instance", fix="Give the file that -o wrote")
    if not isinstance(document.get("solution"), dict | None):
        check.add("solution", document.get("solution"), rule="must be an object or null", fix="Give the file as it was")
    check.raise_if_any()
    return read_instance(document["instance"]["document"], source)


def _without_plan(document: Mapping[str, Any], instance: MicrobatchInstance) -> list[str]:
    """A document that says there is no plan."""
    from moeopt.microbatch import PROBLEM

    if document.get("status") == "INFEASIBLE" and not PROBLEM.conflicts(instance):
        return ["status = INFEASIBLE: no rules conflict"]
    return []


def _by_candidate(solution: Mapping[str, Any]) -> dict[str, Any]:
    """The sweep by m and batch, so that rows that a deadline cut off are no difference."""
    found = dict(solution)
    rows = found.get("sweep")
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        found["sweep"] = {f"{row.get('m')}, {row.get('batch')}": {**row, "how": ""} for row in rows}
    return found


def _differences(place: str, stated: Any, ours: Any) -> Iterator[str]:
    """Where two values differ, numbers beyond a rounding."""
    if isinstance(stated, Mapping) and isinstance(ours, Mapping):
        for key in stated:
            if key not in ours:
                yield f"{place}[{key}]: there is no such"
            elif key not in ASIDE and not (key == "lower_bound_s" and stated[key] is None):
                yield from _differences(f"{place}[{key}]", stated[key], ours[key])
    elif isinstance(stated, list | tuple) and isinstance(ours, list | tuple):
        if len(stated) != len(ours):
            yield f"{place} has {len(stated)} entries, there are {len(ours)}"
        else:
            for index, (one, other) in enumerate(zip(stated, ours, strict=True)):
                yield from _differences(f"{place}[{index}]", one, other)
    elif not _same(stated, ours):
        yield f"{place} = {stated!r}, recomputed {ours!r}"


def _same(stated: Any, ours: Any) -> bool:
    if isinstance(stated, bool) or isinstance(ours, bool):
        return stated is ours
    if isinstance(stated, int | float) and isinstance(ours, int | float):
        return math.isclose(stated, ours, rel_tol=TOLERANCE, abs_tol=1e-15)
    return bool(stated == ours)


def _bound_faults(document: Mapping[str, Any], instance: MicrobatchInstance) -> tuple[list[str], list[str]]:
    """The lower bound against its certificate, the certificate against the instance, gap and status against both."""
    from moeopt.microbatch.verify import recheck
    from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, relative_gap

    objective, floor, certificate = document.get("objective"), document.get("lower_bound"), document.get("certificate")
    try:
        solvers = certificate["kind"] == "solver"  # type: ignore[index]
        proved = certificate["certified"] if solvers else certificate  # type: ignore[index]
        faults = [f"certificate: {fault}" for fault in recheck(instance, proved)]
        value = Fraction(certificate["claim"]) if solvers else Fraction(proved["value"])  # type: ignore[index]
        gap = relative_gap(objective, floor)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError) as error:
        return [f"certificate: cannot be read ({type(error).__name__}: {error})"], []
    assert isinstance(floor, int | float)
    if floor > float(value) * (1 + TOLERANCE):
        faults.append(f"lower_bound = {floor!r}, the certificate says {float(value)!r}")
    faults += list(_differences("gap", document.get("gap"), gap))
    kind = "solver" if solvers else "certified"
    faults += list(_differences("bound_kind", document.get("bound_kind"), kind))
    allowed = SOLVER_TOLERANCE if solvers else CERTIFIED_TOLERANCE
    if document.get("status") == "OPTIMAL" and gap > allowed:
        faults.append(f"status = OPTIMAL, the gap is {gap:.3g}")
    return faults, ["lower_bound is in part a solver's claim"] if solvers else []
