"""The checks of a placement instance, one function a field; each notes violations and returns a normal form."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.documents import canonical_json
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

MAX_GPUS = 65_536
"""More is surely a slip of the keyboard, and would fill the memory before anything else is checked."""


MAX_SLOTS = 2**24
"""The same for slots: one layer of a plan would take 64 MB."""


def listed(value: object) -> bool:
    """Whether a value is a list of entries rather than one entry."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _entries(field: str, value: Any, check: Violations) -> list[Any]:
    """The entries of a list, none when it is not a list."""
    if listed(value):
        return list(value)
    check.add(field, value, rule="must be a list", fix="Give one entry each")
    return []


def choice(field: str, value: object, allowed: tuple[str, ...], check: Violations) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        check.add(field, value, rule=f"must be one of {', '.join(allowed)}", fix=f"Use {allowed[0]}")


def word(field: str, value: Any, check: Violations) -> str | None:
    """A text, or ``None``."""
    if value is not None and not isinstance(value, str):
        check.add(field, value, rule="must be a text", fix="Give a name, or leave it out")
    return None if value is None else str(value)


def facts(field: str, value: Any, check: Violations) -> dict[str, Any] | None:
    """A copy of a mapping that strict JSON can hold, or ``None``."""
    if value is None:
        return None
    try:
        return copy.deepcopy(dict(value)) if canonical_json(dict(value)) else None
    except (TypeError, ValueError):
        check.add(field, value, rule="must be a mapping that JSON can hold", fix="Give names and numbers")
        return None


def whole(field: str, value: Any, least: int, check: Violations, *, where: str = "") -> int:
    """A whole number, at least `least`."""
    good = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_) and value >= least
    if not good:
        check.add(field, value, rule=f"must be a whole number >= {least}", fix=f"Use {least} or more", where=where)
        return least
    return int(value)


def number(
    field: str, value: Any, check: Violations, *, positive: bool = False, where: str = "", fix: str = ""
) -> float:
    """A finite number, >= 0 or > 0."""
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)
    if good:
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        if math.isfinite(real) and (real > 0 if positive else real >= 0):
            return real
    sign = "> 0" if positive else ">= 0"
    check.add(field, value, rule=f"must be a finite number {sign}", fix=fix or "Use 1" * positive, where=where)
    return 1.0


def memory(expert_bytes: Any, memory_bytes: Any, check: Violations) -> list[float] | float | None:
    """Bytes per GPU, as given; both fields or neither."""
    if (expert_bytes is None) != (memory_bytes is None):
        missing, given = ("expert_bytes", "memory_bytes")[:: 1 if expert_bytes is None else -1]
        check.add(missing, None, rule=f"is needed beside {given}", fix="Give both or neither")
        return None
    if memory_bytes is None:
        return None
    number("expert_bytes", expert_bytes, check, positive=True)
    if listed(memory_bytes):
        return [number("memory_bytes", item, check, where=f"GPU {gpu}") for gpu, item in enumerate(memory_bytes)]
    return number("memory_bytes", memory_bytes, check)


def num_gpus(gpus: Any, slots: Any, speed: Any, memory: Any, check: Violations) -> int:
    """G, from `gpus` or from the length of a per-GPU field; all that say must agree."""
    said = {}
    for field, value in (("slots", slots), ("speed", speed), ("memory_bytes", memory)):
        if listed(value):
            said[field] = len(value)
    if gpus is not None:
        count = whole("gpus", gpus, 1, check)
        if count > MAX_GPUS:
            check.add("gpus", gpus, rule=f"must be at most {MAX_GPUS}", fix="Check the number")
        for field, length in said.items():
            if length != count:
                rule = f"must have one entry a GPU, {count}"
                check.add(field, f"{length} entries", rule=rule, fix=f"Give {count} entries")
        return count
    if not said:
        check.add("gpus", None, rule="is needed", fix="Give the number of GPUs")
        return 1
    if len(set(said.values())) > 1:
        shown = ", ".join(f"{length} in {field}" for field, length in said.items())
        check.add("gpus", shown, rule="all per-GPU fields must have one length", fix="Give one entry a GPU in each")
    count = next(iter(said.values()))
    if count == 0:
        check.add(next(iter(said)), "0 entries", rule="must have at least one GPU", fix="Give one entry a GPU")
    return max(count, 1)


