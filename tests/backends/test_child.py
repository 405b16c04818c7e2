"""The other end of the worker, run in this process: what it answers, and that it ends with its parent."""

from __future__ import annotations

import io
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from moeopt.backends import BACKENDS, child
from moeopt.backends.base import Claim
from moeopt.backends.worker import Request, read_message, write_message
from moeopt.errors import InstanceError, Violation
from moeopt.limits import Deadline, Limits

from .conftest import dense

EASY = dense([1, 1], [[1, 1]], 1, 3, 5.0, offset=2.0)


def request(run) -> Request:
    return SimpleNamespace(run=run)


def raising(error: BaseException):
    def run(deadline, on_incumbent):
        raise error

    return request(run)


def test_incumbents_come_before_the_claim():
    out = io.BytesIO()

    def run(deadline, on_incumbent):
        on_incumbent([1.0], 0.5)
        return Claim(outcome="optimal")

    kind, claim = child._answer(request(run), Deadline(None), out)
    assert (kind, claim.outcome) == ("claim", "optimal")
    out.seek(0)
    assert read_message(out) == ("incumbent", ([1.0], 0.5)) and read_message(out) is None


def test_refusals_memory_and_faults_are_told_apart():
    refused = InstanceError([Violation("options", "", "1", "is unknown", "Leave it out")])
    assert child._answer(raising(refused), Deadline(None), io.BytesIO()) == ("refusal", refused)
    kind, claim = child._answer(raising(MemoryError()), Deadline(None), io.BytesIO())
    assert (kind, claim.outcome, claim.notes) == ("claim", "failed", ("the solver ran out of memory",))
    kind, text = child._answer(raising(KeyError("a slip")), Deadline(None), io.BytesIO())
    assert kind == "bug" and "KeyError: 'a slip'" in text


@pytest.mark.parametrize("leads", [True, False])
def test_the_end_of_the_pipe_ends_all_and_clears_up(tmp_path: Path, monkeypatch, leads: bool):
    folder, ends = tmp_path / "scratch", []
    folder.mkdir()
    monkeypatch.setattr(os, "getpgid", lambda pid: os.getpid() if leads else -1)
    monkeypatch.setattr(os, "killpg", lambda group, number: ends.append((group, number)))
    monkeypatch.setattr(os, "_exit", lambda code: ends.append(code))
    pipe, requests = io.BytesIO(), child.queue.SimpleQueue()
    write_message(pipe, "one")
    pipe.seek(0)
    child._listen(pipe, requests, str(folder))
    assert requests.get() == "one" and not folder.exists()
    assert ends == ([(0, signal.SIGKILL)] if leads else []) + [0]


class Once(queue.SimpleQueue):
    """A queue whose end is an error in place of waiting for ever."""

    def get(self):
        if self.empty():
            raise EOFError
        return super().get()


class Now(threading.Thread):
    """A thread whose work is done before anything else."""

    def start(self):
        self.run()


def test_it_says_ready_and_answers_one_request_after_the_other(tmp_path: Path, monkeypatch):
    """What solvers print goes nowhere: standard output is taken away before the first one runs."""
    pipe, out, taken = io.BytesIO(), io.BytesIO(), []
    for _ in range(2):
        write_message(pipe, (Request(BACKENDS["highs"], EASY, Limits(), 0, None, None), 60.0))
    pipe.seek(0)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["child", str(tmp_path)])
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=pipe))
        patch.setattr(child.tempfile, "tempdir", None)
        patch.setattr(child.queue, "SimpleQueue", Once)
        patch.setattr(child.threading, "Thread", Now)
        patch.setattr(
            child, "_listen", lambda stream, requests, folder: [requests.put(read_message(stream)) for _ in "ab"]
        )
        patch.setattr(os, "dup", lambda number: number)
        patch.setattr(os, "open", lambda name, how: -1)
        patch.setattr(os, "fdopen", lambda number, how: out)
        patch.setattr(os, "dup2", lambda one, other: taken.append((one, other)))
        with pytest.raises(EOFError):
            child.main()
    out.seek(0)
    said = list(iter(lambda: read_message(out), None))
    assert taken == [(-1, 1)] and said[0] == ("ready", None)
    claims = [what for kind, what in said if kind == "claim"]
    assert [(claim.outcome, claim.bound) for claim in claims] == [("optimal", 3.0)] * 2 and said[-1][1] is claims[-1]
