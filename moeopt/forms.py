"""Documents held against their pydantic models: every fault at once, in the words that all rooms share."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from moeopt.errors import Violations

Model = TypeVar("Model", bound=BaseModel)


def shown(value: object) -> str:
    """A value for a message; whole lists and objects are left out.

    >>> shown("x"), shown([1, 2])
    ("'x'", '...')
    """
    return "..." if isinstance(value, dict | list) else repr(value)


def said(fault: Mapping[str, Any]) -> str:
    """The rule behind a fault, as it goes on within a sentence."""
    text: str = fault["msg"]
    return text[0].lower() + text[1:]


def did_you_mean(model: type[BaseModel], name: str) -> str:
    """The field that was meant, or all that there are."""
    known = [field.alias or key for key, field in model.model_fields.items()]
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}"


def instance_form(model: type[Model], document: Any, schema: str, what: str, source: str) -> Model:
    """An instance document in its form.

    Parameters
    ----------
    model, schema
        What the document must be, and how it calls itself.
    what
        In words, as "a mesh instance".
    source
        Where it comes from, for messages.

    Raises
    ------
    InstanceError
        Every violation at once, unknown fields and versions by name.
    """
    check = Violations(source)
    if not isinstance(document, dict):
        given = type(document).__name__
        check.add("document", given, rule="must be a JSON object", fix=f'Begin with "schema": "{schema}"')
        check.raise_if_any()
    if document.get("schema") != schema:
        rule = f"is not {what} this version knows"
        check.add("schema", document.get("schema"), rule=rule, fix=f"This version reads {schema}")
        check.raise_if_any()
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        for fault in error.errors():
            first, *rest = (str(part) for part in fault["loc"])
            rule, fix = said(fault), ""
            if fault["type"] == "extra_forbidden" and not rest:
                rule, fix = "is not a field of this document", did_you_mean(model, first)
            check.add(first, shown(fault["input"]), rule=rule, fix=fix, where=", ".join(rest))
        check.raise_if_any()
        raise  # a validation error has at least one fault


def result_form(model: type[Model], document: Any, source: str) -> Model:
    """A result document in its form, the schema looked at before.

    Raises
    ------
    InstanceError
        A missing or unknown field, a wrong type; all of them at once.
    """
    check = Violations(source)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        for fault in error.errors():
            first, *rest = [str(part) for part in fault["loc"]] or ["document"]
            given = fault["input"]  # rows may have been made tuples
            value, rule, fix = "..." if isinstance(given, tuple) else shown(given), said(fault), ""
            if fault["type"] == "extra_forbidden":
                rule, fix = "is not a field of this document", "Leave it out"
            elif fault["type"] == "missing":
                value, rule = "missing", "is needed"
            check.add(first, value, rule=rule, fix=fix, where=", ".join(rest))
        check.raise_if_any()
        raise  # a validation error has at least one fault


def plain_form(model: type[Model], document: Any, check: Violations) -> Model:
    """Any other document in its form, values left out of messages; the schema looked at before.

    Raises
    ------
    InstanceError
        A missing or unknown field, a wrong type; all of them at once.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        for fault in error.errors():
            first, *rest = [str(part) for part in fault["loc"]] or ["document"]
            check.add(first, "...", rule=said(fault), where=", ".join(rest))
        check.raise_if_any()
        raise  # a validation error has at least one fault


def form_faults(model: type[BaseModel], document: Mapping[str, Any]) -> list[str]:
    """Everything that is missing, unknown or of the wrong kind, as lines of a list of faults."""
    try:
        model.model_validate(document)
    except ValidationError as error:
        return [_line(fault) for fault in error.errors()]
    return []


def _line(fault: Any) -> str:
    path = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "missing":
        return f"{path} = missing: is needed"
    if fault["type"] == "extra_forbidden":
        return f"{path}: is not a field of this document"
    return f"{path} = {shown(fault['input'])}: {said(fault)}"
