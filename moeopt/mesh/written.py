"""Frozen dataclasses, and the mesh instance, as JSON-ready data; reading them back is `moeopt.mesh.document`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from moeopt.mesh.imbalance import Imbalance, Traffic

if TYPE_CHECKING:
    from moeopt.mesh.instance import MeshInstance

SCHEMA = "moeopt/mesh-instance/1"
LEFT_OUT = {"LlmFacts": ("extra",)}
"""Fields that are no part of a document, by class."""
YOUNGER = {"Attention": ("index_top_k", "linear_gate_rank", "out_groups", "out_rank")}
"""Fields that documents have only where they are known, so that older ones, and their digests, stay what they are."""


@cache
def fields_of(kind: type) -> list[Field[Any]]:
    """The fields of a dataclass that are part of its document."""
    return [field for field in fields(kind) if field.name not in LEFT_OUT.get(kind.__name__, ())]


def to_record(value: Any) -> Any:
    """A dataclass as JSON-ready data, with every field but younger ones that are not known."""
    if is_dataclass(value) and not isinstance(value, type):
        listed = {field.name: getattr(value, field.name) for field in fields_of(type(value))}
        young = YOUNGER.get(type(value).__name__, ())
        return {name: to_record(one) for name, one in listed.items() if one is not None or name not in young}
    if isinstance(value, Mapping):
        return {str(key): to_record(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_record(item) for item in value]
    return value


def to_document(instance: MeshInstance) -> dict[str, Any]:
    """What `moeopt.mesh.document.read_instance` reads."""
    rest = [field.name for field in fields(instance) if field.name not in ("name", "imbalance")]
    found = {"schema": SCHEMA, "name": instance.name, "imbalance": _imbalance(instance.imbalance)}
    return found | {name: to_record(getattr(instance, name)) for name in rest}


def _imbalance(table: Imbalance) -> dict[str, Any]:
    """The table, or the name of one that is shipped."""
    shipped = {traffic: Imbalance.shipped(traffic) for traffic in get_args(Traffic)}
    known = any(table is one for one in shipped.values())
    for traffic, one in shipped.items():
        if table is one or (not known and table.digest == one.digest):
            return {"shipped": traffic, "digest": table.digest}
    return table.to_dict()
