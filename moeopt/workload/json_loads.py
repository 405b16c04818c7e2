"""Loads from JSON: rows of numbers, or an object that has them under `loads` or `logical_count`."""

from __future__ import annotations

from typing import Any

from moeopt.documents import read_json
from moeopt.errors import Violations
from moeopt.workload.assemble import Content

TABLE_KEYS = ("loads", "logical_count")
OTHER_KEYS = ("layers", "steps", "names")


def parse_json(data: bytes, check: Violations) -> Content | None:
    """Find the load table in a JSON text; ``None`` once something was noted that leaves nothing to check.

    >>> parse_json(b'{"loads": [[1, 2]], "layers": [3]}', Violations()).layers
    [3]
    >>> check = Violations(); parse_json(b'{"load": [[1, 2]]}', check); print(*check.found, sep="\\n")
    load = [[1, 2]]: is not a known key. Known are loads, logical_count, layers, steps, names.
    loads = absent: the object must have a key loads or logical_count. Give rows of numbers, one per layer.
    """
    document: Any = None
    with check.within():
        document = read_json(data, check.source, allow_nan=True)
    if check.found:
        return None
    if isinstance(document, list):
        return Content(document)
    if not isinstance(document, dict):
        check.add("loads", document, rule="must be rows of numbers", fix="Give one list per layer")
        return None
    return _from_object(document, check)


def _from_object(document: dict[str, Any], check: Violations) -> Content | None:
    schema = document.get("schema")
    if isinstance(schema, str) and schema.startswith("moeopt/"):
        if schema.startswith("moeopt/placement-instance/"):
            rule, fix = "is a placement instance, not a table of loads", "`moeopt place` takes this file directly"
        else:
            rule, fix = "is another kind of document, not a table of loads", "Give the loads it was made from"
        check.add("schema", schema, rule=rule, fix=fix)
        return None
    known = TABLE_KEYS + OTHER_KEYS
    for key, value in document.items():
        if key not in known:
            check.add(key, value, rule="is not a known key", fix=f"Known are {', '.join(known)}")
    tables = [key for key in TABLE_KEYS if key in document]
    if len(tables) != 1:
        seen = "two tables" if tables else "absent"
        rule = "the object must have a key loads or logical_count" + (", not both" if tables else "")
        check.add("loads", seen, rule=rule, fix="Give rows of numbers, one per layer")
        return None
    loads = document[tables[0]]
    if not isinstance(loads, list):
        check.add(tables[0], loads, rule="must be rows of numbers", fix="Give one list per layer")
        return None
    return Content(loads, document.get("layers"), document.get("steps"), document.get("names"))
