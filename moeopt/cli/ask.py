"""The one library call that a verb makes: it is made, or with ``--show-python`` told instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

SHOWING: ContextVar[bool] = ContextVar("SHOWING", default=False)
"""Whether calls are told."""


@dataclass(frozen=True)
class After:
    """What the command does with a result once it has it.

    Parameters
    ----------
    before, behind
        Notes it puts before and behind the result's own.
    decide
        Arguments of a decision.
    passes
        Single passes that the plan is measured on, and what they are called.
    lost
        Whether it says what failures would take with them.
    sliced
        How many windows files were dealt into, and by which seed, where no option of the command says it.
    """

    before: Sequence[str] = ()
    behind: Sequence[str] = ()
    decide: Mapping[str, Any] = field(default_factory=dict)
    passes: tuple[Any, str] | None = None
    lost: bool = False
    sliced: tuple[int | None, int] = (None, 0)


class Told(BaseException):
    """A call that is told; no fault, so that nobody who catches faults stops it."""

    def __init__(self, call: partial[Any], after: After) -> None:
        super().__init__("told")
        self.call, self.after = call, after


def ask(function: Callable[..., T], /, *args: Any, after: After = After(), **kwargs: Any) -> T:
    """Call the library.

    Raises
    ------
    Told
        Under ``--show-python``, in place of the call.
    """
    if SHOWING.get():
        raise Told(partial(function, *args, **kwargs), after)
    return function(*args, **kwargs)
