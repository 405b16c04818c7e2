"""Versions of everything that had a hand in a result, read from installed metadata without importing it."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from moeopt._version import __version__


@cache
def versions(*packages: str) -> dict[str, str]:
    """Versions of moeopt, Python and the named distributions; ``absent`` for what is not installed.

    >>> sorted(versions("numpy"))
    ['moeopt', 'numpy', 'python']
    """
    found = {"moeopt": __version__, "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
