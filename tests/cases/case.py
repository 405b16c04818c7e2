"""What a case is: an input, what is right for it, and a run of the product that has to give just that."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from moeopt.cli import main
from moeopt.errors import MoeoptError

INTERPRETED = "this machine: the deep search is interpreted"
"""A note that depends on whether numba is installed, and on nothing of the case."""


@dataclass(frozen=True)
class Refusal:
    """The answer is no: with this exit code, and these words somewhere in what is said."""

    code: int
    says: tuple[str, ...]
    never: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one JSON object; the command has to have gone well."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True)
class Desk:
    """A folder to write inputs into, and the command line, run in this process."""

    folder: Path

    def write(self, name: str, content: bytes | str | Any) -> Path:
        """A file: bytes and text as they are, anything else as JSON."""
        file = self.folder / name
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else json.dumps(content)).encode()
        file.write_bytes(content)
        return file

    def moeopt(self, *words: object) -> Run:
        """One command, its warnings turned into faults."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("error")
            with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
                code = main([str(word) for word in words])
            out.flush()
        said = "".join(line for line in err.getvalue().splitlines(True) if INTERPRETED not in line)
        return Run(code, out.buffer.getvalue().decode(), said)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Case:
    """One of them.

    Parameters
    ----------
    name, why
        What it is called, and what goes wrong where it is not thought of.
    given
        Arguments of `run`.
    right
        The value that `run` has to return, numbers to a relative 1e-9; or the refusal.
    run
        Asks the product; returns the value it gives, or the `Run` of a command that should refuse.
    """

    name: str
    why: str
    given: Mapping[str, Any]
    right: Any
    run: Callable[..., Any] = field(repr=False)

    def check(self, desk: Desk) -> str:
        """What was found, in a line; `AssertionError` where it is not what is right."""
        return judged(self.run(desk, **self.given), self.right)


def judged(found: Any, right: Any) -> str:
    """The finding in words, held against what is right."""
    if not isinstance(right, Refusal):
        assert not isinstance(found, Run), f"exit code {found.code}: {found.err}"
        assert close(found, right), f"{found} is not {right}"
        return f"{found}"
    assert isinstance(found, Run), f"{found} was answered, and not refused"
    assert found.code == right.code, f"exit code {found.code}, not {right.code}: {found.err}"
    missing = [word for word in right.says if word not in found.err]
    assert not missing, f"{missing} not in: {found.err}"
    wrong = [word for word in right.never if word.lower() in found.err.lower()]
    assert not wrong, f"{wrong} in: {found.err}"
    assert not found.out and "Traceback" not in found.err
    last = found.err.strip().splitlines()[-1].replace("error: ", "")
    return f"exit {found.code}: {last}"


def close(found: Any, right: Any) -> bool:
    """Whether two values are alike: numbers to a relative 1e-9, all else equal.

    >>> close({"a": [1.0, "x"]}, {"a": [1 + 1e-12, "x"]}), close([1], [1, 2]), close(True, 1)
    (True, False, False)
    """
    if isinstance(right, Mapping):
        return (
            isinstance(found, Mapping)
            and found.keys() == right.keys()
            and all(close(found[k], right[k]) for k in right)
        )
    if isinstance(right, (list, tuple)):
        same = isinstance(found, (list, tuple)) and len(found) == len(right)
        return same and all(close(one, other) for one, other in zip(found, right, strict=True))
    if isinstance(right, bool) or isinstance(found, bool) or not isinstance(right, (int, float)):
        return bool(found == right and type(found) is type(right))
    return bool(found == pytest.approx(right, rel=1e-9))


@contextlib.contextmanager
def refusing() -> Iterator[list[Run]]:
    """A refusal of the library, told as the command line would: a list with its `Run` afterwards, else empty."""
    told: list[Run] = []
    try:
        yield told
    except MoeoptError as error:
        told.append(Run(2, "", f"error: {error}\n"))
