"""``python -m tests.fuzz [--seconds N] [--seed N] [--blind] [WORD...]``: kinds whose name has a word, in turn.

A file that reaches lines that none before it reached is damaged further, ``--blind`` ones never are.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.damage import damaged
from tests.fuzz.kinds import KINDS, ROOT, Kind
from tests.fuzz.lines import Lines
from tests.fuzz.once import Bad, read, warm

KEPT = ROOT / "out" / "fuzz"
"""Where files lie that something else than an answer or words came of."""


def main() -> int:
    """A line a kind and a line a crasher, which is kept; 1 where there is any."""
    words = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    words.add_argument("kinds", nargs="*")
    words.add_argument("--seconds", type=float, default=60.0)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--blind", action="store_true", help="damage the good file alone")
    given = words.parse_args()
    os.environ["MOEOPT_INTERPRET"] = "1"
    bad = 0
    warm()
    for name, kind in KINDS.items():
        if not given.kinds or any(word in name for word in given.kinds):
            bad += _fuzzed(name, kind, given)
    return 1 if bad else 0


def _fuzzed(name: str, kind: Kind, given: argparse.Namespace) -> int:
    """How many kinds of crash there were."""
    rng, lines = random.Random(f"{given.seed} {name}"), Lines()
    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = kind.make(Path(folder))
        whole = path.read_bytes()
        with contextlib.suppress(Bad):
            read(kind, path, whole)  # what it imports is not its time
        pool = [whole]
        end_s, files = time.monotonic() + given.seconds, 0
        while time.monotonic() < end_s:
            data = damaged(rng.choice((whole, rng.choice(pool), rng.choice(pool[-8:]))), rng)
            files += 1
            reached = lines.reached
            try:
                with lines.watched():
                    read(kind, path, data)
            except Bad as error:
                if str(error) not in seen:
                    seen.add(str(error))
                    print(f"{name}: {_kept(name, path, data, len(seen))}: {error}", flush=True)
            if lines.reached > reached and not given.blind and len(data) < 4 * len(whole) + 4096:
                pool.append(data)
    print(f"{name}: {files:,} files, {lines.reached:,} lines, {len(seen)} kinds of crash", flush=True)
    return len(seen)


def _kept(name: str, path: Path, data: bytes, number: int) -> Path:
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{name.replace(' ', '_')}-{number}{path.suffix}"
    file.write_bytes(data)
    return file


if __name__ == "__main__":
    sys.exit(main())
