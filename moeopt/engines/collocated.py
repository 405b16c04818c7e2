"""The plan of a collocation as a table of experts in slots, which every engine's writer takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from moeopt.engines.base import ExpertMap
from moeopt.errors import Violations

SCHEMA = "moeopt/collocation-result/1"


def read_collocated(document: Any, source: str = "") -> ExpertMap:
    """A map from a parsed result of a collocation.

    Raises
    ------
    InstanceError
        Another version, no plan in it, rows that do not fit its slots; all of them at once.

    >>> layers = [{"layer": 3, "slot_expert": [1, 0], "replicas": [1, 1]}]
    >>> solution = {"layers": layers, "gpu_of_slot": [0, 1], "ep_size": 2}
    >>> read_collocated({"schema": SCHEMA, "solution": solution}).slot_expert.tolist()
    [[1, 0]]
    """
    check = Violations(source)
    if document.get("schema") != SCHEMA:
        check.add("schema", document.get("schema"), rule=f"must be {SCHEMA}", fix="Is it of a newer version?")
        check.raise_if_any()
    solution = document.get("solution")
    if not isinstance(solution, dict):
        check.add("plan", document.get("status"), rule="is the status of a document without a plan", fix="Plan again")
        check.raise_if_any()
    try:
        layers = [int(row["layer"]) for row in solution["layers"]]
        rows = [[int(expert) for expert in row["slot_expert"]] for row in solution["layers"]]
        experts = len(solution["layers"][0]["replicas"])
        gpus, size = [int(gpu) for gpu in solution["gpu_of_slot"]], int(solution["ep_size"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        check.add("solution", "...", rule=f"is not whole ({type(error).__name__}: {error})", fix="Plan again")
        check.raise_if_any()
        raise  # a violation was added
    if len(set(layers)) < len(layers):
        check.add("layers", layers, rule="must differ", fix="Plan again")
    for layer, row in zip(layers, rows, strict=True):
        if len(row) != len(gpus):
            rule = f"must be as many as gpu_of_slot has, {len(gpus)}"
            check.add("slot_expert", f"{len(row)} slots", rule=rule, fix="Plan again", where=f"layer {layer}")
        elif any(not -1 <= expert < experts for expert in row):
            check.add("slot_expert", "...", rule=f"ids run from -1 to {experts - 1}", where=f"layer {layer}")
    if gpus != sorted(gpus) or not gpus or gpus[0] < 0 or gpus[-1] >= size:
        rule = f"must be GPUs from 0 to {size - 1} in ascending order"
        check.add("gpu_of_slot", "...", rule=rule, fix="Plan again")
    check.raise_if_any()
    slots = tuple(np.bincount(gpus, minlength=size).tolist())
    return ExpertMap("moeopt", np.array(rows, dtype=np.int32), tuple(layers), slots, experts)
