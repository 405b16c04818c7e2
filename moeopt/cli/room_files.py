"""Documents of rooms, told by their schema, among files of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moeopt.cli.piped import file_of
from moeopt.documents import read_bytes, read_json


@dataclass(frozen=True)
class Kind:
    """Documents of one schema.

    Parameters
    ----------
    schema
        How their `schema` begins.
    said
        What they are called.
    allow_nan
        Whether what reads them names the place of a NaN; else it is refused here.
    read
        The document and its path to what the room works on.
    """

    schema: str
    said: str
    allow_nan: bool = False
    read: Callable[[Any, str], Any] = lambda document, path: document


def room_document(path: str, kinds: Iterable[Kind]) -> tuple[str, Any] | None:
    """What a file is and its content, read once for all `kinds`; ``None`` where it is of none of them.

    Raises
    ------
    InstanceError
        It names one of them and is broken, or is one and cannot be read.
    """
    with file_of(path) as file:
        if not file.lower().endswith(".json"):
            return None
        data = read_bytes(file)
    known = [kind for kind in kinds if f'"{kind.schema}'.encode() in data]
    if not known:
        return None
    document = read_json(data, path, allow_nan=True)
    schema = str(document.get("schema")) if isinstance(document, dict) else ""
    found = next((kind for kind in known if schema.startswith(kind.schema)), None)
    if found is None:
        return None
    if not found.allow_nan and (b"NaN" in data or b"Infinity" in data):
        read_json(data, path)  # refuses it, unless it stands in a text
    return found.said, found.read(document, path)


def said_by(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a result says of itself; None, or nothing, in place of what is of another kind than it writes.

    >>> said_by({"method": "exact", "gap": [1], "notes": 3})["gap"] is None
    True
    """
    texts = {key: document.get(key) for key in ("method", "status", "stop", "unit")}
    numbers = {key: document.get(key) for key in ("objective", "lower_bound", "gap")}
    notes, conflicts = document.get("notes"), document.get("conflicts")
    return {
        **{key: value if isinstance(value, str) else None for key, value in texts.items()},
        **{key: value if type(value) in (int, float) else None for key, value in numbers.items()},
        "notes": [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else [],
        "conflicts": [
            one
            for one in (conflicts if isinstance(conflicts, list) else ())
            if isinstance(one, Mapping) and isinstance(one.get("message"), str)
        ],
    }
