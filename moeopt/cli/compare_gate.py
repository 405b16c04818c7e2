"""The exit code of comparisons: what failed, and whether a plan is worse than what it has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moeopt.cli.compare_room import RUNNING, Answer
from moeopt.cli.say import complain
from moeopt.cli.verb import BAD_USAGE, DONE, GATE, INFEASIBLE

if TYPE_CHECKING:
    from moeopt.cli.say import Say


def code(answers: Sequence[Answer], gate: bool, say: Say) -> int:
    """The worst that happened in any of them."""
    codes = [_own(answer, gate, say) for answer in answers]
    theirs = [name for answer in answers for name in (*answer.plans, *answer.policies)]
    if theirs and not any(answer.comparison.interrupted for answer in answers):
        judged = {row.method for answer in answers for row in answer.comparison.rows if row.result is not None}
        failed = [name for name in dict.fromkeys(theirs) if name not in judged]
        plans = {name for answer in answers for name in answer.plans}
        lost, strict = [name for name in failed if name in plans], any(answer.room.every_plan for answer in answers)
        if failed and strict:
            for row in (row for answer in answers for row in answer.comparison.rows if row.method in failed):
                complain(f"{row.method}: {row.reason}")
        elif failed:
            say.note(f"no plan for these loads: {', '.join(failed)}; the table has the reasons, whole with -v")
        if (lost and (strict or len(lost) == len(plans))) or len(lost) < len(failed):
            codes.append(DONE if INFEASIBLE in codes else BAD_USAGE)
    return BAD_USAGE if BAD_USAGE in codes else max(codes)


def _own(answer: Answer, gate: bool, say: Say) -> int:
    results = [row.result for row in answer.comparison.rows if row.result is not None]
    if not results:
        return BAD_USAGE
    if all(result.status == "INFEASIBLE" for result in results):
        for message in dict.fromkeys(str(one["message"]) for result in results for one in result.conflicts):
            complain(f"infeasible: {message}")
        return INFEASIBLE
    return GATE if gate and _worse(answer, say) else DONE


def _worse(answer: Answer, say: Say) -> bool:
    """Whether a plan, or without plans the best of the methods, is worse than what runs, or than the room's rival."""
    from moeopt.cli.solving import WORSE
    from moeopt.percent import total

    rows = answer.comparison.rows
    values = {
        row.method: row.result.objective
        for row in rows
        if row.result is not None and row.result.objective is not None and not row.remark
    }
    rival = RUNNING if any(row.method == RUNNING for row in rows) else answer.room.rival
    least = values.pop(rival, None)
    if least is None:
        say.note(f"--fail-if-worse has nothing to compare with: {rival} gave no plan")
        return False
    judged = {name: values.get(name) for name in answer.plans}
    if not judged and values:
        best = min(values, key=lambda name: values[name])
        judged = {best: values[best]}
    summed = any(row.result is not None and row.result.unit == "imbalance" for row in rows)
    what = "imbalance summed over layers" if summed else "objective"
    worse = False
    for name, value in judged.items():
        if value is None or value > least * WORSE:
            found = "gave no plan" if value is None else f"has {what} {total(value, summed)}"
            say.refused(f"worse than {rival}: {name} {found}, {rival} {total(least, summed)}")
            worse = True
    return worse
