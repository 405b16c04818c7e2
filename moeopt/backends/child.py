"""The other end of `Worker`: ``python -m moeopt.backends.child FOLDER`` solves what comes down its standard input."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from typing import IO, Any

from moeopt.backends.base import Claim
from moeopt.backends.worker import Request, read_message, write_message
from moeopt.errors import MoeoptError
from moeopt.limits import Deadline


def main() -> None:
    """Serve until the parent closes the pipe; standard output is taken away before any solver can write to it."""
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    tempfile.tempdir = folder = sys.argv[1]
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests, folder), daemon=True).start()
    write_message(out, ("ready", None))
    while True:
        request, time_s = requests.get()
        write_message(out, _answer(request, Deadline(time_s), out))


def _answer(request: Request, deadline: Deadline, out: IO[bytes]) -> tuple[str, Any]:
    try:
        claim = request.run(deadline, lambda values, bound: write_message(out, ("incumbent", (values, bound))))
        return "claim", claim
    except MoeoptError as error:
        return "refusal", error
    except MemoryError:
        return "claim", Claim(outcome="failed", notes=("the solver ran out of memory",))
    except Exception:
        return "bug", traceback.format_exc()


def _listen(pipe: IO[bytes], requests: queue.SimpleQueue[Any], folder: str) -> None:
    """Take requests; once the parent is gone, even in the middle of a solve, end this process and all it started."""
    while (message := read_message(pipe)) is not None:
        requests.put(message)
    shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
