"""Words of the command line into numbers: times, sizes and lists, each with the unit it was given in."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from moeopt.errors import Violations

SECONDS: Mapping[str, float] = {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
BYTES: Mapping[str, float] = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
"""GB is 10**9 bytes and GiB is 2**30: kept apart."""

TOKENS: Mapping[str, float] = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "Ki": 2**10, "Mi": 2**20}
"""128k is 128,000 tokens and 128Ki is 131,072: kept apart as sizes are."""

T = TypeVar("T", int, float)

MOST_IDS = 1_000_000
_NUMBER = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")


def seconds(field: str, text: str, check: Violations) -> float | None:
    """Seconds of ``5``, ``500ms``, ``2min``.

    >>> seconds("--time-limit", "500ms", Violations())
    0.5
    >>> check = Violations(); seconds("--time-limit", "5x", check); print(check.found[0])
    --time-limit = 5x: must be a number and a unit of ns, us, ms, s, min, h. A bare number is seconds: 5 or 5s.
    """
    return _with_unit(field, text, SECONDS, "A bare number is seconds: 5 or 5s", check)


def size(field: str, text: str, check: Violations) -> float | None:
    """Bytes of ``42MB``, ``1.5GiB`` or a bare number.

    >>> size("--expert-bytes", "42MiB", Violations()), size("--expert-bytes", "42MB", Violations())
    (44040192, 42000000)
    """
    return _with_unit(field, text, BYTES, "80GB is 80e9 bytes, 80GiB is 80 * 2**30", check)


def tokens(field: str, text: str, check: Violations) -> int | None:
    """Whole tokens of ``4096``, ``4k``, ``128Ki`` or ``1M``.

    >>> tokens("--context", "4k", Violations()), tokens("--context", "4Ki", Violations())
    (4000, 4096)
    >>> check = Violations(); tokens("--context", "1.5", check); print(check.found[0])
    --context = 1.5: must be whole tokens. Write 4096, 4k, 128Ki or 1M.
    """
    fix = "Write 4096, 4k, 128Ki or 1M"
    total = _with_unit(field, text, TOKENS, fix, check)
    if total is not None and not float(total).is_integer():
        check.add(field, text, rule="must be whole tokens", fix=fix)
        return None
    return None if total is None else int(total)


def sizes(field: str, text: str, check: Violations) -> float | list[float]:
    """One size, or several separated by commas."""
    found = [size(field, part, check) or 0.0 for part in text.split(",")]
    return found if "," in text else found[0]


def numbers(field: str, text: str, check: Violations) -> list[float]:
    """Numbers separated by commas.

    >>> numbers("--speed", "1,0.5", Violations())
    [1.0, 0.5]
    """
    return [_number(field, part, float, "a number", check) for part in text.split(",")]


def count(field: str, text: str, check: Violations) -> int | list[int]:
    """One whole number, or several separated by commas.

    >>> count("--slots", "96", Violations()), count("--slots", "3,3,2", Violations())
    (96, [3, 3, 2])
    """
    found = [_number(field, part, int, "a whole number", check) for part in text.split(",")]
    return found if "," in text else found[0]


def ids(field: str, text: str, check: Violations) -> list[int]:
    """Ids separated by commas, a range as ``5-8``.

    >>> ids("--layers", "3,5-8", Violations())
    [3, 5, 6, 7, 8]
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (first.strip().isdecimal() and (last.strip().isdecimal() if dash else True)):
            check.add(field, part, rule="must be an id or a range of ids", fix="Write 3,5-8")
            continue
        low, high = int(first), int(last if dash else first)
        if high < low:
            check.add(field, part, rule="must run upwards", fix=f"Write {high}-{low}")
            continue
        if high - low >= MOST_IDS or high >= 2**63:
            rule = f"must be at most {MOST_IDS} ids" if high < 2**63 else "ids must be below 2**63"
            check.add(field, part, rule=rule, fix="Check the number")
            continue
        found.extend(range(low, high + 1))
    for one, times in Counter(found).items():
        if times > 1:
            check.add(field, one, rule=f"is given {times} times", fix="Give it once")
    return list(dict.fromkeys(found))


def layers(text: str, check: Violations) -> int | None:
    """The number of layers, where ``--layers`` is that and not the ids that ``place`` takes.

    >>> layers("58", Violations())
    58
    >>> check = Violations(); layers("3-60", check); print(check.found[0])
    --layers = 3-60: is the number of layers here, not their ids. Write --layers 58.
    """
    word = text.strip()
    if word.isdecimal() and len(word) < 1000 and int(word) >= 1:
        return int(word)
    listed = Violations()
    found = ids("--layers", word, listed) if set(word) & set(",-") else []
    if found and not listed.found:
        rule = "is the number of layers here, not their ids"
        check.add("--layers", text, rule=rule, fix=f"Write --layers {len(found)}")
    else:
        check.add("--layers", text or "''", rule="must be a whole number >= 1", fix="Give the number of layers, as 58")
    return None


def _with_unit(field: str, text: str, units: Mapping[str, float], fix: str, check: Violations) -> float | None:
    match = _NUMBER.fullmatch(text)
    unit = units.get(match[2]) if match else None
    try:
        value = float(match[1]) if match else math.nan
    except ValueError:
        value = math.nan
    if unit is None or not math.isfinite(value):
        names = ", ".join(name for name in units if name)
        near = next((name for name in units if match and name.lower() == match[2].lower()), None)
        rule = f"must be a number and a unit of {names}"
        check.add(field, text or "''", rule=rule, fix=f"Did you mean {match[1]}{near}?" if match and near else fix)
        return None
    total = value * unit
    return int(total) if total.is_integer() and units is BYTES else total


def _number(field: str, part: str, kind: Callable[[str], T], what: str, check: Violations) -> T:
    try:
        return kind(part)
    except ValueError:
        check.add(field, part.strip() or "''", rule=f"must be {what}", fix="Separate several by commas")
        return kind("1")
