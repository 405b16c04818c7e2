"""`Result`: what was solved, how good the answer is, and why the search stopped; it refuses to contradict itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from moeopt.documents import canonical_json, to_json

CERTIFIED_TOLERANCE = 1e-9
"""Largest relative gap at which a certified bound and the objective count as equal."""
SOLVER_TOLERANCE = 1e-6
"""The same for a bound that a back end claims."""


class Status(StrEnum):
    """What is known about the answer."""

    OPTIMAL = "OPTIMAL"  # a plan, and a bound that meets it, on every layer or part
    FEASIBLE = "FEASIBLE"  # a plan
    INFEASIBLE = "INFEASIBLE"  # proved: no plan exists
    UNKNOWN = "UNKNOWN"  # neither a plan nor a proof


class Stop(StrEnum):
    """Why the search ended."""

    FINISHED = "FINISHED"
    GAP = "GAP"
    TIME = "TIME"
    NODES = "NODES"
    ITERATIONS = "ITERATIONS"
    INTERRUPTED = "INTERRUPTED"


MACHINE_NOTE = "this machine: "
"""How a note begins that depends on where the solve ran; `Result.canonical` leaves it out."""

BoundKind = Literal["certified", "solver"]


def relative_gap(objective: float, lower_bound: float) -> float:
    """``(objective - lower_bound) / objective``, and 0 when both are 0.

    >>> relative_gap(4.0, 3.0), relative_gap(0.0, 0.0)
    (0.25, 0.0)
    """
    return 0.0 if objective == lower_bound else (objective - lower_bound) / objective


class Contradiction(AssertionError):
    """A result whose parts contradict each other: our own bug, or a file somebody edited."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The answer to one instance, with its proof; ``print`` shows the few lines that say how good it is.

    Parameters
    ----------
    problem, method
        Names of the problem and of the method that answered.
    instance
        ``name``, ``sha256`` of the canonical document, and ``document``: the instance without its bulk data.
    status, stop
        Two separate questions: what is known, and why the search ended. OPTIMAL beside TIME or INTERRUPTED is proved
        as any other; what was left out then is beside the plan, and a note names it.
    objective
        The referee's value of the plan in `unit`; ``None`` without a plan.
    lower_bound, bound_kind, certificate
        Proven floor. ``certified``: re-checked exactly from `certificate`; ``solver``: a back end's claim.
    solution
        The plan as JSON-ready data; per-layer or per-part values live in its ``layers`` or ``parts``.
    gap_worst_layer
        Largest gap of a layer or part; ``None`` without a plan.
    incumbents
        ``(seconds, objective)`` of every improvement.
    conflicts
        For INFEASIBLE: the rules that conflict, their values and the shortfall.
    notes
        Everything that happened and was not asked for: fallbacks, repairs, skipped work.
    plan
        The plan as an object of the problem's own type; not written to documents.

    >>> from moeopt import placement
    >>> result = placement.solve(placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4), method="lpt", seed=7)
    >>> print(result)  # doctest: +ELLIPSIS
    placement by lpt: FEASIBLE (stop FINISHED), objective 10 tokens, lower bound 8, gap 20.0 %
    plan: 1 layer, 4 slots on 2 GPUs, imbalance 1.2500, the mean of layers
    time: ... s, seed 7
    >>> result
    <Result: placement by lpt: FEASIBLE (stop FINISHED), objective 10 tokens, lower bound 8, gap 20.0 %>
    """

    problem: str
    instance: Mapping[str, Any]
    method: str
    status: Status
    stop: Stop
    objective: float | None = None
    lower_bound: float | None = None
    bound_kind: BoundKind | None = None
    certificate: Mapping[str, Any] | None = None
    solution: Mapping[str, Any] | None = None
    gap_worst_layer: float | None = None
    unit: str
    runtime_s: float = 0.0
    seed: int = 0
    iterations: int = 0
    incumbents: tuple[tuple[float, float], ...] = ()
    conflicts: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    plan: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        problems = list(self._contradictions())
        if problems:
            raise Contradiction("; ".join(problems))

    @property
    def gap(self) -> float | None:
        """``(objective - lower_bound) / objective``; ``None`` without a plan or without a bound."""
        if self.objective is None or self.lower_bound is None:
            return None
        return relative_gap(self.objective, self.lower_bound)

    def __str__(self) -> str:
        """A few lines: what is known, the value and its bound, the shape of the plan, the time and the first note."""
        from moeopt import brief

        return "\n".join(brief.lines(self))

    def __repr__(self) -> str:
        from moeopt import brief

        return f"<Result: {brief.head(self)}>"

    def _contradictions(self) -> list[str]:
        found = []
        has_plan = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        if has_plan != (self.objective is not None):
            found.append(f"status {self.status} with objective {self.objective}")
        if has_plan != (self.solution is not None):
            found.append(f"status {self.status} {'without' if has_plan else 'with'} a solution")
        for name in ("objective", "lower_bound", "runtime_s", "gap_worst_layer"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                found.append(f"{name} = {value} is not a finite number >= 0")
        if found:
            return found
        if (self.lower_bound is None) != (self.bound_kind is None):
            found.append(f"lower_bound {self.lower_bound} with bound_kind {self.bound_kind}")
        if self.objective is not None and self.lower_bound is not None and self.lower_bound > self.objective:
            return [*found, f"lower_bound {self.lower_bound} lies above objective {self.objective}"]
        if self.gap_worst_layer is not None and self.gap is None:
            found.append(f"gap_worst_layer = {self.gap_worst_layer} without an objective and a bound")
        elif self.gap_worst_layer is not None and self.gap is not None and self.gap_worst_layer < self.gap - 1e-9:
            found.append(f"the worst layer has a gap of {self.gap_worst_layer}, all together {self.gap}")
        tolerance = CERTIFIED_TOLERANCE if self.bound_kind == "certified" else SOLVER_TOLERANCE
        worst = max((gap for gap in (self.gap, self.gap_worst_layer) if gap is not None), default=None)
        if self.status is Status.OPTIMAL and (worst is None or worst > tolerance):
            found.append(f"OPTIMAL with a gap of {worst} on the worst layer, allowed {tolerance}")
        if has_plan and self.conflicts:
            found.append(f"status {self.status} with rules that conflict")
        if self.status is Status.INFEASIBLE and not self.conflicts:
            found.append("INFEASIBLE without naming the rules that conflict")
        if self.iterations < 0:
            found.append(f"iterations = {self.iterations} is negative")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The document, strict-JSON ready; the plan object is left out, `solution` says the same."""
        return {
            "schema": f"moeopt/{self.problem}-result/1",
            "problem": self.problem,
            "instance": dict(self.instance),
            "method": self.method,
            "status": str(self.status),
            "stop": str(self.stop),
            "objective": self.objective,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "gap_worst_layer": self.gap_worst_layer,
            "bound_kind": self.bound_kind,
            "unit": self.unit,
            "certificate": None if self.certificate is None else dict(self.certificate),
            "solution": None if self.solution is None else dict(self.solution),
            "conflicts": [dict(conflict) for conflict in self.conflicts],
            "notes": list(self.notes),
            "seed": self.seed,
            "iterations": self.iterations,
            "incumbents": [list(pair) for pair in self.incumbents],
            "runtime_s": self.runtime_s,
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """The document as strict JSON text."""
        return to_json(self.to_dict())

    def canonical(self) -> bytes:
        """The document without times, versions and host: equal seeds and iteration limits give equal bytes."""
        document = self.to_dict()
        for key in ("runtime_s", "versions"):
            del document[key]
        document["incumbents"] = [objective for _, objective in self.incumbents]
        document["notes"] = [note for note in self.notes if not note.startswith(MACHINE_NOTE)]
        return canonical_json(document)
