"""A plan document held against itself: the schedule happens again, and all that can be recomputed has to be there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from moeopt.errors import PlanError, shortened
from moeopt.forms import form_faults
from moeopt.microbatch import conflicts, describe, verify
from moeopt.microbatch.bounds import bound
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.heuristics import sweep
from moeopt.microbatch.heuristics.sweep import SweepRow
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.periodic import TooLong
from moeopt.microbatch.plan import MicrobatchPlan, as_plan
from moeopt.microbatch.plan_document import ResultDocument
from moeopt.microbatch.problem import PROBLEM, Arguments, lower_bound
from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, relative_gap

TOLERANCE = 1e-9
"""Relative difference up to which a stated number and the recomputed one are the same."""
ALWAYS = ("method", "stop", "seed", "iterations", "runtime_s", "versions")
"""What depends on how the solve went, and only its form can be checked."""
EARLY = ("TIME", "INTERRUPTED", "GAP")
"""Ends that may leave candidates without a row."""

Found = tuple[list[str], list[str]]
"""Faults, and paths that cannot be re-checked."""


def plan_faults(instance: MicrobatchInstance, document: Mapping[str, Any]) -> Found:
    """What is wrong with a document of a plan for the instance in it, and what could not be re-checked."""
    faults = form_faults(ResultDocument, document)
    if faults:
        return faults, []
    faults += _differences("instance.document", document["instance"]["document"], instance.to_dict())
    faults += _differences("instance.name", document["instance"]["name"], instance.name)
    faults += _differences("unit", document["unit"], describe.unit(instance))
    method = PROBLEM.methods.get(document["method"])
    reason = None if method is None else method.applies(instance)
    if reason is not None:
        faults.append(f"method = {document['method']!r} does not apply: {reason}")
    more, aside = (_without_plan if document["solution"] is None else _with_plan)(instance, document)
    return faults + more, [*ALWAYS, *aside]


def _with_plan(instance: MicrobatchInstance, document: Mapping[str, Any]) -> Found:
    """Everything of a plan, from the plan alone."""
    solution = document["solution"]
    if document["status"] not in ("OPTIMAL", "FEASIBLE"):
        return [f"status = {document['status']} with a plan beside it"], []
    if document["objective"] is None or document["certificate"] is None:
        return [f"{key} = null with a plan" for key in ("objective", "certificate") if document[key] is None], []
    try:
        plan = as_plan(solution)
        judged = verify.evaluate(instance, plan)
    except PlanError as error:
        return list(error.faults), []
    faults, rows = _rows(instance, document, plan)
    told, proved = _proved(instance, document, judged.candidate)
    faults += told
    if faults:
        return faults, []
    how = sweep.HOW.get(document["method"], "auto")
    rows = sweep.with_plan(instance, rows, plan, judged.time, how)
    objective = float(judged.objective)
    certificate = document["certificate"]
    _, _, certified = lower_bound(instance, proved, {}, judged.objective)
    told, floor, aside = _certificate(certificate, certified, document, objective)
    faults += told
    if not faults:
        argued = certificate.get("certified", certificate)
        faults += [f"certificate: {fault}" for fault in verify.recheck(instance, argued)]
    gap = relative_gap(objective, floor)
    solvers = certificate["kind"] == "solver"
    optimal = gap <= (SOLVER_TOLERANCE if solvers else CERTIFIED_TOLERANCE)
    ours: dict[str, Any] = {
        "objective": objective,
        "lower_bound": floor,
        "gap": gap,
        "gap_worst_layer": gap,
        "bound_kind": "solver" if solvers else "certified",
        "status": "OPTIMAL" if optimal else "FEASIBLE",
        "conflicts": [],
    }
    for key, value in describe.solution(instance, plan, judged, rows, proved).items():
        faults += _differences(f"solution.{key}", solution[key], value)
    for key, value in ours.items():
        faults += _differences(key, document[key], value)
    if document["stop"] == "GAP" and not optimal:
        faults.append(f"stop = GAP, the gap is {gap:.3g}")
    told, more = _incumbents(document["incumbents"], objective)
    faults += told
    seen, every = len(solution["sweep"]), len(instance.candidates)
    if seen < every:
        aside.append(f"solution.sweep beyond {seen} of {every} candidates")
    said, open_notes = _notes(document["notes"], [*instance.notes, *describe.notes(instance, judged, rows)])
    return faults + said, aside + more + open_notes


def _rows(
    instance: MicrobatchInstance, document: Mapping[str, Any], plan: MicrobatchPlan
) -> tuple[list[str], list[SweepRow]]:
    """The candidates of the sweep anew, each in the order that it is said to be served in."""
    how = sweep.HOW.get(document["method"], "auto")
    faults, rows = [], []
    told: set[Candidate] = set()
    for place, row in enumerate(document["solution"]["sweep"]):
        candidate, where = Candidate(row["m"], row["batch"]), f"solution.sweep[{place}]"
        if candidate not in instance.known or candidate in told:
            faults.append(f"{where}: m = {candidate.m}, batch {candidate.batch} {_why(candidate in told)}")
            continue
        told.add(candidate)
        try:
            fresh = sweep.row(instance, candidate, how)
            if row["order"] == "own":
                mine = plan.sequences if candidate == Candidate(plan.m, plan.batch) else None
                sequences = tuple(map(tuple, row["sequences"] or mine or ())) or None
                done, ticks = verify.schedule(instance, MicrobatchPlan(candidate.m, candidate.batch, sequences))
                fresh = sweep.ordered(instance, fresh, Fraction(done.makespan) / ticks, sequences)
                if fresh.sequences is None:
                    faults.append(f"{where}.order = own: first come, first served is as fast")
        except TooLong:
            faults.append(f"{where}: its schedule is too long, and does not repeat itself")
            continue
        except PlanError as error:
            faults += [f"{where}: {fault}" for fault in error.faults]
            continue
        rows.append(fresh)
    early = document["stop"] in EARLY and _cut_short(document["notes"], len(told), len(instance.candidates))
    for candidate in () if early else instance.candidates:
        if candidate not in told and not _too_long(instance, candidate, how):
            named = f"m = {candidate.m}, batch {candidate.batch}"
            faults.append(f"solution.sweep: {named} is missing, and stop is {document['stop']}")
    return faults, rows


def _cut_short(notes: Sequence[str], seen: int, every: int) -> bool:
    """Whether a note says that so many candidates were looked at; a warm start can be one more."""
    ends = tuple(f" after {number} of {every} candidates" for number in (seen, seen - 1))
    return any(note.endswith(ends) for note in notes)


def _why(twice: bool) -> str:
    return "stands there twice" if twice else "is not among the candidates"


def _too_long(instance: MicrobatchInstance, candidate: Candidate, how: sweep.How) -> bool:
    if not verify.long(instance, candidate):
        return False
    try:
        sweep.row(instance, candidate, how)
    except TooLong:
        return True
    return False


def _proved(instance: MicrobatchInstance, document: Mapping[str, Any], first: Candidate) -> tuple[list[str], Arguments]:
    """The arguments of the candidates that the certificate lists, anew."""
    certificate = document["certificate"]
    listed = [Candidate(*row[:2]) for row in certificate.get("certified", certificate)["candidates"]]
    faults = [f"certificate: {one} is not among the candidates" for one in listed if one not in instance.known]
    chosen = set(listed)
    if document["stop"] not in EARLY:
        left = [one for one in instance.candidates if one not in chosen]
        faults += [f"certificate: m = {one.m}, batch {one.batch}: no argument" for one in left]
    order = [first, *(one for one in instance.candidates if one in chosen)]
    return faults, {one: bound(instance, one) for one in order}


def _certificate(
    stated: Mapping[str, Any], ours: Mapping[str, Any], document: Mapping[str, Any], objective: float | None
) -> tuple[list[str], float, list[str]]:
    """Faults of a certificate, the bound that it gives, and what of it is a solver's word."""
    value = float(Fraction(ours["value"]))
    if stated["kind"] == "candidates":
        return list(_differences("certificate", stated, ours)), _least(value, objective), []
    faults = list(_differences("certificate.certified", stated["certified"], ours))
    claim = stated["claim"]
    if not value < claim <= (math.inf if objective is None else objective * (1 + TOLERANCE)):
        faults.append(
            f"certificate.claim = {claim!r}: must lie above what is certified, {value!r}, and not above the plan"
        )
    return faults, _least(claim, objective), ["lower_bound", "gap", "gap_worst_layer", "certificate.claim"]


