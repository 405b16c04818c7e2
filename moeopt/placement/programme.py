"""The mixed-integer programme of ``models/placement.md``, written in its names, and the way back to a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement import bounds
from moeopt.placement.combined import tail_of
from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement, Share
from moeopt.placement.verify import evaluate

Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(E,) least and most replicas of each expert."""


@dataclass(frozen=True)
class Model:
    """A programme for some layers of an instance.

    Parameters
    ----------
    rows
        Rows of the loads it covers; names carry ``l<layer id>_`` in front when there are several.
    scale
        Tokens that one unit of C stands for, per row.
    problem, variables
        The `pulp.LpProblem`, and its variables by name.
    """

    instance: PlacementInstance
    rows: tuple[int, ...]
    scale: tuple[float, ...]
    problem: Any
    variables: Mapping[str, Any]

    def to_pulp(self) -> tuple[Any, Mapping[str, Any]]:
        """The problem and its variables by name, to add rows of one's own; hand the values to `read_back`."""
        return self.problem, self.variables

    def prefix(self, row: int) -> str:
        """What stands before the names of a layer."""
        return "" if len(self.rows) == 1 else f"l{self.instance.layers[row]}_"


def build(
    instance: PlacementInstance,
    layer: int | None = None,
    *,
    counts: Counts | None = None,
    lower_bound: float = 0.0,
    scaled: bool = False,
) -> Model:
    """Write the programme of one layer, or of all.

    Parameters
    ----------
    layer
        Row of the loads; ``None``: every row, minimising the sum of their C.
    counts
        Least and most replicas of each expert, when more is known than 1 and Rbar.
    lower_bound
        Proven floor under C, in units of C.
    scaled
        Divide loads and K by the layer's ideal, as a solver should see them; otherwise C is in tokens.

    >>> problem, variables = build(PlacementInstance([[3, 1]], gpus=2, slots=2)).to_pulp()
    >>> sorted(variables)[:3]
    ['C', 'p_0_0_1', 'p_0_1_1']
    """
    from moeopt.backends import modelling

    rows = tuple(range(instance.num_layers)) if layer is None else (layer,)
    scale = tuple((float(instance.ideal[row]) or 1.0) if scaled and not instance.windows else 1.0 for row in rows)
    variables: dict[str, Any] = {}
    model = Model(instance, rows, scale, modelling.new_problem("placement"), variables)
    tops = []
    for row, size in zip(rows, scale, strict=True):
        writer = _Writer(model, row, size)
        top = writer.variable("C", lower_bound, None)
        tops.append((top, 1.0))
        writer.hosting()
        if instance.split == "even":
            writer.even(counts or _all_counts(instance), writer.epigraphs(top))
        else:
            writer.free(top)
    modelling.minimise(model.problem, modelling.total(tops))
    return model


def _all_counts(instance: PlacementInstance) -> Counts:
    ones = np.ones(instance.num_experts, dtype=np.int64)
    return ones, ones * bounds.most_replicas(instance)


