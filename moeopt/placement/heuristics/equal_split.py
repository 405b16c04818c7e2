"""Equal split: every GPU exactly its part of the tokens, with the fewest copies, within the slots of each GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from moeopt.errors import NotApplicable
from moeopt.limits import Deadline
from moeopt.percent import percent
from moeopt.placement.heuristics.equal_trees import Piece, cut, fewest_extra, partition
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement, Share
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

SHUFFLES = 60
"""Orders of unlike GPUs that are tried beside four sorted ones."""
KNOWS = ("lost",)
"""Further rules it lives with."""


@dataclass(frozen=True)
class LayerSplit:
    """One layer: exact tokens of every (expert, GPU), copies beyond one an expert, and a proved floor under them."""

    parts: tuple[tuple[int, int, Fraction], ...]
    extra_copies: int
    extra_copies_fewest: int


def applies(instance: PlacementInstance) -> str | None:
    """Free split with slots that may be empty, a floor that does not change the total, and room in principle."""
    if instance.split != "free" or instance.fill != "at_most":
        return "it needs split='free' and fill='at_most': tokens are cut anywhere, and slots may stay empty"
    if instance.floor_rule == "per_replica" and instance.floor:
        return "with a floor per replica every copy adds work, so that equal tokens are not equal costs"
    if instance.hierarchical or instance.constrained:
        return "it knows no groups on nodes, no pin and no forbid; use search"
    empty = [g for g in range(instance.num_gpus) if not instance.slots[g] and g not in instance.gone]
    if empty:
        return f"GPU {empty[0]} has no slots, so it cannot get its part of the tokens"
    return None


def equal_split(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Every GPU's cost is the mean, exactly; copies are few, with a floor; see ``models/placement.md``.

    Raises
    ------
    NotApplicable
        The slots do not do, with the least number that does.
    """
    rows: list[list[int]] = []
    shares: list[list[Share]] = []
    splits: list[LayerSplit] = []
    for row in range(instance.num_layers):
        split = split_layer(instance, row, context.deadline.share(instance.num_layers - row), context.seed)
        splits.append(split)
        held, layer_shares = _placed(instance, split)
        rows.append(held)
        shares.append(layer_shares)
        context.report(row + 1, instance.num_layers)
    extra, floor = sum(split.extra_copies for split in splits), sum(split.extra_copies_fewest for split in splits)
    needed = "the fewest there can be" if extra == floor else f"at least {floor} are needed"
    notes = [*instance.notes, f"equal split: {extra} copies beyond one an expert over all layers, {needed}"]
    stop = Stop.TIME if context.deadline.passed() and extra > floor else Stop.FINISHED
    found = {
        "extra_copies": [split.extra_copies for split in splits],
        "extra_copies_fewest": [split.extra_copies_fewest for split in splits],
    }
    return Outcome(Placement.of(rows, shares), stop, notes=notes, details={"equal_split": found})


def split_layer(instance: PlacementInstance, row: int, deadline: Deadline | None = None, seed: int = 0) -> LayerSplit:
    """The exact split of one layer.

    Raises
    ------
    NotApplicable
        The slots do not do.

    >>> instance = PlacementInstance([[6, 3, 3]], gpus=2, slots=4, split="free", fill="at_most")
    >>> split_layer(instance, 0).extra_copies
    0
    """
    deadline = Deadline(None) if deadline is None else deadline
    whole, floor, denominator = instance.exact_loads
    loads = [max(int(load), floor) for load in whole[row].tolist()]
    gpus = [gpu for gpu in range(instance.num_gpus) if gpu not in instance.gone]
    slots = [instance.slots[gpu] for gpu in gpus]
    speeds = [Fraction(instance.speed[gpu]) for gpu in gpus]
    if sum(loads) and (len(set(slots)) > 1 or len(set(speeds)) > 1):
        pieces, least = _unequal(instance, row, loads, slots, speeds, deadline)
        scale = denominator * _unit(speeds)
    else:
        pieces, least = _alike(instance, row, loads, slots, deadline, seed)
        scale = denominator * len(gpus)
    parts = tuple((expert, gpus[gpu], Fraction(amount, scale)) for expert, gpu, amount in sorted(pieces))
    return LayerSplit(parts, len(parts) - instance.num_experts, least)


def _alike(
    instance: PlacementInstance, row: int, loads: list[int], slots: list[int], deadline: Deadline, seed: int
) -> tuple[list[Piece], int]:
    """GPUs with equal slots and speeds: as many trees as are found, each cut along its sorted pieces."""
    count = len(slots)
    trees = _idle(loads, slots)
    if trees is not None:
        return trees, 0
    found = partition(loads, count, slots[0], deadline, seed)
    if found is None:
        raise NotApplicable(_too_few_slots(instance, row, loads, count, slots[0]))
    total = sum(loads)
    pieces: list[Piece] = []
    first = 0
    for members, size in zip(found.experts, found.gpus, strict=True):
        mine = cut([loads[e] * count for e in members], [total] * size, [slots[0]] * size)
        assert mine is not None  # n + k - 1 <= B k
        pieces.extend((members[expert], first + gpu, amount) for expert, gpu, amount in mine)
        first += size
    extra = len(pieces) - len(loads)
    return pieces, extra if found.most else min(extra, fewest_extra(loads, count))


