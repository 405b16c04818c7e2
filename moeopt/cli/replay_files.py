"""Replay documents in the verbs that take any file: `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, GATE
from moeopt.cli.verdict import show_faults
from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.replay.document import ReplayDocument

RESULT = "moeopt/replay-result/"
RESULT_SAID = "replay"


def document_of(path: str) -> Any | None:
    """The document of a replay; ``None`` for any other file, and for standard input."""
    if path == "-" or not path.lower().endswith(".json"):
        return None
    data = read_bytes(path)
    if b'"moeopt/replay-' not in data:
        return None
    document = read_json(data, path)
    schema = document.get("schema") if isinstance(document, dict) else None
    return document if isinstance(schema, str) and schema.startswith(RESULT) else None


def verify_replay(path: str, document: Any, history: list[str], as_json: bool, say: Say) -> int:
    """List every fault of a written replay, held against its history; exit 5 on any."""
    from moeopt.replay import faults
    from moeopt.replay.document import read_replay

    form = read_replay(document, path)
    if not history:
        rule = "is needed: a replay is judged by the history that it was played over"
        raise InstanceError([Violation("history", "", "missing", rule, f"moeopt verify {path} HISTORY...")])
    found = faults(document, _history(form, history, say))
    checked = "every plan, score, move and figure"
    if as_json:
        say.document({"ok": not found, "checked": checked, "faults": found})
        return GATE if found else DONE
    show_faults(path, found, checked, say)
    return GATE if found else DONE


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
    slices = form.prepared.get("slices")
    tables = tables_of(paths, found, slices if isinstance(slices, int) else None, form.seed)
    table = tables[0] if len(tables) == 1 else joined(paths, say, read=tables)
    absent = [layer for layer in rules["layers"] if layer not in table.layers]
    if absent or table.windows is None:
        rule = f"has no layer {absent[0]}" if absent else "holds one window"
        raise InstanceError([Violation("history", "", paths[0], rule, "Give the history that was played")])
    rows = [table.layers.index(layer) for layer in rules["layers"]]
    return PlacementInstance.from_dict({**rules, "loads": table.windows[:, rows].tolist()}, ", ".join(paths))
