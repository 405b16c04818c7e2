"""Warm up: compile the kernels once, so that the first search runs at full speed."""

from __future__ import annotations

from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb

EXAMPLE = """Example:

moeopt warmup"""


@verb
def warmup(say: Say) -> int:
    """Compile every kernel and keep the code on disk; without numba, say how to install it."""
    from moeopt.kernels._jit import has_numba
    from moeopt.kernels.warmup import warmup as compile_all

    if not has_numba():
        say.show("numba is missing, the search is interpreted and slower: pip install 'moeopt[fast]'")
        return DONE
    for line in compile_all():
        say.show(line)
    return DONE
