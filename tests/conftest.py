"""Settings of the whole suite: no example deadline, the same examples on every run unless one asks to explore."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

# Tests start many processes; Python compiles what each of them imports only once if it may keep the code.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_PHASES = [Phase.explicit, Phase.generate, Phase.shrink]
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    max_examples=30,  # the same ones on every run: more of them are for exploring
    database=None,
    phases=_PHASES,
    report_multiple_bugs=False,
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "explore", settings.get_profile("suite"), derandomize=False, max_examples=300, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(autouse=True)
def methods_as_they_were() -> Iterator[None]:
    """A policy that a test brings in is gone after it: other tests try every method there is."""
    from moeopt.placement import METHODS

    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)
