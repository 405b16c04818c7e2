"""Compiled code at start-up, and what is said where it cannot be had."""

from __future__ import annotations

import logging

import pytest

from moeopt.engines.policies.ready import warm_up
from moeopt.kernels import packing
from moeopt.kernels._jit import has_numba


def test_the_search_is_ready_after_it_where_numba_is() -> None:
    assert warm_up() is has_numba() is packing.improve.ready()


def test_what_fails_is_logged_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: 1 / 0)
    with caplog.at_level(logging.WARNING):
        assert warm_up() is False
    assert "compiled code could not be loaded: ZeroDivisionError" in caplog.text
