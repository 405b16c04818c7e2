"""The method `replan`: frontiers layer by layer, the budget spread over them, then more work where it was spent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import moving
from moeopt.kernels._jit import interpreter_note
from moeopt.kernels.warmup import load_moving
from moeopt.limits import Deadline
from moeopt.placement import bounds as lower
from moeopt.placement.heuristics import search, windowed
from moeopt.placement.heuristics.deep import engine
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import count_moves, new_pairs
from moeopt.placement.plan import Placement
from moeopt.placement.replanning import choice, exhaustive, own_rule
from moeopt.placement.replanning.frontier import Frontier
from moeopt.placement.replanning.keep_slots import in_old_slots
from moeopt.placement.replanning.parts import without_budgets
from moeopt.placement.replanning.relabel import relabelled
from moeopt.placement.replanning.start import allowed_homes, legal, starting_plan
from moeopt.placement.replanning.sweeps import LayerSearch, Pace
from moeopt.placement.replanning.values import values
from moeopt.placement.replanning.view import as_layer, scale_of
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

DEFAULT_GAP = 0.001
STEPS_A_SLOT, FEWEST_STEPS, MOST_STEPS = 350, 4_000, 100_000
"""Steps of a sweep: so many a slot, within these limits."""
SWEEPS = 5
"""Sweeps of a layer: one from the running plan, then one around its part of the budget after each spreading of it."""
AFTER_INTERRUPT_S = 2.0
"""Seconds after an interrupt for a short sweep of the layers that had none."""
ABOVE, BELOW = 0.5, 0.3
"""Where those sweeps begin and end: parts of the layer's height over the goal, above and below its value."""


def applies(instance: PlacementInstance) -> str | None:
    """Only where there is a running plan."""
    if instance.current is None:
        return "there is no running plan: give current"
    return None


