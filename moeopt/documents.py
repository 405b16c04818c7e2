"""Files and strict JSON: written whole or not at all, read with the place of the break, digested canonically."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moeopt.errors import InstanceError, Violation

TEMPORARY = ".moeopt."
"""How the name of a file begins that is being written; a kill at that moment leaves it behind."""


def write_files(contents: Mapping[str, str | bytes], *, force: bool = False) -> None:
    """Write several files, all of them or none.

    Raises
    ------
    InstanceError
        As `write_file`; every file is then as it was before.
    """
    for path in contents:
        _refuse_taken(Path(path), force)
    kept: dict[Path, Path] = {}
    written: list[Path] = []
    try:
        for path, content in contents.items():
            target = Path(path)
            if exists(target):
                kept[target] = target.with_name(f"{TEMPORARY}{secrets.token_hex(6)}")
                os.link(target, kept[target])
            write_file(target, content, force=force)
            written.append(target)
    except (InstanceError, OSError) as error:
        for target in written:
            if target in kept:
                kept[target].replace(target)
            else:
                target.unlink(missing_ok=True)
        if isinstance(error, InstanceError):
            raise
        raise _not_written(target, error) from error
    finally:
        for spare in kept.values():
            spare.unlink(missing_ok=True)


def _refuse_taken(target: Path, force: bool) -> None:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        raise _not_written(target, error) from error
    if not force:
        rule = "exists and is never overwritten unasked"
        raise InstanceError([Violation("output", "", str(target), rule, "Choose another name or give --force")])
    if not stat.S_ISREG(found.st_mode) and not target.is_file():
        rule = "cannot be written: it is not a regular file"
        raise InstanceError([Violation("output", "", str(target), rule, "Choose another name")])


def _not_written(target: Path, error: Exception) -> InstanceError:
    name = str(target)
    shown = name if len(name) <= 200 else f"{name[:100]}...{name[-20:]}"
    rule = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    fix = "Give a writable folder that exists, and --force to replace a file"
    return InstanceError([Violation("output", "", shown, rule, fix)])


def write_file(path: str | Path, content: str | bytes, *, force: bool = False) -> None:
    """Write a file atomically: it is there whole or not at all.

    Raises
    ------
    InstanceError
        The file exists and `force` is not set, or its folder is missing or not writable.
    """
    target = Path(path)
    if exists(target) and not force:
        rule = "exists and is never overwritten unasked"
        raise InstanceError([Violation("output", "", str(target), rule, "Choose another name or give --force")])
    if exists(target) and not target.is_file():
        rule = "cannot be written: it is not a regular file"
        raise InstanceError(
            [Violation("output", "", str(target), rule, "Choose another name, or - for standard output")]
        )
    # a name of a file that is no UTF-8 may stand in a note
    data = content.encode(errors="replace") if isinstance(content, str) else content
    try:
        temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(6)}")  # the name itself may be as long as can be
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if force:
                temporary.replace(target)
            else:
                os.link(temporary, target)  # fails if the name was taken meanwhile
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        rule = f"cannot be written ({error.strerror or error})"
        fix = "Give a writable folder that exists, and --force to replace a file"
        raise InstanceError([Violation("output", "", str(target), rule, fix)]) from error


def current_folder() -> Path | None:
    """Where relative names begin; ``None`` where that folder was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def exists(target: str | Path) -> bool:
    """Whether something is there; ``False`` for a name that cannot be."""
    try:
        return Path(target).exists()
    except (OSError, ValueError):
        return False  # to write it says why


def to_json(value: Any) -> str:
    """Strict JSON (no NaN, no infinity), two-space indent but rows of numbers on one line.

    >>> print(to_json({"a": [[1, 2], [3, 4]]}))
    {
      "a": [
        [1, 2],
        [3, 4]
      ]
    }
    """
    return _pretty(value, "")


def _pretty(value: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        rows = [f"{inner}{json.dumps(str(key))}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and any(isinstance(item, list | tuple | Mapping) for item in value):
        return "[\n" + ",\n".join(f"{inner}{_pretty(item, inner)}" for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def canonical_json(value: Any) -> bytes:
    """One byte string for one meaning: sorted keys, no spaces, whole floats written as integers.

    >>> canonical_json({"b": 2.0, "a": [0.5]})
    b'{"a":[0.5],"b":2}'
    """
    return json.dumps(whole(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def whole(value: Any) -> Any:
    """Write whole floats as integers, so that 3.0 read from one format equals 3 read from another."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    if isinstance(value, Mapping):
        return {str(key): whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if all(type(item) is int for item in value):  # the long rows of loads, untouched
            return value
        return [whole(item) for item in value]
    return value


def sha256(value: Mapping[str, Any], **bulk: Any) -> str:
    """Digest of the canonical JSON of `value`, 64 hex digits; `bulk` joins it as it is, for long whole rows.

    >>> sha256({"a": 1.0, "b": [2]}) == sha256({"a": 1}, b=[2])
    True
    """
    document = whole(value) | bulk
    parts = (f"{json.dumps(key)}:{_plain(document[key])}" for key in sorted(document))
    return hashlib.sha256(("{" + ",".join(parts) + "}").encode()).hexdigest()


def _plain(value: Any) -> str:
    if hasattr(value, "dtype"):
        from moeopt.kernels.json_rows import json_rows

        return json_rows(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_json(text: str | bytes, source: str, *, allow_nan: bool = False) -> Any:
    """Parse strict JSON; `allow_nan` lets NaN and infinities through, for a caller that names their place.

    Raises
    ------
    InstanceError
        Empty, broken (with line and column), not UTF-8, or holding NaN, an infinity or half of a character.
    """

    def refuse(rule: str, fix: str, where: str = "", value: str = "...") -> InstanceError:
        return InstanceError([Violation("json", where, value, rule, fix)], source)

    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise refuse(f"is not UTF-8 text (byte {error.start})", "Is this a JSON file?") from error
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise refuse("the file is empty", "Record again, or check that the copy finished", value="''")

    def no_constant(name: str) -> float:
        if allow_nan:
            return float(name)
        raise refuse(f"{name} is not JSON", "Replace it by a number, or drop the window", value=name)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, item in pairs:
            if key in seen:
                raise refuse("the key stands twice in one object", "Keep one of them", where=key, value=key)
            seen[key] = item
        return seen

    try:
        found = json.loads(text, parse_constant=no_constant, object_pairs_hook=unique, parse_float=_finite)
        if _HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise refuse(f"{half} is half of a character", "Write the text as UTF-8", value=half) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        snippet = repr(text[max(0, error.pos - 20) : error.pos + 10])
        raise refuse(f"broken JSON ({error.msg})", "Was the file cut short?", where, snippet) from error
    except (RecursionError, OverflowError, ValueError) as error:
        if isinstance(error, InstanceError):
            raise
        raise refuse(f"cannot be read ({error})", "Repair the file") from error


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Where halves of characters may stand: in pairs they are one."""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise OverflowError(f"{text} is beyond the range of a double")
    return value


def read_bytes(path: str | Path) -> bytes:
    """All bytes of a file (``-`` is standard input).

    Raises
    ------
    InstanceError
        It is missing, a folder, or may not be read.
    """
    if str(path) == "-":
        import sys

        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        rule = f"cannot be read ({error.strerror or error})"
        pattern = isinstance(error, FileNotFoundError) and any(sign in str(path) for sign in "*?[")
        fix = "A pattern is for the shell: give it without quotes" if pattern else "Check the name"
        raise InstanceError([Violation("input", "", str(path), rule, fix)]) from error
