"""vLLM: routed experts of every token, as loggers in its MoE layers write them and as its server returns them.

JSON lines of a ``meta`` and many ``route`` objects, or arrays ``topk_ids`` in an `.npz`. vLLM loads no map from a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moeopt.engines.base import Dump
from moeopt.workload.traces import is_trace, read_trace

ENGINE, LOG, ARRAYS = "vllm", "MoE logger", "routed experts"


def form_of(path: str) -> str | None:
    """Which of the two a file is, or ``None``."""
    if not is_trace(path):
        return None
    return ARRAYS if path.lower().endswith(".npz") else LOG


def layers_logged(path: str) -> tuple[Any, tuple[int, ...] | None]:
    """The LLM and the layers that the first line of a log says, to tell files of layers from windows."""
    try:
        with Path(path).open("rb") as file:
            meta = json.loads(file.readline(2**20).removeprefix(b"\xef\xbb\xbf"))
    except (OSError, ValueError, RecursionError):
        return None, None
    if not isinstance(meta, dict) or meta.get("type") != "meta":
        return None, None
    listed = meta.get("layers_logged")
    whole = isinstance(listed, list) and all(type(layer) is int for layer in listed)
    return (meta.get("model_id"), meta.get("top_k")), tuple(map(int, listed or ())) if whole else None


def read_routes(paths: Sequence[str], experts: int | None = None) -> Dump:
    """One trace: a file, or a file for each of its layers; `experts` where the file does not say it."""
    table = read_trace(paths[0] if len(paths) == 1 else list(paths), experts=experts)
    if len(paths) > 1:
        note = f"{len(paths)} files of different layers are one recording"
        table = replace(table, notes=(*table.notes, note))
    steps = table.steps if isinstance(table.steps, int) else None
    return Dump(ENGINE, form_of(paths[0]) or LOG, table, table.per_step, table.top_k, None, steps, table.notes)
