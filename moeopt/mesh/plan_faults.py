"""A plan document held against its instance: all that can be recomputed has to be there, and to be the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from moeopt.errors import PlanError
from moeopt.forms import form_faults
from moeopt.mesh import bounds, conflicts, describe, partial, verify
from moeopt.mesh.beside import NOT_COMPARED, STOPPED
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.other_levels import curve_faults
from moeopt.mesh.plan import as_plan
from moeopt.mesh.plan_document import ResultDocument
from moeopt.mesh.problem import PROBLEM
from moeopt.mesh.short import of_full
from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, relative_gap

TOLERANCE = 1e-9
"""Relative difference up to which a stated number and the recomputed one are the same."""
ALWAYS = ("method", "stop", "seed", "iterations", "runtime_s", "versions", "incumbents")
"""What depends on how the solve went, and only its form can be checked."""

Found = tuple[list[str], list[str]]
"""Faults, and paths that cannot be re-checked."""


def plan_faults(instance: MeshInstance, document: Mapping[str, Any]) -> Found:
    """What is wrong with a document of a plan for this instance, and what could not be re-checked."""
    faults = form_faults(ResultDocument, document)
    if faults:
        return faults, []
    faults += _differences("instance.document", document["instance"]["document"], instance.to_dict())
    faults += _differences("instance.name", document["instance"]["name"], instance.name)
    faults += _differences("instance.sha256", document["instance"]["sha256"], instance.sha256)
    faults += _differences("unit", document["unit"], describe.unit(instance))
    method = PROBLEM.methods.get(document["method"])
    reason = None if method is None else method.applies(instance)
    if reason is not None:
        faults.append(f"method = {document['method']!r} does not apply: {reason}")
    more, aside = (_without_plan if document["solution"] is None else _with_plan)(instance, document)
    beside = [key for key in ("simulation", "slo_curve") if document.get(key) is not None]
    return faults + more + curve_faults(document), [*ALWAYS, *aside, *beside]


def _with_plan(instance: MeshInstance, document: Mapping[str, Any]) -> Found:
    if document["objective"] is None or document["certificate"] is None:
        return [f"{key} = null with a plan" for key in ("objective", "certificate") if document[key] is None], []
    try:
        judged = verify.evaluate(instance, as_plan(instance, document["solution"]))
    except PlanError as error:
        return list(error.faults), []
    certificate = document["certificate"]
    solvers = certificate["kind"] == "solver"
    certified = certificate["certified"] if solvers else certificate
    short, late = partial.cut_short(document), partial.left_out(document)
    if certified["kind"] == "trivial" and not short and partial.BOUND not in late:
        return [
            "certificate: without an argument, although nothing says that time ran out or that it was interrupted"
        ], []
    try:
        faults = [f"certificate: {fault}" for fault in bounds.recheck(instance, certified)]
        floor = bounds.floor_of(instance, certified)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        return [f"certificate: cannot be read ({error})"], []
    aside = []
    if solvers:
        claim = Fraction(certificate["claim"])
        if not floor < claim <= judged.objective * (1 + Fraction(TOLERANCE)):
            faults.append("certificate.claim: must lie above what is certified, and not above the plan")
        floor, aside = claim, ["lower_bound", "gap", "gap_worst_layer", "certificate.claim"]
    objective = float(judged.objective)
    low = min(float(floor), objective)
    gap = relative_gap(objective, low)
    optimal = gap <= (SOLVER_TOLERANCE if solvers else CERTIFIED_TOLERANCE)
    ours: dict[str, Any] = {
        "objective": objective,
        "lower_bound": low,
        "bound_kind": "solver" if solvers else "certified",
        "status": "OPTIMAL" if optimal else "FEASIBLE",
        "conflicts": [],
    }
    for key, value in ours.items():
        faults += _differences(key, document[key], value)
    for key in ("gap", "gap_worst_layer"):
        if document[key] is None or abs(document[key] - gap) > TOLERANCE:
            faults.append(f"{key} = {document[key]!r}: recomputed {gap!r}")
    ours_solution = describe.solution(instance, judged, late)
    theirs, left_out = document["solution"]["ranking"], document["solution"]["ranking_left_out"]
    if not short and "ranking" not in late and (left_out or any("kv" not in row for row in theirs)):
        ours_solution["ranking"], more = of_full(ours_solution["ranking"], theirs, left_out)
        ours_solution["ranking_left_out"] = left_out
        faults += more
    for key, value in ours_solution.items():
        alone = key == "beside_colocated" and {NOT_COMPARED, STOPPED} & set(document["notes"])
        if alone or (short and key in partial.NOT_RECHECKED):
            aside.append(f"solution.{key}")
        else:
            faults += _differences(f"solution.{key}", document["solution"][key], value)
    said = describe.notes(instance, judged, proved=optimal, short=short)
    faults += [f"notes: {note!r} is missing" for note in said if note not in document["notes"]]
    return faults, [*aside, *(f"notes: {note}" for note in document["notes"] if note not in said)]


def _without_plan(instance: MeshInstance, document: Mapping[str, Any]) -> Found:
    """INFEASIBLE by proof, by a solver's word, or UNKNOWN."""
    if document["status"] in ("OPTIMAL", "FEASIBLE"):
        return [f"status = {document['status']} without a solution"], []
    faults: list[str] = []
    for key in ("objective", "lower_bound", "gap", "gap_worst_layer", "bound_kind", "certificate"):
        faults += _differences(key, document[key], None)
    if document["status"] == "UNKNOWN" and partial.cut_short(document):
        return faults, ["status", "notes"]
    ours = conflicts.conflicts(instance)
    if ours:
        faults += _differences("status", document["status"], "INFEASIBLE")
        return faults + list(_differences("conflicts", document["conflicts"], ours)), ["notes"]
    if document["status"] == "INFEASIBLE":
        claimed = [conflicts.stock_conflict(instance)]
        return faults + list(_differences("conflicts", document["conflicts"], claimed)), ["status", "notes"]
    return faults, ["status", "notes"]


def _differences(path: str, theirs: Any, ours: Any) -> Iterator[str]:
    """Every place where a stated value is not the recomputed one."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys([*ours, *theirs]):
            if key not in theirs or key not in ours:
                yield f"{path}.{key}: {'is missing' if key not in theirs else 'is not part of it'}"
            else:
                yield from _differences(f"{path}.{key}", theirs[key], ours[key])
    elif isinstance(ours, list | tuple) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield f"{path}: has {len(theirs)} entries, recomputed {len(ours)}"
        for place, (one, two) in enumerate(zip(theirs, ours, strict=False)):
            yield from _differences(f"{path}[{place}]", one, two)
    elif not _same(theirs, ours):
        yield f"{path} = {theirs!r}: recomputed {ours!r}"


def _same(theirs: Any, ours: Any) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (theirs, ours))
    if numbers:
        return bool(abs(theirs - ours) <= TOLERANCE * max(abs(theirs), abs(ours)))
    return bool(type(theirs) is type(ours) and theirs == ours)
