"""Grids in files: YAML, JSON or TOML, keys that stand twice refused, paths from the folder of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moeopt import kinds
from moeopt.bench.grid import Grid
from moeopt.errors import InstanceError, Violation

ENDINGS = (".yaml", ".yml", ".json", ".toml")


@kinds.expects(path=kinds.path)
def read_grid(path: str | Path) -> Grid:
    """The grid of a file, as its ending says; files of loads are looked for from its folder.

    `path` ends in .yaml, .yml, .json or .toml.

    Raises
    ------
    InstanceError
        The file cannot be read, or as `Grid.from_dict`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "grid.yaml")
    ...     _ = file.write_text("policies: [lpt]\\nshapes: [mixtral_12_g4]\\nloads: [zipf]\\n")
    ...     len(read_grid(file))
    1
    """
    from moeopt.documents import read_bytes, read_json

    ending, source = Path(path).suffix.lower(), str(path)
    if ending not in ENDINGS:
        rule = f"is no grid: {', '.join(ENDINGS)} are read"
        raise InstanceError([Violation("grid", "", source, rule, "Give a file such as grid.yaml")])
    data = read_bytes(path)
    if ending == ".json":
        document = read_json(data, source)
    elif ending == ".toml":
        document = _toml(data, source)
    else:
        document = _yaml(data, source)
    return _from_folder(Grid.from_dict(document, source), Path(path).parent)


def _from_folder(grid: Grid, folder: Path) -> Grid:
    from dataclasses import replace

    loads = {}
    for name, drawn in grid.loads.items():
        here = {} if "file" not in drawn else {"file": str(folder / drawn["file"])}  # absolute ones stay as they are
        loads[name] = {**drawn, **here}
    return replace(grid, loads=loads)


def _toml(data: bytes, source: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InstanceError([Violation("grid", "", source, f"is no TOML ({error})", "Mend it there")]) from None


def _yaml(data: bytes, source: str) -> Any:
    import yaml

    class Strict(yaml.SafeLoader):
        """Refuses what stands twice, where YAML takes the last one in silence."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            """As its parent, each key once."""
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key.value, str):
                    raise yaml.YAMLError(f"line {key.start_mark.line + 1}: a key must be a word")
                if key.value in seen:
                    where = f"line {key.start_mark.line + 1}"
                    rule = "the key stands twice"
                    raise InstanceError([Violation("grid", where, str(key.value), rule, "Keep one of them", source)])
                seen.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    try:
        return yaml.load(data, Strict)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())[:200]
        raise InstanceError([Violation("grid", "", source, f"is no YAML ({told})", "Mend it there")]) from None