def layers(value: Any, num_layers: int, check: Violations) -> tuple[int, ...]:
    """L distinct layer ids; 0..L-1 by default."""
    if value is None:
        return tuple(range(num_layers))
    ids = tuple(
        whole("layers", item, 0, check, where=str(row)) for row, item in enumerate(_entries("layers", value, check))
    )
    if len(ids) != num_layers:
        check.add("layers", f"{len(ids)} ids", rule=f"must have one id a row of loads, {num_layers}", fix="Give all")
    _unique("layers", ids, check)
    return ids


def names(value: Any, num_experts: int, check: Violations) -> tuple[str, ...] | None:
    """E unique names."""
    if value is None:
        return None
    texts = tuple(str(item) for item in _entries("names", value, check))
    if len(texts) != num_experts:
        rule = f"must have one name an expert, {num_experts}"
        check.add("names", f"{len(texts)} names", rule=rule, fix="Give all names or none")
    _unique("names", texts, check)
    return texts


def _unique(field: str, values: Sequence[object], check: Violations) -> None:
    for value, times in Counter(values).items():
        if times > 1:
            where = ", ".join(str(place) for place, item in enumerate(values) if item == value)
            check.add(field, value, rule=f"must be unique, stands {times} times", fix="Rename all but one", where=where)


def speed(value: Any, num_gpus: int, check: Violations) -> tuple[float, ...]:
    """G speeds > 0; 1 by default."""
    if value is None:
        return (1.0,) * num_gpus
    fix = "Leave a GPU that does no work out"
    return tuple(
        number("speed", item, check, positive=True, where=f"GPU {gpu}", fix=fix)
        for gpu, item in enumerate(_entries("speed", value, check))
    )


def per_gpu_memory(value: list[float] | float | None, num_gpus: int, check: Violations) -> tuple[float, ...] | None:
    """G byte counts."""
    if value is None:
        return None
    return tuple(value) if isinstance(value, list) else (value,) * num_gpus


def node(value: Any, num_gpus: int, check: Violations) -> tuple[int, ...]:
    """G node ids, from a count of equal nodes or given one by one."""
    if listed(value):
        ids = tuple(whole("nodes", item, 0, check, where=f"GPU {gpu}") for gpu, item in enumerate(value))
        if len(ids) != num_gpus:
            rule = f"must have one node id a GPU, {num_gpus}"
            check.add("nodes", f"{len(ids)} ids", rule=rule, fix=f"Give {num_gpus} ids")
            return (0,) * num_gpus
        return ids
    count = whole("nodes", value, 1, check)
    if num_gpus % count:
        near = _nearest_divisor(num_gpus, count)
        rule = f"must divide gpus = {num_gpus}"
        check.add("nodes", count, rule=rule, fix=f"Use {near}, or give the node of each GPU")
        return (0,) * num_gpus
    return tuple(gpu // (num_gpus // count) for gpu in range(num_gpus))


def groups(value: Any, num_experts: int, check: Violations) -> tuple[int, ...] | None:
    """E group ids of equal groups, from a count or given one by one."""
    if value is None:
        return None
    if listed(value):
        ids = tuple(whole("groups", item, 0, check, where=f"expert {expert}") for expert, item in enumerate(value))
        if len(ids) != num_experts:
            rule = f"must have one group id an expert, {num_experts}"
            check.add("groups", f"{len(ids)} ids", rule=rule, fix="Give all")
            return None
        sizes = Counter(ids)
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{size} experts in group {group}" for group, size in sorted(sizes.items())[:4])
            check.add("groups", shown, rule="groups must be equally large", fix="Experts per group must be whole")
        return ids
    count = whole("groups", value, 1, check)
    if num_experts % count:
        rule = f"must divide experts = {num_experts}: experts per group must be whole"
        check.add("groups", count, rule=rule, fix=f"Use {_nearest_divisor(num_experts, count)}")
        return None
    return tuple(expert // (num_experts // count) for expert in range(num_experts))


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))