class _Writer:
    """Writes the rows of one layer, in the names of the page."""

    def __init__(self, model: Model, row: int, scale: float) -> None:
        self.model, self.instance, self.row = model, model.instance, row
        self.before = model.prefix(row)
        self.experts, self.gpus = range(self.instance.num_experts), range(self.instance.num_gpus)
        self.loads = [float(load) / scale for load in self.instance.loads[row].tolist()]
        self.floor = float(self.instance.floor) / scale
        self.most = bounds.most_replicas(self.instance)

    def variable(self, name: str, low: float, up: float | None, *, whole: bool = False) -> Any:
        from moeopt.backends import modelling

        full = self.before + name
        self.model.variables[full] = modelling.variable(self.model.problem, full, low, up, whole=whole)  # type: ignore[index]
        return self.model.variables[full]

    def row_of(self, name: str, terms: list[tuple[Any, float]], sense: str, bound: float) -> None:
        from moeopt.backends import modelling

        modelling.constrain(self.model.problem, self.before + name, modelling.total(terms), sense, bound)

    def _widest(self, gpu: int) -> int:
        """U_g, the most replicas of one expert on a GPU."""
        return min(1 if self.instance.distinct else self.instance.slots[gpu], self.instance.slots[gpu])

    def hosting(self) -> None:
        """y, the slots, the groups, pins and prohibitions."""
        instance = self.instance
        allowed, pinned = allowed_pairs(instance), set(instance.pin)
        self.y = {
            (e, g): self.variable(
                f"y_{e}_{g}",
                1.0 if (e, g) in pinned else 0.0,
                float(self._widest(g)) if allowed[e, g] else 0.0,
                whole=True,
            )
            for e in self.experts
            for g in self.gpus
        }
        sense = "==" if instance.fill == "all" else "<="
        for g in self.gpus:
            self.row_of(f"slots_{g}", [(self.y[e, g], 1.0) for e in self.experts], sense, float(instance.slots[g]))
        for e in self.experts:
            if instance.min_replicas[e] > 1:
                terms = [(self.y[e, g], 1.0) for g in self.gpus]
                self.row_of(f"least_{e}", terms, ">=", float(instance.min_replicas[e]))
        if instance.survive_nodes:
            self._survival()
        if instance.hierarchical:
            self._groups()

    def _survival(self) -> None:
        """v: whether an expert is seen on a node."""
        instance, nodes = self.instance, self.instance.node_ids
        for e in self.experts:
            v = {n: self.variable(f"v_{e}_{n}", 0.0, 1.0, whole=True) for n in nodes}
            for n in nodes:
                there = [(self.y[e, g], -1.0) for g in self.gpus if instance.node[g] == n]
                self.row_of(f"seen_{e}_{n}", [(v[n], 1.0), *there], "<=", 0.0)
            self.row_of(f"survive_{e}", [(v[n], 1.0) for n in nodes], ">=", float(instance.survive_nodes + 1))

    def _groups(self) -> None:
        instance = self.instance
        assert instance.groups is not None
        ids, nodes = sorted(set(instance.groups)), instance.node_ids
        u = {(q, n): self.variable(f"u_{q}_{n}", 0.0, 1.0, whole=True) for q in ids for n in nodes}
        for q in ids:
            self.row_of(f"home_{q}", [(u[q, n], 1.0) for n in nodes], "==", 1.0)
        for n in nodes:
            self.row_of(f"deal_{n}", [(u[q, n], 1.0) for q in ids], "==", len(ids) / len(nodes))
        for e in self.experts:
            for g in self.gpus:
                home = u[instance.groups[e], instance.node[g]]
                self.row_of(f"near_{e}_{g}", [(self.y[e, g], 1.0), (home, -float(self._widest(g)))], "<=", 0.0)

    def epigraphs(self, top: Any) -> list[Any]:
        """C itself; or with windows the variable of each window's ratio, and what makes C of them."""
        if not self.instance.windows:
            return [top]
        places = range(len(self.instance.windows))
        rho = [self.variable(f"rho_{w}", 1.0, None) for w in places]
        counted = float(tail_of(self.instance))
        if counted == 1.0:
            for w in places:
                self.row_of(f"worst_{w}", [(top, 1.0), (rho[w], -1.0)], ">=", 0.0)
        elif counted == len(rho):
            self.row_of("mean", [(top, counted), *((ratio, -1.0) for ratio in rho)], ">=", 0.0)
        else:
            level = self.variable("t", 0.0, None)
            above = [self.variable(f"above_{w}", 0.0, None) for w in places]
            for w in places:
                self.row_of(f"tail_{w}", [(above[w], 1.0), (level, 1.0), (rho[w], -1.0)], ">=", 0.0)
            terms = [(top, counted), (level, -counted), *((excess, -1.0) for excess in above)]
            self.row_of("cvar", terms, ">=", 0.0)
        return rho

    def _parts(self) -> list[tuple[list[float], float, float]]:
        """Loads, floor and constant load of each epigraph, in its unit: C's, or a window's ideal."""
        one = self.instance
        if not one.windows:
            size = self.model.scale[self.model.rows.index(self.row)]
            base = 0.0 if one.exact_base is None else float(one.exact_base[self.row]) / size
            return [(self.loads, self.floor, base)]
        found = []
        for window in one.windows:
            size = float(window.ideal[self.row]) or 1.0
            loads = [float(load) / size for load in window.loads[self.row].tolist()]
            base = 0.0 if window.exact_base is None else float(window.exact_base[self.row]) / size
            found.append((loads, float(window.floor) / size, base))
        return found

    def even(self, counts: Counts, tops: list[Any]) -> None:
        """z and p: one term for each expert, GPU and count; a row of costs for each GPU and window."""
        instance = self.instance
        parts = self._parts()
        costs: dict[tuple[int, int], list[tuple[Any, float]]] = {
            (g, w): [] for g in self.gpus for w in range(len(parts))
        }
        for e in self.experts:
            choices = range(int(counts[0][e]), min(int(counts[1][e]), self.most) + 1)
            z = {r: self.variable(f"z_{e}_{r}", 0.0, 1.0, whole=True) for r in choices}
            self.row_of(f"count_{e}", [(z[r], 1.0) for r in choices], "==", 1.0)
            p = {
                (g, r): self.variable(f"p_{e}_{g}_{r}", 0.0, float(min(self._widest(g), r)))
                for g in self.gpus
                for r in choices
            }
            for r in choices:
                self.row_of(f"copies_{e}_{r}", [*((p[g, r], 1.0) for g in self.gpus), (z[r], -float(r))], "==", 0.0)
                for g in self.gpus:
                    widest = float(min(self._widest(g), r))
                    self.row_of(f"link_{e}_{g}_{r}", [(p[g, r], 1.0), (z[r], -widest)], "<=", 0.0)
                    for w, (loads, floor, _) in enumerate(parts):
                        costs[g, w].append((p[g, r], self._piece(loads[e], floor, r)))
            for g in self.gpus:
                self.row_of(f"held_{e}_{g}", [(self.y[e, g], 1.0), *((p[g, r], -1.0) for r in choices)], "==", 0.0)
        for g in self.gpus:
            speed = instance.speed[g]  # on this side, for a solver judges rows by absolute tolerances
            for w, (_, _, base) in enumerate(parts):
                name = f"cost_{g}_{w}" if instance.windows else f"cost_{g}"
                carried = base / speed if instance.slots[g] else 0.0
                terms = [(tops[w], 1.0), *((v, -c / speed) for v, c in costs[g, w])]
                self.row_of(name, terms, ">=", carried)

    def _piece(self, load: float, floor: float, count: int) -> float:
        if self.instance.floor_rule == "per_expert":
            return max(load, floor) / count
        return max(load / count, floor)

    def free(self, top: Any) -> None:
        """x, and t where every replica has a floor."""
        instance = self.instance
        x = {(e, g): self.variable(f"x_{e}_{g}", 0.0, 1.0) for e in self.experts for g in self.gpus}
        for e in self.experts:
            self.row_of(f"shares_{e}", [(x[e, g], 1.0) for g in self.gpus], "==", 1.0)
            for g in self.gpus:
                self.row_of(f"host_{e}_{g}", [(x[e, g], 1.0), (self.y[e, g], -1.0)], "<=", 0.0)
        per_replica = instance.floor_rule == "per_replica" and self.floor > 0
        for g in self.gpus:
            speed = instance.speed[g]
            terms: list[tuple[Any, float]] = [(top, 1.0)]
            carried = self._parts()[0][2] / speed if instance.slots[g] else 0.0
            for e in self.experts:
                if not per_replica:
                    terms.append((x[e, g], -max(self.loads[e], self.floor) / speed))
                    continue
                t = self.variable(f"t_{e}_{g}", 0.0, None)
                self.row_of(f"load_{e}_{g}", [(t, 1.0), (x[e, g], -self.loads[e] / speed)], ">=", 0.0)
                self.row_of(f"floor_{e}_{g}", [(t, 1.0), (self.y[e, g], -self.floor / speed)], ">=", 0.0)
                terms.append((t, -1.0))
            self.row_of(f"cost_{g}", terms, ">=", carried)


