"""Mutants that change nothing anybody could see, each with the reason; they are not counted."""

from __future__ import annotations

from tests.mutation.mutate import Mutant

KNOWN: dict[tuple[str, str], str] = {}
"""File name and what is changed -> why no test can notice."""


def reason(file: str, mutant: Mutant) -> str:
    """Why a mutant changes nothing; empty where it does."""
    return KNOWN.get((file.rsplit("/", 1)[-1], mutant.what), "")
