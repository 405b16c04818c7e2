"""Tasks through executors: the same answers, and nothing lost with a worker."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.executors import Lost, make_executor, run_all, spoken


def square(value: int) -> int:
    return value * value


def die_once(task: tuple[str, int]) -> int:
    """Kills its process the first time that place 3 is run."""
    folder, value = task
    flag = Path(folder) / "died"
    if value == 3 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value * value


def die_always(value: int) -> int:
    if value == 3:
        os._exit(1)
    return value * value


def fails(value: int) -> int:
    raise ZeroDivisionError(value)


class Brittle(Executor):
    """Runs tasks at once, and breaks for good at its n-th; as a process pool does, but in no time."""

    def __init__(self, lives: list[int], poison: set[int]) -> None:
        self.left, self.poison, self.broken = lives.pop() if lives else 10**9, poison, False

    def submit(self, function: Any, /, *args: Any, **named: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor("broken before")
        future: Future[Any] = Future()
        self.left -= 1
        if self.left < 0 or args[0] in self.poison:
            self.broken = True
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(function(*args))
        return future


@given(
    tasks=st.lists(st.integers(0, 30), max_size=20, unique=True),
    lives=st.lists(st.integers(0, 5), max_size=6),
    poison=st.sets(st.integers(0, 30), max_size=4),
)
def test_every_task_comes_back_once_whatever_breaks(tasks: list[int], lives: list[int], poison: set[int]) -> None:
    deaths = list(lives)
    found = list(run_all(square, tasks, lambda: Brittle(deaths, poison)))
    assert sorted(place for place, _ in found) == list(range(len(tasks)))
    for place, result in found:
        if isinstance(result, Lost):
            assert tasks[place] in poison or lives  # only what broke a pool alone
        else:
            assert result == tasks[place] ** 2 and tasks[place] not in poison
    if not lives:
        assert {tasks[place] for place, one in found if isinstance(one, Lost)} == poison & set(tasks)


@pytest.mark.parametrize("words", ["serial", "threads:3", "processes:2"])
def test_the_same_answers_as_one_by_one(words: str) -> None:
    assert dict(run_all(square, range(100), make_executor(words))) == {place: place**2 for place in range(100)}


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
def test_a_worker_that_is_killed_on_the_way_loses_nothing(tmp_path: Path) -> None:
    tasks = [(str(tmp_path), value) for value in range(8)]
    assert dict(run_all(die_once, tasks, make_executor("processes:2"))) == {place: place**2 for place in range(8)}


def test_the_task_that_kills_its_worker_is_named_and_the_others_are_done() -> None:
    found = dict(run_all(die_always, range(5), make_executor("processes:2")))
    assert isinstance(found.pop(3), Lost)
    assert found == {place: place**2 for place in (0, 1, 2, 4)}


def test_a_ready_executor_stays_open_and_says_when_it_is_broken() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert sorted(run_all(square, [2, 3], pool)) == [(0, 4), (1, 9)]
        assert pool.submit(square, 4).result() == 16
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as broken, pytest.raises(BrokenExecutor):
        list(run_all(die_always, [3, 4], broken))


@pytest.mark.parametrize("words", ["serial", "threads:1", "processes:1"])
def test_what_a_function_raises_is_raised_here(words: str) -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_all(fails, [1, 2], make_executor(words)))


@pytest.mark.parametrize("words", ["", "processes:0", "processes:-1", "threads:x", "threads:99999", "dask:", "spark:4"])
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(InstanceError, match="executor = "):
        make_executor(words)


def test_no_dask_at_the_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(spoken, "ANSWER_S", 0.5)
    made = make_executor("dask:tcp://127.0.0.1:1")
    assert made is not None
    with pytest.raises(InstanceError, match="cannot be reached"):
        made()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "address", ["host", "foo://host:1", "tls://127.0.0.1:5", "tcp://[::1:5", "inproc://x", "tcp://"]
)
def test_what_is_no_address_of_dask_is_told_and_nothing_else(address: str) -> None:
    """A traceback of the half-made client followed the error, and TLS without keys was called our fault."""
    pytest.importorskip("distributed")
    made = make_executor(f"dask:{address}")
    assert made is not None
    with pytest.raises(InstanceError, match="cannot be reached"):
        made()
    gc.collect()


@pytest.mark.filterwarnings("ignore")  # Dask's own, as its cluster ends
def test_a_dask_cluster_answers_alike_and_loses_nothing_with_a_worker(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    tasks = [(str(tmp_path), value) for value in range(12)]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        found = dict(run_all(die_once, tasks, make_executor(f"dask:{cluster.scheduler_address}")))
    assert (tmp_path / "died").exists()
    assert found == {place: place**2 for place in range(12)}


def test_workers_end_with_a_parent_that_is_killed() -> None:
    """They stayed for ever, each with its memory."""
    script = (
        "import os, time\n"
        "from moeopt.executors.spoken import make_executor\n"
        "if __name__ == '__main__':\n"
        "    executor = make_executor('processes:1')()\n"
        "    print(executor.submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its parent by ten seconds")


@pytest.mark.parametrize("given", ["process:2", 5, object()])
def test_what_is_no_executor_is_refused_by_name(given: Any) -> None:
    with pytest.raises(InstanceError, match=r"executor = .*: (must be|is none of) "):
        dict(run_all(str.upper, ["a"], given))