def _idle(loads: list[int], slots: list[int]) -> list[Piece] | None:
    """A layer without load: one replica of each, wherever there is room."""
    if sum(loads):
        return None
    room = [gpu for gpu, count in enumerate(slots) for _ in range(count)]
    return [(expert, gpu, 0) for expert, gpu in zip(range(len(loads)), room, strict=False)]


def _too_few_slots(instance: PlacementInstance, row: int, loads: list[int], count: int, slots: int) -> str:
    enough = 1 + -(-(len(loads) - 1) // count)
    busy = sum(load > 0 for load in loads)
    certain = "no equal split exists" if busy <= 12 or slots * count < len(loads) + fewest_extra(loads, count) else ""
    said = certain or "no equal split was found"
    return (
        f"layer {instance.layers[row]}: with {slots} slots a GPU {said}; {enough} a GPU ({enough * count} in all) "
        f"always do, as experts + GPUs - 1 = {len(loads) + count - 1} copies are enough"
    )


def _unit(speeds: list[Fraction]) -> int:
    """What makes every GPU's part of any whole load whole."""
    common = math.lcm(*(speed.denominator for speed in speeds))
    return int(sum(speeds) * common)


def _unequal(
    instance: PlacementInstance,
    row: int,
    loads: list[int],
    slots: list[int],
    speeds: list[Fraction],
    deadline: Deadline,
) -> tuple[list[Piece], int]:
    """GPUs that differ: one tree, in whichever order of GPUs the slots do; experts + GPUs - 1 copies at most."""
    common = math.lcm(*(speed.denominator for speed in speeds))
    unit, total = _unit(speeds), sum(loads)
    parts = [int(total * speed * common) for speed in speeds]
    falling = sorted(loads, reverse=True)
    for gpu, (part, room) in enumerate(zip(parts, slots, strict=True)):
        if sum(falling[:room]) * unit < part:
            raise NotApplicable(
                f"layer {instance.layers[row]}: no equal split exists: the {room} heaviest experts, all that GPU {gpu} "
                f"has slots for, have fewer tokens than its part, {percent(float(Fraction(part, unit * total)))} of all"
            )
    everyone = range(len(slots))
    turns = [
        sorted(everyone, key=lambda gpu: (Fraction(parts[gpu], slots[gpu]), gpu)),
        sorted(everyone, key=lambda gpu: (-Fraction(parts[gpu], slots[gpu]), gpu)),
        sorted(everyone, key=lambda gpu: (slots[gpu], gpu)),
        sorted(everyone, key=lambda gpu: (-slots[gpu], gpu)),
    ]
    rng = np.random.default_rng(0)
    turns += [rng.permutation(len(slots)).tolist() for _ in range(SHUFFLES)]
    for turn in turns:
        pieces = cut([load * unit for load in loads], [parts[g] for g in turn], [slots[g] for g in turn])
        if pieces is not None:
            return [(expert, turn[gpu], amount) for expert, gpu, amount in pieces], _least_unequal(loads, parts, unit)
        if deadline.passed():
            break
    wanted = len(loads) + len(slots) - 1
    raise NotApplicable(
        f"layer {instance.layers[row]}: no equal split was found on GPUs of {min(slots)} to {max(slots)} slots; "
        f"experts + GPUs - 1 = {wanted} copies are enough where slots lie well, there are {sum(slots)} slots"
    )


def _least_unequal(loads: list[int], parts: list[int], unit: int) -> int:
    """Every expert needs as many copies as the largest parts it fills."""
    falling = sorted(parts, reverse=True)
    extra = 0
    for load in loads:
        left, count = load * unit, 0
        while left > 0 and count < len(falling):
            left -= falling[count]
            count += 1
        extra += max(count - 1, 0)
    return extra


def _placed(instance: PlacementInstance, split: LayerSplit) -> tuple[list[int], list[Share]]:
    """Slots and shares of a layer."""
    held = [EMPTY] * instance.num_slots
    used = list(instance.slot_start[:-1].tolist())
    whole: dict[int, Fraction] = {}
    for expert, _, amount in split.parts:
        whole[expert] = whole.get(expert, Fraction(0)) + amount
    shares: list[Share] = []
    for expert, gpu, amount in split.parts:
        held[used[gpu]] = expert
        used[gpu] += 1
        shares.append((expert, gpu, float(amount / whole[expert]) if whole[expert] else 1.0))
    return held, shares