def read_back(model: Model, values: Mapping[str, float]) -> Placement:
    """The plan that values of the variables describe, for the layers of the model.

    Replicas take the slots of their GPU in order of expert id. Nothing is checked but wholeness: the referee does that.
    """
    instance = model.instance
    held = np.full((len(model.rows), instance.num_slots), EMPTY, dtype=np.int64)
    shares: list[list[Share]] = []
    for place, row in enumerate(model.rows):
        before = model.prefix(row)
        mine: list[Share] = []
        for g in range(instance.num_gpus):
            slot = int(instance.slot_start[g])
            for e in range(instance.num_experts):
                copies = round(values[f"{before}y_{e}_{g}"])
                held[place, slot : slot + copies] = e
                slot += copies
                if copies and instance.split == "free":
                    mine.append((e, g, min(max(values[f"{before}x_{e}_{g}"], 0.0), 1.0)))
        shares.append(_whole(mine))
    return Placement.of(held, shares if instance.split == "free" else None)


def _whole(shares: list[Share]) -> list[Share]:
    """Scale each expert's shares to sum to 1: solvers leave errors of 1e-9."""
    total: dict[int, float] = {}
    for expert, _, share in shares:
        total[expert] = total.get(expert, 0.0) + share
    return [(expert, gpu, share / total[expert]) for expert, gpu, share in shares]


