"""Ctrl-C and SIGTERM for verbs whose methods look at `Limits.stop`: the first asks for an end, the second makes it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from moeopt.limits import Limits


@contextmanager
def stopping(limits: Limits) -> Iterator[Limits]:
    """The limits of a solve that the first interrupt ends with the best plan so far; a second one claims nothing.

    >>> import os
    >>> with stopping(Limits()) as limits:
    ...     os.kill(os.getpid(), signal.SIGINT)
    ...     limits.stop()
    True
    """
    if threading.current_thread() is not threading.main_thread():  # Python hands signals to that one alone
        yield limits
        return
    asked = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    kept = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield replace(limits, stop=asked.is_set)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
