"""Warm up: compile the kernels once, so that the first search runs at full speed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb

EXAMPLE = """Example:

moeopt warmup"""


@verb
def warmup(
    say: Say,
    plain: Annotated[
        bool, typer.Option("--plain", help="Only the search of new plans: a third of the one to three minutes.")
    ] = False,
) -> int:
    """Compile every kernel and keep the code on disk; without numba, say how to install it."""
    from moeopt.kernels import packing
    from moeopt.kernels._jit import KERNELS, has_numba
    from moeopt.kernels.warmup import warmup as compile_all

    if has_numba() and not all(kernel.on_disk() for kernel in KERNELS):
        about = "half a minute" if plain else "one to three minutes"
        say.note(f"compiling, once on this machine: {about}, more if it is busy")
    for line in compile_all(plain=plain, processes=os.cpu_count() or 1):
        say.show(line)
    cache = getattr(getattr(packing.improve.compiled, "stats", None), "cache_path", None)
    if cache is not None and packing.improve.cached:
        say.show(f"compiled code lies in {cache}")
    return DONE
