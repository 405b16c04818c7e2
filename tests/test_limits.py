"""Limits are checked at birth, and a deadline knows when it is over."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from moeopt.errors import InstanceError
from moeopt.limits import Deadline, Limits


def test_no_limit_is_the_default() -> None:
    limits = Limits()
    assert (limits.time_s, limits.gap, limits.iterations, limits.nodes, limits.threads) == (None, None, None, None, 1)


@pytest.mark.parametrize(
    "good",
    [{"time_s": 1e-9}, {"time_s": 3}, {"gap": 0}, {"gap": 0.999}, {"iterations": 0}, {"nodes": 0}, {"threads": 8}],
)
def test_limits_at_their_ends_are_taken(good: dict[str, Any]) -> None:
    Limits(**good)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("time_s", value) for value in (0, -1, float("nan"), float("inf"), "1", True)),
        *(("gap", value) for value in (-0.1, 1, 1.5, float("nan"), "0.1", False)),
        *((field, value) for field in ("iterations", "nodes") for value in (-1, 1.5, "3", True, float("nan"))),
        *(("threads", value) for value in (0, -1, 1.5, None, True)),
    ],
)
def test_a_bad_limit_is_refused_by_name_and_value(field: str, value: object) -> None:
    with pytest.raises(InstanceError) as caught:
        Limits(**{field: value})
    assert f"limits.{field} = {value!r}: " in str(caught.value)


def test_all_bad_limits_come_in_one_message() -> None:
    with pytest.raises(InstanceError) as caught:
        Limits(time_s=-1, gap=2, iterations=-1, nodes=-1, threads=0)
    assert len(caught.value.violations) == 5


def test_limits_and_instances_of_them_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Limits().threads = 2  # type: ignore[misc]


def test_a_deadline_passes_once_and_without_a_limit_never() -> None:
    assert not Deadline(None).passed() and not Deadline(None).limited
    assert Deadline(1e-9).passed()
    later = Deadline(1000)
    assert later.limited and not later.passed() and 0 < later.remaining_s() <= 1000
    assert later.elapsed_s() >= 0


def test_a_share_of_a_deadline_is_a_part_of_what_is_left() -> None:
    assert not Deadline(None).share(3).limited
    share = Deadline(100.0).share(4)
    assert 20.0 < share.remaining_s() <= 25.0
    assert Deadline(1e-9).share(2).passed()


def test_a_deadline_keeps_time_back_for_what_follows_but_never_all_of_it() -> None:
    deadline, endless = Deadline(100.0), Deadline(None)
    deadline.keep_back(30.0)
    assert 60.0 < deadline.remaining_s() <= 70.0
    deadline.keep_back(1e9)
    assert 30.0 < deadline.remaining_s() <= 35.0
    deadline.close()
    assert deadline.passed()
    endless.keep_back(30.0)
    assert not endless.passed()


def test_a_stop_hook_ends_a_deadline_and_all_shares_of_it() -> None:
    event = threading.Event()
    deadline = Deadline(None, event.is_set)
    share = deadline.share(3)
    assert deadline.watched and not deadline.limited and not deadline.passed() and not share.passed()
    event.set()
    assert deadline.passed() and share.passed() and share.remaining_s() == 0.0


def test_a_stop_hook_is_no_part_of_what_limits_are_equal_in() -> None:
    hooked = Limits(stop=threading.Event().is_set)
    assert hooked == Limits() and hash(hooked) == hash(Limits()) and repr(hooked) == repr(Limits())
    with pytest.raises(InstanceError, match=r"limits\.stop = 3: must be a function"):
        Limits(stop=3)  # type: ignore[arg-type]


def test_seconds_beyond_the_largest_double_are_refused() -> None:
    with pytest.raises(InstanceError, match="must be finite seconds"):
        Limits(time_s=10**400)
