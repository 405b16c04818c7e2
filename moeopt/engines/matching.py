"""Rows of a map and layers of loads, brought together: by layer id, by place among the MoE layers, or in order."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.engines.base import ExpertMap
from moeopt.engines.layers import LayerFacts, rows_of
from moeopt.engines.rules import BY_POSITION
from moeopt.errors import Violations
from moeopt.workload.table import id_ranges


def match_rows(
    found: ExpertMap, layers: Sequence[int], facts: LayerFacts | None = None, *, field: str = "layers"
) -> tuple[list[int], list[str]]:
    """Row of the map for each layer of the loads, and notes on what was taken to be so.

    Parameters
    ----------
    found
        The map; rows for further layers are left aside.
    layers
        Layer ids of the loads.
    facts
        The LLM. Without its layers, ids of a map that counts MoE layers say nothing, and rows are taken in order.
    field
        What messages call the layers.

    Raises
    ------
    InstanceError
        A layer of the loads has no row.

    >>> import numpy as np
    >>> two = ExpertMap("vllm-ascend", np.array([[0, 1], [1, 0]], np.int32), (0, 1), (1, 1), 2)
    >>> match_rows(two, [4, 3], LayerFacts(5, (0, 1, 2)))
    ([1, 0], [])
    >>> match_rows(two, [3, 4])
    ([0, 1], ['rows are matched in order: the map has layers 0-1, the loads 3-4'])
    """
    notes: list[str] = []
    wanted, place = list(layers), {layer: row for row, layer in enumerate(found.layers)}
    if facts is not None and facts.layers is not None and facts.dense is not None:
        place = _by_absolute_id(found, facts)
        if facts.dense and wanted == list(range(len(facts.moe))):
            wanted = list(facts.moe)
            notes.append(f"loads {id_ranges(layers)} are taken as the MoE layers {id_ranges(wanted)}")
    elif found.engine in BY_POSITION and wanted != list(found.layers):
        place = {}
    absent = [layer for layer in wanted if layer not in place]
    if not absent:
        return [place[layer] for layer in wanted], notes
    if facts is None and len(wanted) == len(found.layers):
        text = f"the map has layers {id_ranges(found.layers)}, the loads {id_ranges(layers)}"
        return list(range(len(wanted))), [f"rows are matched in order: {text}"]
    check = Violations()
    rule = f"have no row in the map, which has layers {id_ranges(sorted(place or found.layers))}"
    if not place:
        rule = f"cannot be found in the map, which counts the {len(found.layers)} MoE layers"
    check.add(field, id_ranges(absent), rule=rule, fix=_way_out(found, wanted, absent, facts))
    check.raise_if_any()
    raise AssertionError


def _way_out(found: ExpertMap, wanted: Sequence[int], absent: Sequence[int], facts: LayerFacts | None) -> str:
    """What to do about layers that have no row."""
    known = facts is not None and facts.layers is not None
    left = [layer for layer in wanted if layer not in set(absent)]
    if left:
        return f"Leave them out (--layers {id_ranges(left)}), or give the map of all layers"
    few = len(found.layers)
    if known or len(wanted) < few:
        return "Give the loads of its layers (--layers)"
    dense = f"If {id_ranges(wanted[:-few])} are the dense ones, " if len(wanted) - few > 1 else ""
    dense = dense or f"If {wanted[0]} is the dense one, "
    return f"{dense}give --layers {id_ranges(wanted[-few:])}; --hf-config config.json says which are dense"


def _by_absolute_id(found: ExpertMap, facts: LayerFacts) -> dict[int, int]:
    """Row of each layer of the LLM that has one."""
    rows = rows_of(found.layers, facts, Violations(), by_position=found.engine in BY_POSITION)
    if len(rows.moe) < len(facts.moe):  # some are missing: ids as they are
        if found.engine in BY_POSITION:
            return {facts.moe[one]: row for row, one in enumerate(found.layers) if one < len(facts.moe)}
        return {layer: row for row, layer in enumerate(found.layers)}
    return {**dict(zip(facts.moe, rows.moe, strict=True)), **rows.dense}
