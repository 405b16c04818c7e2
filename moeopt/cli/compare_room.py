"""What `moeopt compare` needs to know of a problem; everything that is alike for all of them is written here."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from moeopt.cli.ask import ask
from moeopt.cli.options import Gate, Shape, Solving
from moeopt.cli.say import Say
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from moeopt.cli.collocate_options import Sharing, Travel
    from moeopt.cli.compare_options import MeshOptions, RouteOptions
    from moeopt.cli.route_input import Hosts
    from moeopt.limits import Limits
    from moeopt.registry import Comparison, Row
    from moeopt.report.sheet import Sheet

RUNNING = "running plan"
"""The row of the plan that runs."""


@dataclass(frozen=True)
class Asked:
    """What was typed, of one comparison.

    `methods` is ``None`` where none are named, `label` a name for the instance.
    """

    inputs: list[str]
    methods: list[str] | None
    plans: list[str]
    shape: Shape
    travel: Travel
    sharing: Sharing
    mesh: MeshOptions
    routing: RouteOptions
    hosts: Hosts
    solving: Solving
    gate: Gate
    executor: Callable[[], Executor] | None = None
    fit: list[str] = field(default_factory=list)
    score: list[str] = field(default_factory=list)
    apart: bool = False
    label: str | None = None

    def given(self, *, without: Sequence[str] = ()) -> list[str]:
        """The options that say something of an instance, as they are typed, but those named."""
        found = [name for name, one in (("--apart", self.apart), ("--fit", self.fit), ("--score", self.score)) if one]
        for group in (self.shape, self.travel, self.sharing, self.mesh, self.routing):
            found += group.given()
        return [option for option in dict.fromkeys(found) if option not in without]


@dataclass(frozen=True, eq=False)
class Answer:
    """A comparison, and what belongs to it: `notes` of the input, names of the ready-made `plans`."""

    room: Room
    instance: Any
    comparison: Comparison
    notes: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()

    @property
    def policies(self) -> list[str]:
        """Methods that are somebody's."""
        return [row.method for row in self.comparison.rows if ":" in row.method and row.method not in self.plans]

    @property
    def sheet(self) -> Sheet:
        """What reports say of it."""
        from moeopt.report.block import Block
        from moeopt.report.sheet import sheets_of

        return sheets_of([Block(self.instance, self.comparison)])[0]


