"""A map of an engine, doubted: what is wrong with it for this shape and this LLM, and what it costs under loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import ExpertMap
from moeopt.engines.layers import LayerFacts, rows_of
from moeopt.engines.map_faults import MAX_FAULTS, map_faults
from moeopt.engines.matching import match_rows
from moeopt.engines.rules import RULES
from moeopt.errors import Violations
from moeopt.workload.table import id_ranges


@dataclass(frozen=True)
class MapCheck:
    """What was found.

    Parameters
    ----------
    faults
        Every fault, each naming its place.
    notes
        What could not be looked at, and what would be needed for it.
    num_experts, slots
        E, and the slots of each GPU where they are known.
    """

    faults: tuple[str, ...]
    notes: tuple[str, ...]
    num_experts: int
    slots: tuple[int, ...] | None


def check_map(
    found: ExpertMap,
    *,
    facts: LayerFacts | None = None,
    experts: int | None = None,
    slots: int | None = None,
    gpus: int | None = None,
    doubles: bool = False,
    most: int = MAX_FAULTS,
) -> MapCheck:
    """Check a map against a shape and an LLM.

    Parameters
    ----------
    found
        The map.
    facts
        The LLM it is for; without its layers, layer ids are not checked.
    experts, slots, gpus
        E, S and G it has to have; what the map does not say is taken from them.
    doubles
        Two replicas of an expert on one GPU are fine.
    most
        How many faults of a kind are named; the number of all is said.

    >>> one = ExpertMap("sglang", np.array([[0, 1, 1, 2]], np.int32), (0,))
    >>> check_map(one, gpus=2, experts=4, slots=6).faults
    ('slots: the map has 4, it has to have 6', 'layer 0: expert 3 is in no slot')
    """
    rules = RULES.get(found.engine)
    faults, notes = [], []
    width = int(found.slot_expert.shape[1])
    if slots is not None and slots != width:
        faults.append(f"slots: the map has {width}, it has to have {slots}")
    per_gpu = found.slots
    if per_gpu is not None and gpus is not None and gpus != len(per_gpu):
        faults.append(f"gpus: the map is for {len(per_gpu)}, it has to be for {gpus}")
    if per_gpu is None and gpus is not None:
        if width % gpus:
            faults.append(f"slots: the {width} slots of a layer do not divide over {gpus} GPUs")
        else:
            per_gpu = (width // gpus,) * gpus
    if per_gpu is None and gpus is None:
        notes.append("doubles on a GPU were not looked for: the map does not say how many GPUs there are (--gpus)")
    if per_gpu is not None and rules is not None and rules.uniform and len(set(per_gpu)) > 1:
        faults.append(f"slots: GPUs have {min(per_gpu)} to {max(per_gpu)}, {rules.title} gives every GPU as many")
    wanted = experts if experts is not None or facts is None else facts.experts
    if wanted is not None and found.num_experts is not None and found.num_experts != wanted:
        faults.append(f"experts: the map is for {found.num_experts}, it has to be for {wanted}")
    number = wanted if wanted is not None else found.known_experts
    stranger = _of_another(found, number, facts, experts)
    if wanted is None and found.num_experts is None:
        notes.append(
            f"cover was checked up to the largest id, {number - 1}: the map does not say how many experts there are "
            "(--experts)"
        )
    empty = rules is not None and rules.empty
    faults += map_faults(found.slot_expert, found.layers, number, per_gpu, doubles=doubles, empty=empty, most=most)
    if facts is None or facts.layers is None or facts.dense is None:
        notes.append("layer ids were not checked: the LLM is not known (--hf-config, or --layers-total with --dense)")
    else:
        wrong, remarks = layer_faults(found, facts)
        faults, notes = [*wrong, *faults], [*notes, *remarks]
    return MapCheck(tuple(dict.fromkeys([*stranger, *faults])), tuple(notes), number, per_gpu)


def _of_another(found: ExpertMap, number: int, facts: LayerFacts | None, experts: int | None) -> list[str]:
    """The one fault that explains many: several ids that no layer has, or that most layers have beyond the last one."""
    last = int(found.slot_expert.max())
    beyond = found.slot_expert >= number
    many = len(np.unique(found.slot_expert[beyond])) > 1 and beyond.any(axis=1).mean() > 0.5
    if not (many or last < number - 2):
        return []
    who = facts.name if experts is None and facts is not None and facts.name else "the LLM"
    return [f"experts: the map has ids up to {last}, {who} has {number} experts in each layer: is it another LLM's?"]


def layer_faults(found: ExpertMap, facts: LayerFacts) -> tuple[list[str], list[str]]:
    """Rows that are missing, too many, or of no such layer, by the layer table of the engine; and what to know."""
    assert facts.layers is not None and facts.dense is not None
    rules, ids, moe = RULES.get(found.engine), set(found.layers), facts.moe
    draft = range(facts.layers, facts.layers + facts.mtp)
    if rules is None or rules.rows == "given":
        check = Violations()
        rows = rows_of(found.layers, facts, check)
        return [f"layers {one.value}: {one.rule}" for one in check.found], list(rows.notes)
    title = rules.title
    if rules.rows == "every":
        due, allowed = set(range(facts.layers)), set(range(facts.layers))
        what = f"{title} reads a row for each of the {facts.layers} layers, dense ones included"
    elif rules.numbering == "position":
        due = allowed = set(range(len(moe)))
        what = f"{title} reads a row for each of the {len(moe)} MoE layers, counted from 0"
    else:
        due, allowed = set(moe), {*moe, *draft}
        what = f"{title} looks for the {len(moe)} MoE layers by their ids, {id_ranges(moe)}"
    faults, notes = [], []
    missing, extra = sorted(due - ids), sorted(ids - allowed)
    if missing:
        faults.append(f"layers {id_ranges(missing)}: missing, {what}")
    dense = [layer for layer in extra if layer in facts.dense] if rules.numbering == "absolute" else []
    if dense:
        faults.append(f"layers {id_ranges(dense)}: are dense and have no experts, {what}")
    beyond = [layer for layer in extra if layer not in dense]
    if beyond:
        faults.append(f"layers {id_ranges(beyond)}: there are none with these ids, {what}")
    if found.engine == "trtllm" and facts.mtp and not set(draft) <= ids:
        absent = sorted(set(draft) - ids)
        what = f"draft layer {absent[0]} has" if len(absent) == 1 else f"draft layers {id_ranges(absent)} have"
        notes.append(f"{what} no row: {title} stops if multi-token prediction is on")
    return faults, notes


@dataclass(frozen=True, eq=False)
class MapCost:
    """What a map costs under loads, layer by layer.

    Parameters
    ----------
    layers
        Ids of the layers that have loads.
    imbalance, best_possible
        Busiest GPU over ideal of each, and the floor that no plan of this shape gets below.
    imbalance_mean, imbalance_total, best_possible_mean
        Mean over layers, sum of maxima over sum of ideals, and mean of the floors.
    notes
        How rows were matched with loads.
    """

    layers: tuple[int, ...]
    imbalance: tuple[float, ...]
    best_possible: tuple[float, ...]
    imbalance_mean: float
    imbalance_total: float
    best_possible_mean: float
    notes: tuple[str, ...]


def map_cost(
    found: ExpertMap,
    loads: NDArray[Any],
    layers: Sequence[int],
    slots: Sequence[int],
    *,
    split: str = "even",
    doubles: bool = False,
    facts: LayerFacts | None = None,
) -> MapCost:
    """Price a map without faults exactly, and bound what any plan of its shape could reach.

    Parameters
    ----------
    loads, layers
        (L, E) tokens or (W, L, E) windows, and the layer ids of the rows; every one needs a row of the map.
    slots
        Slots of each GPU.
    split
        How an expert's tokens are shared by its replicas, see `moeopt.placement.PlacementInstance`.

    Raises
    ------
    InstanceError
        Loads and map are of different sizes, or a layer of the loads has no row.
    """
    from moeopt.placement import Placement, PlacementInstance, bounds, evaluate

    rows, notes = match_rows(found, layers, facts)
    hollow = bool((found.slot_expert[rows] < 0).any())
    instance = PlacementInstance(
        loads,
        slots=list(slots),
        layers=list(layers),
        split=split,  # type: ignore[arg-type]
        distinct=not doubles,
        fill="at_most" if hollow else "all",
    )
    judged = evaluate(instance, Placement.of(found.slot_expert[rows]))
    floors = [float(bound.value) for bound in bounds.cheap(instance)]
    ideal = [float(value) for value in instance.par]
    best = tuple(floor / even if even else 1.0 for floor, even in zip(floors, ideal, strict=True))
    return MapCost(
        tuple(layers),
        judged.imbalance,
        best,
        judged.imbalance_mean,
        judged.imbalance_total,
        sum(best) / len(best),
        tuple(notes),
    )
