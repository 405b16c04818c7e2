"""Compiled or interpreted: what a result says about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moeopt.kernels import _jit
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
