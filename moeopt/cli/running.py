"""The running plan of the command line: one of our plans, an engine's map, or a bare table of experts in slots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moeopt.cli.not_plans import are_counts, is_loads, no_plan
from moeopt.cli.piped import file_of
from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, PlanError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.engines.base import ExpertMap
    from moeopt.engines.layers import LayerFacts
    from moeopt.placement.load_plan import ResultDocument


@dataclass(frozen=True)
class Running:
    """The running plan, brought together with the layers of the loads.

    Parameters
    ----------
    fields
        Arguments ``current`` and ``current_gpu`` of an instance.
    shape
        Arguments of an instance that give it the shape of the plan, as far as it says it.
    layers
        Ids of the layers of the instance: those of the loads, but for dense ones that are idle and have no row.
    notes
        What was taken to be so.
    rules
        Of the question that the plan answered, those that this one may want to ask again.
    """

    fields: dict[str, Any]
    shape: dict[str, Any]
    layers: tuple[int, ...]
    notes: tuple[str, ...] = ()
    rules: dict[str, Any] = field(default_factory=dict)


def read_current(
    path: str,
    layers: Sequence[int],
    *,
    facts: LayerFacts | None = None,
    idle: Sequence[int] = (),
    experts: int | None = None,
) -> Running:
    """The running plan in a file, or by standard input, for an instance with these layer ids.

    A plan is read layer by layer, by id, and says where its slots lie. The rows of an engine's map are found by the
    layers of the LLM where `facts` say them, else taken in order where it counts MoE layers alone. A table (JSON,
    ``.npy``, ``.npz``, or CSV without a header) has one row a layer, in the order of the loads. `idle` are layers that
    have no loads. With the number of `experts`, loads in the place of a table are told from one.
    """
    fix = "Give the file that place -o wrote, or a table of the expert in each slot"
    try:
        with file_of(path) as file:
            found = _read(path, file, layers, facts, idle)
    except InstanceError as error:
        if is_loads(path, experts):
            raise no_plan("--current", path, fix) from error
        raise
    table = found.fields["current"]
    if not found.shape and experts is not None and are_counts(table, experts) and is_loads(path, experts):
        raise no_plan("--current", path, fix)
    return found


def _read(path: str, file: str, layers: Sequence[int], facts: LayerFacts | None, idle: Sequence[int]) -> Running:
    from moeopt.placement.plan_document import SCHEMA, as_plan, read_result
    from moeopt.placement.plan_shape import plan_rules
    from moeopt.workload.readers import split_key

    found_map = _map(file)
    if found_map is not None:
        return _of_map(found_map, layers, facts, idle)
    ending = Path(split_key(file)[0]).suffix.lower()
    if ending in (".npy", ".npz"):
        from moeopt.engines.reading import read_map

        return Running({"current": read_map(file).slot_expert}, {}, tuple(layers))
    if ending in (".csv", ".tsv", ".txt") or (file != path and not ending):
        return Running({"current": _slot_table(file)}, {}, tuple(layers))
    document = read_json(read_bytes(file), path)
    if isinstance(document, list):
        return Running({"current": document}, {}, tuple(layers))
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        rule = f"is neither a plan ({SCHEMA}) nor a table of experts in slots"
        raise InstanceError([Violation("--current", "", path, rule, "Give the file that place -o wrote")])
    found = read_result(document, path)
    planned = () if found.solution is None else [layer.layer for layer in found.solution.layers]
    kept, notes = _without_dense(layers, facts, idle, planned)
    try:
        plan = as_plan(found, kept)
    except PlanError as error:
        rule = f"does not fit the loads: {'; '.join(error.faults[:5])}"
        raise InstanceError(
            [Violation("--current", "", path, rule, "Plan the layers that it has: --layers")]
        ) from error
    assert found.solution is not None
    fields = {"current": plan.slot_expert, "current_gpu": found.solution.gpu_of_slot}
    return Running(fields, shape_in(found, path), tuple(kept), tuple(notes), plan_rules(found))


def _map(file: str) -> ExpertMap | None:
    """An engine's map, or moeopt's own of one; ``None`` for a plan, a bare table, and what is neither."""
    from moeopt.engines.kinds import WITH_MAP, what_is
    from moeopt.engines.reading import read_map

    return read_map(file) if what_is(file) in WITH_MAP else None


def _of_map(found: ExpertMap, layers: Sequence[int], facts: LayerFacts | None, idle: Sequence[int]) -> Running:
    """The rows of a map for the layers; dense layers without loads need none."""
    from moeopt.engines.matching import match_rows
    from moeopt.engines.rules import BY_POSITION

    kept, notes = _without_dense(layers, facts, idle, () if found.engine in BY_POSITION else found.layers)
    rows, more = match_rows(found, kept, facts, field="--current")
    fields: dict[str, Any] = {"current": found.slot_expert[rows]}
    if found.slots is not None:
        fields["current_gpu"] = [gpu for gpu, count in enumerate(found.slots) for _ in range(count)]
    return Running(fields, shape_in(found), tuple(kept), (*notes, *more))


def _without_dense(
    layers: Sequence[int], facts: LayerFacts | None, idle: Sequence[int], rows: Sequence[int]
) -> tuple[list[int], list[str]]:
    """The layers but for those that are dense, idle and without a row, and a note about these."""
    from moeopt.workload.table import id_ranges

    dense = () if facts is None or facts.dense is None else facts.dense
    apart = sorted(set(dense) & set(idle) - set(rows))
    kept = [layer for layer in layers if layer not in apart]
    if not apart or not kept:
        return list(layers), []
    what = f"layer {apart[0]} is dense, has" if len(apart) == 1 else f"layers {id_ranges(apart)} are dense, have"
    return kept, [f"{what} no loads and no row in --current: left out"]


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


def shape_in(found: ResultDocument | ExpertMap, path: str = "", option: str = "--current") -> dict[str, Any]:
    """The shape that a plan or the map of an engine says; nothing where it says none.

    In a map, a GPU without a slot was lost before, or retired.

    Raises
    ------
    InstanceError
        The shape in the plan breaks its own rules.
    """
    from moeopt.engines.base import ExpertMap
    from moeopt.placement.plan_shape import plan_shape

    if not isinstance(found, ExpertMap):
        try:
            return plan_shape(found)
        except InstanceError as error:
            rule = f"holds a shape that breaks its own rules: {error.violations[0]}"
            raise InstanceError([Violation(option, "", path, rule, "moeopt verify lists its faults")]) from error
    if found.slots is None:
        return {}
    most = max(found.slots)
    lost = [gpu for gpu, slots in enumerate(found.slots) if not slots]
    each = [slots or most for slots in found.slots]
    shape = {"gpus": len(each), "slots": sum(each) if len(set(each)) == 1 else each}
    return {**shape, "lost": lost} if lost else shape


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
