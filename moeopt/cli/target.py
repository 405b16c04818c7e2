"""The file an answer goes to, looked at before the work: its ending, its folder, and whether it is taken."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from moeopt.errors import InstanceError, Violation

STDOUT = "-"


def targets(given: str | None, endings: Sequence[str]) -> list[str]:
    """The files of one answer: several with commas between them, each with one of the endings; each file once.

    >>> targets("a.html, a.md,./a.md", (".html", ".md")), targets("a,b.html", (".html",)), targets(None, ())
    (['a.html', 'a.md'], ['a,b.html'], [])
    """
    if given is None:
        return []
    paths = [path.strip() for path in given.split(",")]
    if not all(Path(path).suffix.lower() in endings for path in paths):
        return [given]
    return list({os.path.normpath(path): path for path in reversed(paths)}.values())[::-1]


def check_target(
    path: str, endings: Sequence[str], force: bool, *, what: str, advice: str = "", option: str = "output"
) -> None:
    """Refuse a file that could not be written later; `what` it is to hold, as "a plan", stands in the message.

    `option` is the one that names it.

    Raises
    ------
    InstanceError
        Another ending, a folder that is missing or not writable, or a file that is there and `force` not set.
    """
    try:
        found = _looked_at(path, endings, force, what, advice)
    except OSError as error:  # a name that is too long, and what else the file system does not take
        rule = f"cannot be written ({error.strerror or error})"
        found = [Violation(option, "", _shortened(path), rule, "Give another name")]
    if found:
        raise InstanceError([replace(one, field=option) for one in found])


def _shortened(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]}...{path[-20:]}"


def _looked_at(path: str, endings: Sequence[str], force: bool, what: str, advice: str) -> list[Violation]:
    target = Path(path)
    found = []
    if target.suffix.lower() not in endings:
        known = endings[0] if len(endings) == 1 else f"{', '.join(endings[:-1])} or {endings[-1]}"
        fix = f"Name it with {known}" + (f"; {advice}" if advice else "")
        rule = f"ends in {target.suffix}" if target.suffix else "has no ending"
        found.append(Violation("output", "", path or "''", f"{rule}; {what} is written as {known}", fix))
    elif target.is_dir():
        found.append(Violation("output", "", path, "is a folder", f"Give a file in it, such as {target / 'name'}"))
    elif os.path.lexists(target) and not force:  # a link to nothing is there too
        rule = "exists and is never overwritten unasked"
        found.append(Violation("output", "", path, rule, "Choose another name or give --force"))
    elif not target.is_symlink() and target.exists() and not target.is_file():
        found.append(Violation("output", "", path, "is not a regular file", "Choose another name"))
    folder = target.parent
    if not folder.is_dir():
        rule = f"cannot be written (there is no folder {folder})"
        found.append(Violation("output", "", path, rule, f"Make it first: mkdir -p {folder}"))
    elif not os.access(folder, os.W_OK | os.X_OK):
        rule = f"cannot be written (the folder {folder} is not writable)"
        found.append(Violation("output", "", path, rule, "Give a writable folder"))
    return found


def refuse_stdout(path: str, fix: str, option: str = "output") -> None:
    """Refuse ``-`` where the ending of a file chooses what is written."""
    if path == STDOUT:
        rule = "cannot be standard output: the ending of a file chooses the format"
        raise InstanceError([Violation(option, "", path, rule, fix)])
