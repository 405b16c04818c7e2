"""Routing traces as the JSON lines of loggers in vLLM's MoE layers, folded some thousand lines at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from moeopt.errors import Violations
from moeopt.workload.trace_fold import CHUNK_ROWS, EXPERTS_MAX, NAMED, Folding

LINE_BYTES_MAX = 2**20
NAMES_OF_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
"""Keys under which loggers and arrays say how many experts a layer has."""


def is_logged(head: bytes) -> bool:
    """Whether a file begins with a JSON object on a line of its own that a logger of routes wrote."""
    line = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    if not line.startswith(b"{"):
        return False
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and entry.get("type") in ("meta", "route")


def read_lines(file: IO[bytes], check: Violations, folding: Folding) -> None:
    """Fold a whole log."""
    logged, known = _Logged(check, folding), False
    for number, line in _lines(file):
        if not (known or not line.strip()):
            known = line.lstrip()[:1] == b"{"
            if not known:
                shown = line.strip()[:40].decode("utf-8", "replace")
                rule = (
                    "is no line of a routing trace: neither JSON lines of type meta and route, nor .npz with topk_ids"
                )
                fix = "Give the trace of every token; loads have lost which experts were selected together"
                check.add("line", shown, rule=rule, fix=fix, where=str(number))
                break
        logged.take(number, line)
        if len(check.found) > NAMED:
            break
    logged.flush()


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


class _Logged:
    """Takes the lines of a logger, some thousand at a time."""

    def __init__(self, check: Violations, folding: Folding) -> None:
        self.check = check
        self.folding = folding
        self._rows: dict[int, list[tuple[list[int], bool | None, int]]] = {}
        self._count = 0

    def take(self, number: int, line: bytes) -> None:
        if not line.strip():
            return
        try:
            entry = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            rule, shown = f"is not JSON ({error})", line.strip()[:40].decode("utf-8", "replace")
            self.check.add("line", shown, rule=rule, fix="Was the file cut short?", where=str(number))
            return
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind == "meta":
            self._meta(entry, number)
        elif kind == "route":
            self._route(entry, number)
        else:
            shown = str(kind) if isinstance(entry, dict) else type(entry).__name__
            rule = "must be an object of type meta or route"
            self.check.add("type", shown, rule=rule, fix="Give the log of the MoE layers", where=f"line {number}")

    def _meta(self, entry: dict[str, Any], number: int) -> None:
        for key in ("top_k", *NAMES_OF_EXPERTS):
            value = entry.get(key)
            if value is None:
                continue
            if type(value) is not int or not 1 <= value <= EXPERTS_MAX:
                small = type(value) is not int or value < 1
                rule = "must be a whole number >= 1" if small else f"must be at most {EXPERTS_MAX:,}"
                self.check.add(key, value, rule=rule, fix="Repair the line", where=f"line {number}")
            elif key == "top_k":
                self._agree("top_k", value, number)
            else:
                self._agree("experts", value, number)

    def _agree(self, name: str, value: int, number: int) -> None:
        known = getattr(self.folding, name)
        if known is not None and known != value:
            rule = f"was {known} before"
            self.check.add(
                name,
                value,
                rule=rule,
                fix="Give one recording a file, of the LLM that is named",
                where=f"line {number}",
            )
        setattr(self.folding, name, value)

    def _route(self, entry: dict[str, Any], number: int) -> None:
        layer, ids, token = entry.get("layer"), entry.get("topk_ids"), entry.get("token_idx")
        where = f"line {number}"
        if type(layer) is not int or not 0 <= layer < EXPERTS_MAX:
            small = type(layer) is not int or layer < 0
            rule = "must be a whole number >= 0" if small else f"must be below {EXPERTS_MAX:,}"
            self.check.add("layer", layer, rule=rule, fix="Log the id of the layer", where=where)
        elif not isinstance(ids, list) or not ids or not all(type(i) is int and abs(i) < 2**31 for i in ids):
            self.check.add("topk_ids", ids, rule="must be whole numbers", fix="Log ids as numbers", where=where)
        elif token is not None and (type(token) is not int or token < 0):
            self.check.add("token_idx", token, rule="must be a whole number >= 0", fix="Leave it out", where=where)
        else:
            self._rows.setdefault(layer, []).append((ids, None if token is None else token == 0, number))
            self._count += 1
            if self._count >= CHUNK_ROWS:
                self.flush()

    def flush(self) -> None:
        """Fold what has been kept."""
        for layer, rows in self._rows.items():
            width = max(len(ids) for ids, _, _ in rows)
            if self.folding.top_k is not None:
                width = max(width, self.folding.top_k)
            table = np.array([ids + [-1] * (width - len(ids)) for ids, _, _ in rows], dtype=np.int64)
            lines = np.array([number for _, _, number in rows], dtype=np.int64)
            known = all(first is not None for _, first, _ in rows)
            first = np.array([bool(first) for _, first, _ in rows]) if known else None
            self.folding.add(layer, table, first, lines)
        self._rows, self._count = {}, 0


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return found
