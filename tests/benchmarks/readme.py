"""Run every command of the README and of docs/ in their order, and hold what it printed against what they show.

    python -m tests.benchmarks.readme [FOLDER]

FOLDER holds files that stand for the reader's own (``YOURS``); commands that need one that is not there are not run.
Lines of ``...`` stand for what is left out; times are not compared. Its Python is run as one script. Exits 1 where a
line that is shown was not printed, or Python fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("placement", "running", "collocation", "sizing", "clusters", "engines", "grids", "python")
"""Pages of docs/ in an order in which each finds the files that those before it wrote."""
TIME = re.compile(r"\d[\d,]*(\.\d+)? (ms|s)\b")
LIMIT_S = 600
YOURS = {"trace.npz": "trace.npz", "moe_perf.csv": "moe_perf.csv", "nccl_perf.csv": "nccl_perf.csv",
         "h200.json": "moe_perf.csv"}  # fmt: skip
"""Files that are not ours, by what they are made of."""


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of the tool with the lines that are shown after it."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if language:  # whose closing line would else open the text after it
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.replace("\\\n", " ").partition("\n")
            if command.startswith("moeopt "):
                yield " ".join(command.split()), [line for line in shown.splitlines() if line.strip()]


def pages() -> str:
    """The README and the pages after it."""
    files = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in PAGES))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def plain(text: str) -> str:
    """One line, blanks alike, without times."""
    return " ".join(TIME.sub("", text).split())


def missing(shown: list[str], printed: str) -> list[str]:
    """Pieces of shown lines that were not printed."""
    pieces = [piece for line in shown for piece in line.split("...") if piece.strip()]
    seen = plain(printed)
    return [piece for piece in pieces if plain(piece) not in seen]


def script(text: str) -> str:
    """All Python that is shown, in its order."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def python(folder: str) -> int:
    """Run the Python from a folder that looks like the root of the repository; 1 where it fails."""
    (Path(folder) / "instances").symlink_to(ROOT / "instances")
    (Path(folder) / "out").mkdir()
    code = script(pages())
    words = [sys.executable, "-c", code]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    print("wrong" if run.returncode else "true ", "Python", flush=True)
    if run.returncode:
        print(run.stderr)
    return int(run.returncode != 0)


def main(given: str | None = None) -> int:
    """Run all in a folder that lies as ``out`` does, print a line each."""
    wrong = 0
    with TemporaryDirectory() as above:
        folder = Path(above) / "work"
        folder.mkdir()
        for name in ("instances", "tests"):
            (Path(above) / name).symlink_to(ROOT / name)
        wanted = ("published/*.csv", "published/*.npz", "tiny/mesh/two_types.json")
        files = [file for pattern in wanted for file in ROOT.glob(f"instances/{pattern}")]
        files += [] if given is None else [Path(given) / name for name in YOURS if (Path(given) / name).exists()]
        for file in files:
            shutil.copy(file, folder)
        for command, shown in commands(pages()):
            absent = [name for name, of in YOURS.items() if name in command and not (folder / of).exists()]
            if absent:
                print("left ", command[:100], f"(no {', '.join(absent)})", flush=True)
                continue
            words = f"{sys.executable} -m moeopt {command.removeprefix('moeopt ')}"
            run = subprocess.run(
                words, shell=True, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            lost = missing(shown, run.stdout + run.stderr)
            wrong += bool(lost) or run.returncode != 0
            print("wrong" if lost or run.returncode else "true ", command[:100], flush=True)
            for piece in lost:
                print(f"        not printed: {piece.strip()[:120]}")
        wrong += python(str(folder))
    return int(wrong > 0)


if __name__ == "__main__":
    words = argparse.ArgumentParser(prog="python -m tests.benchmarks.readme", description=main.__doc__)
    words.add_argument("folder", nargs="?", help="where the commands are run; a new one where none is given")
    sys.exit(main(words.parse_args().folder))
