"""Entries of ``values.json``, what reproduces each, and whether two values agree."""

from __future__ import annotations

import json
import math
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any

Inputs = dict[str, Any]
Reproduce = Callable[[Inputs], object]

TO_REPRODUCE = ("reproduces_exactly", "reproduces_with_assumption", "derived_new_inputs", "document_inconsistent")
"""Statuses that are tested. ``document_inconsistent``: `expected` is right, the note says what the source prints."""
FOR_INFORMATION = ("reported_by_paper", "not_reproducible_missing_inputs")
HELPERS = ("table", "scaled_moe", "__main__")


@dataclass(frozen=True)
class Entry:
    """One figure of a source: where it is, from which inputs it follows, and how near a value must come."""

    id: str
    topic: str
    section: str
    quantity: str
    inputs: Inputs
    expected: Any
    tolerance: dict[str, float]
    status: str
    note: str

    @property
    def wanted(self) -> bool:
        """Whether it is to be reproduced."""
        return self.status in TO_REPRODUCE


def _read() -> dict[str, Entry]:
    rows = json.loads(Path(__file__).with_name("values.json").read_text(encoding="utf-8"))
    entries = {row["id"]: Entry(**row) for row in rows}
    assert len(entries) == len(rows), "an id stands twice in values.json"
    return entries


ENTRIES = _read()
REPRODUCED: dict[str, Reproduce] = {}
LATER: dict[str, str] = {}


def reproduces(*ids: str) -> Callable[[Reproduce], Reproduce]:
    """Register a function of the inputs for these entries; the value or values it returns are compared."""

    def register(function: Reproduce) -> Reproduce:
        for name in ids:
            _claim(name)
            REPRODUCED[name] = function
        return function

    return register


def later(name: str, room: str) -> None:
    """Say that an entry belongs to a room that does not exist yet: it is listed apart, never as reproduced."""
    _claim(name)
    LATER[name] = room


def _claim(name: str) -> None:
    assert name in ENTRIES, f"{name} is not in values.json"
    assert ENTRIES[name].wanted, f"{name} is for information only"
    assert name not in REPRODUCED and name not in LATER, f"{name} is registered twice"


def load() -> None:
    """Import every entry file of this folder."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name not in HELPERS and not module.name.startswith("test_"):
            import_module(f"tests.reference.{module.name}")


def agree(expected: Any, ours: Any, tolerance: dict[str, float]) -> bool:
    """Whether `ours` has the shape of `expected`, and every number is within the tolerance: ``abs``, ``rel`` or exact.

    >>> agree([1, [2.0, True]], (1.004, [2, True]), {"abs": 0.005}), agree(3, 3.1, {"rel": 0.01}), agree(1, True, {})
    (True, False, False)
    """
    if isinstance(expected, list):
        if isinstance(ours, str) or not hasattr(ours, "__len__") or len(ours) != len(expected):
            return False
        return all(agree(one, other, tolerance) for one, other in zip(expected, ours, strict=True))
    if isinstance(expected, bool) or isinstance(ours, bool) or not isinstance(expected, Real):
        return type(expected) is type(ours) and bool(expected == ours)
    near = max(tolerance.get("abs", 0.0), tolerance.get("rel", 0.0) * abs(expected))
    return isinstance(ours, Real) and math.isfinite(ours) and abs(ours - expected) <= near + 1e-12 * abs(expected)


def rows(texts: Sequence[str] = ()) -> Iterator[tuple[Entry, object, str]]:
    """Every entry, our value, and ``reproduced``, ``differs``, ``not yet: room``, ``missing`` or ``info``.

    Only entries whose id or topic contains one of `texts`, if there are any.
    """
    load()
    for name, entry in ENTRIES.items():
        if texts and not any(text in name or text in entry.topic for text in texts):
            continue
        if not entry.wanted:
            yield entry, None, "info"
        elif name in REPRODUCED:
            ours = REPRODUCED[name](entry.inputs)
            yield entry, ours, "reproduced" if agree(entry.expected, ours, entry.tolerance) else "differs"
        else:
            yield entry, None, f"not yet: {LATER[name]}" if name in LATER else "missing"
