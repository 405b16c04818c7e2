"""Packages whose names are loaded when one is used, so that nobody waits for what he does not need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def exports(package: str, names: Sequence[str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that offers `names` and keeps them in its module ``public``.

    A module of the package may not bear one of these names: once imported, it would stand in its place.

    >>> exports("moeopt.placement", ["solve"])("solve").__name__
    'solve'
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.public"), name)
        setattr(sys.modules[package], name, found)
        return found

    return get
