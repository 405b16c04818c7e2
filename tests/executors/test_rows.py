"""Comparisons and replays through executors: the rows of one after the other, whatever happens to a worker."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from moeopt import placement, replay
from moeopt.comparison import NOT_RUN, Comparison
from moeopt.limits import Limits
from moeopt.placement import PlacementInstance
from moeopt.workload import generate_history
from tests.executors.data import ByPickle

INSTANCE = PlacementInstance(np.array([[9, 4, 2, 2, 1, 1], [3, 3, 2, 2, 7, 1]]), gpus=2, slots=8)
METHODS = ["eplb", "lpt", "fold", "search"]


def fails(instance: Any, limits: Limits, seed: int) -> Any:
    raise ValueError("no idea")


def timeless(comparison: Comparison) -> list[Any]:
    rows = [replace(row, result=None) for row in comparison.rows]
    documents = [row.result.to_dict() if row.result is not None else {} for row in comparison.rows]
    for document in documents:
        for clock in ("runtime_s", "incumbents"):
            document.pop(clock, None)
    return [rows, documents, comparison.best, comparison.lower_bound, comparison.not_run]


class Once(ByPickle):
    """Does one task; the second is interrupted, or ends its worker."""

    def __init__(self, then: type[BaseException]) -> None:
        self.then, self.done = then, 0

    def submit(self, function: Any, /, *args: Any, **named: Any) -> Future[Any]:
        self.done += 1
        if self.done == 1:
            return super().submit(function, *args, **named)
        if self.then is KeyboardInterrupt:
            raise KeyboardInterrupt
        future: Future[Any] = Future()
        future.set_exception(self.then("gone"))
        return future


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement.PROBLEM, "methods", dict(placement.PROBLEM.methods))


def test_methods_beside_each_other_end_in_the_same_rows() -> None:
    names = [*METHODS, f"{__name__}:fails"]
    plans = {"mine": [[0, 1, 2, 3, 4, 5, 0, 1]] * 2, "bad": [[0] * 8] * 2}
    alone = placement.compare(INSTANCE, names, plans=plans)
    heard: list[Any] = []
    spread = placement.compare(INSTANCE, names, plans=plans, executor=ByPickle(), on_progress=heard.append)
    assert timeless(alone) == timeless(spread)
    assert [(one.done, one.total) for one in heard] == [(done, 5) for done in range(1, 6)]
    error = next(row.error for row in spread.rows if row.method.endswith(":fails"))
    assert "ValueError: no idea" in str(error) and "test_rows.py" in str(error)  # for --debug


def test_an_interrupt_keeps_the_rows_so_far() -> None:
    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    found = placement.compare(INSTANCE, METHODS, plans={"mine": [[0] * 8] * 2}, executor=ByPickle(), on_progress=stop)
    assert found.interrupted and sum(row.result is not None for row in found.rows) == 1
    assert found.not_run == tuple(row.method for row in found.rows if row.result is None)
    with pytest.raises(KeyboardInterrupt):
        placement.compare(INSTANCE, METHODS, executor=Once(KeyboardInterrupt))


def test_a_method_that_ends_its_worker_is_a_row_that_says_so() -> None:
    pools = iter([Once(BrokenExecutor), ByPickle(), Once(BrokenExecutor), Once(BrokenExecutor), ByPickle()])
    found = placement.compare(INSTANCE, ["eplb", "lpt", "search"], executor=lambda: next(pools))
    assert all(row.result is not None or "ended its worker" in row.reason for row in found.rows)
    assert found.rows[0].result is not None and NOT_RUN not in [row.reason for row in found.rows]


@pytest.mark.parametrize("limits", [Limits(iterations=1), Limits(iterations=1, stop=lambda: False)])
def test_a_replay_is_the_same_beside_each_other(limits: Limits) -> None:
    table = generate_history("walk", windows=4, layers=2, experts=8, top_k=2, tokens=400, drift=0.4)
    history = PlacementInstance(table.windows, gpus=3, slots=12)
    names = ["keep", "eplb", "search@2", f"{__name__}:fails"]

    def document(**how: Any) -> dict[str, Any]:
        return timed_out(replay.replay(history, names, first="lpt", limits=limits, **how).to_dict())

    assert document() == document(executor=ByPickle) == document(executor=ByPickle())


def timed_out(document: Any) -> Any:
    """Without what a clock says."""
    if isinstance(document, dict):
        return {key: timed_out(value) for key, value in document.items() if key != "runtime_s"}
    return [timed_out(one) for one in document] if isinstance(document, list) else document