def replan(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """The best plan found within the budgets of moves, or without budgets a best plan that moves little."""
    run = _Run(instance, context)
    try:
        begun_s = context.deadline.elapsed_s()
        run.prepare()
        # to choose, to list the moves and to judge two plans takes about as long as to read the running one
        context.deadline.keep_back(context.deadline.elapsed_s() - begun_s)
        run.work()
        if context.deadline.stopped():
            run.stop = Stop.INTERRUPTED
            run.round_off()
    except KeyboardInterrupt:
        if not run.ready:
            raise  # there is no plan yet
        run.stop = Stop.INTERRUPTED
        with suppress(KeyboardInterrupt):  # a second one ends it at once
            run.round_off()
    return run.outcome()


@dataclass
class _Run:
    """One re-planning of all layers; once `ready`, every layer has a plan."""

    instance: PlacementInstance
    context: Context
    layers: list[LayerSearch] = field(default_factory=list)
    bounds: list[lower.LayerBound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    incumbents: list[tuple[float, float]] = field(default_factory=list)
    exact: set[int] = field(default_factory=set)
    sweeps: int = 0
    stop: Stop = Stop.ITERATIONS
    ready: bool = False
    chosen: list[int] | None = None
    pace: Pace | None = None
    swept: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        gap = self.context.limits.gap
        self.slack = max((DEFAULT_GAP if gap is None else gap) * (1 - 1e-6), 5e-10)
        self.notes.extend(self.instance.notes)
        steps = min(max(STEPS_A_SLOT * self.instance.num_slots, FEWEST_STEPS), MOST_STEPS)
        limit = self.context.limits.iterations
        self.steps = steps
        self.most_sweeps = SWEEPS if limit is None else limit

    def prepare(self) -> None:
        """Bounds, and a legal plan of every layer that moves as little as can be."""
        instance = self.instance
        self.bounds = lower.cheap(instance, self.context.deadline)
        budgets = [most for most in (instance.max_moves, instance.max_moves_per_layer) if most is not None]
        most_moves = min([instance.num_slots, *budgets])
        for row in range(instance.num_layers):
            allowed = allowed_homes(instance, row)
            start = starting_plan(instance, row, allowed)
            base = np.full(instance.num_slots, -1, dtype=np.int64) if start is None else start
            scale = scale_of(instance, row)
            goal = float(self.bounds[row].value) / scale / (1 - self.slack)
            seed = np.array(
                [1 + ((self.context.seed * 1_000_003 + row) * 2654435761 + 777) % 2147483645], dtype=np.int64
            )
            layer = as_layer(instance, row, allowed, base)
            seen_from = partial(self._seen_from, row) if instance.hierarchical else None
            self.layers.append(LayerSearch(layer, scale, goal, Frontier(base), most_moves, seed, seen_from))
            if start is not None:
                self._offer(row, start)
            if self.context.warm_start is not None:
                self._offer(row, self.context.warm_start.slot_expert[row].astype(np.int64))
            if exhaustive.num_plans(instance) <= exhaustive.MOST_PLANS:
                self._list_all(row, allowed)
        if all(layer.frontier.points for layer in self.layers):
            self.ready = True
        else:
            self._take_fresh()
            self.ready = all(layer.frontier.points for layer in self.layers)

    def _seen_from(self, row: int, held: NDArray[np.int64]) -> moving.Layer:
        """A layer whose groups are on the nodes that a plan has them on."""
        return as_layer(self.instance, row, allowed_homes(self.instance, row, held), held)

    def work(self) -> None:
        """Sweeps over all open layers, the fresh optimum, then sweeps around each layer's part of the budget."""
        unlimited = choice.budget_of(self.instance) is None and self.instance.move_cost == 0
        if unlimited:
            self._take_fresh()
        for turn in range(self.most_sweeps):
            self._round(turn)
            if turn == 0 and not unlimited:
                self._take_fresh()
            self._choose()
            if self.stop is Stop.TIME:
                return
        if not self._open():
            self.stop = Stop.GAP

    def _round(self, turn: int) -> None:
        """One sweep of every open layer: down from the running plan, later around the point chosen."""
        deadline = self.context.deadline
        rows = self._open()
        if rows and self.pace is None:
            self.pace = pace(deadline)
            note = interpreter_note("the re-planning", self.pace.compiled)
            self.notes.extend([note] if note else [])
        for done, row in enumerate(rows):
            if deadline.passed():
                self.stop = Stop.TIME
                return
            layer = self.layers[row]
            least = int(layer.frontier.moves()[0])
            if turn == 0 or self.chosen is None:
                moves, high, low = least, layer.frontier.points[least][0] / layer.scale, layer.goal
            else:
                moves = self.chosen[row]
                at = layer.frontier.points[moves][0] / layer.scale
                height = max(at - layer.goal, 0.0)
                high, low = at + ABOVE * height, max(at - BELOW * height - 0.001 * at, 0.0)
            share = deadline.share(len(rows) - done)
            assert self.pace is not None
            if not layer.sweep(min(moves, max(least, layer.most_moves)), high, low, self.steps, self.pace, share):
                self.stop = Stop.TIME
            self.sweeps += 1
            self.swept.add(row)
            self.context.report(turn * len(self.layers) + done + 1, self.most_sweeps * len(self.layers))

    def round_off(self) -> None:
        """After an interrupt a short sweep of the layers that had none, lest the others take the budget of all."""
        left = [row for row in self._open() if row not in self.swept]
        total = len(self.layers)
        if not left:
            self.notes.append(f"interrupted after {self.sweeps:,} sweeps of {total:,} layers")
            return
        said = f"interrupted after {total - len(left):,} of {total:,} layers"
        self.notes.append(f"{said}: the others had {AFTER_INTERRUPT_S:g} s together")
        limit, spent_s = self.context.limits.time_s, self.context.deadline.elapsed_s()
        deadline = Deadline(AFTER_INTERRUPT_S if limit is None else min(AFTER_INTERRUPT_S, max(limit - spent_s, 1e-9)))
        fast = pace(deadline) if self.pace is None else self.pace
        for done, row in enumerate(left):
            layer = self.layers[row]
            least = int(layer.frontier.moves()[0])
            high = layer.frontier.points[least][0] / layer.scale
            layer.sweep(least, high, layer.goal, self.steps, fast, deadline.share(len(left) - done))
            self.sweeps += 1

    def _open(self) -> list[int]:
        """Layers that are neither listed in full nor certified where they stand."""
        return [
            row
            for row, layer in enumerate(self.layers)
            if row not in self.exact
            and layer.frontier.points
            and layer.frontier.values()[0] > layer.goal * layer.scale
            and layer.most_moves > 0
        ]

    def _offer(self, row: int, held: NDArray[np.int64]) -> None:
        """Take a legal plan into the frontier."""
        moves = len(new_pairs(self.instance, held, row))
        self.layers[row].frontier.add(moves, self._value(row, held), held)

    def _value(self, row: int, held: NDArray[np.int64]) -> float:
        return float(values(self.layers[row].layer, held[None, :])[0]) * self.layers[row].scale

    def _list_all(self, row: int, allowed: NDArray[np.bool_]) -> None:
        """The exact frontier of a tiny layer."""
        moves, plans = exhaustive.all_plans(self.instance, row, allowed)
        worth = values(self.layers[row].layer, plans) * self.layers[row].scale
        frontier = self.layers[row].frontier
        for place in np.lexsort((worth, moves)).tolist():
            better = not frontier.points or worth[place] < frontier.values()[-1] * (1 - 1e-12)
            if (better or moves[place] < frontier.moves()[0]) and legal(self.instance, plans[place], row):
                frontier.add(int(moves[place]), float(worth[place]), plans[place])
        self.exact.add(row)

    def _take_fresh(self) -> None:
        """The best plan regardless of moves, its GPUs named for the fewest: the far end of every frontier."""
        instance, context = self.instance, self.context
        if context.deadline.passed():
            return
        free = without_budgets(instance)
        reason = windowed.applies(free)
        if reason is not None:
            self.notes.append(f"a plan regardless of moves was not sought: {reason}")
            return
        engine(context.deadline)  # compiled code is loaded now: a third of the time might not hold it
        share = context.deadline.share(3)
        found = search.search(free, replace(context, deadline=share, warm_start=None, on_progress=None))
        assert found.plan is not None
        interrupted = found.stop is Stop.INTERRUPTED
        for row, held in enumerate(found.plan.slot_expert.astype(np.int64)):
            if row not in self.exact:
                # names for fewer moves are a luxury then
                late = interrupted or context.deadline.passed() or not context.deadline.allows_import("scipy.optimize")
                self._offer(row, held if late else relabelled(instance, held, row))
        if interrupted:
            raise KeyboardInterrupt  # which the search has kept to itself

    def picks(self) -> list[int] | None:
        """Moves of the chosen point of every layer."""
        return choice.picks(self.instance, [layer.frontier for layer in self.layers], self._floors())

    def _floors(self) -> list[float]:
        return [layer.goal * layer.scale for layer in self.layers]

    def _choose(self) -> None:
        """Spread the budget over the layers as their frontiers are now."""
        self.chosen = self.picks()
        if self.chosen is not None:
            chosen = zip(self.layers, self.chosen, strict=True)
            value = sum(layer.frontier.points[moves][0] for layer, moves in chosen)
            self.incumbents.append((self.context.deadline.elapsed_s(), float(value)))

    def outcome(self) -> Outcome[Placement]:
        """The chosen point of every layer as one plan, and the frontier of all layers together."""
        picks = self.picks() if self.ready else None
        if picks is None:
            self.notes.append("no plan within the budget of moves was found, and none was proved impossible")
            return Outcome(None, self.stop, self.sweeps, notes=self.notes)
        shares: list[own_rule.Shares] = []
        if own_rule.differs(self.instance):
            shares = self._by_own_rule(picks)
            picks = self.picks()
            assert picks is not None  # the points chosen before are there still
        frontiers = [layer.frontier for layer in self.layers]
        held = np.stack(
            [
                in_old_slots(self.instance, frontier.plan(moves), row)
                for row, (frontier, moves) in enumerate(zip(frontiers, picks, strict=True))
            ]
        )
        if sum(count_moves(self.instance, held)) == 0:
            self.notes.append(f"keep: {self._why_keep()}")
        curve = choice.curve(self.instance, frontiers, picks)
        free = self.instance.split == "free"
        return Outcome(
            Placement.of(held, [known[moves] for known, moves in zip(shares, picks, strict=True)] if free else None),
            self.stop,
            self.sweeps,
            self.incumbents,
            self.bounds,
            self.notes,
            details={"frontier": curve},
        )

    def _by_own_rule(self, picks: list[int]) -> list[own_rule.Shares]:
        """Value the frontiers, found with even parts, by the instance's own rule."""
        deadline = self.context.deadline
        shares = []
        for row, (layer, chosen) in enumerate(zip(self.layers, picks, strict=True)):
            share = deadline.share(len(picks) - row)
            layer.frontier, known = own_rule.revalued(self.instance, row, layer.frontier, chosen, share)
            shares.append(known)
        if self.instance.split == "free" and deadline.passed():
            self.notes.append("the time was up before every layer had its best shares: the others have even parts")
        return shares

    def _why_keep(self) -> str:
        frontiers = [layer.frontier for layer in self.layers]
        if all(f.values()[0] <= floor for f, floor in zip(frontiers, self._floors(), strict=True)):
            return "every layer of the running plan is within the gap limit of its bound"
        if choice.budget_of(self.instance) == 0:
            return "the budget of moves is 0"
        if self.instance.move_cost > 0:
            return f"no move saves the {self.instance.move_cost:g} tokens it costs"
        return "no better plan was found within the budget"


def pace(deadline: Deadline) -> Pace:
    """Compiled code where this process has it or there is time to get it, else the same kernel interpreted."""
    kernel = moving.sweep
    if kernel.in_time(deadline):
        if deadline.limited and not kernel.ready():
            load_moving()
        return Pace(kernel, compiled=True)
    return Pace(kernel.plain(), compiled=False)
