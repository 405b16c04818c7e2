"""One memory budget over all layers: another number of redundant experts on each, the least sum of maximum loads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from moeopt.errors import Violations
from moeopt.kernels.knapsack import choose
from moeopt.kinds import expects
from moeopt.placement.checks import listed, number
from moeopt.placement.curve import SlotsCurve

UNIFORM = (
    "most engines (SGLang and vLLM too) want equally many slots on every layer: for them the uniform number counts"
)
"""What an answer with different numbers on different layers must say."""


@dataclass(frozen=True)
class BudgetPlan:
    """The best numbers of redundant experts within a budget.

    Parameters
    ----------
    budget_bytes, least_bytes
        The budget of a GPU for all layers, and what the smallest point of every layer takes.
    redundant, slots_per_gpu, imbalance
        L values each; empty where not even the smallest points fit.
    gpu_bytes, objective
        Bytes used, and the sum over layers of the maximum load, tokens: the least for these curves.
    uniform_redundant, uniform_objective
        The best with one number on all layers within the same budget; ``None`` where none fits.
    """

    budget_bytes: float
    least_bytes: float
    redundant: tuple[int, ...]
    slots_per_gpu: tuple[int, ...]
    imbalance: tuple[float, ...]
    gpu_bytes: float | None
    objective: float | None
    uniform_redundant: int | None
    uniform_objective: float | None
    note: str = UNIFORM

    @property
    def fits(self) -> bool:
        """Whether the budget holds the smallest point of every layer."""
        return bool(self.redundant)

    def to_dict(self) -> dict[str, Any]:
        """Strict-JSON ready."""
        lists = {key: list(getattr(self, key)) for key in ("redundant", "slots_per_gpu", "imbalance")}
        return {**vars(self), **lists, "fits": self.fits}


@expects(curve=SlotsCurve)
def memory_budget(curve: SlotsCurve, budget_bytes: float, expert_bytes: float | Sequence[float]) -> BudgetPlan:
    """Choose R for every layer so that the sum of maximum loads is least within the bytes a GPU has; exact.

    Parameters
    ----------
    curve
        The points each layer can choose from; a layer may take any of them.
    budget_bytes
        Bytes of a GPU for the experts of all layers.
    expert_bytes
        Bytes of one expert in one layer; or L numbers.

    Raises
    ------
    InstanceError
        Sizes that are no finite numbers > 0, or not one a layer.

    Notes
    -----
    A multiple-choice knapsack by dynamic programming (`moeopt.kernels.knapsack.choose`): optimal for the loads on the
    curve, which are those of the plans found there.

    >>> from moeopt.placement import PlacementInstance
    >>> from moeopt.placement.curve import slots_curve
    >>> curve = slots_curve(PlacementInstance([[8, 4, 2, 2], [4, 4, 4, 4]], gpus=2, slots=4))
    >>> memory_budget(curve, 5, 1).redundant
    (2, 0)
    """
    layers = range(len(curve.layers))
    sizes = _sizes(budget_bytes, expert_bytes, len(layers))
    weights = [[sizes[row] * point.slots_per_gpu for point in curve.points] for row in layers]
    unit = math.lcm(1, *(weight.denominator for row in weights for weight in row))
    whole = [[int(weight * unit) for weight in row] for row in weights]
    costs = [[point.max_load[row] for point in curve.points] for row in layers]
    least = float(sum(min(row) for row in weights))
    chosen = choose(costs, whole, math.floor(Fraction(budget_bytes) * unit))
    fitting = [at for at in range(len(curve.points)) if sum(row[at] for row in weights) <= Fraction(budget_bytes)]
    uniform = min(fitting, key=lambda at: (math.fsum(row[at] for row in costs), at), default=None)
    uniform_redundant = None if uniform is None else curve.points[uniform].redundant
    uniform_cost = None if uniform is None else math.fsum(row[uniform] for row in costs)
    if chosen is None:
        return BudgetPlan(budget_bytes, least, (), (), (), None, None, uniform_redundant, uniform_cost)
    return BudgetPlan(
        budget_bytes,
        least,
        tuple(curve.points[at].redundant for at in chosen),
        tuple(curve.points[at].slots_per_gpu for at in chosen),
        tuple(curve.points[at].imbalance[row] for row, at in enumerate(chosen)),
        float(sum(row[at] for row, at in zip(weights, chosen, strict=True))),
        math.fsum(row[at] for row, at in zip(costs, chosen, strict=True)),
        uniform_redundant,
        uniform_cost,
    )


def _sizes(budget_bytes: Any, expert_bytes: Any, num_layers: int) -> list[Fraction]:
    check = Violations()
    number("budget_bytes", budget_bytes, check, positive=True, fix="Give the bytes of a GPU")
    given = list(expert_bytes) if listed(expert_bytes) else [expert_bytes] * num_layers
    for row, size in enumerate(given):
        number("expert_bytes", size, check, positive=True, where=f"layer {row}", fix="Give the bytes of one expert")
    if len(given) != num_layers:
        check.add("expert_bytes", f"{len(given)} sizes", rule=f"must have one a layer, {num_layers}", fix="Give all")
    check.raise_if_any()
    return [Fraction(size) for size in given]
