"""Where values come from: the files and names of a command, each with the expression that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.cli.as_python.readers import READERS, Source
from moeopt.cli.as_python.render import Renderer, quoted, same

FEW = 3
"""Sequences of fewer entries are written out: it is chance where they stand in a file too."""


class Origins:
    """Finds values in what the files of a command hold.

    What is found is equal to the value asked for, so that an expression cannot be wrong, whichever way it was come by.
    """

    def __init__(self, words: Iterable[str], slices: int | None = None, seed: int = 0) -> None:
        self.words = list(dict.fromkeys(words))
        self.slices, self.seed = slices, seed
        self.used: dict[str, str] = {}
        self._sources: list[Source] | None = None

    @property
    def sources(self) -> list[Source]:
        """Everything that the files hold, read when it is first asked for."""
        if self._sources is None:
            self._sources, taken = [], set[str]()
            for word in self.words:
                for reader in READERS:
                    with suppress(Exception):  # a reader of another kind of file
                        for one in reader(word):
                            name = one.name
                            while name in taken:
                                head, _, count = name.rpartition("_")
                                name = f"{head}_{int(count) + 1}" if count.isdigit() else f"{name}_2"
                            taken.add(name)
                            self._sources.append(Source(name, one.read, one.imports, one.parts))
        return self._sources

    def __call__(self, renderer: Renderer, value: Any) -> str | None:
        """An expression for a value that a file or a catalogue has."""
        if type(value).__name__ in NAMED:
            found = NAMED[type(value).__name__](renderer, value, self.words)
            if found is not None:
                return found
        if isinstance(value, str | bytes | bool | int | float) or value is None or callable(value):
            return None
        if isinstance(value, list | tuple) and (len(value) < FEW or not _numbers(value)):
            return None
        if isinstance(value, np.ndarray):
            return self._array(renderer, value)
        for one, part, held in self._parts():
            if _equal(value, held):
                return self._use(renderer, one, part)
        return self._nested(renderer, value) if isinstance(value, list) and isinstance(value[0], list) else None

    def _nested(self, renderer: Renderer, value: list[Any]) -> str | None:
        """Rows of numbers that are a table of a file, or several."""
        with suppress(ValueError):  # rows of different lengths
            held = np.asarray(value)
            if held.dtype.kind in "if" and held.ndim in (2, 3):
                return self._table(renderer, held) or (self._stacked(renderer, held) if held.ndim == 3 else None)
        return None

    def _sliced(self) -> Iterator[tuple[Source, str, Any]]:
        """Tables of files dealt into windows at random, as ``--slices`` asks for."""
        from moeopt.workload import read_loads, sliced

        tables = [one for one in self.sources if one.read.startswith("read_loads(")]
        for place, one in enumerate(tables if self.slices is not None else ()):
            word = next(word for word in self.words if one.read == f"read_loads({quoted(word)})")
            windows = sliced(read_loads(word), int(self.slices or 1), seed=self.seed + place).windows
            yield one, f"sliced({{}}, {self.slices}, seed={self.seed + place}).windows", windows

    def _windows(self, renderer: Renderer, value: Any) -> str | None:
        """Windows of one file after those of another."""
        at, found = 0, []
        for one, part, held in (*self._parts(), *self._sliced()):
            if isinstance(held, np.ndarray) and held.ndim == 3 and np.array_equal(value[at : at + len(held)], held):
                found.append(self._use(renderer, one, part))
                at += len(held)
        if at < len(value):
            return None
        if any(part.startswith("sliced(") for part in found):
            renderer.imports.add("from moeopt.workload import sliced")
        if len(found) == 1:
            return found[0]
        renderer.imports.add("import numpy as np")
        return f"np.concatenate([{', '.join(found)}])"

    def _parts(self) -> Iterator[tuple[Source, str, Any]]:
        for one in self.sources:
            for part, held in one.parts:
                yield one, part, held

    def _array(self, renderer: Renderer, value: Any) -> str | None:
        """A table of a file, some of its rows, or one table a window; else numbers, whole ones without a point."""
        if value.size < FEW:
            return None
        found = self._table(renderer, value)
        if found is None and value.ndim == 3:
            found = self._stacked(renderer, value)
        if found is None and value.dtype.kind == "f" and (value == np.floor(value)).all():
            return renderer.value(value.astype(np.int64).tolist())
        return found

    def _stacked(self, renderer: Renderer, value: Any) -> str | None:
        """Windows one after another, or a table of a file for each."""
        windows = self._windows(renderer, value)
        if windows is not None:
            return windows
        each = [self._table(renderer, table) for table in value]
        if not all(each):
            return None
        renderer.imports.add("import numpy as np")
        return f"np.array([{', '.join(map(str, each))}])"

    def _table(self, renderer: Renderer, value: Any) -> str | None:
        """A table of a file, or some of its rows."""
        rows: str | None = None
        for one, part, held in self._parts():
            if not isinstance(held, np.ndarray | list):
                continue
            with suppress(ValueError):
                held = np.asarray(held)
            if held.shape == value.shape and np.array_equal(held, value):
                return self._use(renderer, one, part)
            picked = _rows(value, held) if rows is None else None
            if picked is not None and isinstance(dict(one.parts)[part], np.ndarray):
                rows = f"{self._use(renderer, one, part)}[{picked}]"
            elif rows is None and value.ndim == held.ndim == 3 and isinstance(dict(one.parts)[part], np.ndarray):
                picked = _rows(value.swapaxes(0, 1), held.swapaxes(0, 1))
                rows = None if picked is None else f"{self._use(renderer, one, part)}[:, {picked}]"
        return rows

    def _use(self, renderer: Renderer, source: Source, part: str) -> str:
        renderer.imports.update(source.imports)
        self.used[source.name] = source.read
        return part.format(source.name)


def _numbers(value: Any) -> bool:
    first = value[0]
    return isinstance(first, int | float | np.generic | str) or (isinstance(first, list | tuple) and bool(first))


def _equal(value: Any, held: Any) -> bool:
    if isinstance(value, list | tuple) and isinstance(held, list | tuple):
        return list(value) == list(held)
    return same(value, held)


def _rows(value: Any, held: Any) -> list[int] | None:
    """Rows of a larger table, in its order."""
    if value.ndim != held.ndim or value.ndim < 2 or value.shape[1:] != held.shape[1:] or len(value) >= len(held):
        return None
    found, at = [], 0
    for row in value:
        while at < len(held) and not np.array_equal(held[at], row):
            at += 1
        if at == len(held):
            return None
        found.append(at)
        at += 1
    return found


# --- objects that a catalogue or a file has under a name --------------------------------------------------------------


def _llm(renderer: Renderer, facts: Any, words: list[str]) -> str | None:
    from moeopt.llm import find, read_config

    for function, names in ((find, (facts.name,)), (read_config, words)):
        for name in names:
            with suppress(Exception):
                if function(name) == facts:
                    return f"{renderer.name(function)}({quoted(name)})"
    return None


def _gpu(renderer: Renderer, gpu: Any, words: list[str]) -> str | None:
    kind = type(gpu)
    for more in ({}, {"node_gpus": gpu.node_gpus}, {"efficiency": gpu.machine.efficiency}):
        given = {name: getattr(gpu, name) for name in ("stock", "price") if getattr(gpu, name) is not None} | more
        with suppress(Exception):
            if kind.of(gpu.name, **given) == gpu:
                return renderer.call(f"{renderer.name(kind)}.of", (gpu.name,), given)
    return None


def _cluster(renderer: Renderer, cluster: Any, words: list[str]) -> str | None:
    from moeopt.cluster import read_topology, reference

    files = [word for word in words if Path(word).exists()]
    ways: tuple[tuple[Callable[[str], Any], list[str]], ...] = ((reference, words), (read_topology, files))
    for function, names in ways:
        for name in names:
            with suppress(Exception):
                if function(name).to_dict() == cluster.to_dict():
                    return f"{renderer.name(function)}({quoted(name)})"
    return None


def _map(renderer: Renderer, expert_map: Any, words: list[str]) -> str | None:
    from moeopt.engines.reading import read_map

    for word in words:
        with suppress(Exception):
            found = read_map(word)
            if all(same(getattr(found, one.name), getattr(expert_map, one.name)) for one in fields(found)):
                return f"{renderer.name(read_map)}({quoted(word)})"
    return None


def _collocation(renderer: Renderer, instance: Any, words: list[str]) -> str | None:
    from moeopt.collocation.document import from_dict
    from moeopt.documents import read_bytes, read_json

    for word in words:
        with suppress(Exception):
            if from_dict(read_json(read_bytes(word), word), word).to_dict() == instance.to_dict():
                read = f"{renderer.name(read_json)}({renderer.name(read_bytes)}({quoted(word)}), {quoted(word)})"
                return f"{renderer.name(from_dict)}({read}, {quoted(word)})"
    return None


def _executor(renderer: Renderer, maker: Any, words: list[str]) -> str:
    from moeopt.executors import make_executor

    return renderer.call(make_executor, (maker.words,), {})


NAMED: dict[str, Callable[[Renderer, Any, list[str]], str | None]] = {
    "LlmFacts": _llm,
    "GpuType": _gpu,
    "Cluster": _cluster,
    "Maker": _executor,
    "ExpertMap": _map,
    "CollocationInstance": _collocation,
}
