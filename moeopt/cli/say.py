"""Where words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from moeopt.errors import SHOWN, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from moeopt.registry import Progress

PIPE_WIDTH = 2_000
"""Columns of a line that no terminal cuts: a table in a pipe is neither wrapped nor shortened."""


@dataclass(frozen=True)
class Common:
    """Options of every verb."""

    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No tables, notes or progress; errors, --json and what a gate says remain."),
    ] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="More detail: every layer, every violation.")] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False


class Say:
    """Speaks for a verb, as loudly as its options allow."""

    def __init__(self, common: Common) -> None:
        self.quiet = common.quiet
        self.verbose = common.verbose
        self.debug = common.debug
        self._kept: list[str] = []

    def keep(self, text: str) -> None:
        """A remark that goes into the notes of the result, which prints it."""
        self._kept.append(text)

    def kept(self) -> list[str]:
        """The remarks kept since this was last asked, each once."""
        found, self._kept = list(dict.fromkeys(self._kept)), []
        return found

    def show(self, what: RenderableType) -> None:
        """A table or text for people, on standard output; nothing when quiet."""
        if not self.quiet:
            console = _console(sys.stdout)
            wide = console.options.update(width=PIPE_WIDTH)
            least = console.measure(what, options=wide).maximum - _foldable(what)
            console.width = max(console.width, least)  # rather a line the terminal wraps than digits lost
            with console.capture() as captured:
                console.print(what)
            lines = captured.get().strip("\n").split("\n")
            while lines and not lines[0].strip():
                del lines[0]
            while lines and not lines[-1].strip():
                del lines[-1]
            _write("\n".join(line.rstrip() for line in lines) + "\n")

    def line(self, text: str) -> None:
        """One line on standard output, also when quiet."""
        _write(printable(text) + "\n")

    def content(self, data: bytes) -> None:
        """A whole file on standard output, byte by byte."""
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            _drop_output()

    def document(self, document: Mapping[str, Any]) -> None:
        """One strict JSON object on standard output."""
        from moeopt.documents import to_json

        text = to_json(document) + "\n"
        if not (sys.stdout.encoding or "").lower().startswith("utf"):
            text = "".join(sign if sign < "\x80" else json.dumps(sign)[1:-1] for sign in text)
        _write(text)

    def note(self, text: str) -> None:
        """A remark on standard error; nothing when quiet."""
        if not self.quiet:
            tell(f"note: {text}")

    def refused(self, text: str) -> None:
        """Why a gate says no, on standard error, also when quiet: an exit code alone explains nothing."""
        print(f"note: {text}", file=sys.stderr)

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[Progress], None] | None]:
        """A bar on standard error, on a terminal only."""
        if self.quiet or not sys.stderr.isatty():
            yield None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda step: bar.update(task, completed=step.done, total=step.total)


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "layer"), count(1234, "slot")
    ('1 layer', '1,234 slots')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranges(ids: Sequence[int]) -> str:
    """Ids, runs shortened.

    >>> ranges([0, 1, 2, 5])
    '0-2, 5'
    """
    runs: list[list[int]] = []
    for one in ids:
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def few(lines: Sequence[str], everything: bool) -> list[str]:
    """Each line once, and the first `SHOWN` of them unless `everything` is wanted.

    >>> few(["a", "b", "a"], False), len(few([str(number) for number in range(3000)], False))
    (['a', 'b'], 21)
    """
    found = list(dict.fromkeys(lines))
    if everything or len(found) <= SHOWN:
        return found
    return [*found[:SHOWN], f"... and {len(found) - SHOWN:,} more, -v shows them"]


def complain(text: str) -> None:
    """An error on standard error."""
    tell(f"error: {text}")


def tell(text: str) -> None:
    """A line on standard error; the answer does not hang on whether it can be written there."""
    try:
        print(printable(text), file=sys.stderr)
    except OSError:  # a full disk, or a reader who has gone away
        _drop(sys.stderr)


def close_quietly() -> None:
    """Flush; a reader who has gone away is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def _foldable(what: RenderableType) -> int:
    """By how much a table gets narrower where its remarks fold."""
    remarks = [one for one in getattr(what, "columns", ()) if one.min_width is not None and not one.no_wrap]
    return sum(max([one.min_width, *(len(str(cell)) for cell in one.cells)]) - one.min_width for one in remarks)


def _console(stream: Any) -> Console:
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        """Shows names from files as text: no sign of theirs is obeyed by the terminal."""

        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

    width = None if stream.isatty() else PIPE_WIDTH
    return Plain(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except UnicodeEncodeError:
        sys.stdout.write(text.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding))


def _drop_output() -> None:
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
