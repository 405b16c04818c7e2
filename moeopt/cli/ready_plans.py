"""Plans held against loads they were not made for: ready-made ones and maps of an engine fitted, any scored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moeopt.cli.compare_room import labelled
from moeopt.cli.not_plans import is_loads, no_plan
from moeopt.cli.piped import file_of
from moeopt.cli.running import shape_in
from moeopt.cli.shape_of_plan import inherited, words_of
from moeopt.errors import InstanceError, Violations

if TYPE_CHECKING:
    from moeopt.cli.compare_room import Asked
    from moeopt.cli.options import Shape
    from moeopt.cli.say import Say
    from moeopt.engines.base import ExpertMap
    from moeopt.engines.layers import LayerFacts
    from moeopt.placement import PlacementInstance
    from moeopt.placement.load_plan import ResultDocument
    from moeopt.registry import Comparison, Row


def read_plan(path: str) -> ResultDocument | ExpertMap:
    """A plan document, or the map of an engine."""
    from moeopt.documents import read_bytes, read_json
    from moeopt.engines.kinds import WITH_MAP, what_is
    from moeopt.engines.reading import read_map
    from moeopt.placement.load_plan import read_result

    try:
        with file_of(path) as file:
            if what_is(file) in WITH_MAP:
                return read_map(file)
            return read_result(read_json(read_bytes(file), path), path)
    except InstanceError as error:
        if is_loads(path):
            raise no_plan("--plans", path, "Give what place -o wrote, or an engine's map") from error
        raise


def shaped_by(asked: Asked, say: Say) -> Asked:
    """The same with the shape of the ready-made plans, where loads come without one and no plan runs; it is said.

    Raises
    ------
    InstanceError
        The plans have different shapes, so that none is that of the comparison.
    """
    from moeopt.cli.inputs import INSTANCE
    from moeopt.cli.route_input import schema_of

    shape = asked.shape
    typed = shape.gpus is not None and (shape.slots or shape.slots_per_gpu or shape.memory_bytes) is not None
    if not asked.plans or shape.current is not None or typed:
        return asked
    if any(path != "-" and schema_of(path).startswith(INSTANCE) for path in asked.inputs):
        return asked
    check, known = Violations(), {}
    for label, path in labelled(asked.plans, ()).items():
        with check.within():
            if found := shape_in(read_plan(path), path, "--plans"):
                known[label] = found
    check.raise_if_any()
    shapes = list(known.values())
    if any(one != shapes[0] for one in shapes):
        for label, one in known.items():
            rule = "is of another shape than the others: " + ", ".join(words_of(one))
            check.add("--plans", label, rule=rule, fix="Give --gpus, --slots and --nodes, or compare them apart")
        check.raise_if_any()
    if not shapes:
        return asked
    taken, notes = inherited(shape, shapes[0], next(iter(known)) if len(known) == 1 else "the plans")
    for note in notes:
        say.note(note)
    return replace(asked, shape=taken)


def fit_plans(
    documents: dict[str, ResultDocument | ExpertMap], instance: PlacementInstance, facts: LayerFacts | None
) -> tuple[dict[str, Any], tuple[Row, ...]]:
    """Plans for the layers of this instance, and rows for those that have not got them."""
    from moeopt.engines.base import ExpertMap
    from moeopt.engines.matching import match_rows
    from moeopt.errors import PlanError
    from moeopt.placement import Placement
    from moeopt.placement.load_plan import as_plan
    from moeopt.registry import Row

    ready, refused = {}, []
    for name, document in documents.items():
        try:
            if isinstance(document, ExpertMap):
                rows, _ = match_rows(document, instance.layers, facts)
                ready[name] = Placement.of(document.slot_expert[rows])
            else:
                ready[name] = as_plan(document, instance.layers)
        except (PlanError, InstanceError) as error:
            refused.append(Row(name, None, str(error)))
    return ready, tuple(refused)


def scored_on(comparison: Comparison, paths: list[str], shape: Shape, say: Say) -> Comparison:
    """Every plan on every file that it has not seen."""
    from moeopt.cli.inputs import names_of, read_instance
    from moeopt.errors import PlanError
    from moeopt.placement.held_out import held_out

    others = {name: read_instance(path, shape, say, name) for path, name in zip(paths, names_of(paths), strict=True)}
    rows = []
    for row in comparison.rows:
        if row.result is not None and row.result.plan is not None and not row.remark:
            try:
                row = replace(row, held_out=held_out(row.result.plan, others))
            except PlanError as error:
                say.note(f"{row.method}: not scored on held-out loads: {error}")
        rows.append(row)
    return replace(comparison, rows=tuple(rows))
