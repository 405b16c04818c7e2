"""Plans held against loads they were not made for: ready-made ones and maps of an engine fitted, any scored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moeopt.cli.not_plans import is_loads, no_plan
from moeopt.cli.piped import file_of
from moeopt.errors import InstanceError

if TYPE_CHECKING:
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
