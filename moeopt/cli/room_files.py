"""Documents of a room, told by their schema, among files of any kind."""

from __future__ import annotations

from typing import Any

from moeopt.cli.piped import file_of
from moeopt.documents import read_bytes, read_json


def room_document(path: str, room: str) -> tuple[str, Any] | None:
    """``("instance" or "result", document)`` of a file of this room; ``None`` for any other file."""
    with file_of(path) as file:
        if not file.lower().endswith(".json"):
            return None
        data = read_bytes(file)
    if f'"moeopt/{room}-'.encode() not in data:
        return None
    document = read_json(data, path, allow_nan=True)
    schema = str(document.get("schema")) if isinstance(document, dict) else ""
    if schema.startswith(f"moeopt/{room}-instance/"):
        return "instance", document
    return ("result", read_json(data, path)) if schema.startswith(f"moeopt/{room}-result/") else None
