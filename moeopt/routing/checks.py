"""The checks of a routing instance, one function a field; each notes violations and returns a normal form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations

MOST_EXPERTS = 65_536
"""A document that names a higher id has a slip, and a table for all of them would fill the memory."""
MOST_GPUS = 65_536
"""More is surely a slip of the keyboard."""
LEAST, LARGEST = 1e-50, 1e50
"""Of any number but 0, loads among them: what is made of them stays within the range of a double."""
EMPTY = -1
"""The expert id of an empty slot."""


def listed(value: object) -> bool:
    """Whether a value is a list of entries rather than one entry."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def whole(field: str, value: Any, least: int, check: Violations, *, where: str = "") -> int:
    """A whole number, at least `least`."""
    good = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_) and value >= least
    if good and value > LARGEST:
        check.add(
            field, value, rule=f"must be at most {LARGEST:.0e}", fix="Look for a slip of the keyboard", where=where
        )
        return least
    if not good:
        check.refuse(field, value, rule=f"must be a whole number >= {least}", fix=f"Use {least} or more", where=where)
    return int(value) if good else least


def number(field: str, value: Any, check: Violations, *, positive: bool = False, where: str = "") -> float:
    """A finite number, >= 0 or > 0."""
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)
    if good and abs(value) < 2**1023 and math.isfinite(value) and (value > 0 if positive else value >= 0):
        if value and not LEAST <= value <= LARGEST:
            rule = f"must be between {LEAST:.0e} and {LARGEST:.0e}"
            check.add(field, value, rule=rule, fix="Look for a slip of the keyboard", where=where)
            return 1.0
        return float(value)
    rule = f"must be a finite number {'> 0' if positive else '>= 0'}"
    check.refuse(field, value, rule=rule, fix="Give a number above 0" if positive else "Give 0 or more", where=where)
    return 1.0


def range_of_loads(loads: NDArray[Any], check: Violations) -> None:
    """Refuse loads that are far from any count: sums and quotients of the others would leave the range of a double."""
    if loads.dtype.kind != "f":
        return
    wrong = np.argwhere((loads != 0) & ((loads < LEAST) | (loads > LARGEST)))
    for row, expert in wrong[:5].tolist():
        where = f"layer row {row}, expert {expert}"
        rule = f"must be 0, or between {LEAST:.0e} and {LARGEST:.0e}"
        check.add("loads", float(loads[row, expert]), rule=rule, fix="Repair the trace", where=where)
    if len(wrong) > 5:
        check.add("loads", f"{len(wrong):,} places", rule="have this fault in all", fix="See above")


def choice(field: str, value: object, allowed: tuple[str, ...], check: Violations) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        check.add(field, value, rule=f"must be one of {', '.join(allowed)}", fix=f"Use {allowed[0]}")


def flag(field: str, value: object, check: Violations) -> bool:
    """True or false."""
    if not isinstance(value, bool | np.bool_):
        check.refuse(field, value, rule="must be true or false", fix="Use true or false")
        return False
    return bool(value)


def num_gpus(gpus: Any, gpu_of_slot: Any, speed: Any, check: Violations) -> int:
    """G: given, or what the GPUs of slots or the speeds say."""
    if gpus is None and listed(speed):
        gpus = len(speed)
    if gpus is None and listed(gpu_of_slot):
        known = [item for item in gpu_of_slot if isinstance(item, int | np.integer) and not isinstance(item, bool)]
        gpus = max(known, default=0) + 1
    if gpus is None:
        check.add("gpus", None, rule="is needed", fix="Give the number of GPUs, or the GPU of every slot")
        return 1
    count = whole("gpus", gpus, 1, check)
    if count > MOST_GPUS:
        check.add("gpus", gpus, rule=f"must be at most {MOST_GPUS}", fix="Check the number")
        return 1
    return count


