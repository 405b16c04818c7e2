"""Axes onto tiers: exact against all trees, never worse than the recipe."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import Link
from moeopt.errors import InstanceError
from moeopt.mesh import GpuType
from moeopt.mesh.axes import Axis, Split, Tier, axis_s, best_layout, recipe_layout, tiers_of

KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send", "none"]


@st.composite
def meshes(draw: st.DrawFn) -> tuple[dict[str, Axis], list[Tier]]:
    """Axes whose degrees are cut from the tiers, so that they always fit."""
    names = draw(st.lists(st.sampled_from(["pp", "dp", "tp", "ep", "cp"]), min_size=1, max_size=3, unique=True))
    degrees = dict.fromkeys(names, 1)
    tiers = []
    for place in range(draw(st.integers(1, 3))):
        size = 1
        for factor in draw(st.lists(st.sampled_from([2, 3]), max_size=3)):
            degrees[draw(st.sampled_from(names))] *= factor
            size *= factor
        tiers.append(Tier(size, Link(draw(st.sampled_from([0.0, 2e-6])), 160e9 / 4**place)))
    axes = {
        name: Axis(
            degree, draw(st.sampled_from(KINDS)), draw(st.sampled_from([0.0, 1e6, 3e8])), draw(st.integers(1, 3))
        )
        for name, degree in degrees.items()
    }
    return axes, tiers


def factored(degree: int, tiers: int) -> list[Split]:
    options = [here for here in range(1, degree + 1) if degree % here == 0]
    return [split for split in product(options, repeat=tiers) if math.prod(split) == degree]


@given(meshes())
def test_the_layout_equals_trying_every_tree(mesh: tuple[dict[str, Axis], list[Tier]]) -> None:
    axes, tiers = mesh
    found = best_layout(axes, tiers)
    values = []
    for splits in product(*(factored(axis.degree, len(tiers)) for axis in axes.values())):
        if all(math.prod(split[k] for split in splits) == tier.size for k, tier in enumerate(tiers)):
            values.append(math.fsum(axis_s(axis, s, tiers) for axis, s in zip(axes.values(), splits, strict=True)))
    assert found.seconds == pytest.approx(min(values), rel=1e-12)
    assert found.seconds <= recipe_layout(axes, tiers).seconds * (1 + 1e-12)


@given(meshes())
def test_every_rank_has_a_place_of_its_own(mesh: tuple[dict[str, Axis], list[Tier]]) -> None:
    axes, tiers = mesh
    layout = best_layout(axes, tiers)
    points = product(*(range(axis.degree) for axis in axes.values()))
    places = {layout.rank(dict(zip(axes, point, strict=True))) for point in points}
    assert places == set(range(math.prod(tier.size for tier in tiers)))


def test_experts_can_be_worth_more_of_the_node_than_tensors() -> None:
    tiers = tiers_of(GpuType.of("H800"), 32)
    heavy = {"tp": Axis(8, "all-reduce", 1e5, 2), "ep": Axis(4, "all-to-all", 1e9, 2)}
    best, recipe = best_layout(heavy, tiers), recipe_layout(heavy, tiers)
    assert recipe.inside["tp"] == (8, 1) and best.inside["ep"] == (4, 1)
    assert best.seconds < recipe.seconds


def test_what_does_not_fit_is_refused_with_both_products() -> None:
    with pytest.raises(InstanceError, match="multiply to 6 GPUs, the tiers to 8"):
        best_layout({"tp": Axis(6)}, [Tier(8, Link(0.0, 1e9))])
    with pytest.raises(InstanceError, match="Use 8 or 16"):
        tiers_of(GpuType.of("H800"), 12)
