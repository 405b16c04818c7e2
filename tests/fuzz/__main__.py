"""``python -m tests.fuzz [--seconds N] [--seed N] [WORD...]``: kinds whose name has a word, so many seconds each."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.once import Bad, once, warm


def main() -> int:
    """A line a crasher, with the seed that makes it; 1 where there is any."""
    words = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    words.add_argument("kinds", nargs="*")
    words.add_argument("--seconds", type=float, default=60.0)
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    os.environ["MOEOPT_INTERPRET"] = "1"
    bad = 0
    warm()
    for name, kind in KINDS.items():
        if given.kinds and not any(word in name for word in given.kinds):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = kind.make(Path(folder))
            whole = path.read_bytes()
            with contextlib.suppress(Bad):
                once(kind, path, whole, -1)  # what it imports is not its time
            end_s, seed = time.monotonic() + given.seconds, given.seed
            seen: dict[str, int] = {}
            while time.monotonic() < end_s:
                try:
                    once(kind, path, whole, seed)
                except Bad as error:
                    what = str(error)
                    if what not in seen:
                        print(f"{name} seed {seed}: {what}", flush=True)
                    seen[what] = seen.get(what, 0) + 1
                seed += 1
            bad += len(seen)
            print(f"{name}: {seed - given.seed:,} files, {len(seen)} kinds of crash", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