def slots(instance: PlacementInstance, value: Any, uneven: bool, check: Violations) -> tuple[int, ...]:
    """G slot counts, from a total, one by one, or from memory."""
    num_gpus, num_experts = len(instance.speed), instance.num_experts
    if value is None:
        if instance.memory_bytes is None or instance.expert_bytes is None:
            check.add("slots", None, rule="is needed", fix="Give all slots together, or one number a GPU")
            return (1,) * num_gpus
        most = num_experts // len(instance.node_ids) if instance.hierarchical else num_experts
        fitting = (int(free // instance.expert_bytes) for free in instance.memory_bytes)
        return tuple(min(count, most) if instance.distinct else count for count in fitting)
    if listed(value):
        counts = tuple(whole("slots", item, 0, check, where=f"GPU {gpu}") for gpu, item in enumerate(value))
    else:
        counts = _deal(whole("slots", value, 1, check), num_gpus, num_experts, uneven, check)
    if instance.memory_bytes is not None and instance.expert_bytes is not None:
        for gpu, (count, free) in enumerate(zip(counts, instance.memory_bytes, strict=True)):
            most = int(free // instance.expert_bytes)
            if count > most:
                rule = f"needs {count * instance.expert_bytes:g} bytes of {free:g}"
                check.add("slots", count, rule=rule, fix=f"Use at most {most}", where=f"GPU {gpu}")
    return counts


def _deal(total: int, num_gpus: int, num_experts: int, uneven: bool, check: Violations) -> tuple[int, ...]:
    each, rest = divmod(total, num_gpus)
    if rest and not uneven:
        near = [size for size in (each * num_gpus, (each + 1) * num_gpus) if size >= num_experts]
        if not near:
            near = [-(-num_experts // num_gpus) * num_gpus]
        best = min(near, key=lambda size: abs(size - total))
        shape = f"{best} slots, {best // num_gpus} a GPU"
        fix = f"The nearest workable redundancy is {best - num_experts} ({shape}); or set uneven_slots"
        check.add("slots", total, rule=f"must be a multiple of gpus = {num_gpus} for {num_experts} experts", fix=fix)
        return (each,) * num_gpus
    return tuple(each + (gpu < rest) for gpu in range(num_gpus))


def pairs(
    field: str, value: Any, num_experts: int, num_gpus: int, check: Violations, *, any_expert: bool = False
) -> Any:
    """(expert, GPU) pairs with ids in range."""
    found = []
    for place, pair in enumerate(_entries(field, value, check)):
        if not listed(pair) or len(pair) != 2:
            check.add(field, pair, rule="must be a pair [expert, gpu]", fix="Give two ids", where=str(place))
            continue
        expert, gpu = pair
        for what, item, count in (("expert", expert, num_experts), ("GPU", gpu, num_gpus)):
            if what == "expert" and item is None and any_expert:
                continue
            if not isinstance(item, int | np.integer) or isinstance(item, bool) or not 0 <= item < count:
                rule = f"{what} ids run from 0 to {count - 1}"
                check.add(field, item, rule=rule, fix="Give an id in that range", where=str(place))
                break
        else:
            found.append((None if expert is None else int(expert), int(gpu)))
    return tuple(sorted(set(found), key=lambda pair: (pair[0] is not None, pair[0] or 0, pair[1])))


def shape(instance: PlacementInstance, check: Violations) -> None:
    """Shapes no plan can have: refused here, with the nearest valid shape."""
    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    from_memory = instance.memory_bytes is not None
    if instance.num_slots < num_experts and not from_memory:
        least = -(-num_experts // num_gpus) * num_gpus
        rule = f"must hold each of {num_experts} experts once: at least {num_experts} slots are needed"
        check.add("slots", f"{instance.num_slots} in all", rule=rule, fix=f"Use {least} ({least // num_gpus} a GPU)")
    if instance.groups is not None and instance.group_rule == "hierarchical" and not instance.hierarchical:
        count, num_nodes = len(set(instance.groups)), len(instance.node_ids)
        if count % num_nodes:
            rule = f"must be a multiple of nodes = {num_nodes} with group_rule hierarchical"
            fix = f"Use {_nearest_divisor(count, num_nodes)} nodes, or group_rule auto for a global placement"
            check.add("groups", count, rule=rule, fix=fix)
    if instance.num_slots > MAX_SLOTS:
        check.add("slots", instance.num_slots, rule=f"must be at most {MAX_SLOTS} in all", fix="Check the number")
    _slots_per_gpu(instance, check)
    _magnitudes(instance, check)


def _magnitudes(instance: PlacementInstance, check: Violations) -> None:
    """Every cost a plan can have, and their sum over layers, must be a finite double."""
    try:
        floor = float(instance.floor)
    except OverflowError:
        floor = math.inf
    with np.errstate(over="ignore"):
        total = float(instance.loads.astype(np.float64).sum())
        total += floor * (instance.num_layers * (instance.num_experts + instance.num_slots)) if floor else 0.0
        most = 2.0 * total / min(instance.speed) if total else 0.0
    if not math.isfinite(most) or not math.isfinite(sum(instance.speed)):
        rule = "costs must fit a double: all loads, floor_tokens * steps for every replica, divided by the least speed"
        check.add("loads", f"{total:g} in all", rule=rule, fix="Divide loads and floor_tokens by one number")


def _slots_per_gpu(instance: PlacementInstance, check: Violations) -> None:
    if not instance.hierarchical:
        most, of_what = instance.num_experts, f"experts = {instance.num_experts}"
    else:
        most = instance.num_experts // len(instance.node_ids)
        of_what = f"the {most} experts of its node"
        for node, total in _slots_of_nodes(instance):
            if total < most and instance.memory_bytes is None:
                rule = f"must hold {of_what}"
                check.add("slots", total, rule=rule, fix=f"Give the node {most} slots or more", where=f"node {node}")
    if not instance.distinct:
        return
    for gpu, count in enumerate(instance.slots):
        if count > most:
            rule = f"must be at most {of_what}: a GPU holds one replica of each"
            check.add("slots", count, rule=rule, fix=f"Use {most} or fewer", where=f"GPU {gpu}")


def _slots_of_nodes(instance: PlacementInstance) -> list[tuple[int, int]]:
    homes = list(zip(instance.slots, instance.node, strict=True))
    return [(node, sum(count for count, home in homes if home == node)) for node in instance.node_ids]


def conflicts(instance: PlacementInstance) -> list[dict[str, Any]]:
    """Well-formed rules that cannot hold together: what `solve` answers INFEASIBLE with.

    Each conflict has ``rule``, ``message`` and, where it makes sense, ``shortfall``.
    """
    found: list[dict[str, Any]] = []
    if instance.hierarchical:
        share = instance.num_experts // len(instance.node_ids)
        for node, total in _slots_of_nodes(instance):
            if total < share:
                message = (
                    f"node {node} has memory for {total} of the {share} experts that its groups have: "
                    f"{share - total} experts too many"
                )
                found.append({"rule": "memory_bytes, groups", "message": message, "shortfall": share - total})
    elif instance.num_slots < instance.num_experts:
        assert instance.memory_bytes is not None and instance.expert_bytes is not None
        needed = instance.num_experts * instance.expert_bytes
        short = instance.num_experts - instance.num_slots
        message = (
            f"{_size(needed)} needed for one replica of each of {instance.num_experts} experts, "
            f"{_size(sum(instance.memory_bytes))} available in {instance.num_slots} slots: {short} experts too many"
        )
        found.append({"rule": "memory_bytes", "message": message, "shortfall": short})
    forbidden = set(instance.forbid)
    for expert, gpu in instance.pin:
        for what in ((expert, gpu), (None, gpu)):
            if what in forbidden:
                which = "every expert" if what[0] is None else f"expert {expert}"
                message = (
                    f"expert {expert} is pinned to GPU {gpu}, and {which} is forbidden there: "
                    "pin and forbid contradict each other"
                )
                found.append({"rule": "pin, forbid", "message": message, "shortfall": 1})
    for gpu, pinned in sorted(Counter(gpu for _, gpu in instance.pin).items()):
        if pinned > instance.slots[gpu]:
            message = f"{pinned} experts are pinned to GPU {gpu}, which has {instance.slots[gpu]} slots"
            found.append({"rule": "pin, slots", "message": message, "shortfall": pinned - instance.slots[gpu]})
    if not found and instance.constrained:
        from moeopt.placement.feasible import fill_conflicts

        found.extend(fill_conflicts(instance))
    return found


def _size(count: float) -> str:
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:.4g} {unit}"
    return f"{count:.4g} bytes"


def flat_list(items: Iterable[object]) -> str:
    """Comma-separated, for messages."""
    return ", ".join(str(item) for item in items)
