"""Executors by the words of the command line: ``processes:4``, ``threads:4``, ``dask:tcp://host:8786``."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from moeopt.documents import current_folder
from moeopt.errors import InstanceError, Violation, Violations, did_you_mean, shortened

WORKERS_MAX = 4096
ANSWER_S = 10
"""A scheduler that has not answered by then is not there."""


Given = Executor | Callable[[], Executor] | str | None
"""What an argument `executor` may be."""


@dataclass(frozen=True)
class Maker:
    """Makes an executor, and knows the words that it is called by."""

    words: str
    make: Callable[[], Executor] = field(compare=False, repr=False)

    def __call__(self) -> Executor:
        """A new one."""
        return self.make()


def make_executor(words: str) -> Maker | None:
    """What makes an executor of that kind; ``None`` for ``serial``, one task after the other.

    Parameters
    ----------
    words
        ``serial``; ``processes:N`` or ``threads:N``, without N as many as this machine has processors; ``dask:ADDRESS``
        of a scheduler, whose workers must have the same version of moeopt.

    Raises
    ------
    InstanceError
        No such kind, no such number; Dask is not installed or does not answer at that address.

    >>> make_executor("serial") is None, make_executor("threads:2")()._max_workers
    (True, 2)
    >>> make_executor("proceses:4")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: executor = proceses:4: is none of serial, processes:N, threads:N, dask:ADDRESS. Did you mean processes:4?
    """  # noqa: E501
    if not isinstance(words, str):
        rule = "must be words: serial, processes:N, threads:N or dask:ADDRESS"
        raise InstanceError([Violation("executor", "", shortened(repr(words)), rule, 'Write "processes:2"')])
    kind, _, rest = words.partition(":")
    if words == "serial":
        return None
    if kind == "dask" and rest:
        return Maker(words, partial(_dask, rest))
    check = Violations()
    if kind not in ("processes", "threads"):
        known = [f"processes:{rest or 4}", f"threads:{rest or 4}", f"dask:{rest or 'ADDRESS'}"]
        fix = did_you_mean(words, known, "Use one of these", most=1)
        rule = "is none of serial, processes:N, threads:N, dask:ADDRESS"
        check.add("executor", words, rule=rule, fix=fix)
    elif rest and not (rest.isascii() and rest.isdigit() and 1 <= int(rest) <= WORKERS_MAX):
        rule = f"must have a whole number of workers in [1, {WORKERS_MAX:,}]"
        check.add("executor", words, rule=rule, fix=f"Use {kind}:{os.cpu_count() or 1}")
    check.raise_if_any()
    workers = int(rest) if rest else os.cpu_count() or 1
    return Maker(words, partial(_processes if kind == "processes" else _threads, workers))


def made_of(executor: Given) -> Executor | Callable[[], Executor] | None:
    """An `executor` argument as it is worked with: words are made a `Maker`, and ``serial`` is none.

    Raises
    ------
    InstanceError
        Wrong words, or neither words nor an executor nor a function.

    >>> made_of("threads:2"), made_of("serial")
    (Maker(words='threads:2'), None)
    """
    if isinstance(executor, str):
        return make_executor(executor)
    if executor is None or isinstance(executor, Executor) or callable(executor):
        return executor
    rule = "must be an executor of concurrent.futures, a function that makes one, or its words"
    fix = 'Write "processes:2", which is moeopt.executors.make_executor("processes:2")'
    raise InstanceError([Violation("executor", "", shortened(repr(executor)), rule, fix)])


def _threads(workers: int) -> Executor:
    return ThreadPoolExecutor(workers)


def _processes(workers: int) -> Executor:
    from multiprocessing import get_context

    if current_folder() is None:  # each begins where we are
        rule, fix = "cannot be started, as the current folder was deleted", "Go to one that exists: cd"
        raise InstanceError([Violation("executor", "", f"processes:{workers}", rule, fix)])
    # Spawned, so that no thread or lock of ours is copied; the same on every system.
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_quiet)


def _quiet() -> None:
    """Ctrl-C reaches the whole group; workers leave it to their parent, which ends them, by its own death too."""
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    """A parent that was killed tells its workers nothing, and they would wait for tasks for ever."""
    parent.join()
    os._exit(1)


def _dask(address: str) -> Executor:
    distributed: Any
    try:
        import distributed
    except ImportError:
        fix = "Install it: pip install 'moeopt[dask]'"
        raise InstanceError(
            [Violation("executor", "", f"dask:{address}", "needs Dask, which is missing", fix)]
        ) from None
    client: Any = distributed.Client.__new__(distributed.Client)
    try:
        client.__init__(address, timeout=ANSWER_S, set_as_default=False)
    except Exception as error:  # whatever Dask says to an address; TLS without its keys is a TypeError
        client.status = "closed"  # half made: its own end would fail aloud
        reason = str(error).split("\n")[0] or "nothing answers"
        fix = "Start it with dask scheduler, or use processes"
        rule = f"cannot be reached ({reason})"
        raise InstanceError([Violation("executor", "", f"dask:{address}", rule, fix)]) from None
    found: Executor = client.get_executor()
    return _Closing(found, client)


class _Closing(Executor):
    """A Dask executor that closes its client with itself."""

    def __init__(self, inner: Executor, client: Any) -> None:
        self._inner, self._client = inner, client

    def submit(self, function: Any, /, *args: Any, **named: Any) -> Any:
        """As the executor inside."""
        return self._inner.submit(function, *args, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Both."""
        self._inner.shutdown(wait=wait)
        self._client.close()
