"""The rooms and what they have in common: ``solve``, ``compare``, ``register`` and ``evaluate`` of every problem.

A room gives its own types and the hooks of `Problem`; everything that must be the same everywhere is written here.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

from moeopt import kinds
from moeopt.comparing import counted, judged_row, solved_row, together
from moeopt.comparison import NOT_RUN, Comparison, Row
from moeopt.errors import InstanceError, NotApplicable, Violation, Violations, did_you_mean
from moeopt.limits import Deadline, Limits
from moeopt.method import Context, Listener, Method, Outcome, Progress
from moeopt.plugins import Policy, call, check_policy, import_policy, listed, name_of, overrun, shown
from moeopt.result import Result, Status, Stop
from moeopt.versions import versions

if TYPE_CHECKING:
    from moeopt.executors.spoken import Given

InstanceT = TypeVar("InstanceT")
PlanT = TypeVar("PlanT")

PROBLEMS = {name: f"moeopt.{name}" for name in ("placement", "routing", "collocation", "microbatch", "mesh")}
"""Name of each problem and the module that has its room; a new problem is one line here."""


class Problem(ABC, Generic[InstanceT, PlanT]):
    """A room: methods, a referee, bounds, and the frame that turns an outcome into a result."""

    name: str
    instance_type: type = object
    built_on: tuple[str, ...] = ("numpy",)
    """Packages whose versions a result tells."""

    def __init_subclass__(cls) -> None:
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is Problem and isinstance(get_args(base)[0], type):
                cls.instance_type = get_args(base)[0]

    def __init__(self) -> None:
        self.methods: dict[str, Method[InstanceT, PlanT]] = {}

    @abstractmethod
    def conflicts(self, instance: InstanceT) -> list[dict[str, Any]]:
        """Well-formed rules that cannot hold together."""

    @abstractmethod
    def as_plan(self, instance: InstanceT, raw: Any) -> PlanT:
        """Take a plan in any form that somebody's policy returns."""

    def from_policy(self, instance: InstanceT, raw: Any) -> PlanT:
        """What somebody's policy answers as a plan of our own, of which whoever made it has no part."""
        return self.as_plan(instance, raw)

    @abstractmethod
    def evaluate(self, instance: InstanceT, plan: Any, split: str | None = None) -> Any:
        """Judge a plan; raises `PlanError` with every fault."""

    @abstractmethod
    def result(self, instance: InstanceT, method: str, outcome: Outcome[PlanT], context: Context) -> Result:
        """Judge the outcome's plan, bound it, and frame both."""

    @abstractmethod
    def reference(self, instance: InstanceT) -> Mapping[str, Any]:
        """How a result names its instance: name, digest, and the document without what is bulky."""

    @abstractmethod
    def unit(self, instance: InstanceT) -> str:
        """What the objective is counted in."""

    def frame(
        self, instance: InstanceT, method: str, outcome: Outcome[PlanT], context: Context, *, proved: bool = False
    ) -> dict[str, Any]:
        """What every result has, whatever came of it; what is proved optimal was stopped by its gap, not by a limit."""
        limited = outcome.stop in (Stop.ITERATIONS, Stop.NODES, Stop.TIME)
        return {
            "problem": self.name,
            "instance": self.reference(instance),
            "method": method,
            "stop": Stop.GAP if proved and limited else outcome.stop,
            "unit": self.unit(instance),
            "runtime_s": context.deadline.elapsed_s(),
            "seed": context.seed,
            "iterations": outcome.iterations,
            "notes": tuple(dict.fromkeys((*getattr(instance, "notes", ()), *outcome.notes))),
            "versions": {**versions(*self.built_on), **outcome.versions},
        }

    def impossible(self, instance: InstanceT, method: str, conflicts: list[dict[str, Any]], context: Context) -> Result:
        """The INFEASIBLE result."""
        frame = self.frame(instance, method, Outcome(None), context)
        return Result(status=Status.INFEASIBLE, conflicts=tuple(conflicts), **frame)

    def readied(self, instance: InstanceT, method: str) -> AbstractContextManager[None]:
        """What is there while an instance is answered, from before it is prepared; nothing here."""
        return nullcontext()

    def prepared(self, instance: InstanceT, context: Context) -> InstanceT:
        """The instance with what everything else starts from, where finding that out takes a part of the time."""
        return instance

    def relaxed(self, instance: InstanceT, method: str) -> tuple[InstanceT, str] | None:
        """An instance without the rule that keeps `method` from working, for comparison, and that rule's name."""
        return None

    def register(self, name: str, policy: Callable[[InstanceT, Limits, int], Any], *, summary: str = "") -> None:
        """Add anybody's policy ``f(instance, limits, seed) -> plan``; the referee judges it like ours.

        `summary` is what ``moeopt info methods`` shows.

        Raises
        ------
        InstanceError
            The name is taken by a method of the house, or no word; the policy is no function.

        >>> from moeopt import placement
        >>> def dealt(instance, limits, seed):
        ...     return [list(range(instance.num_slots))]
        >>> placement.register("dealt", dealt, summary="in order")
        >>> placement.METHODS.pop("dealt").claim
        'plug-in'
        """
        check_policy(name, policy)
        known = self.methods.get(name)
        if known is not None and known.claim != "plug-in":
            rule = "is a method of the house"
            raise InstanceError([Violation("name", "", repr(name), rule, "Choose another name")])

        check = Violations()
        kinds.word(check, "summary", summary)
        check.raise_if_any()
        self.methods[name] = self._plugged(name, policy, summary)

    def _plugged(self, name: str, policy: Policy, summary: str = "") -> Method[InstanceT, PlanT]:
        """A policy as a method."""

        def run(instance: InstanceT, context: Context) -> Outcome[PlanT]:
            raw, elapsed_s = call(policy, instance, context.limits, context.seed)
            out_of_time, notes = overrun(context.limits, elapsed_s)
            stop = Stop.TIME if out_of_time else Stop.FINISHED
            return Outcome(self.from_policy(instance, raw), stop, notes=notes)

        first_line = ((getattr(policy, "__doc__", None) or "").strip().splitlines() or ["a registered policy"])[0]
        return Method(name, run, summary or first_line, claim="plug-in")

    def method(self, name: str | Policy) -> Method[InstanceT, PlanT]:
        """A method by its name, or somebody's policy: the function, or ``package.module:function`` to import it.

        A function goes by its own name, and is not kept: `register` keeps one.
        """
        if not isinstance(name, str):
            own = name_of(name)
            known = self.methods.get(own)
            if known is not None and known.claim != "plug-in":
                rule = f"has the name of a method of the house, {own!r}"
                fix = f'Rename it, or name it: {self.name}.register("mine", function)'
                raise InstanceError([Violation("method", "", shown(name), rule, fix)])
            return self._plugged(own, name)
        if name in self.methods:
            return self.methods[name]
        if ":" in name:
            self.register(name, import_policy(name))
            return self.methods[name]
        rule = f"is not a method of {self.name}; known: {', '.join(self.methods)}"
        fix = did_you_mean(name, self.methods, "Use one of these, or package.module:function", most=1)
        raise InstanceError([Violation("method", "", repr(name), rule, fix)])

    def solve(
        self,
        instance: InstanceT,
        *,
        method: str | Policy = "auto",
        limits: Limits | None = None,
        seed: int = 0,
        warm_start: Any = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Result:
        """Answer one instance.

        `method` is a name, ``package.module:function``, or your own function ``f(instance, limits, seed) -> plan``;
        `warm_start` is a plan that the answer is never worse than.

        Raises
        ------
        InstanceError
            The method is unknown, an argument is of the wrong kind, or a warm start breaks a rule.
        NotApplicable
            The method cannot work on this instance.
        PlanError
            Somebody's policy returned a plan that breaks a rule.

        >>> from moeopt import placement
        >>> result = placement.solve(placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4), method="lpt")
        >>> result.objective, result.lower_bound, str(result.status)
        (10.0, 8.0, 'FEASIBLE')
        """
        limits, seed = self.checked(instance, limits, seed, on_progress)
        listener = None if on_progress is None else Listener(on_progress)
        context = Context(limits, seed, Deadline(limits.time_s, limits.stop), None, listener)
        chosen = self.method(method)
        with self.readied(instance, chosen.name):
            return self._solved(instance, chosen, warm_start, context)

    def answer(self, shown: InstanceT, judged: InstanceT, *, method: str | Policy, limits: Limits, seed: int) -> Result:
        """As `solve`, of a method that is shown one instance and judged by another, which lacks a rule of it."""
        limits, seed = self.checked(shown, limits, seed)
        context, chosen = Context(limits, seed, Deadline(limits.time_s, limits.stop)), self.method(method)
        with self.readied(shown, chosen.name):
            return self._solved(shown, chosen, None, context, judged)

    def _solved(
        self,
        instance: InstanceT,
        chosen: Method[InstanceT, PlanT],
        warm_start: Any,
        context: Context,
        judged: InstanceT | None = None,
    ) -> Result:
        """Prepare, run and judge, by the rules of `judged` where they are others."""
        method, listener = chosen.name, context.on_progress
        instance = self.prepared(instance, context)
        conflicts = self.conflicts(instance)
        if conflicts:
            return self.impossible(instance, method, conflicts, context)
        reason = chosen.applies(instance)
        if reason:
            raise NotApplicable(f"{method} does not apply: {reason}")
        if warm_start is not None:
            plan = self.as_plan(instance, warm_start)
            self.evaluate(instance, plan)
            context = replace(context, warm_start=plan)
        outcome = chosen.run(instance, context)
        if outcome.stop is Stop.TIME and context.deadline.stopped():
            outcome = replace(outcome, stop=Stop.INTERRUPTED)
        result = self.result(instance if judged is None else judged, method, outcome, context)
        if isinstance(listener, Listener) and listener.note is not None:
            result = replace(result, notes=(*result.notes, listener.note))
        return result

    def own(self, instance: object) -> None:
        """Refuse what is no instance of this problem."""
        check = Violations()
        self._own(check, instance)
        check.raise_if_any()

    def _own(self, check: Violations, instance: object) -> None:
        if not isinstance(instance, self.instance_type):
            kind = self.instance_type.__name__
            check.add("instance", instance, rule=f"must be a {kind}", fix=f"Build one: {kind}(...)")

    def checked(
        self, instance: Any, limits: Any, seed: Any, on_progress: Any = None, *, listener: str = "on_progress"
    ) -> tuple[Limits, int]:
        """Limits and seed, or every argument that is of the wrong kind."""
        check = Violations()
        self._own(check, instance)
        kinds.callback(check, listener, on_progress)
        if limits is not None and not isinstance(limits, Limits):
            check.add("limits", limits, rule="must be a Limits", fix="Write limits=Limits(time_s=5)")
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            check.refuse("seed", seed, rule="must be a whole number >= 0", fix="Use 0")
        check.raise_if_any()
        return limits or Limits(), int(seed)

    def compare(
        self,
        instance: InstanceT,
        methods: Iterable[str | Policy],
        *,
        plans: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
        executor: Given = None,
    ) -> Comparison:
        """Run several methods, and judge ready-made `plans`, on one instance; a failure is a row with its reason.

        `methods` are given as `solve` takes them; a function is a row of its own name. Ctrl-C ends it after the method
        being run: the rows so far stay, the others say that they were not run. With an `executor` (as
        `moeopt.executors.run_all` takes it, such as ``"processes:2"``) methods run beside each other and end in the
        same rows; `on_progress` hears of whole methods then.

        Raises
        ------
        InstanceError
            A method is unknown, or an argument is of the wrong kind.

        >>> from moeopt import placement
        >>> instance = placement.PlacementInstance([[3, 3, 2, 2, 2, 0]], gpus=2, slots=6)
        >>> found = placement.compare(instance, ["eplb", "exact"])
        >>> found.best, [row.result.objective for row in found.rows]
        ('exact', [7.0, 6.0])
        """
        from moeopt.executors.rows import make_rows, row_in_worker  # and with it the machinery of futures
        from moeopt.executors.spoken import made_of

        limits, seed = self.checked(instance, limits, seed, on_progress)
        if plans is not None:
            check = Violations()
            kinds.mapping(check, "plans", plans, '{"mine": plan}')
            check.raise_if_any()
        executor = made_of(executor)
        asked = listed(methods, self.method)  # misspelt names stop before any work, all of them at once
        judged = [
            (name, partial(judged_row, self, instance, name, raw, limits, seed)) for name, raw in (plans or {}).items()
        ]
        if executor is None:
            own = [(name, partial(self.row, instance, one, limits, seed, on_progress)) for name, one in asked]
            rows, interrupted = make_rows([*own, *judged])
        else:
            apart = [(name, partial(row_in_worker, self.name, instance, one, limits, seed)) for name, one in asked]
            rows, interrupted = make_rows(apart, executor, counted(on_progress, len(asked)))
            if interrupted:
                rows += [Row(name, None, NOT_RUN) for name, _ in judged]
            else:
                more, interrupted = make_rows(judged)
                rows += more
        return together(self.name, instance, rows, interrupted)

    def row(
        self,
        instance: InstanceT,
        method: str | Policy,
        limits: Limits | None,
        seed: int,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Row:
        """One method: its result, or the reason why there is none."""
        chosen = self.method(method)

        def solve(what: InstanceT) -> Result:
            return self.solve(what, method=method, limits=limits, seed=seed, on_progress=on_progress)

        return solved_row(self, instance, chosen, solve)


def problem(name: str) -> Problem[Any, Any]:
    """The room of that name.

    >>> problem("placement").name
    'placement'
    """
    if not isinstance(name, str) or name not in PROBLEMS:
        rule = f"is not a problem; known: {', '.join(PROBLEMS)}"
        raise InstanceError([Violation("problem", "", shown(name), rule, "Use one of these")])
    room: Problem[Any, Any] = importlib.import_module(PROBLEMS[name]).PROBLEM
    return room


def register(problem_name: str, name: str, policy: Callable[[Any, Limits, int], Any]) -> None:
    """Plug in a policy ``f(instance, limits, seed) -> plan`` under a name of your own.

    `problem_name` is one of `PROBLEMS`; the referee of that problem judges what the policy returns.

    >>> from moeopt import placement
    >>> register("placement", "in_order", lambda instance, limits, seed: [list(range(instance.num_slots))])
    >>> placement.solve(placement.PlacementInstance([[2, 1]], gpus=2, slots=2), method="in_order").objective
    2.0
    >>> del placement.METHODS["in_order"]
    """
    problem(problem_name).register(name, policy)


__all__ = [
    "PROBLEMS",
    "Comparison",
    "Context",
    "Method",
    "Outcome",
    "Problem",
    "Progress",
    "Row",
    "Status",
    "Stop",
    "problem",
    "register",
]
