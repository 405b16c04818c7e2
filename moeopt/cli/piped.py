"""Standard input, which can be read only once, as a file that every reader takes as often as it likes."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from moeopt.errors import InstanceError, Violation

STDIN = "-"


class _Spool:
    """Standard input as a file, made when it is first asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    @cached_property
    def file(self) -> Path:
        """The file, with the ending of what it is."""
        path = Path(self._stack.enter_context(TemporaryDirectory(prefix="moeopt-")), "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return path.rename(path.with_suffix(_ending(path)))


_SPOOL: ContextVar[_Spool | None] = ContextVar("_SPOOL", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Within, standard input is read when it is first asked for, and its file is removed at the end."""
    with ExitStack() as stack:
        token = _SPOOL.set(_Spool(stack))
        try:
            yield
        finally:
            _SPOOL.reset(token)


@contextmanager
def file_of(path: str) -> Iterator[str]:
    """The file to read for a path: of ``-``, or ``-:KEY``, all of standard input; of any other, the path itself.

    The file has the ending of what it is. Errors about it, raised within, are about what was typed.

    Raises
    ------
    InstanceError
        What came is a part of something that cannot come by a pipe.
    """
    if path != STDIN and not path.startswith(STDIN + ":"):
        yield path
        return
    spool = _SPOOL.get()
    if spool is None:
        with read_once(), file_of(path) as named:
            yield named
        return
    file = spool.file
    try:
        if file.suffix == ".safetensors":
            rule = "is the file of one rank of TensorRT-LLM's statistics, which are a folder"
            raise InstanceError([Violation("input", "", STDIN, rule, "Give the folder: it cannot come by a pipe")])
        yield f"{file}{path[len(STDIN) :]}"
    except InstanceError as error:
        raise _about_stdin(error, file) from error


def refuse_twice(given: Iterable[tuple[str, object]]) -> None:
    """Refuse standard input for more than one thing; `given` are names as they are typed, and values."""
    values = [(name, one) for name, value in given for one in (value if isinstance(value, list | tuple) else [value])]
    taken = [
        name
        for name, value in values
        if isinstance(value, str)
        for part in value.split(",")
        if part == STDIN or part.startswith(STDIN + ":")
    ]
    if len(taken) > 1:
        rule = f"are {'both' if len(taken) == 2 else 'all'} -, and it can be read only once"
        raise InstanceError([Violation("standard input", "", " and ".join(taken), rule, "Give files for all but one")])


def _about_stdin(error: InstanceError, file: Path) -> InstanceError:
    """The same error, in words that were typed."""

    def typed(text: str) -> str:
        return re.sub(rf"{re.escape(str(file))}|\b{re.escape(file.name)}\b", STDIN, text)

    named = [replace(one, value=typed(one.value), rule=typed(one.rule), fix=typed(one.fix)) for one in error.violations]
    return InstanceError(named, STDIN)


def _ending(path: Path) -> str:
    """What readers go by: the ending of what a file is, by its first bytes or the names in a zip."""
    from moeopt.engines.kinds import HEAD_BYTES
    from moeopt.engines.parquet import MAGIC
    from moeopt.engines.torch_files import LEGACY
    from moeopt.engines.trtllm import is_config

    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    for start, ending in ((b"\x93NUMPY", ".npy"), (LEGACY, ".pt"), (MAGIC, ".parquet"), (b"PK", "")):
        if head.startswith(start):
            return ending or _zip_ending(path)
    length = int.from_bytes(head[:8], "little")
    if head[8:10] == b'{"' and 2 <= length <= path.stat().st_size - 8:
        return ".safetensors"
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    if text[:1] in ("{", "["):
        return ".json"
    return ".yaml" if is_config(text) else ""


def _zip_ending(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # bytes from anywhere: the reader of .npz says what is wrong
        return ".npz"
    return ".pt" if any(name.endswith("data.pkl") for name in names) else ".npz"
