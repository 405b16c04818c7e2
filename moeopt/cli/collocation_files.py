"""Collocation documents in the verbs that take any file: `verify`, `inspect`, `compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.cli.ask import ask
from moeopt.cli.piped import file_of
from moeopt.cli.room_files import Kind, room_document
from moeopt.cli.say import Say, count, few
from moeopt.cli.verb import DONE, GATE
from moeopt.cli.verdict import show_faults
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.collocation import CollocationInstance
    from moeopt.collocation.plan_faults import Trace

INSTANCE, RESULT = "moeopt/collocation-instance/", "moeopt/collocation-result/"
INSTANCE_SAID, RESULT_SAID = "collocation instance", "collocation"
SAID = {INSTANCE_SAID: "an instance document", RESULT_SAID: "a collocation"}
"""What its documents are, and as a sentence calls them."""
JUDGED = RESULT_SAID
"""The one that `verify` takes."""
KINDS = (Kind(INSTANCE, INSTANCE_SAID, allow_nan=True), Kind(RESULT, RESULT_SAID))


def document_of(path: str) -> tuple[str, Any] | None:
    """``(collocation instance or collocation, document)``; ``None`` for any other file."""
    return room_document(path, KINDS)


def given_of(path: str, pairs: bool) -> Trace | CollocationInstance:
    """What a plan is held against: an instance document, or a trace, or counts of pairs if it was made for some."""
    from moeopt.cli.collocate_input import read_pairs
    from moeopt.collocation import CollocationInstance
    from moeopt.collocation.plan_faults import Trace
    from moeopt.workload.token_ids import read_token_ids

    own = document_of(path)
    if own is not None and own[0] == RESULT_SAID:
        rule = "is a plan, not the trace it was made for"
        raise InstanceError([Violation("input", "", path, rule, "Give the plan first, then the trace")])
    if own is not None:
        return CollocationInstance.from_dict(own[1], path)
    with file_of(path) as file:
        if pairs:
            return Trace(*read_pairs(file))
        found = read_token_ids(file)
    return Trace(found.ids, found.layers)


def verify(path: str, document: Any, given: list[str], as_json: bool, say: Say) -> int:
    """List every fault of a written collocation; exit 5 on any."""
    from moeopt.collocation.plan_faults import DIGEST, document_faults, unchecked
    from moeopt.collocation.result_document import read_result

    parsed = read_result(document, path)
    if len(given) > 1:
        rule = "must be the one trace that the plan was made for"
        raise InstanceError([Violation("trace", "", ", ".join(given), rule, "Give one")])
    trace = parsed.instance.document.get("trace")
    pairs = isinstance(trace, dict) and trace.get("of") == "pairs"
    faults = ask(document_faults, parsed, *([given_of(given[0], pairs)] if given else []))
    aside = unchecked(parsed) if given else []
    checked = "structure, numbers and bounds" if given else "structure"
    if as_json:
        say.document({"ok": not faults, "checked": checked, "unchecked": aside, "faults": faults})
        return GATE if faults else DONE
    show_faults(path, faults, checked, say, DIGEST)
    for what in aside:
        say.note(f"not re-checked: {what}")
    return GATE if faults else DONE


def facts(path: str, what: str, document: Any) -> dict[str, Any]:
    """What `inspect` says."""
    if what == INSTANCE_SAID:
        from moeopt.collocation import CollocationInstance

        instance = CollocationInstance.from_dict(document, path)
        return {
            "name": instance.name,
            "layers": instance.num_layers,
            "experts": instance.num_experts,
            "slots": instance.num_slots,
            "gpus": instance.num_gpus,
            "nodes": int(instance.node.max()) + 1,
            "trace": "tokens" if instance.pairs is None else "pairs",
            "tokens": None if instance.pairs is not None else int(instance.ids.shape[1]),
            "top_k": None if instance.pairs is not None else int(instance.ids.shape[2]),
            "sources": instance.source is not None,
            "transport": instance.transport.name,
            "objective": instance.objective,
            "notes": list(instance.notes),
        }
    from moeopt.collocation.plan_faults import document_faults
    from moeopt.collocation.result_document import read_result

    parsed = read_result(document, path)
    known = ("method", "status", "stop", "objective", "lower_bound", "gap", "unit", "notes")
    found: dict[str, Any] = {"name": parsed.instance.name} | {key: getattr(parsed, key) for key in known}
    solution = parsed.solution
    if solution is not None:
        found |= {
            "layers": len(solution.layers),
            "experts": len(solution.layers[0].replicas),
            "slots": len(solution.gpu_of_slot),
            "gpus": solution.ep_size,
            "transport": solution.transport,
            "lambda": solution.lambda_,
            "lambda_held_out": solution.lambda_held_out,
            "lambda_lower_bound": solution.lambda_lower_bound,
            "copies_per_token": solution.copies_per_token,
            "imbalance": solution.imbalance,
            "critical_path": solution.critical_path,
            "advice": solution.advice.model_dump(),
        }
    return found | {"faults": document_faults(parsed)}


def show(known: dict[str, Any], say: Say) -> None:
    """The same for people."""
    from moeopt.cli.spoken import spoken
    from moeopt.cli.tables import duration, percent

    lines = [f"{known['file']}: {known['what']}" + (f" {known['name']}" if known.get("name") else "")]
    sizes = (("layers", "layer"), ("experts", "expert"), ("slots", "slot"), ("gpus", "GPU"), ("nodes", "node"))
    shape = ", ".join(count(known[key], noun) for key, noun in sizes if known.get(key) is not None)
    if shape:
        lines.append(f"  shape      {shape}")
    if known["what"] == INSTANCE_SAID:
        if known["trace"] == "pairs":
            lines.append("  trace      counts of pairs: the objective is pairs apart, an approximation of copies")
        else:
            source = "sources known" if known["sources"] else "every GPU has as many"
            lines.append(f"  trace      {count(known['tokens'], 'token')}, top-{known['top_k']}; {source}")
        lines.append(f"  transport  {known['transport']}; minimises {known['objective']}")
    else:
        if "lambda" in known:
            scored, floor = known["lambda_held_out"], known["lambda_lower_bound"]
            text = f"{known['lambda']:.3f} units a {'pair' if known['unit'] == 'pairs apart' else 'token'}"
            text += "" if scored is None else f", {scored:.3f} on tokens held out"
            text += "" if floor is None else f"; proved >= {floor:.3f}"
            lines.append(f"  lambda     {text}")
            lines.append(f"  imbalance  {known['imbalance']:.4f} (worst layer); transport {known['transport']}")
            path = known["critical_path"]
            if path is not None:
                text = f"{duration(path['no_overlap_s'])}, or {duration(path['overlap_s'])} where the stages overlap"
                lines.append(f"  on path    {text}")
            lines.append(f"  advice     {known['advice']['action']}: {spoken(known['advice']['reason'])}")
        lines.append(f"  method     {known['method']}, {known['status']}, stopped by {known['stop']}")
        lines.append(f"  gap        {percent(known['gap'])}")
        lines.append(f"  structure  {'ok' if not known['faults'] else '; '.join(few(known['faults'], say.verbose))}")
    lines.extend(f"  note       {spoken(note)}" for note in known["notes"])
    say.show("\n".join(lines))
