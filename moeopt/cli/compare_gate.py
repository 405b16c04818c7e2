"""The exit code of a comparison of placements: what failed, and whether a plan is worse than what it has to beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.cli.verb import BAD_USAGE, DONE, GATE, INFEASIBLE

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.registry import Comparison

RIVAL = "eplb"


def code(comparisons: list[Comparison], plans: list[str], policies: list[str], gate: bool, say: Say) -> int:
    """The worst that happened in any block."""
    codes = [DONE]
    for comparison in comparisons:
        results = [row.result for row in comparison.rows if row.result is not None]
        if not results:
            codes.append(BAD_USAGE)
        elif all(result.status == "INFEASIBLE" for result in results):
            codes.append(INFEASIBLE)
        elif gate and _worse(comparison, plans, say):
            codes.append(GATE)
    theirs = [*plans, *policies]
    if theirs and not any(comparison.interrupted for comparison in comparisons):
        judged = {row.method for comparison in comparisons for row in comparison.rows if row.result is not None}
        failed = [name for name in theirs if name not in judged]
        if failed:
            say.note(f"no plan for these loads: {', '.join(failed)}; the table has the reasons, whole with -v")
        no_plan_fits = bool(plans) and all(name in failed for name in plans)
        if (no_plan_fits or any(name in failed for name in policies)) and INFEASIBLE not in codes:
            codes.append(BAD_USAGE)
    return BAD_USAGE if BAD_USAGE in codes else max(codes)


def _worse(comparison: Comparison, plans: list[str], say: Say) -> bool:
    from moeopt.cli.solving import WORSE
    from moeopt.percent import total

    values = {
        row.method: row.result.objective
        for row in comparison.rows
        if row.result is not None and row.result.objective is not None and not row.remark
    }
    rival = values.pop(RIVAL, None)
    if rival is None:
        say.note(f"--fail-if-worse has nothing to compare with: {RIVAL} gave no plan")
        return False
    judged = {name: values.get(name) for name in plans}
    if not plans and values:
        best = min(values, key=lambda name: values[name])
        judged = {best: values[best]}
    summed = any(row.result is not None and row.result.unit == "imbalance" for row in comparison.rows)
    what = "imbalance summed over layers" if summed else "objective"
    worse = False
    for name, value in judged.items():
        if value is None or value > rival * WORSE:
            found = "gave no plan" if value is None else f"has {what} {total(value, summed)}"
            say.note(f"worse than {RIVAL}: {name} {found}, {RIVAL} {total(rival, summed)}")
            worse = True
    return worse
