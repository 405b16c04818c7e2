"""Runs of the command line: as a process where streams and signals matter, in this process elsewhere."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moeopt.cli import main
from moeopt.cli.app import VERBS, command_of
from moeopt.registry import PROBLEMS

ROOT = Path(__file__).parents[2]
LOADS = ROOT / "instances" / "published" / "deepseek_v2_lite_law.csv"


@dataclass(frozen=True)
class Run:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one strict JSON object."""

        def refuse(name: str) -> float:
            raise AssertionError(f"{name} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


@pytest.fixture
def moeopt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run in this process; policies that a run registers are forgotten after the test."""
    forgets_plugins(monkeypatch)

    def run(*words: object, stdin: str | bytes = "") -> Run:
        piped = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
        capsys.readouterr()
        code = main(settled([str(word) for word in words]))
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    return run


def settled(words: list[str]) -> list[str]:
    """The usual words of a test file, with what a test says again in place of it: one value of each such option."""
    if not words or words[0] not in VERBS:
        return words
    params = command_of(words[0]).params
    single = {name for one in params if not (getattr(one, "is_flag", False) or one.multiple) for name in one.opts}
    last: dict[str, int] = {}
    dropped: set[int] = set()
    for place, word in enumerate(words[:-1]):
        if word.startswith("--") and word in single and place not in dropped:
            dropped |= {last[word], last[word] + 1} if word in last else set()
            last[word] = place
    return [word for place, word in enumerate(words) if place not in dropped]


def forgets_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods of every room that is loaded, or loaded later, are as they were before."""
    for name in PROBLEMS:
        problem = importlib.import_module(f"moeopt.{name}").PROBLEM
        monkeypatch.setattr(problem, "methods", dict(problem.methods))


@contextmanager
def start(*words: object, cwd: Path | None = None, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process with interpreted kernels, its streams piped; a test that fails leaves it not at work."""
    with subprocess.Popen(
        [sys.executable, "-m", "moeopt", *settled([str(word) for word in words])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "MOEOPT_INTERPRET": "1", "PYTHONPATH": str(ROOT), **environment},
    ) as child:
        try:
            yield child
        except BaseException:  # leaving the block would wait for its end
            child.kill()
            raise


@pytest.fixture
def process() -> Callable[..., Run]:
    """Run as a process."""

    def run(*words: object, stdin: str = "", cwd: Path | None = None, **environment: str) -> Run:
        with start(*words, cwd=cwd, **environment) as child:
            out, err = child.communicate(stdin, timeout=60)
        return Run(child.returncode, out, err)

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Two layers, with ids of their own, of four experts."""
    file = tmp_path / "tiny.csv"
    file.write_text("layer,a,b,c,d\n3,8,4,2,2\n7,5,0,1,9\n")
    return file


@pytest.fixture
def plan(tiny: Path, moeopt: Callable[..., Run]) -> Path:
    """A plan of `tiny`: three GPUs of two slots."""
    file = tiny.with_name("plan.json")
    assert moeopt("place", tiny, "--gpus", 3, "--slots", 6, "--method", "lpt", "-o", file).code == 0
    return file
