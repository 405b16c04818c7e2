"""What an engine asked for, read: loads, shape and the map that runs, and why any of them is of no use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.arrays import as_numpy
from moeopt.engines.policies.cover import Covered, covered
from moeopt.engines.policies.last import fits, why
from moeopt.engines.policies.shape import Ints, Refused, Shape, number, shape_of


@dataclass(frozen=True)
class Asked:
    """What an engine asked for, as it gave it: loads (L, E), numbers, and the map (L, S) that runs, if it said so.

    A function is asked for that map. ``fault`` says what is wrong with loads of which only the shape counts,
    ``old_fault`` why there is no map although somebody gave one.
    """

    engine: str
    loads: Any
    slots: Any
    groups: Any
    nodes: Any
    gpus: Any
    old: Any = None
    fault: str = ""
    old_fault: str = ""
    aside: tuple[str, ...] = ()
    """What else the log should warn of."""


@dataclass(frozen=True)
class Case:
    """What could be read of it; ``fault`` is why nothing can be planned, ``old_fault`` why nothing that runs counts."""

    loads: NDArray[Any] | None = None
    shape: Shape | None = None
    running: Covered | None = None
    raw: NDArray[Any] | None = None
    """The map that runs as it was given, whatever its shape."""
    fault: str = ""
    old_fault: str = ""
    old_note: str = ""
    """What of the map that runs does not count."""


def read(asked: Asked, budget: int | None) -> Case:
    """Read what was asked for; whatever is wrong with it is said in the case, and not raised."""
    raw, old_fault = (None, asked.old_fault) if asked.old_fault else given_map(asked.old)
    loads, fault, size = _loads(asked, raw)
    try:
        shape = shape_of(*size, asked.slots, asked.groups, asked.nodes, asked.gpus)
        if not fits(shape.num_layers, shape.num_slots):
            raise Refused(f"a map of {shape.num_layers:,} x {shape.num_slots:,} slots has no room in memory")
    except Exception as error:
        said = fault or (str(error) if isinstance(error, Refused) else why(error))
        return Case(loads, None, None, raw, said, old_fault)
    old, note = None, ""
    if raw is not None and not old_fault:
        try:
            old, note = _running(raw, shape)
        except Refused as error:
            old_fault = str(error)
    running = None
    try:
        running = None if old is None else covered(shape, old, None if fault else loads, budget)
    except Exception as error:
        old_fault = why(error)
    return Case(loads, shape, running, raw, fault, old_fault, note)


def given_map(old: Any) -> tuple[NDArray[Any] | None, str]:
    """A map that runs, or a function that gives it, as an array; or why there is none."""
    try:
        given = old() if callable(old) else old
    except Exception as error:
        return None, f"the function raised {why(error)}"
    try:
        return (None if given is None else as_numpy(given)), ""
    except Exception as error:
        return None, f"it is no table, {why(error)}"


def experts_of(held: NDArray[Any]) -> int:
    """E, as a map (L, S) with empty slots, -1, tells it; 0 where its ids cannot be those of a full map of S slots."""
    if held.ndim != 2 or not held.size or held.dtype.kind not in "iu":
        return 0
    lowest, highest = int(held.min()), int(held.max())
    return highest + 1 if lowest >= -1 and highest < held.shape[1] else 0


def _loads(asked: Asked, raw: NDArray[Any] | None) -> tuple[NDArray[Any] | None, str, tuple[int, int]]:
    """Loads, what is wrong with them, and layers and experts, which the map that runs tells where they do not."""
    size = (0, 0) if raw is None else (len(raw) if raw.ndim == 2 else 0, experts_of(raw))
    try:
        loads = as_numpy(asked.loads)
    except Exception as error:
        return None, asked.fault or f"loads cannot be read: {why(error)}", size
    if loads.ndim != 2:
        return loads, asked.fault or f"loads have shape {loads.shape}, not (layers, experts)", size
    return loads, asked.fault or _wrong(loads), (loads.shape[0], loads.shape[1])


def _wrong(loads: NDArray[Any]) -> str:
    """What is wrong with the numbers; nothing: ''."""
    if loads.dtype.kind not in "iubf":
        return f"loads are {loads.dtype}, not numbers"
    tests: list[tuple[str, Callable[[Any], Any]]] = [("negative", lambda table: table < 0)]
    if loads.dtype.kind == "f":
        tests = [("NaN", np.isnan), ("infinite", np.isinf), *tests]
    for name, test in tests:
        found = np.argwhere(test(loads))
        if len(found):
            layer, expert = found[0].tolist()
            one = len(found) == 1
            many = f"{number(len(found), 'load')} {'is' if one else 'are'} {name}"
            return f"{many}, {'' if one else 'the first '}in layer {layer}, expert {expert}"
    return ""


def _running(raw: NDArray[Any], shape: Shape) -> tuple[Ints, str]:
    """(L, S) what runs, with new GPUs empty and those that went cut off, and a word on slots that hold no expert.

    Raises
    ------
    Refused
        It is no such map.
    """
    if raw.dtype.kind not in "iu":
        raise Refused(f"it has {raw.dtype} in it, not ids of experts")
    if raw.ndim != 2 or len(raw) != shape.num_layers or not raw.shape[1] or raw.shape[1] % shape.per_gpu:
        each = f"{number(shape.num_layers, 'layer')} of GPUs with {number(shape.per_gpu, 'slot')}"
        raise Refused(f"its shape is {raw.shape}, not {each}")
    table = raw.astype(np.int64)
    known = (table >= 0) & (table < shape.num_experts)
    if not known.any():
        raise Refused(f"no slot holds an expert from 0 to {shape.num_experts - 1}")
    table[~known] = -1
    unknown = int((~known).sum())
    note = f"{unknown:,} of the {number(table.size, 'slot')} that run hold no known expert" if unknown else ""
    if table.shape[1] < shape.num_slots:
        table = np.pad(table, ((0, 0), (0, shape.num_slots - table.shape[1])), constant_values=-1)
    return table[:, : shape.num_slots].copy(), note
