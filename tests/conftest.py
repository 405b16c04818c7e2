"""Settings of the whole suite: no example deadline, the same examples on every run unless one asks to explore."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("suite", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
