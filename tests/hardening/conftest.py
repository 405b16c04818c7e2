"""Policies of one test are no methods of the next."""

from __future__ import annotations

import pytest

from tests.cli.conftest import forgets_plugins


@pytest.fixture(autouse=True)
def _no_policies_left(monkeypatch: pytest.MonkeyPatch) -> None:
    forgets_plugins(monkeypatch)