class Room(ABC):
    """How one problem is compared.

    Parameters
    ----------
    name, what
        Of the problem in the registry, and as a sentence calls it.
    takes
        Options that say something of it.
    rival
        The method that a plan must not be worse than where no plan runs.
    heads
        Heads of columns as a terminal has room for them.
    every_plan
        Whether a ready-made plan that cannot be judged is bad usage by itself; else only if none can be.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    takes: ClassVar[Sequence[str]] = ()
    rival: ClassVar[str]
    heads: ClassVar[Mapping[str, str]] = {}
    every_plan: ClassVar[bool] = True

    @abstractmethod
    def read(self, asked: Asked, say: Say) -> tuple[Any, Sequence[str]]:
        """The instance, and notes on what it was made of."""

    @abstractmethod
    def plan(self, path: str, instance: Any) -> Any:
        """A ready-made plan from its file."""

    def default(self, instance: Any, asked: Asked, say: Say) -> list[str]:
        """Methods where none are named: all but ``auto``, which is one of them."""
        return [name for name in self.problem.methods if name != "auto"]

    def running(self, instance: Any) -> Any:
        """The plan that runs, where there is one."""
        return None

    def plans(self, asked: Asked, instance: Any, taken: Sequence[str]) -> tuple[dict[str, Any], tuple[Row, ...]]:
        """Ready-made plans by the names of their rows, and rows of those that are of something else."""
        check, found = Violations(), {}
        for label, path in labelled(asked.plans, taken).items():
            with check.within():
                found[label] = self.plan(path, instance)
        check.raise_if_any()
        return found, ()

    def prepare(self, instance: Any, names: Sequence[str], limits: Limits) -> None:  # noqa: B027
        """What all methods need is done before, or the first one's time would have it."""

    def scored(self, comparison: Comparison, asked: Asked, say: Say) -> Comparison:
        """The same with what the plans are worth elsewhere."""
        return comparison

    def tell(self, answer: Answer, say: Say) -> None:  # noqa: B027
        """What stands under the table on standard output."""

    @property
    def problem(self) -> Any:
        """Its methods and its referee."""
        from moeopt.registry import problem

        return problem(self.name)

    def answer(self, asked: Asked, say: Say) -> Answer:
        """Run all methods, or those that are named, and judge the plans; what does not apply is a row with its reason.

        Raises
        ------
        InstanceError
            Options of other problems, a malformed input or plan, an unknown method: all at once.
        """
        from moeopt.cli.solving import find_plugins, guarded_output

        check, limits = Violations(), asked.solving.limits()
        for option in asked.given(without=self.takes):
            check.add(option, "given", rule=f"is not for {self.what}", fix="Leave it out")
        check.raise_if_any()
        instance, notes = self.read(asked, say)
        names = list(self.default(instance, asked, say) if asked.methods is None else asked.methods)
        runs = self.running(instance)
        if asked.gate.fail_if_worse and runs is None and self.rival not in names:
            names.append(self.rival)
        ready = {} if runs is None else {RUNNING: runs}
        plans, refused = self.plans(asked, instance, [*names, *ready])
        find_plugins(names)
        self.prepare(instance, names, limits)
        with say.progress(instance.name or self.what) as listener, guarded_output(names):
            comparison = ask(
                self.problem.compare,
                instance,
                names,
                plans=ready | plans or None,
                limits=limits,
                seed=asked.solving.seed,
                on_progress=listener,
                executor=asked.executor,
            )
        comparison = self.scored(replace(comparison, rows=comparison.rows + refused), asked, say)
        return Answer(self, instance, comparison, tuple(notes), (*plans, *(row.method for row in refused)))

    def show(self, answer: Answer, say: Say) -> None:
        """The table, and notes beside it."""
        from moeopt.cli.spoken import spoken
        from moeopt.cli.tables import sheet
        from moeopt.report import frame

        made = answer.sheet
        say.show(sheet(answer.instance.name, [head.title for head in made.heads], made.lines, self.heads))
        if not say.quiet:
            self.tell(answer, say)
        comparison = answer.comparison
        for note in answer.notes:
            say.note(spoken(note))
        for note, methods in frame.notes(comparison, getattr(answer.instance, "notes", ())):
            say.note(spoken(f"{', '.join(methods)}: {note}" if methods else note))
        show_errors(comparison, say)

    def document(self, answer: Answer) -> Mapping[str, Any]:
        """The block in JSON."""
        return answer.sheet.document


def show_errors(comparison: Comparison, say: Say) -> None:
    """Where somebody's policy failed, for who asks."""
    for row in comparison.rows:
        if row.error is not None and say.debug:
            traceback.print_exception(row.error)


def labelled(given: Sequence[str], taken: Sequence[str]) -> dict[str, str]:
    """Paths of ready-made plans by the names of their rows: the file's, as it was typed where two are alike.

    >>> labelled(["a/plan.json,b/plan.json", "c/lpt"], ["lpt"])
    {'a/plan.json': 'a/plan.json', 'b/plan.json': 'b/plan.json', 'c/lpt': 'c/lpt'}
    """
    paths = [part for item in given for part in (part.strip() for part in item.split(",")) if part]
    twice = [path for path in dict.fromkeys(paths) if paths.count(path) > 1]
    if twice:
        raise InstanceError([Violation("--plans", "", path, "is given twice", "Leave one out") for path in twice])
    names = [Path(path).name for path in paths]
    found = {}
    for path, name in zip(paths, names, strict=True):
        found[path if names.count(name) > 1 or name in taken else name] = path
    return found


def solution_of(path: str, found: tuple[str, Any] | None, said: str, made: str) -> Any:
    """The solution in a document that a room told apart, or that there is none; `made` writes some."""
    solution = found[1].get("solution") if found is not None and found[0] == said else None
    if not isinstance(solution, Mapping):
        rule, fix = f"is no {said} with a solution", f"Write one with {made} -o plan.json"
        raise InstanceError([Violation("--plans", "", path, rule, fix)])
    return solution
