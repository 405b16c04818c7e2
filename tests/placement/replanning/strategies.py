"""Instances with a running plan."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moeopt.placement import PlacementInstance
from tests import strategies

BUDGETS = st.one_of(
    st.just({}),
    st.integers(0, 8).map(lambda most: {"max_moves": most}),
    st.integers(0, 4).map(lambda most: {"max_moves_per_layer": most}),
    st.tuples(st.integers(0, 8), st.integers(0, 4)).map(
        lambda most: {"max_moves": most[0], "max_moves_per_layer": most[1]}
    ),
    st.sampled_from([0.5, 2.0, 1e6]).map(lambda cost: {"move_cost": cost}),
)


@st.composite
def running(draw: st.DrawFn, *, budgets: st.SearchStrategy[Any] = BUDGETS, **shape: Any) -> PlacementInstance:
    """An instance of any shape, with a legal running plan and budgets."""
    shape = {"splits": ("even",), "rules": False, "kinds": ("ints", "ties", "floats")} | shape
    free = draw(strategies.instances(**shape))
    document = free.to_dict() | {"current": draw(strategies.plans(free))} | draw(budgets)
    return PlacementInstance.from_dict(document)
