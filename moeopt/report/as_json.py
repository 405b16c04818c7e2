"""The report as strict JSON: everything, so that one file is enough to judge and bound every plan again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moeopt.documents import to_json
from moeopt.report import words
from moeopt.report.as_csv import figures
from moeopt.report.block import Block, Header
from moeopt.report.head import all_versions
from moeopt.report.summary import NEAR_GAP, RowSummary, Summary, summarise

SCHEMA = "moeopt/comparison/1"


def render_json(blocks: Sequence[Block], header: Header) -> str:
    """The whole document."""
    summaries = [summarise(block) for block in blocks]
    document = {
        "schema": SCHEMA,
        "command": header.command,
        "seed": header.seed,
        "versions": all_versions(summaries, header),
        "created": header.created,
        "notes": list(header.notes),
        "near_gap": NEAR_GAP,
        "blocks": [_block(summary) for summary in summaries],
    }
    return to_json(document) + "\n"


def _block(summary: Summary) -> dict[str, Any]:
    bounds = [None] * len(summary.ideal) if summary.layer_bound is None else summary.layer_bound.tolist()
    layers = zip(summary.instance.layers, summary.ideal.tolist(), bounds, strict=True)
    return {
        "problem": summary.comparison.problem,
        "instance": {
            "name": summary.instance.name,
            "sha256": summary.instance.sha256,
            "document": summary.instance.to_dict(),
        },
        "verdict": " ".join("".join(sentence) for sentence in words.verdict(summary)),
        "unit": summary.unit,
        "interrupted": summary.comparison.interrupted,
        "not_run": list(summary.comparison.not_run),
        "best": None if summary.best is None else summary.best.method,
        "lower_bound": summary.comparison.lower_bound,
        "bound_kind": summary.bound_kind,
        "layers": [{"layer": layer, "ideal": ideal, "lower_bound": bound} for layer, ideal, bound in layers],
        "rows": [_row(summary, row) for row in summary.rows],
    }


def _row(summary: Summary, row: RowSummary) -> dict[str, Any]:
    numbers = figures(summary, row)
    for name in ("best_bound", "best_bound_kind"):  # said once, of the block
        del numbers[name]
    result = None if row.result is None else row.result.to_dict()
    if result is not None and not row.remark:
        result["instance"] = {"name": summary.instance.name, "sha256": summary.instance.sha256}  # the document is above
    return {
        **numbers,
        "best": row.best,
        "held_out": None if row.held_out is None else dict(row.held_out),
        "gap_of_layer": None if row.layer_gap is None else row.layer_gap.tolist(),
        "result": result,
    }
