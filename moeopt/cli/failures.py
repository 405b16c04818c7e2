"""What a repair takes, and what a failure would lose, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.say import Say, count, ranges

if TYPE_CHECKING:
    from moeopt.placement import Placement, PlacementInstance

SHOWN = 12
"""Rows of a table before the rest is counted."""


def repair_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows for the summary of a plan: which GPUs are gone, and what has to come from storage."""
    gone = [
        f"{word} {', '.join(map(str, report[key]))}"
        for key, word in (("lost_gpus", "lost"), ("retired_gpus", "retired"))
        if report[key]
    ]
    loads, least = report["storage_loads"], report["storage_loads_fewest"]
    fewest = ", the fewest possible" if loads == least else f"; fewest possible {least:,}"
    return [("GPUs", "; ".join(gone)), ("storage", f"{count(loads, 'load')}{fewest}")]


def show_repair(report: Mapping[str, Any], say: Say, kept: str) -> None:
    """The loads from storage and the copies one by one; `kept` says where all of a list are that is cut."""
    from moeopt.cli.tables import table

    loads = [(layer["layer"], *load) for layer in report["layers"] for load in layer["from_storage"]]
    copies = [(layer["layer"], *copy) for layer in report["layers"] for copy in layer["copied"]]
    if loads:
        _table(table("load from storage", "layer", "expert", "GPU", "slot"), loads, say, kept)
    if copies:
        rows = table("copy from a GPU that is left", "layer", "expert", "from GPU", "to GPU", "slot")
        _table(rows, copies, say, kept)


def _table(rows: Any, entries: list[tuple[int, ...]], say: Say, kept: str) -> None:
    shown = entries if say.verbose else entries[:SHOWN]
    for entry in shown:
        rows.add_row(*map(str, entry))
    say.show(rows)
    if len(shown) < len(entries):
        say.show(f"... and {len(entries) - len(shown):,} more; {kept}")


def lost_document(instance: PlacementInstance, plan: Placement) -> dict[str, Any]:
    """What every GPU and node would take with it, ids as JSON keys."""
    from moeopt.placement.lasting import lost_if

    return {
        f"{by}s": {
            str(number): {str(layer): experts for layer, experts in layers.items()}
            for number, layers in lost_if(instance, plan, by=by).items()
        }
        for by in ("gpu", "node")
    }


def show_lost(document: Mapping[str, Any], experts: int, layers: int, say: Say) -> None:
    """The GPUs and nodes whose failure would lose experts, and those that may fail; experts count once a layer."""
    from moeopt.cli.tables import table

    rows = []
    harmless = []
    for key, word in (("gpus", "GPU"), ("nodes", "node")):
        if key == "nodes" and len(document[key]) == 1:
            harmless.append("all GPUs are on one node, and nothing is left if it fails")
            continue
        lost = {number: sum(map(len, gone.values())) for number, gone in document[key].items()}
        rows += [(word, number, lost[number], document[key][number]) for number in lost if lost[number]]
        harmless.append(_safe(word, lost))
    rows.sort(key=lambda row: -row[2])
    if rows:
        shown = rows if say.verbose else rows[:SHOWN]
        whole = f"{experts:,} in each of {count(layers, 'layer')}"
        say.show(f"experts that would have no replica left, of {whole}; the worst first")
        made = table("", "if this fails", "experts lost", "in layers", "for example")
        made.columns[-1].justify = "left"
        for word, number, total, gone in shown:
            layer, ids = next(iter(gone.items()))
            more = ", ..." if len(ids) > 6 else ""
            example = f"layer {layer}: {'expert' if len(ids) == 1 else 'experts'} {', '.join(map(str, ids[:6]))}{more}"
            everything = " (all)" if total == experts * layers else ""
            made.add_row(f"{word} {number}", f"{total:,}{everything}", f"{len(gone):,}", example)
        say.show(made)
        if len(shown) < len(rows):
            say.show(f"... and {len(rows) - len(shown):,} more; -v and --json show them")
    for line in harmless:
        say.show(line)


def _safe(word: str, lost: Mapping[str, int]) -> str:
    """Which of the GPUs or nodes may fail without an expert being lost.

    >>> _safe("GPU", {"0": 0, "1": 0})
    'any one of the 2 GPUs may fail: no expert is lost'
    >>> _safe("node", {"0": 3, "1": 2})
    'no node may fail: each of the 2 nodes has experts that no other has'
    >>> _safe("GPU", {"0": 0, "1": 2, "2": 0, "3": 0})
    'any one of these 3 of 4 GPUs may fail, and no expert is lost: 0, 2-3'
    """
    safe = [int(number) for number, total in lost.items() if not total]
    if len(safe) == len(lost):
        return f"any one of the {count(len(lost), word)} may fail: no expert is lost"
    if not safe:
        return f"no {word} may fail: each of the {count(len(lost), word)} has experts that no other has"
    return f"any one of these {len(safe):,} of {count(len(lost), word)} may fail, and no expert is lost: {ranges(safe)}"