def start_values(model: Model, plan: Placement) -> dict[str, float]:
    """Values of the variables for a plan of the whole instance, to start a solver from."""
    instance = model.instance
    values = dict.fromkeys(model.variables, 0.0)
    judged = evaluate(instance, plan)
    for row, size in zip(model.rows, model.scale, strict=True):
        before = model.prefix(row)
        values[f"{before}C"] = float(judged.max_load[row]) / size
        if judged.windows:
            _start_windows(instance, before, [float(ratio) for ratio in judged.windows[row]], values)
        filled = plan.slot_expert[row] != EMPTY
        pairs = list(zip(plan.slot_expert[row][filled].tolist(), instance.gpu_of_slot[filled].tolist(), strict=True))
        counts = np.bincount([e for e, _ in pairs], minlength=instance.num_experts)
        for e, g in pairs:
            values[f"{before}y_{e}_{g}"] += 1.0
            if instance.split == "even":
                values[f"{before}z_{e}_{counts[e]}"] = 1.0
                values[f"{before}p_{e}_{g}_{counts[e]}"] += 1.0
        for e, g, share in plan.shares[row] if plan.shares is not None else ():
            values[f"{before}x_{e}_{g}"] = share
            if f"{before}t_{e}_{g}" in values:
                load = float(instance.loads[row, e]) * share
                floor = float(instance.floor) * values[f"{before}y_{e}_{g}"]
                values[f"{before}t_{e}_{g}"] = max(load, floor) / size / instance.speed[g]
        if instance.survive_nodes:
            for e, g in pairs:
                values[f"{before}v_{e}_{instance.node[g]}"] = 1.0
        if instance.hierarchical and instance.groups is not None:
            for e, g in pairs:
                values[f"{before}u_{instance.groups[e]}_{instance.node[g]}"] = 1.0
    return values


def _start_windows(instance: PlacementInstance, before: str, ratios: list[float], values: dict[str, float]) -> None:
    """The ratio of each window; for CVaR the least ratio that counts, and what the others have above it."""
    level = sorted(ratios, reverse=True)[math.ceil(tail_of(instance)) - 1]
    for w, ratio in enumerate(ratios):
        values[f"{before}rho_{w}"] = ratio
        if f"{before}above_{w}" in values:
            values[f"{before}above_{w}"] = max(ratio - level, 0.0)
            values[f"{before}t"] = level
