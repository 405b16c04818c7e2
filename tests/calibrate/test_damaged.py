"""Tables of measurements that were cut, garbled or edited: constants, or words with the file, never a fault of ours."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from moeopt.cli import main
from tests.calibrate.tables import as_csv, moe_perf, nccl_perf

Capsys = pytest.CaptureFixture[str]
Damage = Callable[[list[list[str]], random.Random], list[list[str]]]
TABLES = {
    "moe": as_csv(moe_perf()),
    "nccl": as_csv(nccl_perf()),
    "steps": "batch,time_ms\n" + "".join(f"{batch},{9 + batch}\n" for batch in (1, 2, 4, 8, 16)),
}


def _cell(text: str) -> Damage:
    def changed(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
        row = rng.randrange(1, len(rows))
        rows[row][rng.randrange(len(rows[row]))] = text
        return rows

    return changed


def _column(text: str | None) -> Damage:
    def changed(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
        place = rng.randrange(len(rows[0]))
        for row in rows[1:] if text is not None else rows:
            row[place : place + 1] = [] if text is None else [text]
        return rows

    return changed


def _ragged(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
    row = rng.randrange(1, len(rows))
    rows[row] = rows[row][:-1]
    return rows


CELLS = ("", "x", "nan", "inf", "-1", "0", "1e308", "1e-308", "9" * 5000, "1,5", "\u0663", "\x00", "1e400", "0.5")
DAMAGES: dict[str, Damage] = {
    **{f"a cell {text[:6]!r}": _cell(text) for text in CELLS},
    **{f"a column {text[:6]!r}": _column(text) for text in CELLS},
    "a column lost": _column(None),
    "a ragged row": _ragged,
    "no header": lambda rows, rng: rows[1:],
    "nothing but the header": lambda rows, rng: rows[:1],
    "one row": lambda rows, rng: rows[:2],
    "every row twice": lambda rows, rng: [*rows, *rows[1:]],
    "the file twice": lambda rows, rng: [*rows, *rows],
    "a column twice": lambda rows, rng: [[row[0], *row] for row in rows],
    "another order": lambda rows, rng: [rows[0], *rng.sample(rows[1:], len(rows) - 1)],
}


def run(capsys: Capsys, *words: object) -> tuple[int, str]:
    code = main(["calibrate", *map(str, words), "-q"])
    said = capsys.readouterr().err
    assert code in (0, 2, 3), said
    assert "Traceback" not in said and "Warning" not in said
    assert all(len(line) < 2000 for line in said.splitlines()), said[:3000]
    return code, said


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_table_is_fitted_or_refused_by_its_name(tmp_path: Path, capsys: Capsys, table: str) -> None:
    file, constants = tmp_path / f"{table}.csv", tmp_path / "constants.json"
    for name, damage in DAMAGES.items():
        rows = [line.split(",") for line in TABLES[table].splitlines()]
        rows = damage(rows[:30], random.Random(f"{name} {table}"))
        file.write_text("\n".join(map(",".join, rows)) + "\n")
        code, said = run(capsys, file, "-o", constants, "--force")
        assert code != 2 or file.name in said, (name, said)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", bytes(50), b"{", b"[]", b"moe_dtype", b"PK\x03\x04"])
def test_what_is_no_table_is_refused_by_its_name(tmp_path: Path, capsys: Capsys, data: bytes) -> None:
    file = tmp_path / "moe.csv"
    file.write_bytes(data)
    code, said = run(capsys, file)
    assert code == 2 and "moe.csv" in said
    for place in (tmp_path, tmp_path / "none.csv"):
        code, said = run(capsys, place)
        assert code == 2 and place.name in said


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "moeopt/calibration/1"}', '{"schema": 7}', "\x00"])
def test_damaged_constants_are_refused_by_their_name(tmp_path: Path, capsys: Capsys, text: str) -> None:
    file = tmp_path / "constants.json"
    file.write_text(text)
    words = ["mesh", "--llm", "mixtral-8x7b", "--gpu", "h200:2", "--families", "decode", "--most-pp", "1", "-q"]
    assert main([*words, "--calibration", str(file)]) == 2
    said = capsys.readouterr().err
    assert "constants.json" in said and "Traceback" not in said
