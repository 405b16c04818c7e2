"""``python -m tests.mutation placement|microbatch [referee|bounds] [--sample N] [--seed N] [--workers N]``."""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.mutation import equivalent
from tests.mutation.mutate import Mutant, mutants
from tests.mutation.rooms import ROOMS, SEARCHES, Part
from tests.mutation.run import LIMIT_S, ROOT, noticed, prepare, survey


def main() -> int:
    """A line a part and the mutants that no test noticed; 1 where fewer than `--least` of a hundred were noticed."""
    words = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    words.add_argument("room", choices=ROOMS)
    words.add_argument("part", nargs="?", help="referee or bounds; both where none is named")
    words.add_argument("--sample", type=int, default=0, help="so many mutants of each part, drawn by --seed; 0 is all")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--least", type=float, default=90.0, help="per cent that have to be noticed")
    words.add_argument("--only", default="", help="mutants whose line has this text")
    given = words.parse_args()
    prepare()
    good = True
    for name, part in ROOMS[given.room].items():
        if given.part in (None, name):
            share = _judge(f"{given.room} {name}", part, given)
            good = good and share >= given.least
    return 0 if good else 1


def _judge(name: str, part: Part, given: argparse.Namespace) -> float:
    start_s = time.monotonic()
    tests = survey(part)
    if tests.failed:
        sys.exit(f"{name}: tests fail on the right code: {', '.join(tests.failed)}")
    texts = {file: (ROOT / file).read_text() for file in part.modules}
    every = [(file, one) for file, text in texts.items() for one in mutants(text, SEARCHES.get(file, ()))]
    searching = sum(len(mutants(text)) for text in texts.values()) - len(every)
    known = [(file, one) for file, one in every if equivalent.reason(file, one)]
    left = [pair for pair in every if pair not in known and given.only in f"{pair[0]}:{pair[1]}"]
    if 0 < given.sample < len(left):
        left = random.Random(given.seed).sample(left, given.sample)

    def one(pair: tuple[str, Mutant]) -> bool:
        names = tests.through(*pair)
        limit_s = LIMIT_S + 4 * sum(tests.seconds[test] for test in names)
        return bool(names) and noticed(*pair, names, limit_s)

    found: list[bool] = []
    with ThreadPoolExecutor(given.workers) as pool:
        for (file, mutant), seen in zip(left, pool.map(one, left), strict=True):
            found.append(seen)
            if not seen:
                never = "" if tests.through(file, mutant) else "  (no test comes here)"
                print(f"  {file}:{mutant}{never}", flush=True)
    share = 100.0 * sum(found) / max(len(found), 1)
    took = f"{time.monotonic() - start_s:.0f} s"
    drawn = (
        f"{len(left)} of {len(every) - len(known)} mutants" if len(left) < len(every) - len(known) else "all mutants"
    )
    print(
        f"{name}: {sum(found)} of {len(found)} noticed ({share:.1f} %); {drawn}, {len(known)} that change nothing, "
        f"{searching} left out in functions that only search, "
        f"{len(tests.seconds)} tests, {took}",
        flush=True,
    )
    return share


if __name__ == "__main__":
    sys.exit(main())
