"""Times of the command line: ``0.4``, ``50us``, ``0.1+0.002n``, ``5us+14336B*n/50GB/s``, and measured tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from moeopt.cli.units import BYTES
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.microbatch import Table
    from moeopt.microbatch.times import TimeModel
    from moeopt.workload.csv_cells import Row

SECONDS: Mapping[str, Decimal] = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
UNITS = ("us", "ms", "s")
"""What ``--unit`` takes."""
SIZES: Mapping[str, Decimal] = {name: Decimal(value) for name, value in BYTES.items() if name}
RATES: Mapping[str, Decimal] = {
    **{f"{name}/s": value for name, value in SIZES.items()},
    **{
        f"{name}{end}": Decimal(10**power) / 8
        for name, power in (("M", 6), ("G", 9), ("T", 12))
        for end in ("bps", "b/s")
    },
}
MOST_DIGITS = 9
"""Of tokens in a table."""
LARGEST = Decimal("1e30")
"""Of bytes, and of bytes a second."""
LONGEST_S = Decimal("1e9")
"""No step takes as long: a wrong unit, or a slip."""
SIZE_COLUMNS = ("batch", "tokens", "n")
FORMS = "Write 0.4, 50us, 0.1+0.002n (n tokens), or 5us+14336B*n/50GB/s"

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
_TIME = re.compile(rf"({_NUMBER})\s*(ns|us|µs|ms|min|s|h)?\s*(\*?\s*n)?", re.IGNORECASE)
_MOVED = re.compile(rf"({_NUMBER})\s*([kKMGT]i?B|B)\s*\*?\s*n\s*/\s*({_NUMBER})\s*([A-Za-z/]+)")


def stage_time(field: str, text: str, unit: str, check: Violations) -> TimeModel | None:
    """The time model that a text says; bare numbers are in `unit`. ``None`` with a violation noted.

    >>> stage_time("--ta", "0.4", "ms", Violations()), stage_time("--tc", "50us", "ms", Violations())
    (Constant(seconds=0.0004), Constant(seconds=5e-05))
    >>> stage_time("--ta", "0.1+0.002n", "ms", Violations())
    Linear(fixed_s=0.0001, per_token_s=2e-06)
    >>> stage_time("--tc", "5us+14336B*n/400Gbps", "ms", Violations())
    Transfer(latency_s=5e-06, bytes_per_token=14336, bytes_per_s=50000000000)
    """
    from moeopt.microbatch import Constant, Linear, Transfer

    fixed, slope, moved = Decimal(0), Decimal(0), []
    sloped = False
    for part in re.split(r"(?<![eE])\+", text.strip()):
        term, transfer = _TIME.fullmatch(part.strip()), _MOVED.fullmatch(part.strip())
        if transfer is not None:
            sizes = _moved(field, text, transfer, check)
            if sizes is None:
                return None
            moved.append(sizes)
            continue
        if term is None:
            check.add(field, text or "''", rule="is not a time", fix=FORMS)
            return None
        value = _time(field, text, term[1], term[2] or unit, check)
        if value is None:
            return None
        if term[3]:
            slope, sloped = slope + value, True
        else:
            fixed += value
    if len(moved) == 1 and not sloped:
        return Transfer(_plain(fixed), *map(_plain, moved[0]))
    for size, rate in moved:
        slope, sloped = slope + size / rate, True
    return Linear(_plain(fixed), _plain(slope)) if sloped else Constant(_plain(fixed))


def seconds(field: str, text: str, unit: str, check: Violations) -> float | None:
    """One time in seconds; a bare number is in `unit`.

    >>> seconds("--tbt", "50", "ms", Violations()), seconds("--tbt", "0.05s", "ms", Violations())
    (0.05, 0.05)
    """
    term = _TIME.fullmatch(text.strip())
    if term is None or term[3]:
        check.add(field, text or "''", rule="is not a time", fix=f"Write 50ms; a bare number is in {unit} (--unit)")
        return None
    value = _time(field, text, term[1], term[2] or unit, check)
    return None if value is None else _plain(value)


def read_times(path: str, unit: str, extend: bool, check: Violations) -> dict[str, Table]:
    """Tables of a CSV file: a column of tokens (``batch``, ``tokens`` or ``n``), and one for each measured time.

    Columns are called as the options are (``ta``, ``te``, ``tc``, ``td``, ``tb``, ``t0``), with a unit where they have
    one of their own (``ta_us``). Empty cells were not measured.
    """
    from moeopt.documents import read_bytes
    from moeopt.microbatch import Table
    from moeopt.workload.csv_cells import split_rows

    inner = Violations()
    tables: dict[str, Table] = {}
    with inner.within():
        rows, _ = split_rows(read_bytes(path), inner, gaps=True)
        if rows:
            tables = _tables(path, rows, unit, extend, check, Table)
    for one in inner.found:
        where = one.where if one.field == "input" else ", ".join(filter(None, (path, one.where)))
        check.found.append(replace(one, field="--times", where=where))
    return tables


def _tables(
    path: str, rows: Sequence[Row], unit: str, extend: bool, check: Violations, table: type[Table]
) -> dict[str, Table]:
    heads = [cell.lower() for cell in rows[0].cells]
    first = next((heads.index(name) for name in SIZE_COLUMNS if name in heads), None)
    columns: dict[int, tuple[str, str]] = {}
    for place, head in enumerate(heads):
        known = re.fullmatch(r"(ta|te|tc|td|tb|t0)(?:_(ns|us|ms|s))?", head)
        if known is not None and known[1] in (name for name, _ in columns.values()):
            check.add("--times", head, where=path, rule="is a second column of one time", fix="Keep one of them")
        elif known is not None:
            columns[place] = (known[1], known[2] or unit)
        elif place != first:
            rule = "is not a column of times"
            check.add("--times", head or "''", where=path, rule=rule, fix="Known: batch, ta, te, tc, td, tb, t0; ta_us")
    if first is None or not columns:
        rule = "has no column batch with a column of times beside it"
        check.add("--times", path, rule=rule, fix="Begin with a line such as batch,ta,te,tc")
        return {}
    found: dict[str, dict[int, float]] = {name: {} for name, _ in columns.values()}
    for line in rows[1:]:
        where, row = f"{path}, line {line.line}", line.cells
        if len(row) != len(heads):
            rule = f"has {len(row)} cells, the head has {len(heads)}"
            check.add("--times", ",".join(row), where=where, rule=rule, fix="Fill the row up")
            continue
        size = row[first]
        if not size.isdecimal() or not 0 < len(size) <= MOST_DIGITS or not int(size):
            check.add("--times", size or "''", where=where, rule="must be whole tokens >= 1", fix="Write 64")
            continue
        for place, (name, measured_in) in columns.items():
            cell = row[place]
            if int(size) in found[name]:
                check.add("--times", size, where=where, rule="stands there twice", fix="Keep one row of each size")
                break
            value = _cell(cell, measured_in, where, check) if cell else None
            if value is not None:
                found[name][int(size)] = value
    empty = [name for name, points in found.items() if not points]
    for name in empty if not check.found else ():
        check.add("--times", name, where=path, rule="is a column without a number", fix="Leave it out")
    return {name: table.of(points, extend=extend) for name, points in found.items() if points}


def _cell(text: str, unit: str, where: str, check: Violations) -> float | None:
    term = _TIME.fullmatch(text)
    if term is None or term[3]:
        check.add("--times", text, where=where, rule="is not a time", fix="Write 0.4 or 50us")
        return None
    value = _time("--times", text, term[1], term[2] or unit, check, where)
    return None if value is None else _plain(value)


def _time(field: str, text: str, number: str, unit: str, check: Violations, where: str = "") -> Decimal | None:
    """Seconds, finite and not negative."""
    value = Decimal(number)
    if not value.is_finite() or value < 0:
        fix = (
            "Measure again: a difference of two clocks can be negative"
            if text.strip().startswith("-")
            else "Give a number"
        )
        symbol = f"{field[2].upper()}_{field[3]} " if len(field) == 4 else ""  # --tc is T_c in the models
        check.add(field, text, where=where, rule=f"{symbol}must be a finite time >= 0", fix=fix)
        return None
    if value.adjusted() > MOST_DIGITS * 2 or value * SECONDS[unit.lower()] > LONGEST_S:
        rule = f"is beyond any step, {LONGEST_S:.0e} s".replace("e+", "e")
        check.add(field, text, where=where, rule=rule, fix=f"It is in {unit}: give another unit, as 50us")
        return None
    return value * SECONDS[unit.lower()]


def _moved(field: str, text: str, match: re.Match[str], check: Violations) -> tuple[Decimal, Decimal] | None:
    """Bytes a token and bytes a second."""
    rates = {name.lower(): value for name, value in RATES.items()} if match[4] not in RATES else RATES
    rate = rates.get(match[4])
    try:
        size, speed = Decimal(match[1]) * SIZES[match[2]], Decimal(match[3])
    except (InvalidOperation, KeyError):
        size, speed = Decimal("nan"), Decimal("nan")
    if rate is None:
        check.add(field, text, rule=f"{match[4]} is not a bandwidth", fix="Write 50GB/s or 400Gbps")
    elif not speed.is_finite() or not 0 < speed < LARGEST:
        check.add(field, text, rule="a bandwidth must be finite and > 0", fix="Write 50GB/s or 400Gbps")
    elif not size.is_finite() or not 0 <= size < LARGEST:
        check.add(field, text, rule="must be finite bytes >= 0", fix="Write 14336B*n/50GB/s")
    else:
        return size, speed * rate
    return None


def _plain(value: Decimal) -> float:
    """A number as a document has it: whole ones whole."""
    return int(value) if value == value.to_integral_value() and abs(value) < 10**15 and value >= 1 else float(value)
