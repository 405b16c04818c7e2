"""The linear programme of one layer, in the names of ``models/routing.md``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.routing.bounds import mean
from moeopt.routing.instance import RoutingInstance


@dataclass(frozen=True)
class Model:
    """The programme of a layer.

    Parameters
    ----------
    row
        The row of loads.
    scale
        Tokens that one unit stands for.
    problem, variables
        The `pulp.LpProblem`, and its variables by name.
    """

    row: int
    scale: float
    problem: Any
    variables: Mapping[str, Any]

    def to_pulp(self) -> tuple[Any, Mapping[str, Any]]:
        """The problem and its variables by name, to add rows of one's own; hand the values to `read_back`."""
        return self.problem, self.variables


def build(instance: RoutingInstance, *, layer: int = 0, scaled: bool = False) -> Model:
    """Write the programme of the layer in row `layer`; `scaled`: in units of the ideal, as a solver should see it.

    >>> problem, variables = build(RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)).to_pulp()
    >>> sorted(variables)
    ['C', 'x_0_0', 'x_0_1', 'x_1_0', 'x_2_1']
    """
    from moeopt.backends import modelling

    hosting = instance.hostings[layer]
    scale = (float(mean(instance, layer).value) or 1.0) if scaled else 1.0
    loads = [float(load) / scale for load in instance.loads[layer].tolist()]
    floor = float(instance.floor) / scale
    if instance.floor_rule == "per_expert":
        loads, floor = [max(load, floor) for load in loads], 0.0
    problem = modelling.new_problem("routing")
    found = {"C": modelling.variable(problem, "C", 0.0, None)}
    pairs = list(zip(hosting.expert.tolist(), hosting.gpu.tolist(), hosting.copies.tolist(), strict=True))
    for expert, gpu, _ in pairs:
        name = f"x_{expert}_{gpu}"
        found[name] = modelling.variable(problem, name, 0.0, None, whole=instance.whole and not scaled)
    if floor:
        for expert, gpu, copies in pairs:
            name = f"c_{expert}_{gpu}"
            found[name] = modelling.variable(problem, name, floor * copies, None)
    modelling.minimise(problem, modelling.total([(found["C"], 1.0)]))
    for expert, load in enumerate(loads):
        low, high = int(hosting.first[expert]), int(hosting.first[expert + 1])
        if high > low:
            terms = [(found[f"x_{expert}_{gpu}"], 1.0) for gpu in hosting.gpu[low:high].tolist()]
            modelling.constrain(problem, f"all_{expert}", modelling.total(terms), "==", load)
    kind = "c" if floor else "x"
    for expert, gpu, _ in pairs if floor else ():
        terms = [(found[f"c_{expert}_{gpu}"], 1.0), (found[f"x_{expert}_{gpu}"], -1.0)]
        modelling.constrain(problem, f"cost_{expert}_{gpu}", modelling.total(terms), ">=", 0.0)
    for gpu, (pace, more) in enumerate(zip(instance.speed, instance.base[layer], strict=True)):
        terms = [(found[f"{kind}_{expert}_{gpu}"], 1.0) for expert, at, _ in pairs if at == gpu]
        terms.append((found["C"], -pace))
        modelling.constrain(problem, f"busy_{gpu}", modelling.total(terms), "<=", -more / scale)
    return Model(layer, scale, problem, found)


def read_back(instance: RoutingInstance, model: Model, values: Mapping[str, float]) -> NDArray[np.float64]:
    """(Q,) shares of every pair, summing to 1, from values of the variables."""
    hosting = instance.hostings[model.row]
    pairs = zip(hosting.expert.tolist(), hosting.gpu.tolist(), strict=True)
    amounts = np.array([max(values[f"x_{expert}_{gpu}"], 0.0) for expert, gpu in pairs])
    totals = np.bincount(hosting.expert, weights=amounts, minlength=instance.num_experts)[hosting.expert]
    even: NDArray[np.float64] = hosting.copies / hosting.replicas[hosting.expert]
    np.divide(amounts, totals, out=even, where=totals > 0)
    return even