def _least(value: float, objective: float | None) -> float:
    return value if objective is None else min(value, objective)


def _without_plan(instance: MicrobatchInstance, document: Mapping[str, Any]) -> Found:
    """INFEASIBLE by proof, by a solver's word, or UNKNOWN."""
    status = document["status"]
    if status in ("OPTIMAL", "FEASIBLE"):
        return [f"status = {status} without a solution"], []
    ours: dict[str, Any] = dict.fromkeys(("objective", "gap", "gap_worst_layer"))
    ours["incumbents"] = []
    aside, faults = ["notes"], []
    certified = PROBLEM.conflicts(instance)
    if certified or status == "UNKNOWN" or document["certificate"] is None:
        ours |= dict.fromkeys(("lower_bound", "bound_kind", "certificate"))
        ours |= {"status": "INFEASIBLE" if certified else "UNKNOWN", "conflicts": certified}
    else:
        told, proved = _proved(instance, document, instance.candidates[0])
        faults += told
        _, _, arguments = lower_bound(instance, proved, {}, None)
        told, floor, claimed = _certificate(document["certificate"], arguments, document, None)
        faults += told + _claimed(instance, document)
        ours |= {"bound_kind": "solver", "lower_bound": floor}
        aside += [*claimed, "conflicts"]
    for key, value in ours.items():
        faults += _differences(key, document[key], value)
    if not certified:
        aside.append("status")
        kept = [] if document["method"] not in PROBLEM.methods or document["method"] == "lpt" else _keeping(instance)
        if kept and document["stop"] == "FINISHED":
            faults.append(f"status = {status}: m = {kept[0].m} with a batch of {kept[0].batch} keeps the limits")
    said, _ = _notes(document["notes"], instance.notes)
    return faults + said, aside


