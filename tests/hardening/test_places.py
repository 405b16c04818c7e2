"""Where nothing can be said or no folder is: the answer comes all the same, or an error in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.kinds import run

LOADS = "8,4,2,2\n"
SHAPE = "--gpus 2 --slots 4"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(("words", "code"), [("--methods search", 0), ("--methods nothing", 2)])
def test_the_answer_does_not_hang_on_standard_error(tmp_path: Path, words: str, code: int) -> None:
    """With a full disk behind it every note was exit 1."""
    (tmp_path / "loads.csv").write_text(LOADS)
    line = [sys.executable, "-m", "moeopt", "compare", "loads.csv", *SHAPE.split(), *words.split()]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "MOEOPT_INTERPRET": "1"}
    with open("/dev/full", "w") as full:  # noqa: PTH123
        made = subprocess.run(line, stdout=subprocess.PIPE, stderr=full, cwd=tmp_path, env=env, check=False)
    assert made.returncode == code and (b"lower bound" in made.stdout) == (code == 0)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("compare @ --methods lpt", 0, "lower bound"),
        ("place @ --method exact", 0, "objective"),
        ("compare @ --methods lpt -o c.csv", 2, "cannot be written"),
        ("compare @ --methods lpt,eplb --executor processes:2", 2, "the current folder was deleted"),
        ("compare @ --methods nowhere:mine", 2, "cannot be imported"),
    ],
)
def test_a_deleted_folder_is_no_fault(tmp_path: Path, line: str, code: int, said: str) -> None:
    (tmp_path / "loads.csv").write_text(LOADS)
    (tmp_path / "gone").mkdir()
    before = Path.cwd()
    os.chdir(tmp_path / "gone")
    try:
        (tmp_path / "gone").rmdir()
        words = [str(tmp_path / "loads.csv") if word == "@" else word for word in line.split()]
        found, text = run(*words, *SHAPE.split())
    finally:
        os.chdir(before)
    assert (found, said in text) == (code, True), text


def test_what_is_no_file_is_said_before_the_work(tmp_path: Path, monkeypatch) -> None:
    """A link to nothing and a FIFO were met after all methods had run."""
    monkeypatch.chdir(tmp_path)
    Path("loads.csv").write_text(LOADS)
    Path("link.html").symlink_to("nowhere/x.html")
    os.mkfifo("fifo.html")
    for file, force, rule in (
        ("link.html", [], "exists and is never"),
        ("fifo.html", ["--force"], "not a regular file"),
    ):
        code, said = run("compare", "loads.csv", *SHAPE.split(), "-o", file, *force)
        assert code == 2 and rule in said and "method" not in said, said
