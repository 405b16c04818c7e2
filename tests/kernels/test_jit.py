"""Compiled or interpreted: what a result says about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moeopt.kernels import _jit
from moeopt.limits import Deadline
from moeopt.result import MACHINE_NOTE


@pytest.mark.parametrize(
    ("numba", "compiled", "said"),
    [
        (False, False, f"{MACHINE_NOTE}the search is interpreted, some hundred times slower: pip install"),
        (True, True, None),
        (True, False, "so the search ran interpreted, some hundred times slower: allow 6 s more"),
    ],
)
def test_the_note_says_why_code_is_interpreted_and_what_helps(
    monkeypatch: pytest.MonkeyPatch, numba: bool, compiled: bool, said: str | None
) -> None:
    monkeypatch.setattr(_jit, "has_numba", lambda: numba)
    note = _jit.interpreter_note("the search", compiled, 6.0)
    assert note is None if said is None else note is not None and said in note


def test_code_compiled_from_an_older_source_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A limit of ten seconds became a minute: the stale code on disk passed for code that only has to be loaded."""
    source = tmp_path / "made.py"
    source.write_text("def made(number):\n    return number\n")
    scope: dict[str, Any] = {"__name__": "made"}
    exec(compile(source.read_text(), str(source), "exec"), scope)
    kernel = _jit.Kernel(scope["made"])
    _jit.KERNELS.remove(kernel)
    monkeypatch.setattr(_jit, "has_numba", lambda: True)
    assert not kernel.on_disk()
    index = tmp_path / "__pycache__" / "made.made-1.py311.nbi"
    index.parent.mkdir()
    index.touch()
    assert kernel.on_disk()
    os.utime(index, (0, 0))
    assert not kernel.on_disk()


def test_a_user_without_a_home_has_no_code_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container that runs as a user of no name, asking for the home folder raised."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setattr("moeopt.kernels._jit.has_numba", lambda: True)
    assert _jit.jit(test_a_user_without_a_home_has_no_code_there).on_disk() is False


def test_code_that_cannot_be_kept_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _jit.unkept_note() is None
    monkeypatch.setattr(_jit.KERNELS[0], "cached", False)
    note = _jit.unkept_note()
    assert note is not None and "made anew in every process" in note and "NUMBA_CACHE_DIR" in note


def test_code_on_disk_is_loaded_where_there_is_room_and_a_busy_machine_needs_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = next(one for one in _jit.KERNELS if not one.ready())
    monkeypatch.setattr(_jit, "has_numba", lambda: True)
    monkeypatch.setattr(_jit.Kernel, "on_disk", lambda self: True)
    twice = 2 * _jit.LOAD_S
    assert kernel.in_time(Deadline(twice)) and not kernel.in_time(Deadline(0.9 * _jit.LOAD_S))
    busy = Deadline(twice)
    busy._since_s -= 100.0  # so long by the clock, and hardly any of it worked
    assert busy.slowness() == busy.within(twice).slowness() == 5.0
    assert not kernel.in_time(busy) and not kernel.in_time(busy.within(twice)) and kernel.in_time(Deadline(None))
    monkeypatch.setattr(_jit.Kernel, "on_disk", lambda self: False)
    assert not kernel.in_time(Deadline(twice))
