"""Mutants that change nothing anybody could see, each with the reason; they are not counted."""

from __future__ import annotations

from tests.mutation.mutate import Mutant

KNOWN: dict[tuple[str, str], str] = {
    ("verify.py", "if len(set(instance.speed)) == 1: never"): "the general sum gives the same fractions, more slowly",
    ("verify.py", "if int(replicas.max()) <= FITTING: never"): "numbers of any size give the same multiples",
    ("verify.py", "int(replicas.max()) <= FITTING: LtE is Lt"): "numbers of any size give the same multiples",
    ("window_bounds.py", "loads / counts: Div is Mult"): "more rows are looked at exactly, with the same outcome",
    ("window_bounds.py", "objective <= 0: LtE is Lt"): "at 0 the condition beside it holds",
}
"""File name and what is changed -> why no test can notice."""


def reason(file: str, mutant: Mutant) -> str:
    """Why a mutant changes nothing; empty where it does."""
    return KNOWN.get((file.rsplit("/", 1)[-1], mutant.what), "")
