"""The best of the candidates that were not taken, and why it is behind, in numbers and in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moeopt.microbatch.closed_forms import form_of
from moeopt.microbatch.heuristics.sweep import SweepRow
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.verify import Evaluation


def second_best(
    instance: MicrobatchInstance,
    plan: MicrobatchPlan,
    judged: Evaluation,
    best: Sequence[SweepRow],
    *,
    other_m: bool = False,
) -> dict[str, Any] | None:
    """The best of the other candidates, or of those with another m, and why it is behind; `best` are ranked."""
    taken = judged.candidate
    others = [row for row in best if row.candidate != taken]
    if other_m:
        others = [row for row in others if row.candidate.m != taken.m]
    if not others:
        return None
    row = others[0]
    candidate, time = row.candidate, float(row.time)
    worth = row.time / candidate.batch if instance.objective == "throughput" else row.time
    behind = float(worth / judged.objective - 1) if judged.objective else (None if worth else 0.0)
    why = _why(instance, plan, judged, row, behind)
    return {
        "m": candidate.m,
        "batch": candidate.batch,
        "time_s": time,
        "throughput": candidate.batch / time if time else None,
        "objective": float(worth),
        "behind": behind,
        "order": "fcfs" if row.sequences is None else "own",
        "reason": reason(instance, candidate.m, why, behind),
        "why": why,
    }


def _why(
    instance: MicrobatchInstance, plan: MicrobatchPlan, judged: Evaluation, row: SweepRow, behind: float | None
) -> dict[str, Any]:
    """The kind of reason and its numbers: `theirs` of the second best, `ours` of the plan; `tokens` of a part.

    Kinds: ``time``, ``better``, ``equal``, ``behind`` have none. ``transfers``: theirs is the part of a layer that the
    busiest resource works. ``layer``: seconds of a layer. ``token``: seconds of the busiest resource for a token.
    ``ends``: filling and draining weigh more.
    """
    kind, theirs, ours = "behind", None, None
    tokens, form = row.candidate.largest, row.form
    chosen = form_of(instance, judged.candidate)
    served = row.sequences is None and plan.sequences is None  # formulas are for first come, first served
    if behind is None or behind <= 0:
        kind = "time" if behind is None else "better" if behind < 0 else "equal"
    elif form is not None and chosen is not None and served:
        top = row.candidate.m * form.busiest
        if instance.pattern in ("ping-pong", "dual") and form.cycle > top:
            kind, theirs = "transfers", float(top / form.cycle)
        elif instance.objective == "time":
            kind, theirs, ours = "layer", float(form.cycle), float(chosen.cycle)
        else:
            kind, theirs = "token", float(form.busiest / tokens)
            ours = float(chosen.busiest / judged.candidate.largest)
            if theirs <= ours:
                kind, theirs, ours = "ends", None, None
    return {"kind": kind, "tokens": tokens, "theirs": theirs, "ours": ours}


def reason(instance: MicrobatchInstance, m: int, why: dict[str, Any], behind: float | None) -> str:
    """Why a candidate is not the best one, in a sentence; seconds throughout."""
    if behind is None:
        return "it takes time, the plan takes none"
    if behind < 0:
        return f"{-100 * behind:.3g} % shorter: the plan is not the best of the candidates"
    if not behind:
        return "as good; the choice between equals goes to the other objective, then to fewer micro-batches"
    said, more = longer(behind, instance.objective), because(m, why)
    return f"{said}{', ' if why['kind'] == 'behind' else ': '}{more}"


def longer(behind: float, objective: str) -> str:
    """How far a candidate is behind.

    >>> longer(0.0041, "throughput")
    '0.41 % longer a token'
    """
    return f"{100 * behind:.3g} % longer a {'step' if objective == 'time' else 'token'}"


def because(m: int, why: Mapping[str, Any], spell: Callable[[float], str] = lambda seconds: f"{seconds:.4g} s") -> str:
    """Why a candidate that takes longer does so; `spell` writes seconds.

    >>> because(3, {"kind": "layer", "tokens": 1, "theirs": 0.0017, "ours": 0.0016})
    'a layer costs 0.0017 s with 3 parts of 1 token, not 0.0016 s'
    """
    size = f"{why['tokens']:,} {'token' if why['tokens'] == 1 else 'tokens'}"
    parts = f"{m} parts of {size}" if m > 1 else f"one part of {size}"
    theirs, ours = why["theirs"], why["ours"]
    if why["kind"] == "transfers":
        return f"transfers show with {parts}, the busiest resource works {100 * theirs:.3g} % of a layer"
    if why["kind"] == "layer":
        return f"a layer costs {spell(theirs)} with {parts}, not {spell(ours)}"
    if why["kind"] == "token":
        return f"with {parts} the busiest resource takes {spell(theirs)} a token, not {spell(ours)}"
    if why["kind"] == "ends":
        return f"with {parts} filling and draining the pipeline weigh more"
    return f"with {parts}"
