"""Run every case and print a line each: ``python -m tests.cases``; exit code 1 where one is wrong."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

WIDTH = 110


def main() -> int:
    """How it went."""
    os.environ.setdefault("MOEOPT_INTERPRET", "1")  # tiny inputs: compiling would take longer than all of them
    from tests.cases.case import Desk
    from tests.cases.table import CASES

    right, longest = 0, max(len(case.name) for case in CASES)
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found, verdict = case.check(Desk(Path(folder))), "ok"
                right += 1
            except Exception as error:  # a case that breaks the product is a line like any other
                found, verdict = f"{type(error).__name__}: {error}" if str(error) else repr(error), "WRONG"
            line = " ".join(found.replace(f"{folder}{os.sep}", "").split())
        if verdict == "ok" and len(line) > WIDTH:
            line = f"{line[:WIDTH]} ..."
        print(f"{case.name:<{longest}}  {verdict:<5}  {line}")
    print(f"{right} of {len(CASES)}")
    return 0 if right == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
