"""Writing models with PuLP, once for every solver and for both of its generations (3.x and 4.x)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def new_problem(name: str) -> Any:
    """An empty `pulp.LpProblem` that minimises."""
    import pulp

    return pulp.LpProblem(name, pulp.LpMinimize)


def variable(problem: Any, name: str, low: float | None, up: float | None, *, whole: bool = False) -> Any:
    """A new variable of the problem; ``None`` for no bound."""
    return problem.add_variable(name, low, up, "Integer" if whole else "Continuous")


def total(terms: Iterable[tuple[Any, float]]) -> Any:
    """``sum of coefficient * variable``, in the order given."""
    import pulp

    return pulp.lpSum(coefficient * var for var, coefficient in terms)


def minimise(problem: Any, expression: Any) -> None:
    """Set the objective."""
    problem += expression


def constrain(problem: Any, name: str, expression: Any, sense: str, bound: float) -> None:
    """Add ``expression sense bound`` under a name; `sense` is one of ``<= == >=``."""
    if sense == "<=":
        problem += expression <= bound, name
    elif sense == ">=":
        problem += expression >= bound, name
    else:
        problem += expression == bound, name
