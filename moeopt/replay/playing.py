"""The play itself: period after period, each whole or not at all."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from moeopt import plugins
from moeopt.executors import Lost
from moeopt.executors.run import Pools, run_all
from moeopt.kernels.warmup import load_windows
from moeopt.kernels.windows import improve_windows
from moeopt.limits import Deadline, Limits
from moeopt.placement.heuristics.deep import engine
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.replanning.decide import decide
from moeopt.placement.replanning.method import pace
from moeopt.placement.replanning.report import running_plan
from moeopt.registry import Progress
from moeopt.replay.answer import Row
from moeopt.replay.figures import Figures, figures
from moeopt.replay.over import within_budget
from moeopt.replay.policies import KEEP, SUM, Answer, Policy, Task, answered, first_plan, seen
from moeopt.replay.prices import Clock, Prices
from moeopt.replay.replan import Replan
from moeopt.replay.schedule import Period
from moeopt.replay.scores import Score, bound, score
from moeopt.result import MACHINE_NOTE, Result, Stop

SEARCHES = frozenset({"auto", "search", "exact", "replan"})
"""Methods that run on compiled code."""


@dataclass
class _State:
    """A policy on its way."""

    policy: Policy
    plan: Placement
    scores: list[Score] = field(default_factory=list)
    replans: list[Replan] = field(default_factory=list)
    reason: str = ""


@dataclass
class Playing:
    """One replay; what stands in it after each period is whole."""

    history: PlacementInstance
    policies: tuple[Policy, ...]
    periods: tuple[Period, ...]
    combine: str
    prices: Prices | None
    if_it_pays: bool
    limits: Limits
    seed: int
    on_progress: Callable[[Progress], None] | None
    pools: Pools | None = None
    played: int = 0
    first: Placement | None = None
    bound: list[float] = field(default_factory=list)
    states: list[_State] = field(default_factory=list)
    stop: Stop = Stop.FINISHED
    notes: list[str] = field(default_factory=list)
    said: dict[str, list[str]] = field(default_factory=dict)
    conflicts: tuple[dict[str, object], ...] = ()
    clock: Clock | None = None
    kept: list[Score] = field(default_factory=list)
    score_s: float = 0.0
    budgetless: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.deadline = Deadline(self.limits.time_s, self.limits.stop)
        self.plans_left = sum(policy.method != KEEP for policy in self.policies) * len(self.periods)

    def play(self, first: str | plugins.Policy) -> None:
        """Play period after period until the end, the limit or an interrupt."""
        if not self._begin(first):
            return
        for period in self.periods:
            if self.played and self.deadline.passed():
                self._ended(period)
                return
            try:
                self._play(period)
            except KeyboardInterrupt:
                if not self.played:
                    raise  # there is nothing to keep
                self.stop = Stop.INTERRUPTED
                self._say_ended("interrupted", period)
                return

    def _begin(self, method: str | plugins.Policy) -> bool:
        """The plan that all begin with."""
        self._load(method)
        if self.history.current is not None:
            self.first = running_plan(self.history)
        else:
            self.plans_left -= sum(policy.method != KEEP for policy in self.policies) - 1
            result = first_plan(self.history, method, self.periods[0].seen, self.combine, self._share(), self.seed)
            if result.plan is None:
                self.stop, self.conflicts = result.stop, tuple(dict(one) for one in result.conflicts)
                self.notes.extend(result.notes)
                return False
            self.first = result.plan
            self._note("first placement", result)
        start_s = time.perf_counter()
        window = self.periods[0].scored.start
        reference = score(window, self.history.windows[window], self.first)
        self.score_s = time.perf_counter() - start_s
        if self.prices is not None:
            self.clock = Clock(self.prices, self.history, reference)
        self.states = [_State(policy, self.first) for policy in self.policies]
        return True

    def _load(self, first: str | plugins.Policy) -> None:
        """Load compiled code while there is time for it: a share of the time would be too short to do it in."""
        used = {policy.method for policy in self.policies}
        if self.history.current is None:
            used.add(plugins.name_of(first))
        if self.deadline.limited and used & SEARCHES:
            engine(self.deadline)
            pace(self.deadline)
            if self.combine != SUM and len(self.periods[0].seen) > 1 and improve_windows.in_time(self.deadline):
                load_windows()

    def _play(self, period: Period) -> None:
        """Plan and score one period for every policy, or leave everything as it was."""
        planning = self.played > 0 or self.history.current is not None
        replans, reasons = self._plans(period) if planning else self._no_plans()
        if planning and self.deadline.stopped():
            raise KeyboardInterrupt  # plans cut short are no measure of a policy
        known: dict[tuple[int, int], Score] = {}

        def judged(plan: Placement) -> list[Score]:
            for window in period.scored:
                if (id(plan), window) not in known:
                    known[id(plan), window] = score(window, self.history.windows[window], plan)
            return [known[id(plan), window] for window in period.scored]

        assert self.first is not None
        floors = [bound(self.history.windows[window]) for window in period.scored]
        kept = judged(self.first) if self.clock is not None else []
        scores, priced = [], []
        for state, made, reason in zip(self.states, replans, reasons, strict=True):
            plan = state.plan if made is None or made.plan is None else made.plan
            scores.append([] if reason else judged(plan))
            if made is not None and self.clock is not None and not reason:
                stall = self.clock.stall_s(made.moves)
                gain, even = self.clock.worth(stall, judged(state.plan), scores[-1])
                made = replace(made, stall_s=stall, gain_s=gain, break_even_steps=even if made.moves else None)
            priced.append(made)
        for state, made, reason, found in zip(self.states, priced, reasons, scores, strict=True):
            state.reason = reason
            state.scores += found
            if made is not None:
                state.replans.append(made)
                state.plan = made.plan or state.plan
        self.bound += floors
        self.kept += kept
        self.played += 1

    def _no_plans(self) -> tuple[list[Replan | None], list[str]]:
        return [None for _ in self.states], [state.reason for state in self.states]

    def _plans(self, period: Period) -> tuple[list[Replan | None], list[str]]:
        """A plan for a period of every policy that makes one, or why it failed; where they are made does not matter."""
        replans, reasons = self._no_plans()
        asked = [place for place, state in enumerate(self.states) if not state.reason and state.policy.method != KEEP]
        answers: dict[int, Answer] = {}
        with closing(self._answers(asked, period)) as made:
            for place, answer in made:
                answers[place] = answer
                if self.on_progress is not None:
                    done = self.played * len(self.states) + len(answers)
                    self.on_progress(
                        Progress(done, len(self.periods) * len(self.states), self.states[place].policy.name)
                    )
        for place in asked:
            answer = answers[place]
            if isinstance(answer, str):
                reasons[place] = f"at window {period.scored.start}: {' '.join(answer.split())}"
            else:
                replans[place] = self._replanned(self.states[place], period, *answer)
        return replans, reasons

    def _answers(self, asked: list[int], period: Period) -> Generator[tuple[int, Answer], None, None]:
        """The answer of each policy by its place, as they come."""
        if self.pools is None:
            for place in asked:
                yield place, answered(self._task(place, period, self._share()))
            return
        share = replace(self._share(), stop=None)  # which no other process could ask
        self.plans_left -= len(asked) - 1
        tasks = [self._task(place, period, share) for place in asked]
        with closing(run_all(answered, tasks, self.pools)) as made:
            for at, answer in made:
                yield asked[at], f"it ended its worker: {answer.reason}" if isinstance(answer, Lost) else answer

    def _task(self, place: int, period: Period, share: Limits) -> Task:
        """What a policy is asked: all that it may know."""
        state = self.states[place]
        return state.policy, seen(self.history, period.seen, self.combine, state.plan), share, self.seed

    def _replanned(self, state: _State, period: Period, result: Result, held: bool) -> Replan:
        """What a policy's answer does to its plan."""
        policy = state.policy
        if not held:
            self.budgetless.add(policy.name)
        self._note(policy.name, result)
        solution = result.solution or {}
        made = Replan(
            period.scored.start,
            period.seen,
            result.plan,
            solution.get("moves", 0),
            None,
            solution.get("imbalance_now"),
            solution.get("imbalance_total"),
            str(result.status),
            str(result.stop),
            runtime_s=result.runtime_s,
        )
        if result.plan is None:
            made = replace(made, note=f"no plan ({result.status}, {result.stop}): the running one stays")
        elif made.moves and self.if_it_pays:
            made = self._weighed(made, result, period)
        if made.plan is not None and _same(made.plan, state.plan):
            made = replace(made, plan=None)
        return replace(made, budget_held=within_budget(policy, self.history, state.plan, made.plan))

    def _note(self, who: str, result: Result) -> None:
        """What a solve has to say, once a policy."""
        for note in result.notes:
            said = note if note.startswith(MACHINE_NOTE) else f"{who}: {note}"
            self.said.setdefault(re.sub(r"\d[\d,.]*", "0", said), []).append(said)

    def all_notes(self) -> list[str]:
        """Of notes that differ in numbers alone, the first."""
        found = list(dict.fromkeys(self.notes))
        for kind in self.said.values():
            more = (
                "" if len(kind) == 1 or kind[0].startswith(MACHINE_NOTE) else f" (the first of {len(kind)} such notes)"
            )
            found.append(kind[0] + more)
        return found

    def _weighed(self, made: Replan, result: Result, period: Period) -> Replan:
        """The re-plan, or none where it does not pay by what was seen."""
        assert self.clock is not None and self.prices is not None
        steps = self.history.window_steps[period.seen.start : period.seen.stop]
        every = len(self.periods[0].scored)
        decision = decide(
            result,
            steps_until_next=round(sum(steps) * every / len(steps)),
            step_seconds=None if made.imbalance_now is None else self.clock.step_s(made.imbalance_now),
            stall_seconds=self.clock.stall_s(made.moves),
        )
        if decision:
            return replace(made, note=f"move: {decision.reason}")
        return replace(made, plan=None, moves=0, note=f"keep: {decision.reason}")

    def _share(self) -> Limits:
        """Limits of one plan: an equal part of the time that is left, what scoring takes put aside."""
        if not self.deadline.limited:
            self.plans_left -= 1
            return self.limits
        windows = sum(len(period.scored) for period in self.periods[self.played :])
        left = self.deadline.remaining_s() - windows * (len(self.policies) + 1) * self.score_s
        share = max(left / max(self.plans_left, 1), 1e-3)
        self.plans_left -= 1
        return replace(self.limits, time_s=share)

    def _ended(self, period: Period) -> None:
        """The limit, or somebody, has ended it between two periods."""
        stopped = self.deadline.stopped()
        self.stop = Stop.INTERRUPTED if stopped else Stop.TIME
        self._say_ended("interrupted" if stopped else "the time was up", period)

    def _say_ended(self, why: str, period: Period) -> None:
        left = sum(len(one.scored) for one in self.periods[self.played :])
        self.notes.append(f"{why} before window {period.scored.start}: {left} windows were not scored")

    def rows(self) -> tuple[Row, ...]:
        """Every policy with its figures, and what it saved against keeping the first placement."""
        clock = self.clock
        kept = math.fsum(map(clock.experts_s, self.kept)) if clock is not None else 0.0
        found = []
        for state in self.states:
            worth: Figures | None = None
            if not state.reason and state.scores:
                worth = figures(state.scores, state.replans, self.history, clock)
                if worth.total_s is not None:
                    worth = replace(worth, saved_s=kept - worth.total_s)
            policy = state.policy
            scores, replans = tuple(state.scores), tuple(state.replans)
            found.append(Row(policy.name, policy.method, policy.max_moves, scores, replans, worth, state.reason))
        return tuple(found)


def _same(one: Placement, other: Placement) -> bool:
    return one.shares == other.shares and np.array_equal(one.slot_expert, other.slot_expert)
