"""What a word of the command line may name: each reader gives what a file holds, with the expression that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moeopt.cli.as_python.render import quoted
from moeopt.registry import PROBLEMS


@dataclass(frozen=True)
class Source:
    """Something read: the name that it is bound to, the statement's right side, its imports, and parts of it."""

    name: str
    read: str
    imports: tuple[str, ...]
    parts: tuple[tuple[str, Any], ...]


def _loads(word: str) -> Iterator[Source]:
    from moeopt.workload import read_loads

    table = read_loads(word)
    parts = [(f"{{}}.{name}", getattr(table, name)) for name in ("loads", "windows", "layers", "names", "steps")]
    kept = tuple((part, held) for part, held in parts if held is not None)
    yield Source("loads", f"read_loads({quoted(word)})", ("from moeopt.workload import read_loads",), kept)


def _trace(word: str) -> Iterator[Source]:
    from moeopt.workload.token_ids import read_token_ids
    from moeopt.workload.token_sources import sources_within

    found = read_token_ids(word)
    parts = tuple((f"{{}}.{name}", getattr(found, name)) for name in ("ids", "layers"))
    module = "from moeopt.workload.token_ids import read_token_ids"
    yield Source("trace", f"read_token_ids({quoted(word)})", (module,), parts)
    within = sources_within(word, found)
    if within is not None:
        more = (module, "from moeopt.workload.token_sources import sources_within")
        read = f"sources_within({quoted(word)}, read_token_ids({quoted(word)}))"
        yield Source("source", read, more, (("{}[0]", within[0]),))


def _document(word: str) -> Iterator[Source]:
    document = json.loads(Path(word).read_text(encoding="utf-8"))
    imports: tuple[str, ...] = ("import json", "from pathlib import Path")
    read = f"json.loads(Path({quoted(word)}).read_text())"
    if isinstance(document, list):
        yield Source("slots", read, imports, (("{}", document),))
        return
    schema = str(document.get("schema", ""))
    room = schema.removeprefix("moeopt/").partition("-")[0]
    yield from _parsed(word, document, schema, room)
    if "-instance/" in schema and room in PROBLEMS:
        yield from _instance(word, room)
        return
    solution = document.get("solution") or {}
    rows = solution.get("layers") or []
    parts: list[tuple[str, Any]] = []
    if rows and isinstance(rows[0], Mapping) and "slot_expert" in rows[0]:
        parts.append(('[row["slot_expert"] for row in {}["solution"]["layers"]]', [row["slot_expert"] for row in rows]))
    parts += [
        (f'{{}}["solution"]["{key}"]', solution[key])
        for key in ("gpu_of_slot", "slot_expert", "shares", "pools")
        if key in solution
    ]
    yield Source("plan", read, imports, (*parts, ("{}", document)))


def _parsed(word: str, document: Any, schema: str, room: str) -> Iterator[Source]:
    """What a plan is to the library, where that is more than a dictionary; or constants."""
    from importlib import import_module

    if schema.startswith("moeopt/calibration/"):
        from moeopt.calibrate import read_calibration

        module = "from moeopt.calibrate import read_calibration"
        yield Source("constants", f"read_calibration({quoted(word)})", (module,), (("{}", read_calibration(word)),))
    elif "-result/" in schema and room in PARSED:
        imports = (f"from moeopt.{PARSED[room]} import read_result", DOCUMENTS)
        made = import_module(f"moeopt.{PARSED[room]}").read_result(document, word)
        read = f"read_result(read_json(read_bytes({quoted(word)}), {quoted(word)}), {quoted(word)})"
        yield Source("document", read, imports, (("{}", made),))


PARSED = {
    "placement": "placement.load_plan",
    "routing": "routing.result_document",
    "collocation": "collocation.result_document",
}
"""Where rooms parse their plans."""
DOCUMENTS = "from moeopt.documents import read_bytes, read_json"


def _instance(word: str, room: str) -> Iterator[Source]:
    from importlib import import_module

    module = import_module(f"moeopt.{room}.document")
    if hasattr(module, "load_instance"):
        imports = (f"from moeopt.{room}.document import load_instance",)
        made = module.load_instance(word)
        parts = [(f"{{}}.{name}", getattr(made, name, None)) for name in ("given_loads", "loads", "sources", "layers")]
        kept = tuple((part, held) for part, held in parts if held is not None)
        yield Source("instance", f"load_instance({quoted(word)})", imports, (("{}", made), *kept))
        return
    from moeopt.documents import read_bytes, read_json

    more = (f"from moeopt.{room}.document import from_dict", DOCUMENTS)
    made = module.from_dict(read_json(read_bytes(word), word), word)
    read = f"from_dict(read_json(read_bytes({quoted(word)}), {quoted(word)}), {quoted(word)})"
    yield Source("instance", read, more, (("{}", made),))


def _dump(word: str) -> Iterator[Source]:
    from moeopt.engines.reading import read_dump

    dump = read_dump(word)
    parts = [("{}.per_step", dump.per_step)]
    parts += [(f"{{}}.table.{name}", getattr(dump.table, name)) for name in ("loads", "windows", "layers")]
    kept = tuple((part, held) for part, held in parts if held is not None)
    yield Source("dump", f"read_dump({quoted(word)})", ("from moeopt.engines.reading import read_dump",), kept)


def _table(word: str) -> Iterator[Source]:
    from moeopt.calibrate import read_table

    module = "from moeopt.calibrate import read_table"
    yield Source("table", f"read_table({quoted(word)})", (module,), (("{}", read_table(word)),))


def _map(word: str) -> Iterator[Source]:
    from moeopt.engines.reading import read_map

    module = "from moeopt.engines.reading import read_map"
    yield Source("running", f"read_map({quoted(word)})", (module,), (("{}.slot_expert", read_map(word).slot_expert),))


def _convertible(word: str) -> Iterator[Source]:
    from moeopt.engines.source import read_source

    module = "from moeopt.engines.source import read_source"
    yield Source("found", f"read_source({quoted(word)})", (module,), (("{}", read_source(word)),))


def _grid(word: str) -> Iterator[Source]:
    from moeopt.bench import read_grid

    module = "from moeopt.bench import read_grid"
    yield Source("grid", f"read_grid({quoted(word)})", (module,), (("{}", read_grid(word)),))


READERS: tuple[Callable[[str], Iterator[Source]], ...] = (
    _document,
    _loads,
    _trace,
    _dump,
    _map,
    _convertible,
    _grid,
    _table,
)
