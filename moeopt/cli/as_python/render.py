"""Values as Python expressions, and the imports that these need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.registry import PROBLEMS

WIDTH = 100
ROOMS = (*PROBLEMS, "replay", "cluster")
"""Packages whose names are written with theirs in front: ``placement.solve``."""
HOMES = (
    "moeopt",
    *(f"moeopt.{name}" for name in ("llm", "cost", "workload", "report", "calibrate", "bench", "executors")),
)
"""Packages whose names are imported by themselves."""


class Unwritable(Exception):
    """A value that no expression gives back."""


@dataclass(frozen=True)
class _Array:
    """A field that has to be an array, where an argument may be a list."""

    held: Any


class Renderer:
    """Turns values into expressions.

    Parameters
    ----------
    origins
        Asked first, for anything: an expression out of a file or a catalogue, or ``None``.
    """

    def __init__(self, origins: Callable[[Renderer, Any], str | None] = lambda self, value: None) -> None:
        self.imports: set[str] = set()
        self.origins = origins

    def name(self, thing: Any) -> str:
        """A function or a class by the shortest public name there is."""
        called = thing.__name__
        for room in ROOMS:
            if thing.__module__.startswith(f"moeopt.{room}") and _offers(f"moeopt.{room}", called, thing):
                self.imports.add(f"from moeopt import {room}")
                return f"{room}.{called}"
        home = next((home for home in HOMES if _offers(home, called, thing)), thing.__module__)
        if home != "builtins":
            self.imports.add(f"from {home} import {called}")
        return str(called)

    def value(self, value: Any) -> str:
        """Any value.

        Raises
        ------
        Unwritable
            It holds something that no expression gives back.

        >>> from moeopt import Limits
        >>> made = Renderer()
        >>> print(made.value({"gap": Limits(gap=0.5), "rows": (1, [float("inf")])}), *made.imports)
        {"gap": Limits(gap=0.5), "rows": (1, [float("inf")])} from moeopt import Limits
        """
        found = self.origins(self, value)
        if found is not None:
            return found
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Enum):
            return self.value(value.value)
        if isinstance(value, float) and not math.isfinite(value):
            return f"float({quoted(str(value))})"
        if value is None or isinstance(value, bool | int | float | bytes):
            return repr(value)
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, np.ndarray):
            return self.value(value.tolist())
        if isinstance(value, _Array):
            self.imports.add("import numpy as np")
            return f"np.array({self.value(value.held)})"
        if isinstance(value, list | tuple | Mapping):
            return self._collection(value)
        if isinstance(value, Path):
            self.imports.add("from pathlib import Path")
            return f"Path({quoted(str(value))})"
        return self._object(value)

    def _collection(self, value: Any) -> str:
        if isinstance(value, Mapping):
            return wrapped("{", [f"{self.value(key)}: {self.value(one)}" for key, one in value.items()], "}")
        parts = [self.value(one) for one in value]
        if isinstance(value, list):
            return wrapped("[", parts, "]")
        if len(parts) > 1:
            return wrapped("(", parts, ")")
        line = f"({', '.join(parts)},)" if parts else "()"
        return line if len(line) <= WIDTH and "\n" not in line else f"(\n    {_indented(parts[0])},\n)"

    def _object(self, value: Any) -> str:
        kind = type(value)
        if is_dataclass(value) and not isinstance(value, type) and kind.__init__.__qualname__.endswith("__init__"):
            with suppress(Unwritable):
                return self._fields(value)
        if callable(getattr(value, "to_dict", None)) and callable(getattr(kind, "from_dict", None)):
            return f"{self.name(kind)}.from_dict({self.value(value.to_dict())})"
        if callable(value) and "<" not in getattr(value, "__qualname__", "<"):
            return self.name(value)
        raise Unwritable(f"{kind.__name__} has no expression")

    def _fields(self, value: Any) -> str:
        """A dataclass by the fields that are not their defaults."""
        if not getattr(type(value), "__dataclass_params__").init:  # noqa: B009
            raise Unwritable(f"{type(value).__name__} takes other arguments than its fields")
        given = {}
        for one in fields(value):
            held = getattr(value, one.name)
            usual = one.default if one.default_factory is MISSING else one.default_factory()
            if one.init and not same(held, usual):
                given[one.name] = held
        return self.call(
            type(value), (), {name: _Array(one) if isinstance(one, np.ndarray) else one for name, one in given.items()}
        )

    def call(self, function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
        """A call, over several lines where it is long."""
        called = function if isinstance(function, str) else self.name(function)
        parts = [*map(self.value, args), *(f"{name}={self.value(one)}" for name, one in kwargs.items())]
        return wrapped(f"{called}(", parts, ")")


def quoted(text: str) -> str:
    """A string as a literal, with the quotes that formatters like.

    >>> print(quoted("a"), quoted('say "a"'))
    "a" 'say "a"'
    """
    plain = repr(str(text))
    return f'"{plain[1:-1]}"' if plain[0] == "'" and not set(plain[1:-1]) & set("\"'\\") else plain


def wrapped(head: str, parts: list[str], tail: str) -> str:
    """On one line, or a line a part.

    >>> wrapped("f(", ["a", "b"], ")")
    'f(a, b)'
    """
    line = f"{head}{', '.join(parts)}{tail}"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    if head in "[({" and all(len(part) < 12 for part in parts):  # rows of numbers
        rows = [", ".join(parts[at : at + 16]) for at in range(0, len(parts), 16)]
    else:
        rows = parts
    inner = "".join(f"    {_indented(row)},\n" for row in rows)
    return f"{head}\n{inner}{tail}"


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays among them."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other)
    try:
        return type(one) is type(other) and bool(one == other)
    except ValueError:  # sequences with arrays in them
        return False


def _offers(package: str, called: str, thing: Any) -> bool:
    return getattr(import_module(package), called, None) is thing
