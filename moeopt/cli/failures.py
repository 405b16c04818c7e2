"""What a repair takes, and what a failure would lose, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.cli.say import Say, count

if TYPE_CHECKING:
    from moeopt.placement import Placement, PlacementInstance

SHOWN = 12
"""Rows of a table before the rest is counted."""


def show_repair(report: Mapping[str, Any], say: Say) -> None:
    """The loads from storage one by one, and how many copies there are."""
    from moeopt.cli.tables import table

    loads = [(layer["layer"], *load) for layer in report["layers"] for load in layer["from_storage"]]
    copies = [(layer["layer"], *copy) for layer in report["layers"] for copy in layer["copied"]]
    if loads:
        _table(table("load from storage", "layer", "expert", "GPU", "slot"), loads, say)
    if copies:
        rows = table("copy from a GPU that is left", "layer", "expert", "from GPU", "to GPU", "slot")
        _table(rows, copies, say)
    gone = [
        f"{word} {', '.join(map(str, report[key]))}"
        for key, word in (("lost_gpus", "lost"), ("retired_gpus", "retired"))
        if report[key]
    ]
    least = report["moves_fewest"]
    fewest = "" if least is None else f" (fewest that restore every expert: {least})"
    say.show(
        f"GPUs       {'; '.join(gone)}\n"
        f"storage    {count(report['storage_loads'], 'load')}, fewest possible {report['storage_loads_fewest']}\n"
        f"moves      {report['moves']} replicas come to a GPU that lacks them{fewest}"
    )


def _table(rows: Any, entries: list[tuple[int, ...]], say: Say) -> None:
    shown = entries if say.verbose else entries[:SHOWN]
    for entry in shown:
        rows.add_row(*map(str, entry))
    say.show(rows)
    if len(shown) < len(entries):
        say.show(f"... and {len(entries) - len(shown):,} more, -v and --json show them")


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


def show_lost(document: Mapping[str, Any], say: Say) -> None:
    """The GPUs and nodes whose failure would lose experts."""
    from moeopt.cli.tables import table

    rows = table("if it fails", "what", "experts lost", "layers", "the first")
    rows.columns[-1].justify = "left"
    harmless = []
    for key, word in (("gpus", "GPU"), ("nodes", "node")):
        for number, layers in document[key].items():
            lost = sum(map(len, layers.values()))
            if not lost:
                harmless.append(f"{word} {number}")
                continue
            layer, experts = next(iter(layers.items()))
            first = f"layer {layer}: {', '.join(map(str, experts[:6]))}{' ...' if len(experts) > 6 else ''}"
            rows.add_row(f"{word} {number}", str(lost), str(len(layers)), first)
    if rows.row_count:
        say.show(rows)
    if harmless:
        few = (
            harmless if say.verbose or len(harmless) <= SHOWN else [*harmless[:SHOWN], f"{len(harmless) - SHOWN} more"]
        )
        say.show(f"nothing is lost with any one of: {', '.join(few)}")
