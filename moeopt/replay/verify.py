"""The referee of a replay: every score, move and sum again, from the maps in a document and the history alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from moeopt import kinds
from moeopt.errors import InstanceError, MoeoptError, PlanError
from moeopt.placement.broken_rules import faults as faults_of
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import count_moves
from moeopt.placement.plan import Placement
from moeopt.placement.verify import evaluate
from moeopt.replay.document import MapDocument, PolicyDocument, ReplanDocument, ReplayDocument, read_replay
from moeopt.replay.figures import figures
from moeopt.replay.policies import seen
from moeopt.replay.prices import Clock, Prices
from moeopt.replay.replan import Replan
from moeopt.replay.schedule import Period, periods
from moeopt.replay.scores import Score, bound, score

TOLERANCE = 1e-12
SCORED = ("imbalance_mean", "imbalance_worst", "worst_layer", "imbalance_total")


@kinds.expects(document=kinds.as_mapping, history="moeopt.placement.instance:PlacementInstance")
def faults(document: Mapping[str, Any], history: PlacementInstance) -> list[str]:
    """Everything in a replay's document that is not so; empty for a true one.

    What it cannot know again is left alone: what methods stopped by, seconds of planning, and the imbalance in the
    windows seen, which the plan of a re-plan that was not taken would be needed for.

    Parameters
    ----------
    document
        Parsed JSON, as `Replay.to_dict` gives it.
    history
        The instance that was played.

    >>> from moeopt import replay
    >>> history = PlacementInstance([[[8, 4, 2, 2]], [[8, 4, 2, 2]], [[2, 2, 4, 8]]], gpus=2, slots=4)
    >>> found = replay.replay(history, ["keep", "eplb"]).to_dict()
    >>> faults(found, history)
    []
    >>> found["policies"][0]["scores"][1]["imbalance_mean"] = 1.0
    >>> faults(found, history)
    ['policy keep, window 2: imbalance_mean is 1.0, the referee finds 1.25']
    """
    try:
        form = read_replay(document)
    except InstanceError as error:
        return [str(one) for one in error.violations]
    if form.instance.sha256 != history.sha256:
        return [f"instance.sha256 says {form.instance.sha256[:12]}..., this history is {history.sha256[:12]}..."]
    if len(form.windows) != len(history.windows):
        return [f"windows: {len(form.windows)} in the document, {len(history.windows)} in the history"]
    if form.first.slot_expert is None:
        return ["there is no first placement, but policies were scored"] if form.policies else []
    try:
        times = periods(len(history.windows), form.every, form.lookback)
    except InstanceError as error:
        return [str(one) for one in error.violations]
    return _Referee(form, history, times).faults()


class _Referee:
    """One document and its history."""

    def __init__(self, form: ReplayDocument, history: PlacementInstance, times: Sequence[Period]) -> None:
        self.form, self.history = form, history
        last = form.scored[1]
        self.played = [period for period in times if period.scored.stop - 1 <= last]
        self.times = times
        self.found: list[str] = []
        self.clock: Clock | None = None

    def faults(self) -> list[str]:
        """All of them."""
        form, first = self.form, None
        if not self.played or form.scored != (form.lookback, self.played[-1].scored.stop - 1):
            return [f"scored says {list(form.scored)}: whole periods are scored, from window {form.lookback} on"]
        self._hold("complete", form.complete, len(self.played) == len(self.times))
        self._windows()
        try:
            first = _plan(form.first)
            assert first is not None
            reference = score(form.lookback, self.history.windows[form.lookback], first)
        except PlanError as error:
            return [f"first: {fault}" for fault in error.faults]
        if form.prices is not None:
            prices = Prices(**form.prices.model_dump())
            try:
                prices.check(self.history)
            except InstanceError as error:
                return [str(one) for one in error.violations]
            self.clock = Clock(prices, self.history, reference)
        windows = [window for period in self.played for window in period.scored]
        floors = [bound(self.history.windows[window]) for window in windows]
        self._hold("bound", form.bound, floors)
        kept = None
        if self.clock is not None:
            kept = math.fsum(self.clock.experts_s(score(t, self.history.windows[t], first)) for t in windows)
        for row in form.policies:
            self._row(row, first, kept)
        judged = [row for row in form.policies if row.figures is not None and row.budget_held is not False]
        best = min(judged, key=lambda row: row.figures.imbalance_mean if row.figures else 0.0, default=None)
        self._hold("best", form.best, None if best is None else best.policy)
        return self.found

    def _windows(self) -> None:
        """What every window holds."""
        loads = self.history.window_loads
        assert loads is not None
        for place, one in enumerate(self.form.windows):
            self._hold(f"windows[{place}].selections", one.selections, float(loads[place].sum()))
            self._hold(f"windows[{place}].steps", one.steps, self.history.window_steps[place])

    def _seen(
        self, where: str, replan: ReplanDocument, period: Period, before: Placement, made: Placement | None
    ) -> None:
        """Imbalance in the windows that a plan was made from, where it is said: of the plan before, and of its own."""
        shown = seen(self.history, period.seen, self.form.combine)
        for name, said, plan in (
            ("imbalance_now", replan.imbalance_now, Placement(before.slot_expert)),  # a policy is shown no shares
            ("imbalance_after", replan.imbalance_after, made),
        ):
            if said is not None and plan is not None:  # a plan that was made and not taken is not in the document
                self._hold(f"{where}: {name}", said, evaluate(shown, plan).imbalance_total)
        if not replan.runtime_s >= 0:
            self.found.append(f"{where}: runtime_s {replan.runtime_s!r} is below 0")

    def _row(self, row: PolicyDocument, first: Placement, kept: float | None) -> None:
        """One policy, window by window."""
        name, plan = f"policy {row.policy}", first
        replans = {replan.window: replan for replan in row.replans}
        budgets = [one.budget_held for one in row.replans if one.budget_held is not None]
        self._hold(f"{name}: budget_held", row.budget_held, all(budgets) if budgets else None)
        given = {one.window: one for one in row.scores}
        if len(replans) != len(row.replans) or len(given) != len(row.scores):
            self.found.append(f"{name}: a window stands twice")
        strange = set(replans) - {period.scored.start for period in self.played}
        self.found += [f"{name}, window {window}: no plan is made there" for window in sorted(strange)]
        scores: list[Score] = []
        made: list[Replan] = []
        for period in self.played:
            replan = replans.get(period.scored.start)
            try:
                if replan is not None:
                    before, plan = plan, _plan(replan) or plan
                    if wrong := faults_of(self.history.windows[period.scored.start], plan):
                        raise PlanError(wrong)
                    made.append(self._replan(name, replan, period, before, plan, row))
                for window in period.scored:
                    if window in given or not row.reason:
                        scores.append(score(window, self.history.windows[window], plan))
                        self._score(name, scores[-1], given.get(window))
            except MoeoptError as error:
                self.found.append(f"{name}, window {period.scored.start}: {error}")
                return
        if row.figures is None:
            if not row.reason:
                self.found.append(f"{name}: neither figures nor a reason")
            return
        worth = figures(scores, made, self.history, self.clock)
        if worth.total_s is not None and kept is not None:
            worth = replace(worth, saved_s=kept - worth.total_s)
        for key, value in worth.to_dict().items():
            self._hold(f"{name}: {key}", getattr(row.figures, key), value)

    def _replan(
        self, name: str, replan: ReplanDocument, period: Period, before: Placement, plan: Placement, row: PolicyDocument
    ) -> Replan:
        """Windows, moves, budget and worth of one re-plan."""
        where = f"{name}, window {replan.window}"
        self._hold(f"{where}: seen", replan.seen, (period.seen.start, period.seen.stop - 1))
        self._seen(where, replan, period, before, None if replan.slot_expert is None else plan)
        running = self.history.changed(current=before.slot_expert, current_gpu=tuple(self.history.gpu_of_slot.tolist()))
        counts = count_moves(running, plan.slot_expert)
        self._hold(f"{where}: moves", replan.moves, sum(counts))
        each = self.form.max_moves_per_layer
        over = (row.max_moves is not None and sum(counts) > row.max_moves) or (each is not None and max(counts) > each)
        limited = row.max_moves is not None or each is not None
        self._hold(f"{where}: budget_held", replan.budget_held, not over if limited else None)
        found = Replan(
            replan.window, period.seen, plan, sum(counts), replan.budget_held, None, None, replan.status, replan.stop
        )
        if self.clock is None:
            for key in ("stall_s", "gain_s", "break_even_steps"):
                self._hold(f"{where}: {key}", getattr(replan, key), None)
            return found
        stall = self.clock.stall_s(found.moves)
        old, new = (
            [score(window, self.history.windows[window], one) for window in period.scored] for one in (before, plan)
        )
        gain, even = self.clock.worth(stall, old, new)
        for key, value in (("stall_s", stall), ("gain_s", gain), ("break_even_steps", even if found.moves else None)):
            self._hold(f"{where}: {key}", getattr(replan, key), value)
        return found

    def _score(self, name: str, found: Score, given: Any) -> None:
        where = f"{name}, window {found.window}"
        if given is None:
            self.found.append(f"{where}: has no score")
            return
        for key in SCORED:
            self._hold(f"{where}: {key}", getattr(given, key), getattr(found, key))

    def _hold(self, what: str, said: Any, found: Any) -> None:
        """Note a number that is another."""
        if not _equal(said, found):
            self.found.append(f"{what} is {said}, the referee finds {found}")


def _equal(said: Any, found: Any) -> bool:
    if isinstance(said, Sequence) and not isinstance(said, str):
        return len(said) == len(found) and all(map(_equal, said, found))
    if isinstance(said, float) and isinstance(found, float):
        return math.isclose(said, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(said == found)


def _plan(form: MapDocument) -> Placement | None:
    if form.slot_expert is None:
        return None
    shares = None if form.shares is None else [[(int(e), int(g), x) for e, g, x in row] for row in form.shares]
    return Placement.of(form.slot_expert, shares)
