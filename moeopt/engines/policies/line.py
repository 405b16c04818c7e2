"""The one line of a call in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.case import Asked, Case
from moeopt.engines.policies.cover import doubles
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.plan import Plan
from moeopt.engines.policies.shape import Ints, new_pairs, number
from moeopt.limits import Deadline


@dataclass(frozen=True)
class Line:
    """What there is to say of one call; a warning wherever something was not as asked for."""

    asked: Asked
    case: Case
    held: Ints
    plan: Plan | None
    reason: str
    mended: Sequence[str] = ()

    def say(self, options: Options, deadline: Deadline) -> None:
        """Log it."""
        aside = [*self.asked.aside, *self._of_what_runs(), *self._of_the_budget(options), *self.mended]
        warn = bool(aside) or self.plan is None
        parts = [self._fallback()] if self.plan is None else self._figures(self.plan)
        spent = f"{1e3 * deadline.elapsed_s():.0f} ms"
        notes = [] if self.plan is None else self.plan.notes
        text = ", ".join([*parts, spent, *notes])
        level = logging.WARNING if warn else logging.INFO
        options.log.log(level, "moeopt %s: %s", self.asked.engine, "; ".join([*aside, text]))

    def _of_what_runs(self) -> list[str]:
        if self.case.old_fault:
            said = f"current cannot be used: {self.case.old_fault}"
            return [said] if self.plan is None else [f"{said}; planned from nothing"]
        return [self.case.old_note] if self.case.old_note else []

    def _of_the_budget(self, options: Options) -> list[str]:
        """What the budget of moves could not hold."""
        known, shape = self.case.running, self.case.shape
        if known is None or shape is None or options.max_moves is None:
            return []
        said = []
        moves = new_pairs(shape, known.old, self.held)
        over = moves > options.max_moves
        if over.any():
            said.append(
                f"max_moves = {options.max_moves} was too small for every expert and slot to be there: "
                f"{number(int(over.sum()), 'layer')} took more, {int(moves.max()):,} at most"
            )
        stays = f"max_moves = {options.max_moves} was too small to mend what runs:"
        double = doubles(shape, self.held)
        if double.any():
            where = number(int((double > 0).sum()), "layer")
            many = number(int(double.sum()), "second replica")
            said.append(f"{stays} {many} of an expert on one GPU stayed, in {where}")
        elif self.plan is not None and self.plan.stuck:
            said.append(f"{stays} groups stayed on several nodes in {number(self.plan.stuck, 'layer')}")
        return said

    def _fallback(self) -> str:
        if self.reason == "the first rank's map" or not self.reason:
            return self.reason or "mended"
        known, shape = self.case.running, self.case.shape
        if known is not None and shape is not None:
            if self._same():
                return f"kept what runs: {self.reason}"
            moves = int(new_pairs(shape, known.old, self.held).sum())
            how = f"kept what fits of what runs and filled the rest by the fewest moves, {moves:,}"
            return f"{how}: {self.reason}"
        if self.case.raw is not None and self._same():
            return f"kept what runs: {self.reason}"
        return f"the start-up map: {self.reason}"

    def _same(self) -> bool:
        """Whether the answer is the map that runs, as it was given."""
        return self.case.raw is not None and np.array_equal(self.case.raw, self.held)

    def _figures(self, plan: Plan) -> list[str]:
        busy = plan.ideal > 0
        idle = int((~busy).sum())
        if not busy.any():
            if self._same():
                return ["kept what runs: there were no loads"]
            return ["there were no loads, so nothing was planned", self._moves(np.ones_like(busy))]
        before, after, bound = plan.figures()
        was = "" if before is None else f"{before:.4f} -> "
        parts = [f"imbalance {was}{after:.4f} (bound {bound:.4f})", self._moves(busy)]
        if idle:
            aside = 0
            if self.case.running is not None and self.case.shape is not None:
                aside = int(new_pairs(self.case.shape, self.case.running.old, self.held)[~busy].sum())
            tail = f", though {number(aside, 'move')} had to fill them" if aside else ""
            parts.append(f"{number(idle, 'layer')} without loads not counted{tail}")
        if plan.open:
            worth = "could gain more than keep" if self.case.running is not None else "could get nearer to their bound"
            parts.append(f"{number(plan.open, 'layer')} {worth}, {plan.searched} of them got the deep search")
        return parts

    def _moves(self, counted: NDArray[np.bool_]) -> str:
        if self.case.running is None or self.case.shape is None:
            most = self.held[counted].size
            return f"moves unknown, at most all {most:,}" if self.case.old_fault else "nothing runs yet"
        moves = new_pairs(self.case.shape, self.case.running.old, self.held)
        return number(int(moves[counted].sum()), "move")
