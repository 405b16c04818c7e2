"""What a plan says of its moves, its repair and its extra copies, counted again from its slots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from moeopt.placement import damage, moves
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY
from moeopt.placement.plan_document import ResultDocument


def extra_faults(document: ResultDocument, shape: PlacementInstance) -> Iterator[str]:
    """What the plan says of its repair, and of the copies of an equal split, against its slots."""
    solution = document.solution
    assert solution is not None
    rows = [layer.slot_expert for layer in solution.layers]
    fits = all(len(row) == shape.num_slots and max(row, default=0) < shape.num_experts for row in rows)
    if solution.repair is not None and shape.current is None:
        yield "solution.repair: the instance has no running plan"
    elif solution.repair is not None and fits:
        own = damage.describe(shape, np.array(rows, dtype=np.int64))
        said = solution.repair.model_dump()
        if own["moves_fewest"] is None:
            own["moves_fewest"] = said["moves_fewest"]  # proved by a flow that is not repeated here
        for key in own:
            if key != "layers" and own[key] != said[key]:
                yield f"solution.repair.{key} says {said[key]}, the plans give {own[key]}"
        for mine, theirs in zip(own["layers"], said["layers"], strict=False):
            if mine != theirs:
                yield f"layer {mine['layer']}: solution.repair is not what leads from the running plan to this one"
    if solution.equal_split is not None:
        extra = [sum(expert > EMPTY for expert in row) - shape.num_experts for row in rows]
        if solution.equal_split.extra_copies != extra:
            yield f"solution.equal_split.extra_copies says {solution.equal_split.extra_copies}, the slots hold {extra}"


def move_faults(document: ResultDocument, shape: PlacementInstance) -> Iterator[str]:
    """Moves and budgets: counted again from the running plan in the instance."""
    solution = document.solution
    assert solution is not None
    layers = solution.layers
    if shape.current is None:
        if solution.moves is not None or any(layer.moves is not None or layer.moved is not None for layer in layers):
            yield "moves are stated, and the instance has no running plan"
        return
    if any(len(layer.slot_expert) != shape.num_slots for layer in layers):
        return  # said already
    table = np.array([layer.slot_expert for layer in layers])
    if table.min() < EMPTY or table.max() >= shape.num_experts:
        return
    for row, (layer, count) in enumerate(zip(layers, moves.count_moves(shape, table), strict=True)):
        if layer.moves != count:
            yield f"layer {layer.layer}: moves says {layer.moves}, {count} pairs are new"
        said = sorted(item[:1] + item[2:] for item in layer.moved or [] if len(item) == 4)
        true = moves.new_pairs(shape, table[row], row).tolist()
        if said != sorted(true) or len(layer.moved or []) != len(said):
            yield f"layer {layer.layer}: moved does not list the pairs that are new"
        pairs = moves.running_pairs(shape, row)
        for expert, source, *_ in (item for item in layer.moved or [] if len(item) == 4):
            known = 0 <= expert < shape.num_experts and -1 <= source < shape.num_gpus
            if not known or (source >= 0 and not pairs[expert, source]):
                yield f"layer {layer.layer}: expert {expert} is said to come from GPU {source}, which lacks it"
            elif source == moves.STORAGE and pairs[expert].any():
                have = ", ".join(map(str, np.flatnonzero(pairs[expert]).tolist()))
                yield f"layer {layer.layer}: expert {expert} is said to come from storage, and GPU {have} has it"
    if solution.moves != sum(layer.moves or 0 for layer in layers):
        yield f"solution.moves says {solution.moves}, the layers give {sum(layer.moves or 0 for layer in layers)}"
    yield from (fault for fault in moves.move_faults(shape, table) if not fault.startswith("layer"))
