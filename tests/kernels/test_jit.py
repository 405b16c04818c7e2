"""Compiled or interpreted: what a result says about it."""

from __future__ import annotations

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