def slot_expert(value: Any, num_layers: int, num_experts: int, check: Violations) -> NDArray[np.int32] | None:
    """(L, S) expert ids, -1 for an empty slot; one row serves one layer."""
    value = getattr(value, "slot_expert", value)
    try:
        array = np.asarray(value)
    except ValueError:
        check.add("slot_expert", "...", rule="must be a table of layers x slots", fix="Give rows of one length")
        return None
    if array.ndim == 1 and array.dtype != object:
        array = array[None, :]
    if array.ndim != 2 or array.dtype.kind not in "iu" or array.size == 0:
        shown = f"shape {array.shape}, dtype {array.dtype}"
        check.add("slot_expert", shown, rule="must be whole (layers, slots), none empty", fix="Give rows of expert ids")
        return None
    if len(array) != num_layers:
        rule = f"must have one row a row of loads, {num_layers}"
        check.add("slot_expert", f"{len(array)} rows", rule=rule, fix="Give the hosting of every layer")
        return None
    wrong = (array < EMPTY) | (array >= num_experts)
    for layer, slot in np.argwhere(wrong).tolist():
        rule = f"expert ids run from 0 to {num_experts - 1}, -1 is an empty slot"
        where = f"layer row {layer}, slot {slot}"
        check.add("slot_expert", int(array[layer, slot]), rule=rule, fix="Give an id in that range", where=where)
    if wrong.any():
        return None
    copy = array.astype(np.int32)
    copy.flags.writeable = False
    return copy


