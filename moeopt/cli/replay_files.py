"""Replay documents in the verbs that take any file: `inspect` and `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.ask import After, ask
from moeopt.cli.room_files import Kind, room_document
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, GATE
from moeopt.cli.verdict import show_faults
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.replay.document import ReplayDocument

FIGURES = ("imbalance_mean", "imbalance_worst_window", "replans", "moves")
RESULT_SAID = "replay"
SAID = {RESULT_SAID: "a replay"}
"""What its documents are, and as a sentence calls them."""
JUDGED = RESULT_SAID
"""The one that `verify` takes."""
KINDS = (Kind("moeopt/replay-result/", RESULT_SAID),)


def document_of(path: str) -> tuple[str, Any] | None:
    """``("replay", document)``; ``None`` for any other file."""
    return room_document(path, KINDS)


def facts(path: str, what: str, document: Any) -> dict[str, Any]:
    """What `inspect` says."""
    from moeopt.replay.document import read_replay

    form = read_replay(document, path)
    first, last = form.scored
    policies = [
        {
            "policy": row.policy,
            "reason": row.reason,
            **({} if row.figures is None else row.figures.model_dump(include=set(FIGURES))),
        }
        for row in form.policies
    ]
    return {
        "name": form.instance.name,
        "windows": len(form.windows),
        "scored": [form.windows[first].name, form.windows[last].name],
        "every": form.every,
        "lookback": form.lookback,
        "best": form.best,
        "stop": form.stop,
        "policies": policies,
        "notes": form.notes,
    }


def show(known: Mapping[str, Any], say: Say) -> None:
    """The same for people."""
    from moeopt.cli.tables import table

    first, last = known["scored"]
    say.show(f"{known['file']}: {RESULT_SAID} of {known['name'] or 'a history'}")
    say.show(f"  windows    {known['windows']:,}, scored from {first} to {last}; a plan every {known['every']} of them")
    rows = table("", "policy", "imbalance", "worst window", "re-plans", "moves")
    for row in known["policies"]:
        if row["reason"]:
            rows.add_row(row["policy"], row["reason"], "", "", "")
            continue
        worst, moved = f"{row['imbalance_worst_window']:.4f}", f"{row['moves']:,}"
        rows.add_row(row["policy"], f"{row['imbalance_mean']:.4f}", worst, str(row["replans"]), moved)
    say.show(rows)
    for note in known["notes"]:
        say.note(note)


def verify(path: str, document: Any, history: list[str], as_json: bool, say: Say) -> int:
    """List every fault of a written replay, held against its history; exit 5 on any."""
    from moeopt.replay import faults
    from moeopt.replay.document import read_replay

    form = read_replay(document, path)
    if not history:
        rule = "is needed: a replay is judged by the history that it was played over"
        raise InstanceError([Violation("history", "", "missing", rule, f"moeopt verify {path} HISTORY...")])
    found = ask(faults, document, _history(form, history, say), after=After(sliced=(_slices(form), form.seed)))
    checked = "every plan, score, move and figure"
    if as_json:
        say.document({"ok": not found, "checked": checked, "faults": found})
        return GATE if found else DONE
    show_faults(path, found, checked, say)
    return GATE if found else DONE


def _slices(form: ReplayDocument) -> int | None:
    """Windows that files of counts were dealt into."""
    slices = form.prepared.get("slices")
    return slices if isinstance(slices, int) else None


def _history(form: ReplayDocument, patterns: list[str], say: Say) -> PlacementInstance:
    """The history in files, cut and with the rules as the document says."""
    from moeopt.cli.inputs import read_any, sources
    from moeopt.cli.replay_input import in_time, tables_of
    from moeopt.cli.windows import joined
    from moeopt.placement import PlacementInstance

    rules = form.instance.document.model_dump(by_alias=True)
    paths = sources(in_time(patterns, say), say)
    found = [read_any(path, experts=None) for path in paths]
    if len(found) == 1 and found[0][0] == "instance":
        instance: PlacementInstance = found[0][1]
        return instance
    tables = tables_of(paths, found, _slices(form), form.seed)
    table = tables[0] if len(tables) == 1 else joined(paths, say, read=tables)
    absent = [layer for layer in rules["layers"] if layer not in table.layers]
    if absent or table.windows is None:
        rule = f"has no layer {absent[0]}" if absent else "holds one window"
        raise InstanceError([Violation("history", "", paths[0], rule, "Give the history that was played")])
    rows = [table.layers.index(layer) for layer in rules["layers"]]
    return PlacementInstance.from_dict({**rules, "loads": table.windows[:, rows].tolist()}, ", ".join(paths))
