"""One line of the table of targets: what was asked, what was measured, and whether that is enough."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """A target and how it was met; ``short`` names what is missing and what was tried, empty when nothing is."""

    what: str
    target: str
    measured: str
    short: str = ""

    @property
    def word(self) -> str:
        """``met`` or ``short``."""
        return "short" if self.short else "met"


def markdown(verdicts: Iterable[Verdict]) -> str:
    """The table of targets, and below it what each short row lacks."""
    lines = ["| what | target | measured | verdict |", "|---|---|---|---|"]
    found = list(verdicts)
    lines += [f"| {one.what} | {one.target} | {one.measured} | {one.word} |" for one in found]
    lines += ["", *(f"- **{one.what}**: {one.short}" for one in found if one.short)]
    return "\n".join(lines).rstrip() + "\n"


def say(text: str) -> None:
    """What a long benchmark is doing, on standard error."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
