"""What a method of any problem is: a name, a function of an instance and a context, and the outcome it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from moeopt.limits import Deadline, Limits
from moeopt.result import Stop

InstanceT = TypeVar("InstanceT")
PlanT = TypeVar("PlanT")


@dataclass(frozen=True)
class Progress:
    """How far a solve has come: `done` of `total` layers or parts, and the objective so far where it is known."""

    done: int
    total: int
    message: str = ""


@dataclass(frozen=True)
class Context:
    """What a method is given besides the instance; `first_row` is the row of its first layer where it is a part."""

    limits: Limits
    seed: int
    deadline: Deadline
    warm_start: Any = None
    on_progress: Callable[[Progress], None] | None = None
    first_row: int = 0

    def seed_of(self, row: int) -> int:
        """A seed for a layer, the same where the layer is planned alone."""
        return self.seed * 1_000_003 + self.first_row + row

    def report(self, done: int, total: int, message: str = "") -> None:
        """Tell whoever listens how far we are."""
        if self.on_progress is not None:
            self.on_progress(Progress(done, total, message))


@dataclass
class Outcome(Generic[PlanT]):
    """What a method gives back: a plan, why it stopped, bounds it has proved, and what it has to say.

    ``details`` go into the solution as they are.
    """

    plan: PlanT | None
    stop: Stop = Stop.FINISHED
    iterations: int = 0
    incumbents: list[tuple[float, float]] = field(default_factory=list)
    bounds: list[Any] | None = None
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method(Generic[InstanceT, PlanT]):
    """A named way to answer.

    Parameters
    ----------
    summary, claim
        One line on how it works, and how strong its answer is.
    applies
        Why it cannot work on an instance, or ``None`` when it can.
    """

    name: str
    run: Callable[[InstanceT, Context], Outcome[PlanT]]
    summary: str = ""
    claim: str = "heuristic"
    applies: Callable[[InstanceT], str | None] = lambda instance: None


class Listener:
    """Somebody's `on_progress`: where it raises, it is not called again, and the result says so."""

    def __init__(self, listen: Callable[[Progress], None]) -> None:
        self.listen = listen
        self.note: str | None = None

    def __call__(self, progress: Progress) -> None:
        if self.note is None:
            try:
                self.listen(progress)
            except Exception as error:  # a broken progress bar must not cost the plan
                self.note = f"on_progress failed and was not called again: {type(error).__name__}: {error}"
