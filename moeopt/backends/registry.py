"""The back ends there are: a new one is a file with a `run` and a line here."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from moeopt.backends.base import Claim, FloatArray, LinearModel
from moeopt.errors import BackendUnavailable, Violation, Violations
from moeopt.limits import Deadline, Limits

OnIncumbent = Callable[[FloatArray, float | None], None]
"""Told each better solution and the bound of that moment."""


class Run(Protocol):
    """The one function a back end has to offer."""

    def __call__(
        self,
        model: LinearModel,
        *,
        deadline: Deadline,
        limits: Limits,
        seed: int,
        start: FloatArray | None,
        floor: float | None,
        options: Mapping[str, Any],
        on_incumbent: OnIncumbent | None,
    ) -> Claim:
        """Solve; `deadline` replaces ``limits.time_s``."""


@dataclass(frozen=True)
class Backend:
    """One solver: where it lives, under which licence it comes and how it is installed.

    `module` offers ``run`` (see `Run`), ``why_not() -> str | None`` and ``version() -> str``.
    """

    name: str
    module: str
    licence: str
    install: str

    def why_not(self) -> str | None:
        """Why it cannot be used here; ``None`` if it can."""
        reason: str | None = importlib.import_module(self.module).why_not()
        return reason

    def available(self) -> bool:
        """Whether it can be used here."""
        return self.why_not() is None

    def version(self) -> str | None:
        """Its version, ``None`` where it is not available."""
        return str(importlib.import_module(self.module).version()) if self.available() else None

    def label(self) -> str:
        """Name and version, as answers carry it."""
        return f"{self.name} {self.version()}"

    def require(self) -> None:
        """Raise `BackendUnavailable`, with the command that installs it, unless it is available."""
        reason = self.why_not()
        if reason is not None:
            raise BackendUnavailable(f"back end {self.name}: {reason}. {self.install}")

    def run(self) -> Run:
        """Its `Run`."""
        function: Run = importlib.import_module(self.module).run
        return function


BACKENDS: dict[str, Backend] = {
    "highs": Backend("highs", "moeopt.backends.highs", "MIT", "Install it: pip install highspy"),
    "cbc": Backend(
        "cbc",
        "moeopt.backends.cbc",
        "EPL-2.0",
        "PuLP 3 brings one (pip install 'pulp>=3.3,<4'), PuLP 4 takes one from: pip install cbcbox",
    ),
    "scipy": Backend("scipy", "moeopt.backends.scipy_milp", "BSD-3-Clause", "Install it: pip install scipy"),
}
"""By name; ``auto`` is the first of highs and scipy that is available."""


def available_backends() -> tuple[str, ...]:
    """Names of the back ends that can be used here.

    >>> "scipy" in available_backends()
    True
    """
    return tuple(name for name, backend in BACKENDS.items() if backend.available())


def choose(name: str) -> tuple[Backend, tuple[str, ...]]:
    """Find a back end by name, with notes on what `auto` had to give up.

    Raises
    ------
    InstanceError
        No such name.
    BackendUnavailable
        Its package is missing; the message has the command that installs it.
    """
    if name == "auto":
        reason = BACKENDS["highs"].why_not()
        if reason is None:
            return BACKENDS["highs"], ()
        return BACKENDS["scipy"], (f"back end scipy instead of highs: {reason}; pip install highspy",)
    check = Violations()
    if name not in BACKENDS:
        check.found.append(unknown_name("backend", "", name, ["auto", *BACKENDS]))
    check.raise_if_any()
    BACKENDS[name].require()
    return BACKENDS[name], ()


def unknown_name(field: str, where: str, name: str, valid: list[str]) -> Violation:
    """Build the violation for a name that is not among `valid`, with the nearest that are.

    >>> print(unknown_name("backend", "", "hihgs", ["auto", "highs"]))
    backend = hihgs: is not known. Nearest: highs.
    """
    import difflib

    near = difflib.get_close_matches(name, valid, n=3)
    known = f"Known: {', '.join(valid)}" if len(valid) <= 8 else "Look it up"
    return Violation(field, where, name, "is not known", f"Nearest: {', '.join(near)}" if near else known)
