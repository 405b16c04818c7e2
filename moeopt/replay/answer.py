"""What a replay answers: every policy's re-plans and scores, their figures over time, and the document of all that."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from moeopt import brief
from moeopt.documents import canonical_json, to_json
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.replay.figures import Figures
from moeopt.replay.prices import Prices
from moeopt.replay.replan import Replan, plan_dict
from moeopt.replay.schedule import Period
from moeopt.replay.scores import Score
from moeopt.result import MACHINE_NOTE, Stop

SCHEMA = "moeopt/replay-result/1"


@dataclass(frozen=True)
class Row:
    """One policy: `figures` is ``None`` where it failed, and `reason` says why; scores go as far as it came."""

    policy: str
    method: str
    max_moves: int | None
    scores: tuple[Score, ...]
    replans: tuple[Replan, ...]
    figures: Figures | None
    reason: str = ""

    @property
    def runtime_s(self) -> float:
        """Seconds of all its solves."""
        return math.fsum(replan.runtime_s for replan in self.replans)

    @property
    def budget_held(self) -> bool | None:
        """Whether no re-plan moved more than the budget; ``None`` without one."""
        held = [replan.budget_held for replan in self.replans if replan.budget_held is not None]
        return all(held) if held else None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        names = ("window", "imbalance_mean", "imbalance_worst", "worst_layer", "imbalance_total")
        return {
            "policy": self.policy,
            "method": self.method,
            "max_moves": self.max_moves,
            "budget_held": self.budget_held,
            "reason": self.reason,
            "figures": None if self.figures is None else self.figures.to_dict(),
            "scores": [{name: getattr(score, name) for name in names} for score in self.scores],
            "replans": [replan.to_dict() for replan in self.replans],
            "runtime_s": self.runtime_s,
        }


@dataclass(frozen=True, repr=False)
class Replay:
    """Every policy over one history; ``print`` shows a table of them.

    Parameters
    ----------
    periods, played
        All periods of the history, and how many of them were played.
    first, first_method
        The placement that all policies begin with and what it is by; ``None`` where there is none.
    bound
        For every scored window the mean imbalance that no plan is below in it.
    best
        Policy with the least mean imbalance of those that held their budget, the first of equals.
    complete, stop
        Whether all periods were played, and what ended the replay.
    conflicts
        Where there is no first placement: the rules in conflict.
    prepared
        What was done to the loads before, such as ``slices``.

    >>> from moeopt import replay
    >>> history = PlacementInstance([[[8, 4, 2, 2]], [[8, 4, 2, 2]], [[2, 2, 4, 8]], [[2, 2, 8, 4]]], gpus=2, slots=6)
    >>> print(replay.replay(history, ["keep", "eplb"], first="eplb"))  # doctest: +ELLIPSIS
    replay of 4 windows, 1 layer, 6 slots on 2 GPUs: 3 of 3 periods (stop FINISHED), best eplb
    policy  imbalance mean  worst window  worst layer  moves  remark
    keep            1.1667        1.2500       1.2500      0
    eplb            1.0833        1.2500       1.2500      2  best
    bound           1.0000
    time: ... s, seed 0
    """

    history: PlacementInstance
    windows: tuple[str, ...]
    every: int
    lookback: int
    combine: str
    periods: tuple[Period, ...]
    played: int
    first: Placement | None
    first_method: str
    bound: tuple[float, ...]
    rows: tuple[Row, ...]
    max_moves: int | None
    max_moves_per_layer: int | None
    prices: Prices | None
    if_it_pays: bool
    stop: Stop
    seed: int
    notes: tuple[str, ...]
    versions: dict[str, str]
    runtime_s: float
    conflicts: tuple[dict[str, Any], ...] = ()
    prepared: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every window was scored."""
        return self.played == len(self.periods)

    @property
    def scored(self) -> range:
        """The windows that were scored."""
        return range(self.lookback, self.periods[self.played - 1].scored.stop if self.played else self.lookback)

    @property
    def best(self) -> str | None:
        """The policy with the least mean imbalance of those that held their budget, the first of equals."""
        judged = [row for row in self.rows if row.figures is not None and row.budget_held is not False]
        return min(judged, key=_mean).policy if judged else None

    def __repr__(self) -> str:
        return f"<Replay: {self._head()}>"

    def __str__(self) -> str:
        """A table: a line a policy, with the mean bound of the windows."""
        made = [self._head()]
        if self.rows:
            heads = ("policy", "imbalance mean", "worst window", "worst layer", "moves", "remark")
            body = [self._cells(row) for row in self.rows]
            floor = f"{math.fsum(self.bound) / len(self.bound):.4f}" if self.bound else "-"
            made += brief.table([heads, *body, ("bound", floor, "", "", "", "")])
        made += [f"conflict: {brief.cut(str(one.get('message', 'a rule')))}" for one in self.conflicts[:1]]
        made.append(f"time: {self.runtime_s:.3g} s, seed {self.seed}")
        return "\n".join(made + [f"note: {brief.cut(note)}" for note in self.notes[:1]])

    def _head(self) -> str:
        history = self.history
        layers = "1 layer" if history.num_layers == 1 else f"{history.num_layers:,} layers"
        shape = f"{layers}, {history.num_slots:,} slots on {history.num_gpus:,} GPUs"
        played = f"{self.played:,} of {len(self.periods):,} periods (stop {self.stop})"
        return f"replay of {len(self.windows):,} windows, {shape}: {played}, best {self.best}"

    def _cells(self, row: Row) -> tuple[str, ...]:
        found = row.figures
        if found is None:
            return (row.policy, "-", "-", "-", "-", brief.cut(row.reason))
        worst = (f"{found.imbalance_worst_window:.4f}", f"{found.imbalance_worst_layer:.4f}")
        remark = "best" if row.policy == self.best else ""
        return (row.policy, f"{found.imbalance_mean:.4f}", *worst, f"{found.moves:,}", remark)

    def to_dict(self) -> dict[str, Any]:
        """A strict JSON document, from which `faults` recomputes every number."""
        loads = self.history.window_loads
        assert loads is not None
        tokens = loads.sum(axis=(1, 2)).tolist()
        rows = zip(self.windows, tokens, self.history.window_steps, strict=True)
        return {
            "schema": SCHEMA,
            "instance": {
                "name": self.history.name,
                "sha256": self.history.sha256,
                "document": self.history.to_dict(with_loads=False),
            },
            "windows": [{"name": name, "selections": count, "steps": steps} for name, count, steps in rows],
            "prepared": dict(self.prepared),
            "every": self.every,
            "lookback": self.lookback,
            "combine": self.combine,
            "max_moves": self.max_moves,
            "max_moves_per_layer": self.max_moves_per_layer,
            "prices": None if self.prices is None else self.prices.to_dict(),
            "if_it_pays": self.if_it_pays,
            "first": {"method": self.first_method, **plan_dict(self.first)},
            "scored": [self.scored.start, self.scored.stop - 1],
            "bound": list(self.bound),
            "policies": [row.to_dict() for row in self.rows],
            "best": self.best,
            "complete": self.complete,
            "stop": str(self.stop),
            "conflicts": [dict(conflict) for conflict in self.conflicts],
            "notes": list(self.notes),
            "seed": self.seed,
            "versions": dict(self.versions),
            "runtime_s": self.runtime_s,
        }

    def to_json(self) -> str:
        """The document as text."""
        return to_json(self.to_dict())

    def canonical(self) -> bytes:
        """The document without times and versions: equal seeds and histories give equal bytes."""
        document = _timeless(self.to_dict())
        del document["versions"]
        document["notes"] = [note for note in self.notes if not note.startswith(MACHINE_NOTE)]
        return canonical_json(document)


def _mean(row: Row) -> float:
    assert row.figures is not None
    return row.figures.imbalance_mean


def _timeless(value: Any) -> Any:
    """A document without the seconds that were measured."""
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key != "runtime_s"}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_timeless(item) for item in value]
    return value
