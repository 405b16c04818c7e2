"""Kinds of arguments: what is of another one is refused by name, before anything stumbles over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from moeopt.errors import Violations

P = ParamSpec("P")
R = TypeVar("R")


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def is_a(check: Violations, field: str, value: object, kind: type, *, none: bool = False) -> bool:
    """Whether a value is of a kind, or ``None`` where that may be; notes it where it is not."""
    if isinstance(value, kind) or (none and value is None):
        return True
    check.refuse(field, value, rule=f"must be {_a(kind.__name__)}", fix=f"Give {_a(kind.__name__)}")
    return False


def is_list(value: object) -> bool:
    """Whether a value has items to go through: no text, no mapping, no array of no axes."""
    return (
        isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) and getattr(value, "ndim", 1) != 0
    )


def listed(check: Violations, field: str, value: Any, kind: type) -> tuple[Any, ...]:
    """The items of a list of one kind; a single one counts as a list of it. Notes what is neither.

    >>> listed(Violations(), "families", "decode", str), listed(Violations(), "families", ["prefill", "decode"], str)
    (('decode',), ('prefill', 'decode'))
    """
    name = "text" if kind is str else kind.__name__
    if isinstance(value, kind):
        return (value,)
    if not is_list(value):
        check.refuse(field, value, rule=f"must be a list of {name}", fix=f"Give one {name} or more in a list")
        return ()
    items = tuple(value)
    wrong = [(place, item) for place, item in enumerate(items) if not isinstance(item, kind)]
    for place, item in wrong:
        check.refuse(field, item, where=str(place), rule=f"must be {_a(name)}", fix=f"Give {name} alone")
    return () if wrong else items


def numbers(check: Violations, field: str, value: Any) -> tuple[Any, ...]:
    """The items of a list of numbers, an array too; whether each is a number is left to whoever knows its range."""
    if not is_list(value):
        check.refuse(field, value, rule="must be a list of numbers", fix="Give one number or more in a list")
        return ()
    return tuple(value.tolist()) if hasattr(value, "tolist") else tuple(value)


def is_number(value: object) -> bool:
    """Whether a value is a finite number; a whole one beyond a double is none, nor is a truth value.

    >>> is_number(1.5), is_number(10**400), is_number(True)
    (True, False, False)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def number(check: Violations, field: str, value: object) -> bool:
    """Whether a value is a finite number; notes it where it is not."""
    if is_number(value):
        return True
    check.refuse(field, value, rule="must be a finite number", fix="Give a number")
    return False


def word(check: Violations, field: str, value: object) -> bool:
    """Whether a value is text; notes it where it is not."""
    if isinstance(value, str):
        return True
    check.refuse(field, value, rule="must be text", fix="Give a name")
    return False


def mapping(check: Violations, field: str, value: object, example: str) -> bool:
    """Whether a value is a mapping; notes it where it is not."""
    if isinstance(value, Mapping):
        return True
    check.refuse(field, value, rule="must be a mapping", fix=f"Write {example}")
    return False


def callback(check: Violations, field: str, value: object) -> None:
    """A function, or ``None``."""
    if value is not None and not callable(value):
        check.refuse(field, value, rule="must be a function", fix="Give the function itself, or leave it out")


def path(check: Violations, field: str, value: object) -> None:
    """The path of a file."""
    if not isinstance(value, str | PathLike):
        check.refuse(field, value, rule="must be the path of a file", fix='Write "loads.csv"')


def paths(check: Violations, field: str, value: object) -> None:
    """The path of a file, or a list of them."""
    for one in value if isinstance(value, list | tuple) else [value]:
        path(check, field, one)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, of numpy too; truth values are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(check: Violations, field: str, value: object) -> None:
    """A whole number of any size; its range is left to whoever knows it."""
    if not is_whole(value):
        check.refuse(field, value, rule="must be a whole number", fix="Give a whole number")


def some(check: Violations, field: str, value: object) -> None:
    """A list of anything; what is in it is left to whoever knows it."""
    if not is_list(value):
        check.refuse(field, value, rule="must be a list", fix="Give one entry or more in a list")


def each(kind: str) -> Test:
    """A list of one type, named as `expects` takes it, or of several with ``|`` between them."""

    def test(check: Violations, field: str, value: object) -> None:
        known = tuple(map(_named, kind.split("|")))
        name = known[0].__name__
        if isinstance(value, known):
            check.refuse(field, value, rule=f"must be a list of {name}, not one {name}", fix="Write it in [ ]")
            return
        if not isinstance(value, list | tuple):
            check.refuse(field, value, rule=f"must be a list of {name}", fix="Write it in [ ]")
            return
        for place, item in enumerate(value):
            if not isinstance(item, known):
                check.refuse(field, item, where=str(place), rule=f"must be {_a(name)}", fix=f"Give {name} alone")

    return test


def as_mapping(check: Violations, field: str, value: object) -> None:
    """A mapping such as a document."""
    mapping(check, field, value, '{"name": value}')


def text(check: Violations, field: str, value: object) -> None:
    """A text."""
    word(check, field, value)


Test = Callable[[Violations, str, Any], Any]
"""Notes what is wrong with a value."""


def _named(kind: str) -> type:
    module, _, name = kind.partition(":")
    found: type = getattr(import_module(module), name)
    return found


def expects(**kinds: type | str | Test) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function refuse arguments that are not of these kinds; ``None`` is left to it where it is the default.

    A kind is a type, the ``module:name`` of one that is loaded when it is asked for, or a test of this module.

    >>> @expects(first=int, second=text)
    ... def joined(first: int, second: str) -> str:
    ...     return f"{first}{second}"
    >>> joined("x", 2)
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: first = 'x': must be an int. Give an int.
    second = 2: must be text. Give a name.
    """

    def guard(function: Callable[P, R]) -> Callable[P, R]:
        shape = signature(function)

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            given = shape.bind(*args, **kwargs).arguments
            check = Violations()
            for name, kind in kinds.items():
                if name not in given or (given[name] is None and shape.parameters[name].default is None):
                    continue
                if isinstance(kind, str | type):
                    is_a(check, name, given[name], _named(kind) if isinstance(kind, str) else kind)
                else:
                    kind(check, name, given[name])
            check.raise_if_any()
            return function(*args, **kwargs)

        return guarded

    return guard
