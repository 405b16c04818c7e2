"""Settings of the whole suite: no example deadline, the same examples on every run unless one asks to explore."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

_PHASES = [Phase.explicit, Phase.generate, Phase.shrink]
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    phases=_PHASES,
    report_multiple_bugs=False,
    suppress_health_check=_QUIET,
)
settings.register_profile("explore", settings.get_profile("suite"), derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(autouse=True)
def methods_as_they_were() -> Iterator[None]:
    """A policy that a test brings in is gone after it: other tests try every method there is."""
    from moeopt.placement import METHODS

    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)