def _keeping(instance: MicrobatchInstance) -> list[Candidate]:
    """The first candidate that keeps the limits first come, first served."""
    for row in sweep.table(instance):
        if not row.why_not:
            return [row.candidate]
    return []


def _claimed(instance: MicrobatchInstance, document: Mapping[str, Any]) -> list[str]:
    """Whether the conflict that a solver claims is one that could be."""
    told = document["conflicts"]
    if instance.tbt_slo_s is None or len(told) != 1 or document["certificate"]["kind"] != "solver":
        return ["status = INFEASIBLE: no rules conflict"]
    best = told[0]["best"]
    could = [conflicts.below(instance, best, one.m, one.batch) for one in instance.candidates]
    if best <= instance.tbt_slo_s or told[0] not in could:
        return ["conflicts[0]: says no such thing of the limits"]
    return []


def _incumbents(pairs: Sequence[Sequence[float]], objective: float) -> Found:
    """Seconds rise, objectives fall, the last is the plan's."""
    faults = []
    if not pairs or not _same(pairs[-1][1], objective):
        faults.append(f"incumbents end with {pairs[-1][1] if pairs else None}, the plan has {objective!r}")
    rising = all(one[0] <= two[0] for one, two in pairwise(pairs))
    falling = all(one[1] > two[1] for one, two in pairwise(pairs))
    if not (rising and falling and all(pair[0] >= 0 for pair in pairs)):
        faults.append("incumbents: seconds must rise from 0, and every objective be less than the one before")
    aside = [f"incumbents[{place}][0]" for place in range(len(pairs))]
    return faults, aside + [f"incumbents[{place}][1]" for place in range(len(pairs) - 1)]


def _notes(stated: Sequence[str], ours: Sequence[str]) -> Found:
    """Notes that have to be there; the others say how the solve went."""
    faults = [f"notes: missing: {note}" for note in ours if note not in stated]
    return faults, [f"notes[{place}]" for place, note in enumerate(stated) if note not in ours]


def _differences(place: str, stated: Any, ours: Any) -> Iterator[str]:
    """Where two values differ, numbers beyond a rounding, and keys that only one of them has."""
    if isinstance(stated, Mapping) and isinstance(ours, Mapping):
        for key in (*stated, *(key for key in ours if key not in stated)):
            if key not in ours:
                yield f"{place}[{key}]: there is no such"
            elif key not in stated:
                yield f"{place}[{key}] = missing, recomputed {_short(ours[key])}"
            else:
                yield from _differences(f"{place}[{key}]", stated[key], ours[key])
    elif isinstance(stated, list | tuple) and isinstance(ours, list | tuple):
        if len(stated) != len(ours):
            yield f"{place} has {len(stated)} entries, there are {len(ours)}"
        else:
            for index, (one, other) in enumerate(zip(stated, ours, strict=True)):
                yield from _differences(f"{place}[{index}]", one, other)
    elif not _same(stated, ours):
        yield f"{place} = {_short(stated)}, recomputed {_short(ours)}"


def _short(value: Any) -> str:
    return shortened(repr(value))


def _same(stated: Any, ours: Any) -> bool:
    if isinstance(stated, bool) or isinstance(ours, bool):
        return stated is ours
    if isinstance(stated, int | float) and isinstance(ours, int | float):
        return math.isclose(stated, ours, rel_tol=TOLERANCE, abs_tol=1e-15)
    return bool(stated == ours)
