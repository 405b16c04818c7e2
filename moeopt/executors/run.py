"""Tasks through an executor: results as they come, and none lost with a worker that dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from moeopt.errors import InstanceError, Violation, shortened
from moeopt.executors.spoken import Given, made_of

TaskT = TypeVar("TaskT")
DoneT = TypeVar("DoneT")

IN_FLIGHT = 64
"""Tasks handed over and not yet done, at most: a grid of millions is not pickled at once."""
LOST_BY_DASK = "KilledWorker"
"""What Dask raises for a task that took several workers with it; it has tried again by itself."""


@dataclass(frozen=True)
class Lost:
    """In place of a result: the task ended its worker, with nothing else at work."""

    reason: str


def run_all(
    function: Callable[[TaskT], DoneT],
    tasks: Sequence[TaskT],
    executor: Given | Pools = None,
) -> Generator[tuple[int, DoneT | Lost], None, None]:
    """The place of each task and what the function made of it, as they are done; without an executor one by one.

    Parameters
    ----------
    function, tasks
        For workers that are processes both must be picklable: a function of a module, plain data.
    executor
        One of ``concurrent.futures`` (a Dask client's ``get_executor()`` too), which stays open; or a function that
        makes one, and is asked for another when its workers die, or the words that `make_executor` makes it of, such
        as ``"processes:2"``; `Pools` keep what was made for the next call.

    Yields
    ------
    (place, result)
        Every task once. When a pool breaks, no one can say which task did it: those that were under way are run again
        one at a time, and the one that breaks the pool alone is given up as `Lost`.

    Raises
    ------
    BrokenExecutor
        An executor that was given ready broke; results so far have been handed out.
    InstanceError
        The executor is none, or what makes one gives none.
    Exception
        Whatever the function raises.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     sorted(run_all(str.upper, ["a", "b"], pool))
    [(0, 'A'), (1, 'B')]
    """
    if not isinstance(executor, Pools):
        executor = made_of(executor)
    if executor is None:
        for place, task in enumerate(tasks):
            yield place, function(task)
        return
    if isinstance(executor, Pools):
        yield from _flown(function, tasks, executor)
        return
    with closing(Pools(executor)) as pools:
        yield from _flown(function, tasks, pools)


class Pools:
    """An executor, made when it is first needed, and another one in its place when it is broken."""

    def __init__(self, given: Executor | Callable[[], Executor]) -> None:
        self._make = None if isinstance(given, Executor) else given
        self._pool = given if isinstance(given, Executor) else None

    @property
    def pool(self) -> Executor:
        """The one to hand tasks to."""
        if self._pool is None:
            self._pool = self._made()
        return self._pool

    def _made(self) -> Executor:
        assert self._make is not None
        pool = self._make()
        if isinstance(pool, Executor):
            return pool
        rule = "must make an executor of concurrent.futures"
        fix = 'Write executor="processes:2", or give a function such as ThreadPoolExecutor'
        raise InstanceError([Violation("executor()", "", shortened(repr(pool)), rule, fix)])

    def renew(self, error: BrokenExecutor) -> None:
        """A fresh one, if we know how to make it."""
        if self._make is None:
            raise error
        self.pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._made()

    def close(self) -> None:
        """Ours is ended, tasks under way with it; one that was given stays."""
        if self._make is None or self._pool is None:
            return
        pool, self._pool = self._pool, None
        workers = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:  # those at work do not look at the queue, and nobody wants their answer
            worker.terminate()


def _flown(
    function: Callable[[TaskT], DoneT], tasks: Sequence[TaskT], pools: Pools
) -> Iterator[tuple[int, DoneT | Lost]]:
    waiting, suspects = deque(range(len(tasks))), deque[int]()
    flying: dict[Future[DoneT], int] = {}
    while waiting or suspects or flying:
        broken: BrokenExecutor | None = None
        back: list[int] = []
        alone = bool(suspects) and not flying
        queue, most = (suspects, 1) if alone else (deque[int](), 0) if suspects else (waiting, IN_FLIGHT)
        while queue and len(flying) < most:
            place = queue.popleft()
            try:
                flying[pools.pool.submit(function, tasks[place])] = place
            except BrokenExecutor as error:
                broken = error
                queue.appendleft(place)
                break
        done = wait(flying, return_when=FIRST_COMPLETED).done if flying else ()
        for future in sorted(done, key=flying.__getitem__):  # a set has them in no order
            place = flying.pop(future)
            try:
                result: Any = future.result()
            except BrokenExecutor as error:
                broken = error
                back.append(place)
            except Exception as error:
                if type(error).__name__ != LOST_BY_DASK:
                    raise
                yield place, Lost(str(error))
            else:
                yield place, result
        if broken is not None:
            back += flying.values()
            flying.clear()
            pools.renew(broken)
            if alone and back:
                yield back[0], Lost(str(broken))
            else:
                suspects.extend(sorted(back))
