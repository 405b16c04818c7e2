"""What `verify` found, on standard output: the faults, or that there are none."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.cli.say import Say, few
from moeopt.cli.verb import DONE, GATE


def show_faults(path: str, faults: Sequence[str], checked: str, say: Say, first: str | None = None) -> None:
    """A line a fault, or that what was `checked` is right.

    A first fault that begins with `first` explains all others, which are counted then.
    """
    cut = first is not None and len(faults) > 1 and faults[0].startswith(first) and not say.verbose
    for fault in faults[:1] if cut else few(list(faults), say.verbose):
        say.line(fault)
    if cut:
        say.line(f"... {len(faults) - 1:,} more, which may follow from that; -v shows them")
    if not faults and not say.quiet:
        say.line(f"{path}: ok ({checked})")


def told(path: str, faults: list[str], aside: list[str], as_json: bool, say: Say) -> int:
    """The verdict on a plan that has its instance within, numbers and bounds looked at; the exit code."""
    checked = "structure, numbers and bounds"
    if as_json:
        say.document({"ok": not faults, "checked": checked, "unchecked": aside, "faults": faults})
        return GATE if faults else DONE
    show_faults(path, faults, checked, say)
    if aside:
        say.note(f"not re-checked: {', '.join(aside)}")
    return GATE if faults else DONE
