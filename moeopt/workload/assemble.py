"""What a file says, before and after it is checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from moeopt.errors import Violations
from moeopt.workload.table import Loads, LoadTable, as_loads
from moeopt.workload.windows import stacked


@dataclass(frozen=True)
class Content:
    """The unchecked parts of one file.

    Parameters
    ----------
    loads, layers, steps, names
        As found; ``None`` where the file does not say.
    notes
        What the parser did that was not asked for.
    locate
        Adds a line number to a place such as ``layer 3, expert 17``, where a file has lines.

    >>> Content([[1, 2]], steps=4).layers is None
    True
    """

    loads: Any
    layers: Any = None
    steps: Any = None
    names: Any = None
    notes: tuple[str, ...] = ()
    locate: Callable[[str], str] | None = None


def only(content: Content, wanted: Sequence[int] | None) -> Content:
    """The wanted layers alone, where layers have different numbers of experts; else the content as it is.

    A table whose layers are all alike is cut later, when it has been checked as a whole.

    >>> only(Content([[1, 2], [3]], layers=[4, 9]), [9]).loads
    [[3]]
    """
    rows = content.loads
    if wanted is None or not _is_list(rows) or not all(_is_list(row) for row in rows):
        return content
    if len({len(row) for row in rows}) == 1:
        return content
    layers = list(range(len(rows))) if content.layers is None else content.layers
    if not _is_list(layers) or len(layers) != len(rows):
        return content
    places = [place for place, layer in enumerate(layers) if layer in set(wanted)]
    if not places:
        return content
    names = content.names
    width = len(rows[places[0]])
    if _is_list(names) and len(names) > width:
        names = list(names)[:width]  # a header names the experts of the widest layer
    kept = [rows[place] for place in places]
    return replace(content, loads=kept, layers=[layers[place] for place in places], names=names, locate=None)


def assemble(content: Content, check: Violations) -> LoadTable:
    """Check all parts of a file against each other and make the table, or raise everything found.

    >>> assemble(Content([[1, 2]], layers=[3], names=["a", "b"]), Violations("x.json")).layers
    (3,)
    >>> assemble(Content([[1, 2]], layers=[3, 3], steps=0), Violations("x.json"))
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: x.json: layers[index 1] = 3: the layer id stands twice. Give every row its own id.
    x.json: steps = 0: must be a whole number >= 1. Leave it out where it is not known.
    x.json: layers = 2 ids: must be as many as the loads have rows, 1. Give one id per layer.
    """
    layers = _layer_ids(content.layers, check)
    names = _names(content.names, check)
    steps = content.steps
    listed = _is_list(steps) and _has_windows(content.loads) and len(steps) == len(content.loads)
    if listed and all(_is_whole(item) and item >= 1 for item in steps):
        steps = tuple(steps)
    elif steps is not None and not (_is_whole(steps) and steps >= 1):
        check.refuse("steps", steps, rule="must be a whole number >= 1", fix="Leave it out where it is not known")
    found = len(check.found)
    windows = _windows(content.loads, check, layers)
    loads = as_loads(content.loads if windows is None else windows.sum(axis=0), check, layers=layers)
    if content.locate is not None:
        check.found[found:] = [replace(fault, where=content.locate(fault.where)) for fault in check.found[found:]]
    if loads is not None and layers is not None and len(layers) != len(loads):
        rule = f"must be as many as the loads have rows, {len(loads)}"
        check.add("layers", f"{len(layers)} ids", rule=rule, fix="Give one id per layer")
    if loads is not None and names is not None and len(names) != loads.shape[1]:
        rule = f"must be as many as the loads have columns, {loads.shape[1]}"
        check.add("names", f"{len(names)} names", rule=rule, fix="Give one name per expert")
    check.raise_if_any()
    assert loads is not None
    rows = tuple(range(len(loads))) if layers is None else layers
    notes = content.notes
    if windows is not None:
        notes = (*notes, f"an array of three axes, {windows.shape}, is taken as windows x layers x experts")
    return LoadTable(loads, rows, steps, names, check.source, notes, windows)


def _windows(value: Any, check: Violations, layers: Sequence[int] | None) -> Loads | None:
    """(W, L, E) windows of an array or list with three axes, each checked; ``None`` for any other value."""
    if not _has_windows(value):
        return None
    for place, window in enumerate(value if _is_list(value) else ()):
        if not (_is_list(window) and window and all(_is_list(row) for row in window)):
            rule, fix = "must be rows of numbers, as the first window is", "Give one list per layer"
            check.add("loads", "..." if _is_list(window) else window, rule=rule, fix=fix, where=f"window {place}")
    check.raise_if_any()
    windows = stacked(value, check, layers)
    check.raise_if_any()
    return windows


def _has_windows(value: Any) -> bool:
    """Whether an array, or what lists begin with, has three axes.

    >>> _has_windows([[[1, 2]]]), _has_windows([[1, 2]]), _has_windows(np.ones((2, 1, 2)))
    (True, False, True)
    """
    if isinstance(value, np.ndarray):
        return value.ndim == 3 and 0 not in value.shape
    return bool(_is_list(value) and value and _is_list(value[0]) and value[0] and _is_list(value[0][0]))


def _layer_ids(value: Any, check: Violations) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not _is_list(value):
        check.add("layers", value, rule="must be a list of layer ids", fix="Give one id per layer")
        return None
    seen: set[int] = set()
    for index, layer in enumerate(value):
        if not _is_whole(layer) or layer < 0:
            large = isinstance(layer, int) and layer >= 2**63
            rule = "layer ids must be below 2**63" if large else "layer ids must be whole numbers >= 0"
            check.add("layers", layer, rule=rule, fix="Use the LLM's own ids", where=f"index {index}")
        elif layer in seen:
            rule, fix = "the layer id stands twice", "Give every row its own id"
            check.add("layers", layer, rule=rule, fix=fix, where=f"index {index}")
        else:
            seen.add(layer)
    return tuple(value)


def _names(value: Any, check: Violations) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not _is_list(value):
        check.add("names", value, rule="must be a list of expert names", fix="Give one name per expert")
        return None
    seen: set[str] = set()
    for expert, name in enumerate(value):
        if not isinstance(name, str) or not name.isprintable() or not name or name != name.strip():
            rule = "names must be printable text without spaces around them"
            check.add("names", repr(name), rule=rule, fix="Rename the expert", where=f"expert {expert}")
        elif name in seen:
            rule, fix = "the name stands twice", "Give every expert its own name"
            check.add("names", name, rule=rule, fix=fix, where=f"expert {expert}")
        else:
            seen.add(name)
    return tuple(value)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < 2**63
