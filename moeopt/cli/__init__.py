"""The command line: one file a verb, each a thin layer over the library; `main` runs it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 done; 1 our fault; 2 bad usage or input; 3 infeasible; 4 a limit was hit before any plan; 5 a gate said no;
    130 interrupted without an answer.

    Parameters
    ----------
    args
        Words after the program's name; those of the process by default.
    """
    _open_missing_streams()
    try:
        with _terminated_like_interrupted():
            code = _run(list(sys.argv[1:] if args is None else args))
    except KeyboardInterrupt:  # wherever it strikes, the import of a package included
        print("error: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        with suppress(OSError):
            print(f"error: standard output cannot be written ({error.strerror})", file=sys.stderr)
        code = 2
    if args is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the answer is given: nothing is left to interrupt but the end
    return code


def _open_missing_streams() -> None:
    """A shell may close standard streams (``>&-``): what nobody reads goes nowhere, and nothing comes from nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for the life of the process


def _run(words: list[str]) -> int:
    from moeopt.cli.app import command
    from moeopt.cli.say import close_quietly, complain
    from moeopt.cli.verb import BAD_USAGE, COMMAND
    from moeopt.errors import InstanceError

    token = COMMAND.set(tuple(words))
    try:
        code = command()(args=words, prog_name="moeopt", standalone_mode=False)
    except Exception as error:
        if isinstance(error, InstanceError):  # of words that no verb has seen yet
            for violation in error.violations:
                complain(str(violation))
            return BAD_USAGE
        if type(error).__name__ == "Abort":  # what the parser makes of an interrupt outside a verb
            raise KeyboardInterrupt from error
        message = getattr(error, "format_message", None)  # the parser's own errors, whichever version it comes from
        if message is None:
            raise
        complain(
            f"{message().strip()}{_elsewhere(error)} (moeopt --help, or --help after the verb, shows what there is)"
        )
        return BAD_USAGE
    finally:
        COMMAND.reset(token)
        close_quietly()
    return code if isinstance(code, int) else 0


def _elsewhere(error: Exception) -> str:
    """Which verbs have an option that this one has not."""
    from moeopt.cli.app import VERBS, command_of

    option = getattr(error, "option_name", None)
    if type(error).__name__ not in ("NoSuchOption", "NoSuchOptionError") or not option:
        return ""
    having = [name for name in VERBS if any(option in one.opts for one in command_of(name).params)]
    few = having if len(having) < 4 else [*having[:3], "others"]
    return f" It is an option of moeopt {', '.join(few)}." if having else ""


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM acts as Ctrl-C does, so that a scheduler that ends a job gets the best plan so far."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
