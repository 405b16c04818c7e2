"""The rooms and what they have in common: ``solve``, ``compare``, ``register`` and ``evaluate`` of every problem.

A room gives its own types and the hooks of `Problem`; everything that must be the same everywhere is written here.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from moeopt.errors import InstanceError, MoeoptError, NotApplicable, Violation
from moeopt.limits import Deadline, Limits
from moeopt.result import Result, Status, Stop, relative_gap

InstanceT = TypeVar("InstanceT")
PlanT = TypeVar("PlanT")

PROBLEMS = {"placement": "moeopt.placement"}
"""Name of each problem and the module that has its room; a new problem is one line here."""


@dataclass(frozen=True)
class Progress:
    """How far a solve has come: `done` of `total` layers or parts, and the objective so far where it is known."""

    done: int
    total: int
    message: str = ""


@dataclass(frozen=True)
class Context:
    """What a method is given besides the instance."""

    limits: Limits
    seed: int
    deadline: Deadline
    warm_start: Any = None
    on_progress: Callable[[Progress], None] | None = None

    def report(self, done: int, total: int, message: str = "") -> None:
        """Tell whoever listens how far we are."""
        if self.on_progress is not None:
            self.on_progress(Progress(done, total, message))


@dataclass
class Outcome(Generic[PlanT]):
    """What a method gives back: a plan, why it stopped, bounds it has proved, and what it has to say."""

    plan: PlanT | None
    stop: Stop = Stop.FINISHED
    iterations: int = 0
    incumbents: list[tuple[float, float]] = field(default_factory=list)
    bounds: list[Any] | None = None
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


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


@dataclass(frozen=True)
class Row:
    """One method in a comparison: its result, or the reason why there is none; `remark` marks a broken rule."""

    method: str
    result: Result | None
    reason: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Comparison:
    """Several methods on one instance, judged by one referee and measured against the best bound of all.

    Parameters
    ----------
    lower_bound
        Largest bound that any method proved, ``None`` when there is none.
    best
        Name of the method with the least objective among plans that break no rule; the first of equals.
    """

    problem: str
    instance: Mapping[str, Any]
    rows: tuple[Row, ...]
    lower_bound: float | None
    best: str | None

    def gap(self, row: Row) -> float | None:
        """Gap of a row to the best bound of all rows."""
        if row.result is None or row.result.objective is None or self.lower_bound is None:
            return None
        return max(relative_gap(row.result.objective, self.lower_bound), 0.0)


class Problem(ABC, Generic[InstanceT, PlanT]):
    """A room: methods, a referee, bounds, and the frame that turns an outcome into a result."""

    name: str

    def __init__(self) -> None:
        self.methods: dict[str, Method[InstanceT, PlanT]] = {}

    @abstractmethod
    def conflicts(self, instance: InstanceT) -> list[dict[str, Any]]:
        """Well-formed rules that cannot hold together."""

    @abstractmethod
    def as_plan(self, instance: InstanceT, raw: Any) -> PlanT:
        """Take a plan in any form that somebody's policy returns."""

    @abstractmethod
    def evaluate(self, instance: InstanceT, plan: Any, split: str | None = None) -> Any:
        """Judge a plan; raises `PlanError` with every fault."""

    @abstractmethod
    def result(self, instance: InstanceT, method: str, outcome: Outcome[PlanT], context: Context) -> Result:
        """Judge the outcome's plan, bound it, and frame both."""

    @abstractmethod
    def impossible(self, instance: InstanceT, method: str, conflicts: list[dict[str, Any]], context: Context) -> Result:
        """The INFEASIBLE result."""

    def relaxed(self, instance: InstanceT, method: str) -> tuple[InstanceT, str] | None:
        """An instance without the rule that keeps `method` from working, for comparison, and that rule's name."""
        return None

    def register(self, name: str, policy: Callable[[InstanceT, Limits, int], Any], *, summary: str = "") -> None:
        """Add anybody's policy ``f(instance, limits, seed) -> plan``; the referee judges it like ours.

        Raises
        ------
        InstanceError
            The name is taken by a method of the house.
        """
        known = self.methods.get(name)
        if known is not None and known.claim != "plug-in":
            rule = "is a method of the house"
            raise InstanceError([Violation("name", "", repr(name), rule, "Choose another name")])

        def run(instance: InstanceT, context: Context) -> Outcome[PlanT]:
            return Outcome(self.as_plan(instance, policy(instance, context.limits, context.seed)))

        first_line = ((policy.__doc__ or "").strip().splitlines() or ["a registered policy"])[0]
        self.methods[name] = Method(name, run, summary or first_line, claim="plug-in")

    def method(self, name: str) -> Method[InstanceT, PlanT]:
        """Look a method up by name; ``package.module:function`` imports somebody's policy."""
        if name in self.methods:
            return self.methods[name]
        if ":" in name:
            self.register(name, _import_policy(name))
            return self.methods[name]
        near = _nearest(name, self.methods)
        rule = f"is not a method of {self.name}; known: {', '.join(self.methods)}"
        fix = f"Did you mean {near}?" if near else "Use one of these, or package.module:function"
        raise InstanceError([Violation("method", "", repr(name), rule, fix)])

    def solve(
        self,
        instance: InstanceT,
        *,
        method: str = "auto",
        limits: Limits | None = None,
        seed: int = 0,
        warm_start: Any = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Result:
        """Answer one instance.

        Raises
        ------
        InstanceError
            The method is unknown, or a warm start breaks a rule.
        NotApplicable
            The method cannot work on this instance.
        PlanError
            Somebody's policy returned a plan that breaks a rule.
        """
        limits = limits or Limits()
        context = Context(limits, seed, Deadline(limits.time_s), None, on_progress)
        chosen = self.method(method)
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
        return self.result(instance, method, chosen.run(instance, context), context)

    def compare(
        self,
        instance: InstanceT,
        methods: Iterable[str],
        *,
        plans: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Comparison:
        """Run several methods, and judge ready-made `plans`, on one instance; a failure is a row with its reason."""
        rows = []
        names = list(dict.fromkeys(methods))
        for name in names:
            self.method(name)  # a misspelt name stops before any work
        for name in names:
            rows.append(self._row(instance, name, limits, seed, on_progress))
        context = Context(limits or Limits(), seed, Deadline(None))
        for name, raw in (plans or {}).items():
            try:
                outcome = Outcome(self.as_plan(instance, raw))
                rows.append(Row(name, self.result(instance, name, outcome, context)))
            except MoeoptError as error:
                rows.append(Row(name, None, str(error)))
        legal = [row for row in rows if row.result is not None and not row.remark]
        solved = [row for row in legal if row.result is not None and row.result.objective is not None]
        bounds = [row.result.lower_bound for row in legal if row.result and row.result.lower_bound is not None]
        best = min(solved, key=_objective, default=None)
        reference = next((dict(row.result.instance) for row in legal if row.result is not None), {})
        return Comparison(self.name, reference, tuple(rows), max(bounds, default=None), best.method if best else None)

    def _row(
        self,
        instance: InstanceT,
        name: str,
        limits: Limits | None,
        seed: int,
        on_progress: Callable[[Progress], None] | None,
    ) -> Row:
        def solve(what: InstanceT) -> Result:
            return self.solve(what, method=name, limits=limits, seed=seed, on_progress=on_progress)

        try:
            return Row(name, solve(instance))
        except NotApplicable as error:
            relaxed = self.relaxed(instance, name)
            if relaxed is None:
                return Row(name, None, str(error))
            easier, rule = relaxed
            try:
                result = solve(easier)
                self.evaluate(instance, result.plan)
                return Row(name, result)
            except MoeoptError as broken:
                if isinstance(broken, NotApplicable):
                    return Row(name, None, str(broken))
                return Row(name, result, remark=f"breaks {rule}")
        except MoeoptError as error:
            return Row(name, None, str(error))
        except Exception as error:
            if self.methods[name].claim != "plug-in":
                raise
            return Row(name, None, f"the policy failed: {type(error).__name__}: {error}")


def problem(name: str) -> Problem[Any, Any]:
    """The room of that name.

    >>> problem("placement").name
    'placement'
    """
    if name not in PROBLEMS:
        rule = f"is not a problem; known: {', '.join(PROBLEMS)}"
        raise InstanceError([Violation("problem", "", repr(name), rule, "Use one of these")])
    room: Problem[Any, Any] = importlib.import_module(PROBLEMS[name]).PROBLEM
    return room


def register(problem_name: str, name: str, policy: Callable[[Any, Limits, int], Any]) -> None:
    """Plug in a policy ``f(instance, limits, seed) -> plan`` under a name of your own."""
    problem(problem_name).register(name, policy)


def _objective(row: Row) -> float:
    assert row.result is not None and row.result.objective is not None
    return row.result.objective


def _import_policy(name: str) -> Callable[[Any, Limits, int], Any]:
    module_name, _, attribute = name.partition(":")
    fix = "Give package.module:function, importable from here"
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # the module is somebody's: anything can go wrong while it runs
        rule = f"cannot be imported ({type(error).__name__}: {error})"
        raise InstanceError([Violation("method", "", repr(name), rule, fix)]) from error
    if not callable(found):
        raise InstanceError([Violation("method", "", repr(name), "is not a function", fix)])
    policy: Callable[[Any, Limits, int], Any] = found
    return policy


def _nearest(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1)), None)


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
