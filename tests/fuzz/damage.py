"""Ways to damage a file: bytes, numbers, lines, JSON values, members of an archive; by a seeded generator."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]
NUMBERS = (
    *(
        "0",
        "-1",
        "1",
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "1e308",
        "1e-308",
        "1e400",
        "-0.0",
        "0.5",
        "9" * 25,
        "9" * 5000,
    ),
    *(str(2**31), str(2**63 - 1), str(2**63), str(2**64), "1_000", "0x10", "\u0663", "", "x", "1e999999999"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 0.5, -0.0, 1e308, 1e-308, 10**30, 2**31, 2**63, 2**64, "", "x", "nan", "1/0"),
    *("1" * 5000, "\0", "\ud800", "../../x", [], {}, [[]], [[[]]], [None], ["x"], [1, 2], [-1], {"x": 1}, {"": None}),
    *([2**70], [0.5, 1e308]),
)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to three damages, of kinds that make sense for these bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        ways = [*PLAIN]
        if data[:2] == b"PK":
            ways += [_member] * len(PLAIN)
        elif data.lstrip()[:1] in (b"{", b"["):
            ways += [_value] * (2 * len(PLAIN))
        with suppress(RecursionError):  # buried deeper than Python digs: left as it is
            data = rng.choice(ways)(data, rng)
    return data


def _edited(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        changed[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
    return bytes(changed)


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _number(data: bytes, rng: random.Random) -> bytes:
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(NUMBERS).encode() + data[one.end() :]


def _lines(data: bytes, rng: random.Random) -> bytes:
    rows = data.split(b"\n")
    at = rng.randrange(len(rows))
    way = rng.randrange(5)
    if way == 0:
        del rows[at]
    elif way == 1:
        rows.insert(at, rows[at])
    elif way == 2:
        rows[at] = rows[at][: rng.randrange(len(rows[at]) + 1)]
    elif way == 3:
        rng.shuffle(rows)
    else:
        rows.insert(at, b"")
    return b"\n".join(rows)


def _value(data: bytes, rng: random.Random) -> bytes:
    """A value of a JSON document made another one, left out, doubled, or buried; a key that stands twice."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _edited(data, rng)
    places: list[tuple[Any, Any]] = []

    def walk(here: Any) -> None:
        for key in here if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ():
            places.append((here, key))
            walk(here[key])

    try:
        walk(document)
    except RecursionError:
        return data
    if not places:
        return json.dumps(rng.choice(VALUES)).encode()
    deep = [place for place in places if isinstance(place[0], dict)] or places
    inside, key = rng.choice(places if rng.random() < 0.4 else deep)
    way = rng.randrange(12)
    if way == 0:
        del inside[key]
    elif way == 1:
        other, place = rng.choice(places)
        inside[key] = json.loads(json.dumps(other[place]))
    elif way == 2 and isinstance(inside, list):
        inside.extend(inside[:1000])
    elif way == 3 and isinstance(inside, dict):
        inside[f"{key}x"] = inside.pop(key)
    elif way == 4:
        mark = "\u2603deep"
        inside[key] = mark
        depth = rng.choice((50, 900, 20_000))
        return json.dumps(document).replace(json.dumps(mark), "[" * depth + "]" * depth).encode()
    elif way == 5 and isinstance(inside, dict):
        mark = "\u2603twice"
        kept = inside[key]
        inside[mark] = kept
        return json.dumps(document).replace(json.dumps(mark), json.dumps(key)).encode()
    elif way == 6 and type(inside[key]) in (int, float):
        inside[key] = rng.choice((inside[key] + 1, -inside[key], inside[key] * 1e9, str(inside[key]), [inside[key]]))
    else:
        inside[key] = rng.choice(VALUES)
    return json.dumps(document).encode()


def _member(data: bytes, rng: random.Random) -> bytes:
    """A member of an archive damaged, its check sum made anew."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:
        return _edited(data, rng)
    if not members:
        return data
    name = rng.choice(sorted(members))
    way = rng.randrange(6)
    if way == 0:
        del members[name]
    elif way == 1:
        members[f"{name}x"] = members.pop(name)
    else:
        head = members[name][:128]
        changed = rng.choice((_edited, _flipped, _number, _cut))
        if way == 2:  # the description of the array, its numbers above all
            members[name] = _number(head, rng) + members[name][128:]
        else:
            members[name] = changed(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for one, content in members.items():
            archive.writestr(one, content)
    return out.getvalue()


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _zero(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + b"\0" + data[at:]


PLAIN: tuple[Damage, ...] = (
    _edited,
    _flipped,
    _number,
    _number,
    _lines,
    _cut,
    lambda data, rng: data[rng.randrange(len(data) + 1) :],
    lambda data, rng: b"\xef\xbb\xbf" + data,
    lambda data, rng: data.replace(b"\n", b"\r\n"),
    lambda data, rng: data.replace(b"\n", b"\r"),
    lambda data, rng: data.decode("latin-1").encode("utf-16"),
    lambda data, rng: data + data,
    lambda data, rng: data + bytes(rng.randint(1, 600)),
    _zero,
    lambda data, rng: data.replace(b",", rng.choice((b";", b"\t", b",,", b" "))),
    lambda data, rng: data.replace(b'"', rng.choice((b"'", b"", b'""'))),
    lambda data, rng: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
)
