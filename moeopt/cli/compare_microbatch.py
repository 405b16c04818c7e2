"""Methods compared on a micro-batch instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.microbatch_words import paced, spell
from moeopt.cli.options import Output, Solving
from moeopt.cli.say import complain
from moeopt.cli.verb import BAD_USAGE, DONE, INFEASIBLE
from moeopt.errors import InstanceError, Violation, Violations
from moeopt.report.timeline import NOUNS, plural

if TYPE_CHECKING:
    from rich.table import Table

    from moeopt.cli.say import Say
    from moeopt.microbatch import MicrobatchInstance
    from moeopt.registry import Comparison, Row


def compare_microbatch(
    path: str,
    instance: MicrobatchInstance,
    methods: list[str] | None,
    plans: list[str],
    solving: Solving,
    output: Output,
    say: Say,
) -> int:
    """Run them all, or those that are named, and judge the plans; what does not apply is a row with its reason."""
    from moeopt.cli.solving import find_plugins, guarded_output
    from moeopt.microbatch import PROBLEM

    if output.output is not None:
        rule = "is a report, and there are none of micro-batches yet"
        raise InstanceError([Violation("output", "", output.output, rule, "Use --json")])
    names = list(PROBLEM.methods) if methods is None else methods
    ready = _read(plans, names)
    find_plugins(names)
    limits = solving.limits()
    with say.progress(instance.name) as listener, guarded_output(names):
        comparison = PROBLEM.compare(
            instance, names, plans=ready, limits=limits, seed=solving.seed, on_progress=listener
        )
    if output.json:
        named = {"name": instance.name or path, "sha256": instance.sha256}
        block = {
            "instance": named,
            "best": comparison.best,
            "lower_bound": comparison.lower_bound,
            "bound_kind": _bound_kind(comparison),
            "rows": [_row(row) for row in comparison.rows],
        }
        say.document({"schema": "moeopt/comparison/1", "problem": "microbatch", "blocks": [block]})
    else:
        say.show(_table(comparison, instance))
        _say_bound(comparison, instance, say)
        for row in comparison.rows:
            for note in row.result.notes if row.result is not None else ():
                say.note(f"{row.method}: {note}")
    results = [row.result for row in comparison.rows if row.result is not None]
    if not results:
        return BAD_USAGE
    refused = [row for row in comparison.rows if row.method in ready and row.result is None]
    for row in refused:
        complain(f"{row.method}: {row.reason}")
    if refused:
        return BAD_USAGE
    return INFEASIBLE if all(result.status == "INFEASIBLE" for result in results) else DONE


def _read(plans: list[str], methods: list[str]) -> dict[str, Any]:
    """Plans by their files' names: m, batch and order of each."""
    from moeopt.cli.microbatch_files import PLAN_SAID, read_file

    check, found = Violations(), dict[str, Any]()
    for path in dict.fromkeys(part.strip() for given in plans for part in given.split(",") if part.strip()):
        with check.within():
            read = read_file(path)
            solution = read[1].get("solution") if read is not None and read[0] == PLAN_SAID else None
            if not isinstance(solution, Mapping):
                fix = "Write one with moeopt microbatch -o plan.json"
                check.add("--plans", path, rule="is no micro-batch plan with a solution", fix=fix)
            elif path in methods:
                check.add("--plans", path, rule="is also the name of a method", fix="Rename the file")
            else:
                found[path] = {key: solution.get(key) for key in ("m", "batch", "sequences")}
    check.raise_if_any()
    return found


def _bound_kind(comparison: Comparison) -> str | None:
    """Who vouches for the best bound: ``certified`` if any method that proved it can be re-checked, else a solver."""
    kinds = {
        str(row.result.bound_kind)
        for row in comparison.rows
        if row.result is not None and row.result.lower_bound == comparison.lower_bound
    }
    return "certified" if "certified" in kinds else next(iter(sorted(kinds)), None)


def _say_bound(comparison: Comparison, instance: MicrobatchInstance, say: Say) -> None:
    """The line that all gaps are measured against."""
    floor = comparison.lower_bound
    if floor is None or say.quiet:
        return
    kind = _bound_kind(comparison)
    source = "certified" if kind == "certified" else "a solver's claim, not re-checked"
    of = "a step" if instance.objective == "time" else f"a {_noun(instance)}"
    say.line(f"lower bound {spell(floor, 'ms')} {of} ({source}); gaps are against it")


def _row(row: Row) -> dict[str, Any]:
    known: dict[str, Any] = {"method": row.method, "reason": row.reason or None}
    if row.result is None:
        return known
    result = row.result
    known |= {"status": str(result.status), "stop": str(result.stop), "objective": result.objective, "gap": result.gap}
    known["conflicts"] = [dict(conflict) for conflict in result.conflicts]
    if result.solution is not None:
        known |= {key: result.solution[key] for key in ("m", "batch", "time_s", "throughput")}
    return known | {"runtime_s": result.runtime_s, "notes": list(result.notes)}


def _noun(instance: MicrobatchInstance) -> str:
    """What there is so many of a second: tokens, or where nobody said how many, parts of a step."""
    named = instance.batches is not None or instance.micro_batch > 1
    return "token" if named else NOUNS.get(instance.pattern, "micro-batch")


def _table(comparison: Comparison, instance: MicrobatchInstance) -> Table:
    from moeopt.cli.tables import duration, percent, table

    made = table(
        instance.name, "method", "m", "batch", "step, ms", f"{plural(_noun(instance), 2)}/s", "gap", "time", "remark"
    )
    made.columns[-1].justify = "left"
    for row in comparison.rows:
        result, best = row.result, row.method == comparison.best
        if result is None or result.solution is None or result.objective is None:
            reason = row.reason or "; ".join(str(one["message"]) for one in (result.conflicts if result else ()))
            made.add_row(row.method, *["-"] * 6, reason or "no plan")
            continue
        solution, floor = result.solution, comparison.lower_bound
        gap = None if floor is None else (result.objective - floor) / result.objective if result.objective else 0.0
        rate = solution["throughput"]
        made.add_row(
            row.method,
            str(solution["m"]),
            f"{solution['batch']:,}",
            f"{solution['time_s'] * 1e3:.6g}",
            paced(rate),
            percent(gap),
            duration(result.runtime_s),
            "best" if best else "",
            style="bold green" if best else None,
        )
    return made
