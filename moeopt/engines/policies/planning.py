"""From loads to a map: the public rule first, then better layers, worst first, as far as the limit surely reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt import placement
from moeopt.engines.policies.cover import Covered
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.pace import Pace
from moeopt.engines.policies.plan import Floats, Plan
from moeopt.engines.policies.shape import Ints, Shape, legal_rows, new_pairs
from moeopt.engines.policies.warm import most_swaps, swapped
from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.replanning.keep_slots import in_old_slots
from moeopt.placement.replanning.relabel import relabelled
from moeopt.result import Result, Stop

GAP = 0.001
"""A layer this near its bound is not searched further."""
NEAR = 0.01
"""Swaps in what runs end within half of this of the bound, and re-planning must gain this over them; `keep` if smaller.
Were either to grow with `keep` beyond it, a layer would stop just short of the gain that lets it move at all."""
AFRESH = 0.03
"""A layer that would be filled anew, most of whose experts would move, has to be this much better than by swaps."""
RULE_MOST_S = 5.0
"""Any shape gets the public rule that surely takes no longer, whatever the limit; above it, experts in order."""
RESERVE = 0.8
"""Part of the limit after which no search begins, where the clock decides."""


class TimeIsUp(Exception):
    """The limit passed before the work that was to fit in was done."""


def plan(loads: Ints, shape: Shape, running: Covered | None, options: Options, deadline: Deadline) -> Plan:
    """A full map for loads (L, E), none of whose layers is idle; `running` is what runs, already made full.

    Raises
    ------
    TimeIsUp
        The limit passed, or surely will, and a map runs, and the clock may not decide; or the shape is too large even
        for the public rule.
    """
    pace = Pace(shape, options, deadline, 0 if running is None else int(running.moves.sum()))
    fixed_s, limit = pace.fixed_s, options.time_limit_s
    if running is not None and options.steady and fixed_s > limit:
        raise TimeIsUp(f"{limit:g} s are too short to plan, which takes {fixed_s:.2g} s or more")
    if pace.rule_s > max(limit, RULE_MOST_S):
        raise TimeIsUp(f"{limit:g} s are too short for the public rule, which takes {pace.rule_s:.2g} s or more")
    work = _Work(loads, shape, running, options, deadline, pace)
    work.by_the_rule()
    try:
        work.kept()
        work.by_swaps()
    except TimeIsUp:
        if running is not None:
            raise
        work.plan.notes.append("time was up: the public rule without doubles")
        return work.plan
    before = work.plan.held.copy(), work.plan.top.copy()
    try:
        work.search()
    except TimeIsUp:  # a state that does not depend on where the clock struck
        work.plan.held, work.plan.top = before
        work.plan.searched = 0
        work.plan.notes.append("time was up: what was searched is left out")
    return work.done()


class _Work:
    def __init__(
        self, loads: Ints, shape: Shape, known: Covered | None, options: Options, deadline: Deadline, pace: Pace
    ) -> None:
        self.loads, self.shape, self.known, self.options, self.deadline = loads, shape, known, options, deadline
        self.instance = self._instance(loads)
        self.pace = pace
        self.usable = np.zeros(len(loads), dtype=bool)
        self.before = np.full(len(loads), np.inf)  # what a layer must get below; infinite where it breaks a rule
        self.running = None
        if known is not None:
            self.usable = legal_rows(shape, known.held)
            self.running = self.instance.changed(
                current=known.old.astype(np.int32), current_gpu=tuple(int(gpu) for gpu in shape.gpu_of_slot)
            )

    def _instance(self, loads: Ints) -> PlacementInstance:
        return PlacementInstance(loads, split=self.options.split, **self.shape.rules())

    def by_the_rule(self) -> None:
        """The public rule, doubles swapped away: what every layer can fall back on."""
        found = placement.solve(self.instance, method="eplb")
        assert found.plan is not None and found.solution is not None
        layers = found.solution["layers"]
        self.rule = found.plan.slot_expert.astype(np.int64)
        self.rule_top = np.array([layer["max_load"] for layer in layers])
        bound = np.array([layer["lower_bound"] for layer in layers])
        self.plan = Plan(self.rule.copy(), self.rule_top.copy(), bound, np.array([layer["ideal"] for layer in layers]))

    def done(self) -> Plan:
        """The plan; layers that run against the rules and could not be mended within the budget are counted."""
        stuck = np.isinf(self.plan.top)
        if stuck.any():
            rows = np.flatnonzero(stuck)
            self.plan.top[rows] = _even_tops(self.loads[rows], self.shape, self.plan.held[rows])
            self.plan.stuck = len(rows)
        return self.plan

    def kept(self) -> None:
        """Start every layer from what runs, where that is legal, and see which are worth planning."""
        self.enough = self.plan.bound * (1 + GAP)
        if self.known is None:
            self.todo = self.plan.top > self.enough
            self.reached, self.spent = self.plan.top.copy(), np.zeros(len(self.loads), dtype=np.int64)
        else:
            self.plan.before = _even_tops(self.loads, self.shape, self.known.held)
            rows = np.flatnonzero(self.usable)
            if len(rows):
                self.plan.before[rows] = self._tops(self.known.held[rows], rows)
            self.before = np.where(self.usable, self.plan.before, np.inf)
            self.plan.held, self.plan.top = self.known.held.copy(), self.before.copy()
            self.reached, self.spent = self.before.copy(), self.known.moves.copy()
            worth = self.before * (1 - self.options.keep) > self.plan.bound  # a broken layer is worth it
            self.todo = ~self.usable | (worth & (self.before > self.plan.bound * (1 + 1e-9)))
            if self.options.max_moves is not None:
                self.todo &= self.known.moves < self.options.max_moves
        self.plan.open = int(self.todo.sum())

    def by_swaps(self) -> None:
        """What needs no compiler: few swaps in what runs, else swaps in the public rule where the search will not come.

        Where the public rule is better still, it takes over under other names of GPUs.
        """
        if self.running is None:
            self._swap(self._worst_first(self.todo)[self._reach(self.todo) :])
        elif self.todo.any():
            self._swap(self._worst_first(self.todo & self.usable))
            worse = self.rule_top < self.reached * (1 - self.afresh)
            if self.options.max_moves is None or self.shape.per_gpu == 1:  # one slot: new names keep what can be kept
                rows = self._worst_first(self.todo & (~self.usable | worse))
                named = rows[: self.pace.names()]
                self._offer(self._named(self.rule[named], named), named, self.afresh)
                rest = rows[len(named) :]
                broken = rest[~self.usable[rest]]  # any names will do; the others wait for a call with more time
                self._offer(self.rule[broken], broken, self.afresh)
                self._look_at_the_clock()

    def _swap(self, rows: Ints) -> None:
        # by the number of all layers, not of those worth it: how far one gets must not depend on `keep`
        count, most = self.pace.swaps(len(rows), most_swaps(self.shape), len(self.loads))
        rows = rows[:count]
        if not count:
            return
        part = replace(self.shape, num_layers=len(rows))
        near = GAP if self.known is None else max(GAP, self._near / 2)
        goals = self.plan.bound[rows] * (1 + near)
        swaps = np.full(len(rows), most)
        if self.known is not None and self.options.max_moves is not None:
            swaps = np.minimum(swaps, (self.options.max_moves - self.known.moves[rows]) // 2)
        held = swapped(self.loads[rows], part, self.plan.held[rows], goals, swaps, lambda: not self.deadline.passed())
        self._look_at_the_clock()
        self._offer(held, rows, 0.0)

    def _worst_first(self, chosen: NDArray[np.bool_]) -> Ints:
        order = np.argsort(-self.reached / np.maximum(self.plan.bound, 1e-300), kind="stable")
        return np.asarray(order[chosen[order]])

    def _reach(self, chosen: NDArray[np.bool_]) -> int:
        """How many of the chosen layers the search will come to."""
        chunks = self.pace.chunks(int(chosen.sum()), searching=self._searches)
        return chunks[-1][1] if chunks else 0

    @property
    def _searches(self) -> bool:
        """Whether layers are searched regardless of what runs; under a budget they are re-planned."""
        return self.running is None or self.options.max_moves is None

    def search(self) -> None:
        """The deep search, or the re-planning under a budget, for the layers that are worst off."""
        left = self.todo & (self.reached > self.enough)
        margin = 0.0 if self.running is None else self.afresh if self._searches else self._near
        left &= ~self.usable | (self.reached * (1 - margin) > self.plan.bound)  # no more can be gained
        rows = self._worst_first(left)
        for begin, end in self.pace.chunks(len(rows), searching=self._searches):
            if self.options.by_clock and self.deadline.elapsed_s() > RESERVE * self.options.time_limit_s:
                break
            some = np.sort(rows[begin:end])
            held = self._searched(some) if self._searches else self._replanned(some)
            self._look_at_the_clock()
            if held is not None:
                self._offer(held, some, margin)
            self.plan.searched += end - begin
        if not self.pace.compiled:
            self.plan.notes.append("the search is not loaded: call warm_up() at start-up")

    def _searched(self, rows: Ints) -> Ints | None:
        """A plan regardless of what runs."""
        found = placement.solve(
            self._instance(self.loads[rows]), method="search", seed=self.options.seed, limits=self.pace.limits()
        )
        self._look_at(found)
        if found.plan is None:
            return None
        held: Ints = found.plan.slot_expert.astype(np.int64)
        return held if self.running is None else self._named(held, rows)

    def _replanned(self, rows: Ints) -> Ints | None:
        """The best within the budget of moves."""
        assert self.running is not None and self.running.current is not None
        instance = self._instance(self.loads[rows]).changed(
            current=self.running.current[rows],
            current_gpu=self.running.current_gpu,
            max_moves_per_layer=self.options.max_moves,
        )
        found = placement.replan(instance, seed=self.options.seed, limits=self.pace.limits(sweeps=1))
        self._look_at(found)
        return None if found.plan is None else found.plan.slot_expert.astype(np.int64)

    def _named(self, held: Ints, rows: Ints) -> Ints:
        """GPUs named for few moves, where there is time to load what names them."""
        if self.running is None or not self.pace.may_load or not len(rows):
            return held
        return np.stack([relabelled(self.running, one, int(row)) for one, row in zip(held, rows, strict=True)])

    @property
    def afresh(self) -> float:
        """By how much a layer must be better to be filled anew."""
        return max(self.options.keep, AFRESH) if self.options.keep > 0 and self.known is not None else 0.0

    @property
    def _near(self) -> float:
        return min(self.options.keep, NEAR)

    def _offer(self, held: Ints, rows: Ints, margin: float) -> None:
        """Take the layers that are within the budget, better than any offer yet, and by `keep` better than before.

        Better means by `margin`, or at all with no more moves. An offer that gains less than `keep` is remembered, not
        taken: what follows is measured by it whatever `keep` is, so that a larger one does not lead to more moves.
        """
        good = legal_rows(self.shape, held)
        top = np.full(len(rows), np.inf)
        if good.any():
            top[good] = self._tops(held[good], rows[good])
        moves = np.zeros(len(rows), dtype=np.int64)
        if self.known is not None:
            margin = max(margin, 1e-9)
            moves = new_pairs(self.shape, self.known.old[rows], held)
            if self.options.max_moves is not None:
                good &= moves <= self.options.max_moves
        reached = self.reached[rows]
        better = good & (top < reached * (1 - margin))
        better |= good & (top < reached * (1 - 1e-9)) & (moves <= self.spent[rows])
        self.reached[rows[better]], self.spent[rows[better]] = top[better], moves[better]
        taken = better & (top < self.before[rows] * (1 - max(self.options.keep, 1e-9)))
        for place in np.flatnonzero(taken):
            row, one = int(rows[place]), held[place]
            self.plan.held[row] = one if self.running is None else in_old_slots(self.running, one, row)
            self.plan.top[row] = top[place]

    def _tops(self, held: Ints, rows: Sequence[int] | Ints) -> Floats:
        """Cost of the busiest GPU of legal layers, under the split asked for."""
        loads = self.loads[np.asarray(rows)]
        if self.options.split == "even":
            return _even_tops(loads, self.shape, held)
        judged = placement.evaluate(self._instance(loads), Placement.of(held))
        return np.array([float(top) for top in judged.max_load])

    def _look_at(self, found: Result) -> None:
        """A search that the clock has cut counts only where the clock may decide."""
        if found.stop is Stop.TIME and not self.options.by_clock:
            raise TimeIsUp

    def _look_at_the_clock(self) -> None:
        if self.deadline.passed() and not self.options.by_clock:
            raise TimeIsUp


def _even_tops(loads: Ints, shape: Shape, held: Ints) -> Floats:
    """(L,) tokens of the busiest GPU with even parts; unknown ids carry nothing."""
    known = (held >= 0) & (held < shape.num_experts)
    safe = np.where(known, held, 0)
    keys = safe + np.arange(len(held))[:, None] * shape.num_experts
    counts = np.bincount(keys[known], minlength=loads.size).reshape(loads.shape)
    pieces = np.take_along_axis(loads / np.maximum(counts, 1), safe, axis=1) * known
    top: Floats = pieces.reshape(len(held), shape.num_gpus, -1).sum(axis=2).max(axis=1)
    return top
