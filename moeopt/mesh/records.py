"""The pydantic model of a frozen dataclass, and the dataclass of a document that it has validated."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as Described

from moeopt.mesh.written import fields_of

T = TypeVar("T")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Types of a dataclass's fields: they are found by compiling text, and asked for with every record."""
    return get_type_hints(kind)


@cache
def model_of(kind: type, title: str = "") -> type[BaseModel]:
    """The pydantic model of a dataclass: the same fields, strict, nothing else."""
    hints = _hints(kind)
    made: dict[str, Any] = {}
    for field in fields_of(kind):
        made[field.name] = (_documented(hints[field.name]), _default(field))
    config = ConfigDict(extra="forbid", strict=True, title=title or kind.__name__)
    model: type[BaseModel] = create_model(title or kind.__name__, __config__=config, **made)
    return model


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return Described(default=field.default)
    if field.default_factory is not MISSING:
        return Described(default_factory=field.default_factory)
    return Described()


def _documented(hint: Any) -> Any:
    """The type of a field as JSON has it."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return model_of(hint)
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return list[_documented(inner[0])]  # type: ignore[misc]
        return list[Union[tuple(_documented(one) for one in inner)]]  # type: ignore[misc]  # noqa: UP007
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[inner[0], _documented(inner[1])]  # type: ignore[valid-type,misc]
    if origin in (Union, types.UnionType):
        return Union[tuple(_documented(one) for one in inner)]  # noqa: UP007
    return hint


def from_record(kind: type[T], parsed: BaseModel) -> T:
    """The dataclass of a validated document; raises what its own checks raise."""
    known: type = kind
    hints = _hints(known)
    values = {field.name: _built(hints[field.name], getattr(parsed, field.name)) for field in fields_of(known)}
    return kind(**values)


def _built(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if not isinstance(value, BaseModel):
            listed = [one for one in inner if get_origin(one) is tuple]
            return _built(listed[0], value) if listed and isinstance(value, list) else value
        return next(_built(one, value) for one in inner if _models(one, value))
    if isinstance(value, BaseModel):
        return from_record(hint, value)
    if isinstance(value, list):
        each = inner[0] if len(inner) == 2 and inner[1] is Ellipsis else None
        return tuple(_built(each, item) if each is not None else item for item in value)
    if isinstance(value, Mapping) and inner:
        return {key: _built(inner[1], item) for key, item in value.items()}
    return value


def _models(hint: Any, value: BaseModel) -> bool:
    return is_dataclass(hint) and isinstance(hint, type) and isinstance(value, model_of(hint))
