"""The checks of a placement instance, one function a field; each notes violations and returns a normal form."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.documents import canonical_json
from moeopt.errors import Violations

if TYPE_CHECKING:
    pass

MAX_GPUS = 65_536
"""More is surely a slip of the keyboard, and would fill the memory before anything else is checked."""


def listed(value: object) -> bool:
    """Whether a value is a list of entries rather than one entry."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def entries(field: str, value: Any, check: Violations) -> list[Any]:
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
    elif value is not None:
        _writable(field, value, check)
    return None if value is None else str(value)


def _writable(field: str, text: str, check: Violations, *, where: str = "") -> None:
    """A text that a file can hold: half of a pair of UTF-16 is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()
        check.add(field, shown, rule="must be text that UTF-8 can hold", fix="Repair the file", where=where)


def facts(field: str, value: Any, check: Violations) -> dict[str, Any] | None:
    """A copy of a mapping that strict JSON can hold, or ``None``."""
    if value is None:
        return None
    try:
        json.dumps(dict(value), ensure_ascii=False).encode()  # a lone surrogate cannot be written
        return copy.deepcopy(dict(value)) if canonical_json(dict(value)) else None
    except (TypeError, ValueError):
        check.add(field, value, rule="must be a mapping that JSON can hold", fix="Give names and numbers")
        return None


def whole(field: str, value: Any, least: int, check: Violations, *, where: str = "") -> int:
    """A whole number, at least `least`."""
    good = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_) and value >= least
    if not good:
        check.refuse(field, value, rule=f"must be a whole number >= {least}", fix=f"Use {least} or more", where=where)
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
    fix = fix or ("Give a number above 0" if positive else "Give 0 or more")
    check.refuse(field, value, rule=f"must be a finite number {sign}", fix=fix, where=where)
    return 1.0


def fraction(field: str, value: Any, check: Violations) -> float:
    """A number in [0, 1)."""
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)
    if good and 0 <= value < 1:
        return float(value)
    check.refuse(field, value, rule="must be at least 0 and below 1", fix="Use 0.9")
    return 0.0


def memory(expert_bytes: Any, memory_bytes: Any, check: Violations) -> list[float] | float | None:
    """Bytes per GPU, as given; not without the bytes of an expert, which alone say what a move weighs."""
    if expert_bytes is None and memory_bytes is not None:
        check.add("expert_bytes", "missing", rule="is needed beside memory_bytes", fix="Give both or neither")
        return None
    if expert_bytes is not None:
        number("expert_bytes", expert_bytes, check, positive=True)
    if memory_bytes is None:
        return None
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
        check.add("gpus", "missing", rule="is needed", fix="Give the number of GPUs")
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
        whole("layers", item, 0, check, where=str(row)) for row, item in enumerate(entries("layers", value, check))
    )
    if len(ids) != num_layers:
        check.add("layers", f"{len(ids)} ids", rule=f"must have one id a row of loads, {num_layers}", fix="Give all")
    _unique("layers", ids, check)
    return ids


def names(value: Any, num_experts: int, check: Violations) -> tuple[str, ...] | None:
    """E unique names."""
    if value is None:
        return None
    texts = tuple(str(item) for item in entries("names", value, check))
    if len(texts) != num_experts:
        rule = f"must have one name an expert, {num_experts}"
        check.add("names", f"{len(texts)} names", rule=rule, fix="Give all names or none")
    for expert, text in enumerate(texts):
        _writable("names", text, check, where=f"expert {expert}")
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
        for gpu, item in enumerate(entries("speed", value, check))
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
        near = nearest_divisor(num_gpus, count)
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
        check.add("groups", count, rule=rule, fix=f"Use {nearest_divisor(num_experts, count)}")
        return None
    return tuple(expert // (num_experts // count) for expert in range(num_experts))


def nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))


def pairs(
    field: str, value: Any, num_experts: int, num_gpus: int, check: Violations, *, any_expert: bool = False
) -> Any:
    """(expert, GPU) pairs with ids in range."""
    found = []
    for place, pair in enumerate(entries(field, value, check)):
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
