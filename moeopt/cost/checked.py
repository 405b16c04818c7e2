"""The boundary of every public cost function: kinds of arguments before it, finite results after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache, wraps
from inspect import BoundArguments, Parameter, signature
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from moeopt.cost.checks import is_number
from moeopt.errors import MoeoptError, Violations

P = ParamSpec("P")
R = TypeVar("R")

NUMBERS = (int, float, Fraction)
Kinds = tuple[Any, ...]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Guard a function whose own checks are about ranges: kinds of arguments before it, finite results after it.

    Links, machines, facts, texts, flags, lists and functions must be what their annotation says. A number that is none
    is named where the function itself stumbles over it; a result beyond the range of doubles is refused.

    >>> @checked
    ... def half(size: float, *, twice: bool = False) -> float:
    ...     return size / 2
    >>> half(np.int64(3))
    1.5
    >>> half("x", twice=1)
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: size = 'x': must be a number. Give a number.
    twice = 1: must be true or false. Use False.
    """
    shape = signature(function)

    @cache
    def kinds() -> dict[str, Kinds]:
        hints = get_type_hints(function)
        return {name: _kinds(hints[name]) for name in shape.parameters}

    first = [name for name, one in shape.parameters.items() if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    seen: set[tuple[str, type]] = set()
    """Arguments and types that were found to fit: before the function, kinds depend on nothing else."""

    def bind(*args: P.args, **kwargs: P.kwargs) -> BoundArguments:
        bound = shape.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            bound.arguments[name] = _plain(value)
        return bound

    def given(*args: P.args, **kwargs: P.kwargs) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Arguments with plain numbers, or `InstanceError` with every one that is of another kind."""
        known = len(args) <= len(first) and all((name, type(value)) in seen for name, value in zip(first, args))  # noqa: B905
        if known and all((name, type(value)) in seen for name, value in kwargs.items()):
            return args, kwargs
        bound, faults = bind(*args, **kwargs), Violations()
        for name, value in bound.arguments.items():
            _kind(faults, name, value, kinds()[name], shape.parameters[name], numbers=False)
        if faults.found:
            _all(bound.arguments, kinds(), shape.parameters)
        else:
            seen.update((name, type(value)) for name, value in bound.arguments.items())
        return bound.args, bound.kwargs

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        plain, named = given(*args, **kwargs)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
                result = function(*plain, **named)
        except MoeoptError:
            raise
        except (TypeError, AttributeError, ValueError):
            _all(bind(*args, **kwargs).arguments, kinds(), shape.parameters)
            raise
        except (OverflowError, ZeroDivisionError) as error:
            _beyond(function.__name__, str(error), error)
        if not _finite(result):
            _beyond(function.__name__, repr(result), None)
        return result

    return guarded


def _all(given: Mapping[str, Any], kinds: Mapping[str, Kinds], parameters: Mapping[str, Parameter]) -> None:
    """Raise `InstanceError` with every argument that is of another kind, if there is one."""
    check = Violations()
    for name, value in given.items():
        _kind(check, name, value, kinds[name], parameters[name], numbers=True)
    check.raise_if_any()


def _beyond(name: str, value: str, error: Exception | None) -> None:
    check = Violations()
    check.add(name, value, rule="is beyond the range of numbers", fix="Check the sizes and units of the arguments")
    try:
        check.raise_if_any()
    except ValueError as refused:
        raise refused from error


def _kinds(hint: Any) -> Kinds:
    """The alternatives of an annotation."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _plain(value: Any) -> Any:
    """Numbers and flags of numpy as those of Python; everything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _kind(check: Violations, name: str, value: Any, kinds: Kinds, parameter: Parameter, *, numbers: bool) -> None:
    """Note a value that is of none of the kinds."""
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) or Any in kinds:
        return
    if value is None and type(None) in kinds:
        return
    if any(str(getattr(kind, "__module__", "")).startswith("numpy") for kind in kinds):  # an ArrayLike
        if not numbers or _is_array(value):
            return
        check.add(name, value, rule="must be an array of numbers", fix="Give rows of numbers")
        return
    if any(_fits(value, kind, numbers) for kind in kinds if kind is not type(None)):
        return
    rule, fix = _said(kinds)
    check.refuse(name, value, rule=rule, fix=fix)


def _is_array(value: Any) -> bool:
    """Whether numpy makes numbers of it."""
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _fits(value: Any, kind: Any, numbers: bool) -> bool:
    origin = get_origin(kind) or kind
    if origin in NUMBERS:
        return is_number(value) if numbers else True
    if origin is bool:
        return isinstance(value, bool)
    if origin in (Sequence, Iterable):
        known = isinstance(value, Sequence | np.ndarray)
        whole = (known or (origin is Iterable and isinstance(value, Iterable))) and not isinstance(value, str | bytes)
        return whole and (not numbers or not known or all(_item(item, kind) for item in value))
    return not isinstance(origin, type) or isinstance(value, origin)


def _item(item: Any, kind: Any) -> bool:
    """Whether an element is of the kind of a list's elements."""
    inner = [one for arg in get_args(kind) if arg is not Ellipsis for one in _kinds(arg)]
    return not inner or any(item is None if one is type(None) else _fits(item, one, True) for one in inner)


def _said(kinds: Kinds) -> tuple[str, str]:
    """The rule and what to do."""
    first = next(kind for kind in kinds if kind is not type(None))
    origin = get_origin(first) or first
    if origin in NUMBERS:
        return "must be a number", "Give a number"
    if origin is bool:
        return "must be true or false", "Use False"
    if origin is str:
        return "must be text", "Give a name"
    if origin in (Sequence, Iterable):
        what = next((getattr(one, "__name__", "number") for one in get_args(first)), "number")
        return f"must be a list of {what if origin is Iterable or what == 'str' else 'numbers'}", "Give a list"
    if origin is Callable:
        return "must be a function", "Give a function"
    name = getattr(origin, "__name__", str(origin))
    return f"must be a {name}", f"Give a {name}"


def _finite(value: Any) -> bool:
    """Whether all numbers in a result are finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, tuple | list):
        return all(map(_finite, value))
    if is_dataclass(value) and not isinstance(value, type):
        return all(_finite(getattr(value, field.name)) for field in fields(value))
    return True
