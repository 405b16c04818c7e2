"""Runs tests against mutants: each in a forked child that loads the changed module in place of the right one."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import os
import pickle
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutate import Mutant
from tests.mutation.rooms import Part

ROOT = Path(__file__).parents[2]
LIMIT_S = 10.0
"""What a mutant's tests may take beyond four times what they take on the right code; longer is noticed too."""
MOST_S = 10.0
"""Seconds of tests, as the right code takes them, that one mutant is given, the cheapest first."""


QUIET = (
    "-q",
    "--no-header",
    "-o",
    "addopts=",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


class Tests:
    """Which test goes through which line of the modules, and what it takes."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = {str(ROOT / file): file for file in files}
        self.lines: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        seen: set[tuple[str, int]] = set()

        def inner(frame: Any, event: str, _: object) -> Any:
            if event == "line":
                seen.add((self.files[frame.f_code.co_filename], frame.f_lineno))
            return inner

        def outer(frame: Any, event: str, argument: object) -> Any:
            if frame.f_code.co_filename not in self.files:
                return None
            seen.add((self.files[frame.f_code.co_filename], frame.f_lineno))
            return inner(frame, event, argument)

        start_s = time.process_time()
        sys.settrace(outer)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.process_time() - start_s
            for place in seen:
                self.lines[place].add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def through(self, file: str, mutant: Mutant) -> list[str]:
        """Tests that go through a mutant's lines, the cheapest first, up to `MOST_S`."""
        lines = range(mutant.first, mutant.last + 1)
        mine = set().union(*(self.lines.get((file, line), set()) for line in lines))
        chosen, total_s = [], 0.0
        for name in sorted(mine, key=lambda one: (self.seconds[one], one)):
            total_s += self.seconds[name]
            if total_s > MOST_S and chosen:
                break
            chosen.append(name)
        return chosen


class _NoShrinking:
    """An example that fails is enough: nobody reads the smallest one."""

    def pytest_collection_finish(self) -> None:
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", settings.get_profile("suite"), phases=phases, max_examples=15)
        settings.load_profile("mutants")


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module in a syntax tree."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.name, self.path, self.tree = file.removesuffix(".py").replace("/", "."), str(ROOT / file), tree

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: Any) -> None:
        exec(compile(self.tree, self.path, "exec"), module.__dict__)


def prepare() -> None:
    """Import what the tests need from elsewhere, once for all children; nothing of this package."""
    os.environ["MOEOPT_INTERPRET"] = "1"
    for name in ("hypothesis", "networkx", "numpy", "pulp", "pydantic", "rich", "scipy.optimize", "scipy.sparse"):
        __import__(name)
    assert not any(name.split(".")[0] == "moeopt" for name in sys.modules)


def survey(part: Part) -> Tests:
    """Run the tests on the right code, in a child, and see where they go."""
    there = [file for file in part.tests if (ROOT / file).exists()]
    words = [*there, "-k", f"not ({part.skipped})"] if part.skipped else there
    tests = Tests(part.modules)

    def look() -> bytes:
        pytest.main([*words, *QUIET], plugins=[tests, _NoShrinking()])
        return pickle.dumps((dict(tests.lines), tests.seconds, tests.failed))

    code, answer = in_child(look, 1800.0)
    if code != 0:
        raise RuntimeError("the tests cannot be run on the right code")
    lines, tests.seconds, tests.failed = pickle.loads(answer)
    tests.lines = defaultdict(set, lines)
    return tests


def noticed(file: str, mutant: Mutant, names: Sequence[str], limit_s: float) -> bool:
    """Whether any of these tests fails, or does not end, on a mutant."""

    def look() -> bytes:
        sys.meta_path.insert(0, _Changed(file, mutant.tree()))
        return bytes([int(pytest.main([*names, *QUIET, "-x", "--tb=no"], plugins=[_NoShrinking()]) != 0)])

    code, answer = in_child(look, limit_s)
    return code != 0 or answer != b"\x00"


def in_child(call: Callable[[], bytes], limit_s: float) -> tuple[int, bytes]:
    """What a call returns in a forked child, and 0; another number where it broke or was stopped."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            os.chdir(ROOT)
            with os.fdopen(writer, "wb") as file:
                file.write(call())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    os.set_blocking(reader, False)
    end_s, answer = time.monotonic() + limit_s, b""
    while True:
        with contextlib.suppress(BlockingIOError):
            answer += os.read(reader, 1 << 20)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with contextlib.suppress(BlockingIOError):
                while more := os.read(reader, 1 << 20):
                    answer += more
            os.close(reader)
            return os.waitstatus_to_exitcode(status), answer
        if time.monotonic() > end_s:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            return -1, b""
        time.sleep(0.01)
