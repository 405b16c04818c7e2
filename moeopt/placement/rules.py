"""Checks of the further rules of an instance: windows, the running plan, failures, prices, shared experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations
from moeopt.placement.checks import entries, listed, number, whole
from moeopt.placement.move_budget import Budget
from moeopt.placement.move_budget import budget as moves
from moeopt.workload.table import Loads, as_loads
from moeopt.workload.windows import stacked

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

MOST_STEPS = 2**53
"""More passes than a double can count are a slip."""


def windows(value: Any, check: Violations, layers: Sequence[int] | None) -> tuple[Loads | None, Loads | None]:
    """(L, E) loads summed over windows, and the (W, L, E) windows where there is more than one.

    >>> both = windows([[[1, 2]], [[3, 4]]], Violations(), None)
    >>> both[0].tolist(), both[1].shape
    ([[4, 6]], (2, 1, 2))
    """
    if not _has_three_axes(value):
        return as_loads(value, check, layers=layers), None
    stack = stacked(value, check, layers)
    if stack is None:
        return None, None
    total = as_loads(stack.sum(axis=0), check, layers=layers)
    return total, (stack if len(stack) > 1 else None)


def _has_three_axes(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 3 and 0 not in value.shape
    if not listed(value) or not len(value):
        return False
    rows = [row for row in value if listed(row) and len(row)]
    return bool(rows) and len(rows) == len(value) and all(any(listed(cell) for cell in row) for row in rows)


def steps(value: Any, num_windows: int, check: Violations) -> tuple[int, ...]:
    """Forward passes of each window; one number means so many in each."""
    if not listed(value):
        each = whole("steps", value, 1, check)
        counts = (each,) * num_windows
    else:
        counts = tuple(whole("steps", item, 1, check, where=f"window {place}") for place, item in enumerate(value))
        if len(counts) != num_windows:
            rule = f"must be one number, or one a window, {num_windows}"
            check.add("steps", f"{len(counts)} numbers", rule=rule, fix="Give one number")
            return (1,) * num_windows
    if sum(counts) > MOST_STEPS:
        check.add("steps", sum(counts), rule=f"must be at most {MOST_STEPS} in all", fix="Check the number")
        return (1,) * num_windows
    return counts


MOST_OF_A_GPU = 1_000_000
"""Slots: more is surely a slip of the keyboard."""


def running_plan(
    current: Any, current_gpu: Any, instance: PlacementInstance, check: Violations
) -> tuple[NDArray[np.int32] | None, tuple[int, ...] | None]:
    """(L, S0) experts in the slots of the running plan, and the GPU of each of these slots."""
    if current is None:
        if current_gpu is not None:
            check.add("current_gpu", "...", rule="says where the slots of current lie", fix="Give current too")
        return None, None
    if current_gpu is not None and _beyond(current_gpu, instance.num_gpus, check):
        return None, None
    if max(instance.slots_before) > MOST_OF_A_GPU:
        rule = f"must be at most {MOST_OF_A_GPU:,} a GPU"
        check.add("slots", max(instance.slots_before), rule=rule, fix="Look for a slip of the keyboard")
        return None, None
    own = tuple(np.repeat(np.arange(instance.num_gpus), instance.slots_before).tolist())
    gpus = own if current_gpu is None else _gpu_ids("current_gpu", current_gpu, instance.num_gpus, check)
    rows = entries("current", getattr(current, "slot_expert", current), check)
    if rows and not listed(rows[0]):
        rows = [rows]
    if len(rows) != instance.num_layers:
        rule = f"must have one row a layer, {instance.num_layers}"
        check.add("current", f"{len(rows)} rows", rule=rule, fix="Give the running plan of every layer")
        return None, None
    before = len(check.found)
    for layer, row in zip(instance.layers, rows, strict=True):
        where = f"layer {layer}"
        if not listed(row) or len(row) != len(gpus):
            seen = f"{len(row)} slots" if listed(row) else row
            fix = "Is the map cut off, or of another shape? current_gpu says where other slots lie"
            check.add("current", seen, rule=f"must have one expert a slot, {len(gpus)}", fix=fix, where=where)
            continue
        for slot, item in enumerate(row):
            good = isinstance(item, int | np.integer) and not isinstance(item, bool | np.bool_ | np.timedelta64)
            if not good or not -1 <= item < instance.num_experts:
                rule = f"expert ids run from 0 to {instance.num_experts - 1}, -1 is an empty slot"
                check.add("current", item, rule=rule, fix="Give an id in that range", where=f"{where}, slot {slot}")
    if len(check.found) > before:
        return None, None
    table = np.array([list(row) for row in rows], dtype=np.int32)
    table.flags.writeable = False
    return table, gpus


def _beyond(current_gpu: Any, num_gpus: int, check: Violations) -> bool:
    """Whether the running plan is for more GPUs than there are; said in one line, not slot by slot."""
    ids = [item for item in entries("current_gpu", current_gpu, Violations()) if isinstance(item, int | np.integer)]
    if not ids or max(ids) < num_gpus:
        return False
    seen = f"{int(max(ids)) + 1} GPUs, {len(ids)} slots"
    fix = "Give the shape that the running plan has, and name GPUs that are gone in lost"
    check.add("current_gpu", seen, rule=f"the running plan is for more GPUs than the {num_gpus} given", fix=fix)
    return True


def _gpu_ids(field: str, value: Any, num_gpus: int, check: Violations) -> tuple[int, ...]:
    """GPU ids in range."""
    found = []
    for place, item in enumerate(entries(field, value, check)):
        good = isinstance(item, int | np.integer) and not isinstance(item, bool | np.bool_)
        if not good or not 0 <= item < num_gpus:
            rule = f"GPU ids run from 0 to {num_gpus - 1}"
            check.add(field, item, rule=rule, fix="Give an id in that range", where=str(place))
        else:
            found.append(int(item))
    return tuple(found)


def gone(lost: Any, retire: Any, num_gpus: int, check: Violations) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """GPUs that died and GPUs to be emptied, each id once, ascending."""
    dead = tuple(sorted(set(_gpu_ids("lost", lost, num_gpus, check))))
    leaving = tuple(sorted(set(_gpu_ids("retire", retire, num_gpus, check))))
    for gpu in sorted(set(dead) & set(leaving)):
        check.add("retire", gpu, rule="is lost already", fix="Name it in one of the two")
    if len(set(dead) | set(leaving)) == num_gpus:
        check.add("lost", f"all {num_gpus} GPUs", rule="must leave at least one GPU", fix="Name fewer GPUs")
    return dead, leaving


def budget(field: str, value: Any, current: Any, check: Violations) -> int | None:
    """A number of moves, which needs a running plan to move from."""
    if value is None:
        return None
    if current is None:
        check.add(field, value, rule="needs the running plan", fix="Give current")
    return whole(field, value, 0, check)


def part_budget(field: str, value: Any, current: Any, check: Violations) -> Budget:
    """The same, or a per cent of all slots."""
    found = moves(value, field, check)
    if value is not None and current is None:
        check.add(field, value, rule="needs the running plan", fix="Give current")
    return found


def min_replicas(value: Any, num_experts: int, check: Violations) -> tuple[int, ...]:
    """E least numbers of replicas, from one number or E."""
    if not listed(value):
        return (whole("min_replicas", value, 1, check),) * num_experts
    counts = tuple(whole("min_replicas", item, 1, check, where=f"expert {e}") for e, item in enumerate(value))
    if len(counts) != num_experts:
        rule = f"must be one number, or one an expert, {num_experts}"
        check.add("min_replicas", f"{len(counts)} numbers", rule=rule, fix="Give one number")
        return (1,) * num_experts
    return counts


def price(field: str, value: Any, check: Violations) -> float | None:
    """A finite number >= 0, or ``None``."""
    return None if value is None else number(field, value, check)


def receiving(
    token_bytes: Any, recv: Any, c_tok: float | None, num_gpus: int, check: Violations
) -> tuple[float | None, tuple[float, ...] | None]:
    """Bytes of a token and G receive rates: both or neither, and beside `c_tok`."""
    if (token_bytes is None) != (recv is None):
        missing, given = ("token_bytes", "recv_bytes_per_s")[:: 1 if token_bytes is None else -1]
        check.add(missing, "missing", rule=f"is needed beside {given}", fix="Give both or neither")
        return None, None
    if recv is None:
        return None, None
    if not c_tok:
        check.add(
            "c_tok",
            "missing" if c_tok is None else c_tok,
            rule="is needed beside recv_bytes_per_s",
            fix="Give the seconds a token takes",
        )
    size = number("token_bytes", token_bytes, check)
    rates = [recv] * num_gpus if not listed(recv) else list(recv)
    if len(rates) != num_gpus:
        rule = f"must be one number, or one a GPU, {num_gpus}"
        check.add("recv_bytes_per_s", f"{len(rates)} numbers", rule=rule, fix="Give one number")
        return None, None
    return size, tuple(
        number("recv_bytes_per_s", item, check, positive=True, where=f"GPU {gpu}") for gpu, item in enumerate(rates)
    )


def effective_speed(
    speed: tuple[float, ...], c_tok: float | None, token_bytes: float | None, recv: tuple[float, ...] | None
) -> tuple[float, ...]:
    """G speeds that count computing a token and receiving it: ``c_tok / (c_tok/speed + token_bytes/recv)``.

    >>> effective_speed((1.0, 1.0), 1e-6, 1e4, (1e10, 5e9))
    (0.5, 0.3333333333333333)
    """
    if recv is None or token_bytes is None or not c_tok:
        return speed
    return tuple(c_tok / (c_tok / pace + token_bytes / rate) for pace, rate in zip(speed, recv, strict=True))


def positive_or_none(field: str, value: Any, check: Violations) -> int | None:
    """A whole number >= 1, or ``None``."""
    return None if value is None else whole(field, value, 1, check)
