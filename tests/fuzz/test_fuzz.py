"""Whatever is in a file, reading it ends in an answer or in words, within a second and in little memory."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.damage import damaged
from tests.fuzz.kinds import KINDS, run
from tests.fuzz.once import once, warm

SEEDS = 3
"""A glance at each kind; ``python -m tests.fuzz`` goes on for as long as one likes."""


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    warm()
    yield


@pytest.mark.parametrize("name", KINDS)
def test_whatever_is_in_a_file_an_answer_or_words_come_out(name: str, tmp_path: Path, interpreted: None) -> None:
    kind = KINDS[name]
    path = kind.make(tmp_path)
    whole = path.read_bytes()
    for verb in kind.verbs[:1]:  # the good file is good
        code, said = run(*(word.replace("@", str(path)).replace("%", str(tmp_path)) for word in verb.split()))
        assert code in (0, 3), said
    for call in kind.calls:
        call(path)
    first = zlib.crc32(name.encode()) % 10_000
    for seed in range(first, first + SEEDS):
        once(kind, path, whole, seed)


def test_damages_change_a_file_and_the_same_seed_makes_the_same() -> None:
    whole = b'{"a": [1, 2.5], "b": {"c": "x"}}\n'
    made = [damaged(whole, random.Random(seed)) for seed in range(200)]
    assert made == [damaged(whole, random.Random(seed)) for seed in range(200)]
    assert len(set(made)) > 100 and sum(one == whole for one in made) < 40
