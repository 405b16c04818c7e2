"""Topology files that were cut, garbled, doubled or edited: each is read or refused in words, and nothing breaks."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from moeopt.cli import main
from moeopt.cluster import Described, parse_topology
from moeopt.errors import InstanceError

DATA = Path(__file__).parents[1] / "data" / "topologies"
SAMPLES = sorted(path for path in DATA.iterdir() if path.suffix != ".md")
LONG = "9" * 5_000
"""More digits than Python turns into a number."""

Damage = Callable[[bytes, random.Random], bytes]


def _number(text: str) -> Damage:
    def changed(data: bytes, rng: random.Random) -> bytes:
        found = list(re.finditer(rb"\d+(\.\d+)?", data))
        one = rng.choice(found) if found else None
        return data if one is None else data[: one.start()] + text.encode() + data[one.end() :]

    return changed


def _inserted(what: bytes) -> Damage:
    def changed(data: bytes, rng: random.Random) -> bytes:
        place = rng.randrange(len(data))
        return data[:place] + what + data[place:]

    return changed


def _lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Damage:
    return lambda data, rng: b"\n".join(change(data.split(b"\n"), rng))


def _columns(lines: list[bytes], rng: random.Random) -> list[bytes]:
    one, other = 2 * rng.randrange(5), 2 * rng.randrange(5)
    found = []
    for line in lines:
        cells = re.split(rb"(\t|,| +)", line)
        if max(one, other) < len(cells):
            cells[one], cells[other] = cells[other], cells[one]
        found.append(b"".join(cells))
    return found


def _words(data: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"[\w./:-]+", data))
    if len(found) < 2:
        return data
    one, other = (found[place] for place in sorted(rng.sample(range(len(found)), 2)))
    return data[: one.start()] + other[0] + data[one.end() : other.start()] + one[0] + data[other.end() :]


def _doubled(lines: list[bytes], rng: random.Random) -> list[bytes]:
    place = rng.randrange(len(lines))
    return [*lines[:place], lines[place], *lines[place:]]


DAMAGES: dict[str, Damage] = {
    "cut short": lambda data, rng: data[: rng.randrange(len(data))],
    "lines lost": _lines(lambda lines, rng: [line for line in lines if rng.random() > 0.2]),
    "no header": _lines(lambda lines, rng: lines[rng.randrange(1, 5) :]),
    "lines in another order": _lines(lambda lines, rng: rng.sample(lines, len(lines))),
    "a line twice": _lines(_doubled),
    "the file twice": lambda data, rng: data + data,
    "columns swapped": _lines(_columns),
    "words swapped": _words,
    "escape sequence": _inserted(b"\x1b[4m"),
    "open escape sequence": _inserted(b"\x1b]0;"),
    "NUL": _inserted(b"\0"),
    "end of NULs": lambda data, rng: data[: len(data) // 2] + bytes(100),
    "bytes of no text": _inserted(b"\xe9\xff"),
    "zero": _number("0"),
    "negative": _number("-1"),
    "not a number": _number("nan"),
    "huge": _number("99999999"),
    "beyond a float": _number("1e400"),
    "long": _number(LONG),
    "other digits": _number("\u0663\u00b2"),
    "capitals": lambda data, rng: data.upper(),
    "no blanks": lambda data, rng: data.replace(b" ", b""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_read_or_refused_in_words(damage: str) -> None:
    for number, path in enumerate(SAMPLES):
        data = path.read_bytes()
        if not data:
            continue
        rng = random.Random(f"{damage} {number}")
        try:
            found = parse_topology(DAMAGES[damage](data, rng), path.name)
        except InstanceError as error:
            assert path.name in str(error)
            assert all(len(line) < 1_000 for line in str(error).splitlines())
        else:
            assert isinstance(found.notes, tuple) and isinstance(found.faults(), list)
            assert isinstance(found, Described) or found.num_gpus > 0


@pytest.mark.parametrize(("name", "old", "new", "text"), [
    ("smi_ansi.txt", "GPU1", f"GPU{LONG}", "no column of its name"),
    ("hwloc_two_gpus.xml", "300000 1000000", f"300000 {LONG}", "whole numbers of MB/s"),
    ("slurm_blocks.conf", "BlockSizes=", f"BlockSizes={LONG},", "must be whole numbers >= 1"),
])  # fmt: skip
def test_numbers_of_too_many_digits_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, text: str
) -> None:
    known = (DATA / name).read_text()
    assert old in known
    (tmp_path / name).write_text(known.replace(old, new, 1))
    assert main(["inspect", str(tmp_path / name)]) == 2
    said = capsys.readouterr()
    assert text in said.err and name in said.err and not said.out


@pytest.mark.parametrize(("old", "text"), [
    (r'count="\d+"', "are no number: one is taken"), (r'link_width="\d+"', "generation 4 with 16 lanes"),
    (r'dev="\d+"', ""), (r' speed="\d+"', "")
])  # fmt: skip
def test_attributes_of_too_many_digits_count_as_not_said(old: str, text: str) -> None:
    data = (DATA / "nccl_h100_a.xml").read_text()
    assert re.search(old, data)
    changed = re.sub(old, lambda found: re.sub(r"\d+", LONG, found[0]), data, count=1)
    found = parse_topology(changed.encode(), "a.xml")
    assert found.num_gpus == 8 and text in " ".join(found.notes)
