"""The child process: deadlines, deaths, interrupts, and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from moeopt.backends import BACKENDS, Backend, Worker, available_backends, solve_model
from moeopt.errors import MoeoptError
from moeopt.limits import Limits
from moeopt.result import Status, Stop

from .conftest import dense, knapsack

ROOT = Path(__file__).parents[2]
NAMES = available_backends()
EASY = dense([1, 1], [[1, 1]], 0, 3, 5.0, offset=2.0)


@pytest.fixture(autouse=True)
def _rude(monkeypatch):
    monkeypatch.setitem(BACKENDS, "rude", Backend("rude", "tests.backends.rude", "none", ""))
    monkeypatch.syspath_prepend(str(ROOT))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def gone(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("name", NAMES)
def test_deadline_holds_start_of_the_child_included(name, hard):
    begin = time.perf_counter()
    answer = solve_model(hard, backend=name, limits=Limits(time_s=0.5))
    assert time.perf_counter() - begin < 3.0
    assert answer.stop is Stop.TIME and answer.status is not Status.OPTIMAL


def test_child_that_hangs_is_killed_with_its_children_and_its_best_is_kept(tmp_path, monkeypatch):
    pids, scratch = tmp_path / "pids", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with Worker() as worker:
        solve_model(EASY, backend="rude", options={"how": "fine"}, worker=worker)
        begin = time.perf_counter()
        options = {"how": "hang", "pids": str(pids)}
        answer = solve_model(EASY, backend="rude", limits=Limits(time_s=0.5), options=options, worker=worker)
        assert 0.45 < time.perf_counter() - begin < 2.0
        assert worker.pid is None
    assert (answer.status, answer.stop) == (Status.FEASIBLE, Stop.TIME)
    assert answer.values.tolist() == [0.0, 0.0] and (answer.objective, answer.bound) == (2.0, 0.5)
    assert any("ended by force" in note for note in answer.notes)
    assert list(scratch.iterdir()) == []
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_worker_survives_many_models_and_is_gone_afterwards():
    with Worker() as worker:
        answers = [solve_model(knapsack(seed), worker=worker) for seed in range(20)]
        pid = worker.pid
        assert pid is not None and alive(pid)
    assert gone(pid)
    assert all(answer.status is Status.OPTIMAL for answer in answers)
    oracle = [solve_model(knapsack(seed), backend="scipy", in_process=True).objective for seed in range(20)]
    assert [answer.objective for answer in answers] == oracle


@pytest.mark.parametrize(("how", "text"), [("exit", "exit code 3"), ("crash", "signal 11")])
def test_death_of_the_child_is_reported_and_the_next_model_is_solved(how, text):
    with Worker() as worker:
        answer = solve_model(EASY, backend="rude", options={"how": how}, worker=worker)
        assert any(text in note for note in answer.notes)
        assert answer.status is (Status.UNKNOWN if how == "exit" else Status.FEASIBLE)
        assert solve_model(EASY, worker=worker).status is Status.OPTIMAL


def test_bug_in_the_child_is_raised_with_its_traceback():
    with Worker() as worker, pytest.raises(MoeoptError, match="a slip"):
        solve_model(EASY, backend="rude", options={"how": "bug"}, worker=worker)


def test_values_that_break_a_row_are_no_solution():
    model = dense([1, 1], [[1, 1]], 1, 3, 5.0)
    answer = solve_model(model, backend="rude", options={"how": "zeros"})
    assert (answer.status, answer.values) == (Status.UNKNOWN, None)
    assert any("refused: row r0 is 0, outside 1..3" in note for note in answer.notes)


def test_claim_of_optimality_needs_a_bound_that_meets_the_objective():
    answer = solve_model(EASY, backend="rude", options={"how": "liar", "bound": 3.9})
    assert answer.status is Status.FEASIBLE and any("no proof" in note for note in answer.notes)
    answer = solve_model(EASY, backend="rude", options={"how": "liar", "bound": 4.1})
    assert answer.status is Status.FEASIBLE and answer.bound is None
    answer = solve_model(EASY, backend="rude", options={"how": "liar", "bound": 4.0000001})
    assert (answer.status, answer.objective, answer.bound) == (Status.OPTIMAL, 4.0, 4.0)


def test_wrong_claim_of_infeasibility_yields_to_a_feasible_start():
    answer = solve_model(EASY, backend="rude", options={"how": "infeasible"}, start=[1, 1])
    assert (answer.status, answer.objective) == (Status.FEASIBLE, 4.0)
    assert any("says infeasible, yet the given start is feasible" in note for note in answer.notes)
    assert solve_model(EASY, backend="rude", options={"how": "infeasible"}).status is Status.INFEASIBLE


def test_forgotten_worker_ends_its_child():
    worker = Worker()
    solve_model(EASY, worker=worker)
    pid = worker.pid
    del worker
    gc.collect()
    assert gone(pid)


def test_child_ends_when_the_parent_is_killed(tmp_path):
    script = (
        "import sys; from moeopt.backends import *; from tests.backends.test_worker import EASY, Backend\n"
        "BACKENDS['rude'] = Backend('rude', 'tests.backends.rude', '', '')\n"
        f"solve_model(EASY, backend='rude', options={{'how': 'hang', 'pids': {str(tmp_path / 'pids')!r}}})\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "TMPDIR": str(scratch)})
    _wait_for(tmp_path / "pids")
    parent.kill()
    parent.wait()
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert list(scratch.iterdir()) == []


def test_interrupt_brings_back_the_best_so_far(tmp_path):
    script = (
        "import sys; from moeopt.backends import *; from tests.backends.test_worker import EASY, Backend\n"
        "BACKENDS['rude'] = Backend('rude', 'tests.backends.rude', '', '')\n"
        f"options = {{'how': 'hang', 'pids': {str(tmp_path / 'pids')!r}}}\n"
        "answer = solve_model(EASY, backend='rude', options=options)\n"
        "print(answer.status, answer.stop, answer.objective)\n"
    )
    command = [sys.executable, "-c", script]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _wait_for(tmp_path / "pids")
    parent.send_signal(signal.SIGINT)
    out, err = parent.communicate(timeout=10)
    assert (out, err) == ("FEASIBLE INTERRUPTED 2.0\n", "")
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_highs_streams_its_incumbents(hard, monkeypatch):
    pytest.importorskip("highspy")
    from moeopt.backends.highs import run
    from moeopt.limits import Deadline

    seen: list[tuple[np.ndarray, float | None]] = []
    run(
        hard,
        deadline=Deadline(None),
        limits=Limits(nodes=200),
        seed=0,
        start=None,
        floor=None,
        options={},
        on_incumbent=lambda *pair: seen.append(pair),
    )
    values = [hard.objective_of(values) for values, _ in seen]
    assert len(values) >= 2 and values == sorted(values, reverse=True)
    assert all(bound is None or bound <= values[-1] + 1e-6 for _, bound in seen)


def test_threads_with_a_worker_each_solve_side_by_side():
    found: dict[int, float] = {}

    def solve(seed: int) -> None:
        with Worker() as worker:
            found[seed] = sum(solve_model(knapsack(k), worker=worker).objective for k in range(seed, seed + 3))

    threads = [threading.Thread(target=solve, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [solve_model(knapsack(seed), backend="scipy", in_process=True).objective for seed in range(4)]
    assert found == {0: sum(expected[0:3]), 1: sum(expected[1:4])}


def test_no_file_is_left_behind(tmp_path, monkeypatch, hard):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        solve_model(hard, backend=name, limits=Limits(nodes=2))
        solve_model(hard, backend=name, limits=Limits(nodes=2), in_process=True)
    assert list(tmp_path.iterdir()) == []


def _wait_for(path: Path) -> None:
    for _ in range(500):
        if path.exists() and len(path.read_text().split()) == 2:
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never came")


def test_a_stop_hook_ends_the_child_long_before_the_limit(hard):
    event = threading.Event()
    threading.Timer(0.5, event.set).start()
    answer = solve_model(hard, limits=Limits(stop=event.is_set, time_s=60))
    assert answer.stop is Stop.INTERRUPTED
