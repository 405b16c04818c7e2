"""Whatever comes in, a map goes out, and one line says why."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest

from moeopt.engines import eplb
from moeopt.engines.policies import guard
from moeopt.engines.policies.planning import TimeIsUp

LOADS = np.array([[8.0, 4.0, 2.0, 2.0], [1.0, 5.0, 3.0, 2.0]])
RUNNING = np.array([[3, 2, 1, 0, 2, 3], [0, 1, 2, 3, 0, 1]])
START = [[0, 1, 2, 3, 0, 1]] * 2


def spoilt(value: float) -> Any:
    loads = LOADS.copy()
    loads[1, 2] = value
    return loads


BAD: dict[str, tuple[Any, str]] = {
    "nan": (spoilt(np.nan), "1 load is NaN, in layer 1, expert 2"),
    "inf": (spoilt(np.inf), "1 load is infinite, in layer 1, expert 2"),
    "negative": (spoilt(-1), "1 load is negative, in layer 1, expert 2"),
    "text": (np.array([["a"] * 4] * 2), "not numbers"),
    "complex": (LOADS.astype(complex), "not numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_loads_give_the_running_map_back(name: str, caplog: pytest.LogCaptureFixture) -> None:
    loads, reason = BAD[name]
    with caplog.at_level(logging.INFO, "moeopt.engines"):
        held, lists, counts = eplb.rebalance_experts(loads, 6, 1, 1, 2, current=RUNNING)
    assert (held == RUNNING).all() and held.dtype == np.int64
    assert lists.shape == (2, 4, 2) and counts.sum(axis=1).tolist() == [6, 6]
    assert len(caplog.records) == 1
    assert "kept what runs" in caplog.text and reason in caplog.text


@pytest.mark.parametrize("name", BAD)
def test_bad_loads_give_the_start_up_map_where_nothing_runs(name: str) -> None:
    assert eplb.rebalance_experts(BAD[name][0], 6, 1, 1, 2)[0].tolist() == START


def test_loads_of_zero_keep_what_runs_and_else_spread_the_spares(caplog: pytest.LogCaptureFixture) -> None:
    zero = np.zeros((2, 4))
    with caplog.at_level(logging.INFO, "moeopt.engines"):
        assert (eplb.rebalance_experts(zero, 6, 1, 1, 2, current=RUNNING)[0] == RUNNING).all()
    assert "kept what runs: there were no loads" in caplog.text and "imbalance" not in caplog.text
    assert eplb.rebalance_experts(zero, 6, 1, 1, 2)[0].tolist() == START
    nodes = eplb.rebalance_experts(np.zeros((1, 8)), 12, 4, 2, 4)[0]
    assert nodes.tolist() == [[0, 1, 2, 3, 0, 1, 4, 5, 6, 7, 4, 5]]


def test_idle_layers_stay_beside_busy_ones() -> None:
    loads = np.array([[0, 0, 0, 0], [8, 4, 2, 2]])
    held = eplb.rebalance_experts(loads, 6, 1, 1, 2, current=RUNNING)[0]
    assert (held[0] == RUNNING[0]).all()
    assert sorted(set(held[1].tolist())) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ((LOADS, 7, 1, 1, 2), [[0, 1, 2, 3, 0, 1, 2]] * 2),  # slots do not divide
        ((LOADS, 2, 1, 1, 2), [[0, 1]] * 2),  # too few slots
        ((LOADS, 10, 1, 1, 2), [[0, 1, 2, 3] * 2 + [0, 1]] * 2),  # more slots a GPU than experts
        ((LOADS, 6, 1, 1, 0), START),  # no GPUs
        ((LOADS, 6, 1, 1, None), START),
        ((LOADS[0], 6, 1, 1, 2), START[:1]),  # one axis
        (("loads", 6, 1, 1, 2), None),
        (([[1, 2], [3]], 6, 1, 1, 2), None),  # ragged
        ((None, 6, 1, 1, 2), None),
        ((LOADS, "six", 1, 1, 2), [[], []]),
    ],
)
def test_shapes_that_cannot_be_get_experts_in_order(call: Any, expected: Any) -> None:
    held = eplb.rebalance_experts(*call)[0]
    assert held.dtype == np.int64
    assert expected is None or held.tolist() == expected
    running = eplb.rebalance_experts(*call, current=RUNNING)[0]
    if held.shape == RUNNING.shape:
        assert (running == RUNNING).all()


@pytest.mark.parametrize("groups", [0, None, 1, 3, 5])
def test_groups_that_do_not_divide_are_planned_flat(groups: Any, caplog: pytest.LogCaptureFixture) -> None:
    loads = np.arange(1, 9)[None, :]
    with caplog.at_level(logging.INFO, "moeopt.engines"):
        held = eplb.rebalance_experts(loads, 12, groups, 2, 4)[0]
    assert sorted(set(held[0].tolist())) == list(range(8))
    assert ("flat:" in caplog.text) == (groups in (3, 5))


@pytest.mark.parametrize(
    "running", [RUNNING[:1], RUNNING[:, :5], [[9] * 6] * 2, [[-1] * 6] * 2, "map", RUNNING.astype(float), [[1], [2, 3]]]
)
def test_a_running_map_of_another_kind_does_no_harm(running: Any) -> None:
    held = eplb.rebalance_experts(LOADS, 6, 1, 1, 2, current=running)[0]
    assert held.shape == (2, 6)
    assert all(set(row) == {0, 1, 2, 3} for row in held.tolist())


def test_our_own_bug_gives_the_running_map_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(guard, "with_idle_layers", broken)
    assert (eplb.rebalance_experts(LOADS, 6, 1, 1, 2, current=RUNNING)[0] == RUNNING).all()
    assert "kept what runs: ZeroDivisionError: oops" in caplog.text


def test_the_time_limit_gives_the_running_map_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def late(*_: Any) -> Any:
        raise TimeIsUp

    monkeypatch.setattr(guard, "with_idle_layers", late)
    assert (eplb.rebalance_experts(LOADS, 6, 1, 1, 2, current=RUNNING)[0] == RUNNING).all()
    assert "kept what runs: 1 s were up" in caplog.text


def test_no_time_at_all_keeps_what_runs_and_else_gives_the_rule() -> None:
    at_once = eplb.configure(time_limit_s=1e-9)
    held = at_once(LOADS, 6, 1, 1, 2)[0]
    assert all(len(set(gpu)) == 3 for gpu in held.reshape(-1, 3).tolist())
    assert (at_once(LOADS, 6, 1, 1, 2, current=RUNNING)[0] == RUNNING).all()
    double = np.array([[0, 1, 2, 3, 2, 3], [0, 1, 2, 3, 2, 3]])
    held = at_once(LOADS, 6, 1, 1, 2, current=double)[0]
    assert (held != double).sum() == 2
    assert all(len(set(gpu)) == 3 for gpu in held.reshape(-1, 3).tolist())


def test_a_broken_logger_costs_no_map() -> None:
    class Broken(logging.Logger):
        def _log(self, *_: Any, **__: Any) -> None:
            raise OSError("disk full")

    held = eplb.configure(logger=Broken("broken", logging.INFO))(LOADS, 6, 1, 1, 2)[0]
    assert held.shape == (2, 6)


def test_every_call_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mine")
    with caplog.at_level(logging.INFO, "mine"):
        eplb.configure(logger=logger)(LOADS, 6, 1, 1, 2, current=RUNNING)
    assert [record.name for record in caplog.records] == ["mine"]
    for word in ("imbalance", "->", "bound", "moves", "ms"):
        assert word in caplog.text


def test_agree_is_called_once_whatever_happens_and_its_map_counts() -> None:
    calls: list[Any] = []
    first = np.array([[1, 0, 2, 3, 0, 1]] * 2)

    def agree(held: Any) -> Any:
        calls.append(held)
        return first

    plan = eplb.configure(agree=agree)
    for loads in (LOADS, spoilt(np.nan)):
        assert (plan(loads, 6, 1, 1, 2)[0] == first).all()
    assert len(calls) == 2


@pytest.mark.parametrize("wrong", [lambda held: held[:1], lambda held: 1 / 0, lambda held: None])
def test_an_agree_that_fails_leaves_our_map(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    held = eplb.configure(agree=wrong)(LOADS, 6, 1, 1, 2)[0]
    assert held.shape == (2, 6)
    assert "agree failed, ranks may differ" in caplog.text


def test_threads_find_the_same_map() -> None:
    loads = np.random.default_rng(0).lognormal(0, 1, (2, 32))
    plan = eplb.configure(time_limit_s=60.0)
    expected, found = plan(loads, 40, 1, 1, 8)[0], []
    threads = [threading.Thread(target=lambda: found.append(plan(loads, 40, 1, 1, 8)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all((one == expected).all() for one in found)


def test_memory_stays_flat() -> None:
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    plan = eplb.configure(logger=logging.getLogger("quiet"))
    held = np.tile(np.arange(40) % 32, (2, 1))
    for turn in range(200):
        held = plan(rng.integers(1, 9, (2, 32)), 40, 1, 1, 8, current=held)[0]
        if turn == 60:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 5_000  # kB
