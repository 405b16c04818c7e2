"""The running plan of the command line: one of our plans, an engine's map, or a bare table of experts in slots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, PlanError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.engines.base import ExpertMap


def read_current(path: str, layers: Sequence[int]) -> tuple[dict[str, Any], int | None]:
    """Arguments ``current`` and ``current_gpu`` of an instance with these layer ids, and its GPUs where it says so.

    A plan is read layer by layer, by id, and says where its slots lie; so is a map of an engine, whose rows are taken
    in order where it counts MoE layers alone. A table (JSON, ``.npy``, or CSV without a header) has one row a layer, in
    the order of the loads.
    """
    from moeopt.placement.plan_document import SCHEMA, as_plan, read_result
    from moeopt.workload.readers import split_key

    found_map = _map(path)
    if found_map is not None:
        from moeopt.engines.matching import match_rows

        rows, _ = match_rows(found_map, layers, field="--current")
        running: dict[str, Any] = {"current": found_map.slot_expert[rows]}
        if found_map.slots is not None:
            running["current_gpu"] = [gpu for gpu, count in enumerate(found_map.slots) for _ in range(count)]
        return running, None if found_map.slots is None else len(found_map.slots)
    if split_key(path)[0].lower().endswith((".npy", ".npz")):
        from moeopt.engines.reading import read_map

        return {"current": read_map(path).slot_expert}, None
    if path.lower().endswith((".csv", ".tsv", ".txt")):
        return {"current": _slot_table(path)}, None
    document = read_json(read_bytes(path), path)
    if isinstance(document, list):
        return {"current": document}, None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        rule = f"is neither a plan ({SCHEMA}) nor a table of experts in slots"
        raise InstanceError([Violation("--current", "", path, rule, "Give the file that place -o wrote")])
    found = read_result(document, path)
    try:
        plan = as_plan(found, layers)
    except PlanError as error:
        rule = f"does not fit the loads: {'; '.join(error.faults[:5])}"
        raise InstanceError(
            [Violation("--current", "", path, rule, "Plan the layers that it has: --layers")]
        ) from error
    assert found.solution is not None
    return {"current": plan.slot_expert, "current_gpu": found.solution.gpu_of_slot}, found.solution.ep_size


def _map(path: str) -> ExpertMap | None:
    """An engine's map, or moeopt's own of one; ``None`` for a plan, a bare table, and what is neither."""
    from moeopt.engines.kinds import WITH_MAP, what_is
    from moeopt.engines.reading import read_map

    return read_map(path) if path != "-" and what_is(path) in WITH_MAP else None


def _slot_table(path: str) -> list[list[int]]:
    """Rows of expert ids, a row a layer."""
    check = Violations(path)
    rows = []
    for number, line in enumerate(read_bytes(path).decode("utf-8-sig", "replace").splitlines(), start=1):
        cells = [cell.strip() for cell in re.split(r"[,;\t]", line)] if line.strip() else []
        try:
            rows.append([int(cell) for cell in cells])
        except ValueError:
            rule = "a slot table has a row a layer of whole expert ids, no header, -1 for an empty slot"
            check.add("--current", line, rule=rule, fix="Give the plan that place -o wrote", where=f"line {number}")
            break
    check.raise_if_any()
    return [row for row in rows if row]


def shape_of(running: dict[str, Any], count: int | None) -> dict[str, Any]:
    """``gpus``, ``slots`` and ``lost`` of a running plan that says where its slots lie; else nothing.

    A GPU without a slot was lost before, or retired.

    >>> shape_of({"current_gpu": [0, 0, 2, 2]}, 4)
    {'gpus': 4, 'slots': 8, 'lost': [1, 3]}
    """
    if count is None:
        return {}
    each = [list(running["current_gpu"]).count(gpu) for gpu in range(count)]
    lost = [gpu for gpu, slots in enumerate(each) if not slots]
    each = [slots or max(each) for slots in each]
    return {"gpus": count, "slots": sum(each) if len(set(each)) == 1 else each, **({"lost": lost} if lost else {})}


def gpus_of_nodes(text: str, nodes: Any, num_gpus: int | None, check: Violations) -> list[int]:
    """The GPUs of some nodes, from what was given for ``--nodes`` and ``--gpus``."""
    from moeopt.cli import units
    from moeopt.placement.checks import listed, node

    wanted = units.ids("--lost-nodes", text, check)
    count = len(nodes) if listed(nodes) else num_gpus
    if count is None:
        check.add("--gpus", "missing", rule="is needed beside --lost-nodes", fix="Give the number of GPUs")
        return []
    home = node(nodes, count, check)
    for one in wanted:
        if one not in home:
            known = f"nodes run from {min(home)} to {max(home)}"
            check.add("--lost-nodes", one, rule=known, fix="Give a node in that range")
    return [gpu for gpu, where in enumerate(home) if where in wanted]
