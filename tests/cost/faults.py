"""What a refusal must say: every bad field, at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moeopt.errors import InstanceError


def names_all(call: Callable[[], object], *fields: str) -> str:
    """Run a call that must be refused; every field must be among its violations. Returns the message."""
    with pytest.raises(InstanceError) as caught:
        call()
    found = [violation.field for violation in caught.value.violations]
    assert set(fields) <= set(found), (fields, found)
    for violation in caught.value.violations:
        assert violation.rule and violation.fix, violation
    return str(caught.value)
