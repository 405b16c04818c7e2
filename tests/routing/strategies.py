"""Routing instances of every kind, built and not filtered."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moeopt.routing import RoutingInstance

SPEEDS = (1.0, 2.0, 0.5, 1.3)


@st.composite
def instances(draw: st.DrawFn, *, most_tokens: int = 10**9, layers: int = 2, **fixed: Any) -> RoutingInstance:
    """Any hosting in which every expert has a replica; `fixed` are fields of the instance that are not drawn."""
    gpus, experts = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    slots = -(-(experts + draw(st.integers(0, 8))) // gpus) * gpus
    rows, loads = [], []
    whole = fixed.get("whole", False)
    number = st.integers(0, most_tokens)
    decimal = st.integers(0, 10**6).map(lambda value: value / 1000)
    cell = number if whole or draw(st.booleans()) else st.one_of(number, decimal)
    for _ in range(draw(st.integers(1, layers))):
        extra = draw(st.lists(st.integers(-1, experts - 1), min_size=slots - experts, max_size=slots - experts))
        rows.append(draw(st.permutations([*range(experts), *extra])))
        loads.append(draw(st.lists(cell, min_size=experts, max_size=experts)))
    fields: dict[str, Any] = {"gpus": gpus, "name": draw(st.sampled_from(("", "named")))}
    if draw(st.booleans()):
        fields["speed"] = draw(st.lists(st.sampled_from(SPEEDS), min_size=gpus, max_size=gpus))
    if draw(st.booleans()):
        one = st.integers(0, 50) if draw(st.booleans()) else st.integers(0, 500).map(lambda value: value / 10)
        fields["base"] = draw(st.lists(one, min_size=gpus, max_size=gpus))
    if draw(st.booleans()):
        fields["floor_tokens"] = draw(st.integers(0, 6))
        fields["steps"] = draw(st.integers(1, 2))
        fields["floor_rule"] = "per_replica" if whole else draw(st.sampled_from(("per_replica", "per_expert")))
    if draw(st.booleans()):
        fields["nodes"] = draw(st.lists(st.integers(0, 2), min_size=gpus, max_size=gpus))
    return RoutingInstance(loads, rows, **(fields | fixed))
