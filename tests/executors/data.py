"""Where instances of tests are, and an executor that is as strict as processes and starts none."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

TINY = Path(__file__).resolve().parents[2] / "instances" / "tiny"


class ByPickle(Executor):
    """Does at once what it is sent, and sends it as a process is sent it: pickled there and back."""

    def submit(self, function: Any, /, *args: Any, **named: Any) -> Future[Any]:
        """The answer, or what was raised."""
        future: Future[Any] = Future()
        try:
            sent = pickle.loads(pickle.dumps((function, args, named)))
            future.set_result(pickle.loads(pickle.dumps(sent[0](*sent[1], **sent[2]))))
        except Exception as error:
            future.set_exception(error)
        return future
