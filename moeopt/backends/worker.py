"""`Worker`: a child process that solves, so that banners, crashes and missed deadlines stay out of ours."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from moeopt.backends.base import Claim, FloatArray, LinearModel
from moeopt.backends.registry import Backend, OnIncumbent
from moeopt.documents import current_folder
from moeopt.errors import BackendUnavailable, MoeoptError
from moeopt.limits import Deadline, Limits
from moeopt.result import Stop

LENGTH = struct.Struct("<Q")
LATE: tuple[str, Any] = ("late", None)
LOOK_S = 0.05
"""Seconds between looks at whether somebody wants the solve to end."""


@dataclass(frozen=True, eq=False)
class Request:
    """One model to solve, as it crosses to the child."""

    backend: Backend
    model: LinearModel
    limits: Limits
    seed: int
    start: FloatArray | None
    floor: float | None
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, deadline: Deadline, on_incumbent: OnIncumbent | None = None) -> Claim:
        """Solve in this process."""
        return self.backend.run()(
            self.model,
            deadline=deadline,
            limits=self.limits,
            seed=self.seed,
            start=self.start,
            floor=self.floor,
            options=self.options,
            on_incumbent=on_incumbent,
        )


class Worker:
    """A child process for MILPs, started by the first one and used for all that follow.

    The child is killed, with whatever it started, when a deadline passes, on any exception, when the ``with`` block
    ends and when the interpreter exits; the next model starts a new one. Each thread should have its own: one worker
    solves one model at a time.

    >>> with Worker() as worker:
    ...     worker.pid is None  # nothing runs before there is something to do
    True
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._ready = False
        self._finalizer: weakref.finalize[Any, Worker] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id of the child; ``None`` while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child, where none runs, and do not wait for it: models of a moment later find it ready."""
        with self._lock:
            if self._process is None:
                self._start()

    def close(self) -> None:
        """End the child; a later `run` starts another."""
        if self._finalizer is not None:
            self._finalizer()
        self._process, self._finalizer, self._ready = None, None, False

    def run(self, request: Request, deadline: Deadline) -> Claim:
        """Solve one model, ended by force a little after `deadline`.

        An interrupt (``KeyboardInterrupt``) ends the search and is reported as stop INTERRUPTED.
        """
        with self._lock:
            best: list[tuple[FloatArray, float | None]] = []
            try:
                return self._run(request, deadline, best)
            except KeyboardInterrupt:
                self._end_and_drain(best)
                return _cut_short(best, Stop.INTERRUPTED, "interrupted: the solver was ended")
            except MoeoptError:
                raise  # a clean refusal by the child, which lives on
            except BaseException:
                self.close()
                raise

    def _run(self, request: Request, deadline: Deadline, best: list[tuple[FloatArray, float | None]]) -> Claim:
        if self._process is None:
            self._start()
        if not self._ready:
            message = self._await(deadline, 0.0)
            if message is LATE:
                return _cut_short(best, *_why(deadline, "before the solver's process had started"))
            if message is None:
                return self._died(best)
            self._ready = True
        remaining_s = deadline.remaining_s()
        if remaining_s <= 0:
            return _cut_short(best, *_why(deadline, "before the solver had begun"))
        spare_s = min(0.05 * remaining_s, 0.1)  # for the way back
        grace_s = 0.8 * max(0.1, 0.1 * (deadline.elapsed_s() + remaining_s))
        if not self._send((request, remaining_s - spare_s if deadline.limited else None)):
            return self._died(best)
        while True:
            message = self._await(deadline, grace_s)
            if message is LATE and deadline.stopped():
                self._end_and_drain(best)
                return _cut_short(best, Stop.INTERRUPTED, "interrupted: the solver was ended")
            if message is LATE:
                self._end_and_drain(best)
                return _cut_short(best, Stop.TIME, "the solver overran its time limit and was ended by force")
            if message is None:
                return self._died(best)
            kind, content = message
            if kind == "incumbent":
                best[:] = [content]
            elif kind == "claim":
                claim: Claim = content
                return claim
            elif kind == "refusal":
                raise content
            else:
                self.close()
                raise MoeoptError(
                    f"back end {request.backend.name} failed in its process, please report it:\n{content}"
                )

    def _end_and_drain(self, best: list[tuple[FloatArray, float | None]]) -> None:
        """End the child; what it had found and sent by then counts, read or not."""
        self.close()
        while (message := self._receive(1.0)) is not None and message is not LATE:
            if message[0] == "incumbent":
                best[:] = [message[1]]

    def _start(self) -> None:
        if not sys.executable:
            raise BackendUnavailable("no Python executable to start a child process with; use in_process=True")
        path = os.pathsep.join(filter(None, (entry or str(current_folder() or "") for entry in sys.path)))
        folder = tempfile.mkdtemp(prefix="moeopt-")  # ours to remove, for a killed child cannot tidy up
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "moeopt.backends.child", folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._finalizer = weakref.finalize(self, _end, process, folder, os.getpid())
        self._process, self._ready, self._messages = process, False, queue.SimpleQueue()
        threading.Thread(target=_listen, args=(process.stdout, self._messages), daemon=True).start()

    def _send(self, message: Any) -> bool:
        assert self._process is not None and self._process.stdin is not None
        try:
            write_message(self._process.stdin, message)
        except OSError:
            return False
        return True

    def _await(self, deadline: Deadline, grace_s: float) -> tuple[str, Any] | None:
        """Next message, or `LATE` so much after the deadline, and at once where somebody asks for an end."""
        if deadline.watched and not deadline.stopped():
            while (left_s := deadline.remaining_s() + grace_s) > LOOK_S and not deadline.stopped():
                message = self._receive(LOOK_S)
                if message is not LATE:
                    return message
            return LATE if deadline.stopped() else self._receive(left_s)
        return LATE if deadline.stopped() else self._receive(deadline.remaining_s() + grace_s)

    def _receive(self, timeout_s: float) -> tuple[str, Any] | None:
        """Next message, `LATE` if none comes in time, ``None`` once the child is gone."""
        try:
            if timeout_s > threading.TIMEOUT_MAX:
                return self._messages.get()
            return self._messages.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return LATE

    def _died(self, best: list[tuple[FloatArray, float | None]]) -> Claim:
        assert self._process is not None
        process = self._process
        try:
            code = process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        name = f"exit code {code}"
        if code is not None and code < 0:
            name = f"signal {-code} ({signal.strsignal(-code)})"
        return _cut_short(best, Stop.FINISHED, f"the solver's process died ({name})")


def _why(deadline: Deadline, when: str) -> tuple[Stop, str]:
    """Who ended it before anything was found: the clock, or somebody."""
    return (Stop.INTERRUPTED, f"interrupted {when}") if deadline.stopped() else (Stop.TIME, f"time was up {when}")


def _cut_short(best: list[tuple[FloatArray, float | None]], stop: Stop, note: str) -> Claim:
    values, bound = best[-1] if best else (None, None)
    return Claim(outcome="stopped", stop=stop, values=values, bound=bound, notes=(note,))


def _listen(pipe: IO[bytes], messages: queue.SimpleQueue[tuple[str, Any] | None]) -> None:
    """Pass on what the child sends, and ``None`` at the end; knows nothing of the worker, which may be forgotten."""
    try:
        with pipe:
            while (message := read_message(pipe)) is not None:
                messages.put(message)
    finally:
        messages.put(None)


def _end(process: subprocess.Popen[bytes], folder: str, owner: int) -> None:
    """Kill the child and everything it started, and remove its files; a forked copy of us leaves it alone."""
    if os.getpid() != owner:
        return
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the child leads its own session, so its group has its id
        except (ProcessLookupError, PermissionError):
            process.kill()
    else:
        process.kill()
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # what is still buffered has nowhere to go
            process.stdin.close()
    for _ in range(100):  # a solver that is still dying may write once more
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            break
        time.sleep(0.01)


def write_message(pipe: IO[bytes], message: Any) -> None:
    """Write one message: its length, then its pickle."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> Any:
    """Read one message; ``None`` at the end of the pipe."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    data = pipe.read(size)
    return pickle.loads(data) if len(data) == size else None