def gpu_of_slot(value: Any, num_slots: int, count: int, check: Violations) -> NDArray[np.int64] | None:
    """(S,) GPU of each slot: given, or slots dealt evenly."""
    if value is None:
        if num_slots % count:
            near = max(num_slots // count, 1) * count
            rule = f"must be a multiple of gpus = {count}: GPUs have equally many slots"
            check.add("slot_expert", f"{num_slots} slots", rule=rule, fix=f"Use {near} slots, or give gpu_of_slot")
            return None
        return np.repeat(np.arange(count, dtype=np.int64), num_slots // count)
    if not listed(value):
        check.add("gpu_of_slot", value, rule="must be a list", fix="Give the GPU of each slot")
        return None
    before = len(check.found)
    ids = [whole("gpu_of_slot", item, 0, check, where=f"slot {slot}") for slot, item in enumerate(value)]
    if len(ids) != num_slots:
        rule = f"must have one GPU a slot, {num_slots}"
        check.add("gpu_of_slot", f"{len(ids)} entries", rule=rule, fix=f"Give {num_slots} entries")
    for slot, gpu in enumerate(ids):
        if gpu >= count:
            rule, where = f"GPU ids run from 0 to {count - 1}", f"slot {slot}"
            check.add("gpu_of_slot", gpu, rule=rule, fix="Give an id in that range", where=where)
    return None if len(check.found) > before else np.array(ids, dtype=np.int64)


def per_gpu(field: str, value: Any, count: int, default: float, check: Violations, *, positive: bool) -> Any:
    """(G,) numbers; `default` for each where none are given."""
    if value is None:
        return (default,) * count
    if not listed(value) or (isinstance(value, np.ndarray) and value.ndim != 1):
        check.add(field, value, rule=f"must be a list of {count} numbers", fix="Give one entry a GPU")
        return (default,) * count
    if len(value) != count:
        check.add(field, f"{len(value)} entries", rule=f"must have one entry a GPU, {count}", fix=f"Give {count}")
        return (default,) * count
    return tuple(number(field, item, check, positive=positive, where=f"GPU {g}") for g, item in enumerate(value))


def base(value: Any, num_layers: int, count: int, check: Violations) -> tuple[tuple[float, ...], ...]:
    """(L, G) tokens that a GPU has anyway; one row serves every layer."""
    if value is None or not listed(value) or not len(value) or not listed(value[0]):
        return (per_gpu("base", value, count, 0.0, check, positive=False),) * num_layers
    if len(value) != num_layers:
        rule = f"must have one row, or one a row of loads, {num_layers}"
        check.add("base", f"{len(value)} rows", rule=rule, fix="Give the base load of every layer")
        return ((0.0,) * count,) * num_layers
    return tuple(per_gpu("base", row, count, 0.0, check, positive=False) for row in value)


def node(value: Any, count: int, check: Violations) -> tuple[int, ...]:
    """G node ids, from a count of equal nodes or given one by one."""
    if listed(value):
        ids = tuple(whole("nodes", item, 0, check, where=f"GPU {gpu}") for gpu, item in enumerate(value))
        if len(ids) == count:
            return ids
        check.add("nodes", f"{len(ids)} ids", rule=f"must have one node id a GPU, {count}", fix=f"Give {count} ids")
        return (0,) * count
    nodes = whole("nodes", value, 1, check)
    if count % nodes:
        near = min((d for d in range(1, count + 1) if count % d == 0), key=lambda d: (abs(d - nodes), d))
        fix = f"Use {near}, or give the node of each GPU"
        check.add("nodes", nodes, rule=f"must divide gpus = {count}", fix=fix)
        return (0,) * count
    return tuple(gpu // (count // nodes) for gpu in range(count))


def layers(value: Any, num_layers: int, check: Violations) -> tuple[int, ...]:
    """L distinct layer ids; 0..L-1 by default."""
    if value is None:
        return tuple(range(num_layers))
    if not listed(value) or len(value) != num_layers:
        rule = f"must have one id a row of loads, {num_layers}"
        check.add("layers", f"{len(value)} ids" if listed(value) else value, rule=rule, fix="Give all")
        return tuple(range(num_layers))
    ids = tuple(whole("layers", item, 0, check, where=str(row)) for row, item in enumerate(value))
    for one, times in Counter(ids).items():
        if times > 1:
            check.add("layers", one, rule=f"must be unique, stands {times} times", fix="Rename all but one")
    return ids


def sources(value: Any, loads: NDArray[Any], count: int, check: Violations) -> NDArray[Any] | None:
    """(L, E, G) tokens of each expert by the GPU they come from; they sum to the loads."""
    if value is None:
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.zeros(0)
    shape = (*loads.shape, count)
    if array.shape == shape[1:] and shape[0] == 1:
        array = array[None]
    if array.shape != shape or array.dtype.kind not in "iuf":
        rule = f"must be numbers of shape {shape}: layers x experts x source GPUs"
        check.add("sources", f"shape {array.shape}", rule=rule, fix="Leave it out for evenly spread sources")
        return None
    wrong = ~np.isfinite(array) | (array < 0)
    for row, expert, gpu in np.argwhere(wrong).tolist():
        where = f"layer row {row}, expert {expert}, GPU {gpu}"
        check.add("sources", array[row, expert, gpu], rule="must be finite tokens >= 0", fix="Give 0", where=where)
    if wrong.any():
        return None
    kept = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
    off = np.abs(kept.sum(axis=2) - loads) > 1e-9 * np.maximum(loads, 1.0)
    for row, expert in np.argwhere(off).tolist():
        rule, where = f"must sum to its load, {loads[row, expert]:g}", f"layer row {row}, expert {expert}"
        said = f"{kept[row, expert].sum():g} tokens"
        check.add("sources", said, rule=rule, fix="Count both from the same trace", where=where)
    kept.flags.writeable = False
    return kept


def widest_id(slot_expert: Any, shares: Sequence[Sequence[Sequence[float]]]) -> int:
    """The highest expert id of slots and shares; slots that are no lists of ids are refused with the instance."""
    rows = slot_expert if isinstance(slot_expert, list) else []
    held = (one for row in rows if isinstance(row, list) for one in row if type(one) is int)
    return max([0, *held, *(int(row[0]) for rows in shares for row in rows if row)])
