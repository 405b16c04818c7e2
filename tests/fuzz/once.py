"""One damaged file, read by everything that reads its kind."""

from __future__ import annotations

import random
import resource
import time
import traceback
import warnings
from pathlib import Path

from moeopt.errors import MoeoptError
from tests.fuzz.damage import damaged
from tests.fuzz.kinds import CODES, Kind, run

MOST_S = 1.0
"""Processor seconds that reading a small file may take, whatever is in it."""
MOST_KB = 300_000
"""Memory that reading it may take."""


class Bad(AssertionError):
    """Something else than an answer or words came out."""


def warm() -> None:
    """Import what the verbs import, so that nobody's seconds are theirs."""
    for name in ("matplotlib", "networkx", "pyarrow.parquet", "scipy.optimize", "scipy.sparse", "yaml"):
        __import__(name)
    for name in ("placement", "routing", "collocation", "microbatch", "mesh", "replay", "bench"):
        __import__(f"moeopt.{name}.public")


def once(kind: Kind, path: Path, whole: bytes, seed: int) -> None:
    """Damage the file by the seed and `read` it."""
    read(kind, path, damaged(whole, random.Random(f"{seed} {path.name}")))


def read(kind: Kind, path: Path, data: bytes) -> None:
    """Read a file of these bytes; `Bad` where that ends in anything but an answer or words."""
    path.write_bytes(data)
    for verb in kind.verbs:
        words = [word.replace("@", str(path)).replace("%", str(path.parent)) for word in verb.split()]
        with watched(verb):
            code, said = run(*words)
        if code not in CODES or "Traceback" in said or "internal error" in said:
            raise Bad(f"{verb}: exit {code}: {said[-600:]}")
    for call in kind.calls:
        with watched(call.__name__):
            call(path)


class watched:
    """Errors of the house pass; others, warnings, seconds and memory beyond the limits are `Bad`."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.caught = warnings.catch_warnings()
        self.caught.__enter__()
        warnings.simplefilter("error")
        self.start_s = time.process_time()
        self.start_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        took_s = time.process_time() - self.start_s
        took_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.start_kb
        self.caught.__exit__(None, None, None)
        if error is not None and not isinstance(error, MoeoptError):
            if isinstance(error, KeyboardInterrupt):
                return False
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise Bad(
                f"{self.what}: {type(error).__name__} in {last.filename}:{last.lineno}: {str(error)[:300]}"
            ) from error
        if took_s > MOST_S:
            raise Bad(f"{self.what}: takes {took_s:.1f} s")
        if took_kb > MOST_KB:
            raise Bad(f"{self.what}: takes {took_kb // 1000} MB")
        return True
