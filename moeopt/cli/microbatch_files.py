"""Files of the micro-batch room, told by their schema: instances and plans, and what there is to say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.ask import ask
from moeopt.cli.room_files import Kind, room_document, said_by
from moeopt.cli.verdict import told
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.microbatch import MicrobatchInstance

INSTANCE, PLAN = "moeopt/microbatch-instance/", "moeopt/microbatch-result/"
INSTANCE_SAID, PLAN_SAID = "micro-batch instance", "micro-batch plan"
SAID = {INSTANCE_SAID: "an instance document", PLAN_SAID: "a plan"}
"""What its documents are, and as a sentence calls them."""
JUDGED = PLAN_SAID
"""The one that `verify` takes."""
KINDS = (Kind(INSTANCE, INSTANCE_SAID, allow_nan=True), Kind(PLAN, PLAN_SAID))


def is_plan(document: Any) -> bool:
    """Whether a parsed document calls itself a plan of this room."""
    return isinstance(document, Mapping) and str(document.get("schema")).startswith(PLAN)


def document_of(path: str) -> tuple[str, Any] | None:
    """``(INSTANCE_SAID or PLAN_SAID, document)``; ``None`` for any other file."""
    return room_document(path, KINDS)


def instance_in(what: str, document: Any, path: str) -> MicrobatchInstance:
    """The instance that a document is, or that a plan has within."""
    from moeopt.microbatch import written_plan
    from moeopt.microbatch.document import read_instance

    return written_plan.instance_in(document, path) if what == PLAN_SAID else read_instance(document, path)


def read_instance(path: str, options: list[str], use: str) -> MicrobatchInstance | None:
    """The instance that a file is, with none of the options that are for loads; ``None`` for files of other rooms."""
    found = document_of(path)
    if found is None:
        return None
    what, content = found
    if what == PLAN_SAID:
        rule = f"is a plan, not an instance, and {use} takes instances"
        raise InstanceError([Violation("input", "", path, rule, "Use moeopt verify")])
    if options:
        rule = "is a micro-batch instance, and these options are for loads"
        raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(options)}")])
    return instance_in(what, content, path)


def facts(path: str, what: str, content: Any) -> dict[str, Any]:
    """What inspect says of a file."""
    if what == PLAN_SAID:
        from moeopt.microbatch.written_plan import written_faults

        faults, _ = written_faults(content, path)
        said = said_by(content)
        solution = content.get("solution")
        if isinstance(solution, Mapping) and not faults:
            said |= {key: solution.get(key) for key in ("pattern", "m", "batch", "time_s", "throughput")}
            said["layers"] = solution.get("num_layers")
        return {**said, "faults": faults}
    from moeopt.microbatch import PROBLEM

    instance = instance_in(what, content, path)
    conflicts = PROBLEM.conflicts(instance)
    found = {**instance.to_dict(), "sha256": instance.sha256, "candidates": len(instance.candidates)}
    del found["schema"]
    if conflicts:
        return found | {"conflicts": [dict(one) for one in conflicts]}
    from moeopt.microbatch.bounds import bound

    least = min(instance.candidates, key=lambda one: bound(instance, one).seconds)
    return found | {
        "best_possible": {
            "m": least.m,
            "batch": least.batch,
            "time_s": float(bound(instance, least).seconds),
        }
    }


def show(known: Mapping[str, Any], say: Say) -> None:
    """The facts in a few lines."""
    from moeopt.cli.microbatch_words import spell
    from moeopt.cli.say import count, few
    from moeopt.cli.tables import percent

    lines = [f"{known['file']}: {known['what']}" + (f" {known['name']}" if known.get("name") else "")]
    if isinstance(known.get("layers"), int):
        lines.append(f"  pattern    {known['pattern']}, {count(known['layers'], 'layer')}")
    if known["what"] == PLAN_SAID:
        if not known["faults"] and known.get("m") is not None:
            lines.append(
                f"  answer     m = {known['m']}, batch {known['batch']:,}: {spell(known['time_s'], 'ms')} a step"
            )
        lines.append(f"  method     {known['method']}, {known['status']}, stopped by {known['stop']}")
        lines.append(f"  gap        {percent(known['gap'])}")
        lines.append(f"  structure  {'ok' if not known['faults'] else '; '.join(few(known['faults'], say.verbose))}")
    else:
        kinds = ", ".join(f"{stage} ({time['kind']})" for stage, time in known["times"].items())
        lines.append(f"  times      {kinds}")
        some = ", ".join(map(str, known["m"][:8])) + (", ..." if len(known["m"]) > 8 else "")
        lines.append(f"  choice     {count(known['candidates'], 'candidate')}, m = {some}; least {known['objective']}"
                     .replace("least throughput", "most throughput"))  # fmt: skip
        limits = [(key, known[key]) for key in ("tbt_slo_s", "memory_bytes") if known[key] is not None]
        said = {"tbt_slo_s": lambda value: spell(value, "ms"), "memory_bytes": lambda value: f"{value / 1e9:.4g} GB"}
        lines.extend(f"  limit      {key} {said[key](value)}" for key, value in limits)
        best = known.get("best_possible")
        if best is not None:
            which = f"no m and no order gets below {spell(best['time_s'], 'ms')} a step"
            lines.append(f"  reach      {which} (m = {best['m']}, batch {best['batch']:,})")
        lines.extend(f"  infeasible {conflict['message']}" for conflict in known.get("conflicts", ()))
    lines.extend(f"  note       {note}" for note in known.get("notes") or ())
    say.show("\n".join(lines))


def verify(path: str, document: Any, given: list[str], as_json: bool, say: Say) -> int:
    """List every fault of a written plan, which has its instance within; exit 5 on any."""
    from moeopt.microbatch.document import load_instance
    from moeopt.microbatch.written_plan import written_faults

    if len(given) > 1:
        rule = "must be one instance"
        raise InstanceError([Violation("instance", "", ", ".join(given), rule, "Give the one it was made for")])
    asked = load_instance(given[0]) if given else None
    faults, aside = ask(written_faults, document, path, asked)
    return told(path, faults, aside, as_json, say)
