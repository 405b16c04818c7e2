"""A configuration as a strict JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moeopt.errors import Violations
from moeopt.mesh.config import Config
from moeopt.mesh.written import to_record


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
    from pydantic import ValidationError

    from moeopt.mesh.records import from_record, model_of

    check = Violations()
    try:
        parsed = model_of(Config).model_validate(dict(document), strict=True)
    except ValidationError as error:
        for fault in error.errors():
            first, *rest = (str(part) for part in fault["loc"])
            value = "..." if isinstance(fault["input"], dict | list) else repr(fault["input"])
            check.add(first, value, rule=fault["msg"][0].lower() + fault["msg"][1:], where=", ".join(rest))
        check.raise_if_any()
    return from_record(Config, parsed)
