"""Numba where it is installed, plain Python where it is not: the same code, the same bytes.

Nothing is imported before the first call. `jit` marks a function of the numba-compatible subset; calling it compiles
(or loads from the cache folder) with the extra ``fast`` and interprets without.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

from moeopt.documents import current_folder
from moeopt.limits import Deadline
from moeopt.result import MACHINE_NOTE

P = ParamSpec("P")
R = TypeVar("R")


@cache
def has_numba() -> bool:
    """Whether the extra ``fast`` is there; ``MOEOPT_INTERPRET=1`` says no."""
    return os.environ.get("MOEOPT_INTERPRET") != "1" and importlib.util.find_spec("numba") is not None


LOAD_S = 2.0
"""Seconds of work that loading compiled code may take, numba and all; 1.1 to 1.5 were measured for each search."""


def interpreter_note(what: str, compiled: bool, room_s: float = 2 * LOAD_S) -> str | None:
    """What a result says where `what`, such as "the re-planning", runs interpreted; ``None`` where it does not.

    With `room_s` seconds more the compiled code could have been loaded.
    """
    if not has_numba():
        return f"{MACHINE_NOTE}{what} is interpreted, some hundred times slower: pip install 'moeopt[fast]'"
    if compiled:
        return None
    return (
        f"the time limit leaves no room to load compiled code, so {what} ran interpreted, some hundred times slower: "
        f"allow {room_s:g} s more, or solve in a process that has called moeopt.kernels.warmup()"
    )


def _numba() -> Any:
    """The package; from a folder that was deleted, where a package that it looks for would not load, from the root."""
    if current_folder() is not None:
        return importlib.import_module("numba")
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir("/")
        return importlib.import_module("numba")
    finally:
        os.fchdir(here)
        os.close(here)


KERNELS: list[Kernel[Any, Any]] = []
"""Every kernel, for `warmup`."""


def unkept_note() -> str | None:
    """What to say where code was compiled that the next process will not find; ``None`` elsewhere."""
    if all(kernel.cached for kernel in KERNELS):
        return None
    return (
        "compiled code cannot be kept, as no folder for it can be written, and is made anew in every process: "
        "set NUMBA_CACHE_DIR to one that can"
    )


class Kernel(Generic[P, R]):
    """A function that is compiled at its first call."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.compiled: Callable[P, R] | None = None
        self.cached = True
        self._plain: Callable[P, R] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        KERNELS.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return (self.compiled or self.load())(*args, **kwargs)
        except KeyboardInterrupt:
            if has_numba() and not self.ready():  # half compiled, which numba cannot take up again
                self.compiled = self.plain()
            raise

    def load(self) -> Callable[P, R]:
        """The compiled function, or the plain one without numba."""
        if self.compiled is None:
            self.compiled = self._compile() if has_numba() else self.function
        return self.compiled

    def _compile(self) -> Callable[P, R]:
        numba = _numba()
        inner = self._with_compiled_callees()
        try:
            made: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy")(inner)
        except RuntimeError:  # no folder for the cache can be written
            self.cached = False
            made = numba.njit(nogil=True, error_model="numpy")(inner)
        return made

    def _with_compiled_callees(self) -> Callable[P, R]:
        """Numba resolves globals at compile time: kernels that this one calls must be dispatchers by then."""
        return self._calling(Kernel.load)

    def plain(self) -> Callable[P, R]:
        """The function interpreted throughout, whatever is compiled: for a deadline that compiling would break."""
        if self._plain is None:
            self._plain = self._calling(Kernel.plain)
        return self._plain

    def _calling(self, form: Callable[[Kernel[Any, Any]], Callable[..., Any]]) -> Callable[P, R]:
        """The function again, with every kernel it calls in another form; what the module knows stays as it is."""
        scope = dict(self.function.__globals__)
        for name in self.function.__code__.co_names:
            callee = scope.get(name)
            if isinstance(callee, Kernel):
                scope[name] = form(callee)
        copy = FunctionType(self.function.__code__, scope, self.__name__, self.function.__defaults__)
        copy.__qualname__, copy.__annotations__ = self.function.__qualname__, self.function.__annotations__
        copy.__module__ = self.function.__module__
        return copy

    def ready(self) -> bool:
        """Whether a call would run at full speed at once: compiled in this process."""
        if not has_numba():
            return False
        return bool(getattr(self.compiled, "signatures", None))

    def loaded(self) -> bool:
        """Whether all of the compiled code of this process came from the cache folder."""
        stats = getattr(self.compiled, "stats", None)
        return stats is not None and bool(stats.cache_hits) and not stats.cache_misses

    def in_time(self, deadline: Deadline, *, load_s: float = LOAD_S, compile_s: float = 60.0) -> bool:
        """Whether the compiled code is here, or can be: `load_s` left to load it from disk, `compile_s` to make it.

        Both are seconds of work, of which a busy machine does fewer a second.
        """
        if not has_numba():
            return False
        left = deadline.remaining_s() / (deadline.slowness() if deadline.limited else 1.0)
        return not deadline.limited or self.ready() or left > compile_s or (left > load_s and self.on_disk())

    def on_disk(self) -> bool:
        """Whether some earlier process left compiled code of this very source in the cache folder."""
        if not has_numba():
            return False
        source = Path(self.function.__code__.co_filename)
        folders = [source.parent / "__pycache__"]
        with suppress(RuntimeError):  # a user of no name, in a container, has no home
            folders.append(Path.home() / ".cache" / "numba")
        if os.environ.get("NUMBA_CACHE_DIR"):
            folders.insert(0, Path(os.environ["NUMBA_CACHE_DIR"]))
        pattern = f"**/{source.stem}.{self.function.__qualname__}-*.nbi"
        written_s = source.stat().st_mtime
        found = (index for folder in folders if folder.is_dir() for index in folder.glob(pattern))
        return any(index.stat().st_mtime >= written_s for index in found)


def jit(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function of the numba-compatible subset."""
    return Kernel(function)
