"""A configuration as a strict JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.errors import InstanceError, Violation, Violations
from moeopt.mesh.config import Config, Enumerated
from moeopt.mesh.written import to_record

if TYPE_CHECKING:
    from pydantic import BaseModel


def write_config(config: Config) -> dict[str, Any]:
    """The document: every figure."""
    found: dict[str, Any] = to_record(config)
    return found


def read_config(document: Mapping[str, Any]) -> Config:
    """Read a document; unknown fields are refused by name.

    Raises
    ------
    InstanceError
        Everything malformed.
    """
    from moeopt.mesh.records import from_record

    return from_record(Config, _parsed(document))


def config_faults(config: Config) -> list[Violation]:
    """What in a configuration that somebody has built is of another kind than is wanted."""
    if isinstance(config, Enumerated):  # ours
        return []
    try:
        _parsed(to_record(config))
    except InstanceError as error:
        return list(error.violations)
    except (RecursionError, OverflowError):
        fix = "Build it of numbers, texts and mappings"
        return [Violation("config", "", "...", "is nested too deeply, or has a number beyond a double", fix)]
    return []


def _parsed(document: Mapping[str, Any]) -> BaseModel:
    from pydantic import ValidationError

    from moeopt.mesh.records import model_of

    check = Violations()
    try:
        return model_of(Config).model_validate(dict(document), strict=True)
    except ValidationError as error:
        for fault in error.errors():
            first, *rest = (str(part) for part in fault["loc"])
            value = "..." if isinstance(fault["input"], dict | list) else repr(fault["input"])
            check.add(first, value, rule=fault["msg"][0].lower() + fault["msg"][1:], where=", ".join(rest))
        raise InstanceError(check.found) from error
