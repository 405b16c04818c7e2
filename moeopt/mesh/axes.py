"""Axes of a mesh onto tiers of links: how much of each axis lies within a node, exact over all trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from moeopt.cost.checks import not_negative, positive, whole
from moeopt.cost.links import Link
from moeopt.errors import Violations
from moeopt.mesh.hardware import GpuType

Traffic = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send", "none"]
RECIPE = ("tp", "moe_tp", "ep", "cp", "kvp", "dp", "pp")
"""Order from the inside out that the usual recipe has; other axes follow as they are given."""
Split = tuple[int, ...]


@dataclass(frozen=True)
class Axis:
    """One axis of a mesh and what its groups send.

    Parameters
    ----------
    degree
        Ranks of a group.
    traffic, size_bytes
        What a group does again and again, and its bytes: of the whole tensor for collectives, of all that one rank
        sends for ``all-to-all``, of the message for ``send``.
    times
        How often in what is timed, a layer for instance.
    """

    degree: int
    traffic: Traffic = "none"
    size_bytes: float = 0.0
    times: float = 1.0

    def __post_init__(self) -> None:
        check = Violations()
        whole(check, degree=self.degree)
        not_negative(check, size_bytes=self.size_bytes, times=self.times)
        if self.traffic not in get_args(Traffic):
            known = ", ".join(get_args(Traffic))
            check.add("traffic", self.traffic, rule=f"is not one of {known}", fix="Use one of these")
        check.raise_if_any()


@dataclass(frozen=True)
class Tier:
    """So many of what is inside, joined by one kind of link: GPUs of a domain, then domains of a network."""

    size: int
    link: Link

    def __post_init__(self) -> None:
        check = Violations()
        whole(check, size=self.size)
        check.raise_if_any()


@dataclass(frozen=True)
class Layout:
    """How axes lie on tiers.

    Parameters
    ----------
    inside
        By axis, the ranks of a group along every tier, from the inside out; they multiply to the degree.
    axis_s
        Seconds of each axis.
    """

    inside: Mapping[str, Split]
    axis_s: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Of all axes, one after another."""
        return math.fsum(self.axis_s.values())

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The place in the cluster of a point of the mesh, counted node by node.

        >>> Layout({"tp": (2, 1), "dp": (2, 2)}, {}).rank({"tp": 1, "dp": 3})
        7
        """
        left, place, stride = dict(coordinates), 0, 1
        for tier in range(len(next(iter(self.inside.values()), ()))):
            for name, split in self.inside.items():
                left[name], here = divmod(left[name], split[tier])
                place += here * stride
                stride *= split[tier]
        return place


def tiers_of(gpu: GpuType, gpus: int) -> tuple[Tier, ...]:
    """Tiers of so many GPUs: the domain, then the network between domains.

    Raises
    ------
    InstanceError
        Beyond a domain, GPUs that do not fill domains; a network that no source confirms.
    """
    if gpus <= gpu.domain_gpus:
        return (Tier(gpus, gpu.link(gpus)),) if gpus > 1 else ()
    check = Violations(gpu.name)
    if gpus % gpu.domain_gpus:
        low = gpus - gpus % gpu.domain_gpus
        rule = f"must be a multiple of domain_gpus = {gpu.domain_gpus} beyond one domain"
        check.add("gpus", gpus, rule=rule, fix=f"Use {low} or {low + gpu.domain_gpus}")
    check.raise_if_any()
    network = Tier(gpus // gpu.domain_gpus, gpu.link(gpus))
    if gpu.domain_gpus == 1:
        return (network,)
    return Tier(gpu.domain_gpus, gpu.link(gpu.domain_gpus)), network


def axis_s(axis: Axis, split: Split, tiers: Sequence[Tier]) -> float:
    """Seconds of an axis whose groups lie so on the tiers, tier after tier.

    Strength: model: hierarchical collectives that use every tier once; no congestion between groups.

    >>> node, network = Tier(8, Link(0.0, 160e9)), Tier(4, Link(0.0, 40e9))
    >>> inside = axis_s(Axis(8, "all-reduce", 1.6e9), (8, 1), [node, network])
    >>> outside = axis_s(Axis(8, "all-reduce", 1.6e9), (2, 4), [node, network])
    >>> round(inside, 4), round(outside, 4)
    (0.0175, 0.04)
    """
    if axis.traffic == "none" or axis.degree == 1:
        return 0.0
    total, within = 0.0, 1
    outermost = max(place for place, here in enumerate(split) if here > 1)
    for place, (here, tier) in enumerate(zip(split, tiers, strict=True)):
        if here == 1:
            continue
        peers = here - 1
        if axis.traffic == "send":
            size = axis.size_bytes if place == outermost else 0.0
            steps = int(place == outermost)
        elif axis.traffic == "all-to-all":
            size, steps = axis.size_bytes * peers * within / axis.degree, peers
        else:
            ways = 2 if axis.traffic == "all-reduce" else 1
            size, steps = ways * axis.size_bytes * peers / (within * here), ways * peers
        total += steps * tier.link.alpha_s + size / tier.link.bytes_per_s
        within *= here
    return total * axis.times


def best_layout(
    axes: Mapping[str, Axis],
    tiers: Sequence[Tier],
    *,
    seconds: Callable[[str, Split], float] | None = None,
) -> Layout:
    """The layout of least time.

    Parameters
    ----------
    axes, tiers
        Their products must be equal.
    seconds
        Time of an axis by its split, where one's own model or measurements are better than `axis_s`.

    Raises
    ------
    InstanceError
        Products that differ.

    Notes
    -----
    Strength: exact over all ways to cut degrees over tiers, for times that depend on an axis's own split:
    dynamic programming over what is left of each tier. Of equals, the first axes lie further inside.

    >>> tiers = [Tier(8, Link(2e-6, 160e9)), Tier(4, Link(5e-6, 40e9))]
    >>> axes = {"dp": Axis(4), "tp": Axis(8, "all-reduce", 1e8)}
    >>> best_layout(axes, tiers).inside
    {'dp': (1, 4), 'tp': (8, 1)}
    """
    _check(axes, tiers)
    names = list(axes)
    cost = seconds or (lambda name, split: axis_s(axes[name], split, tiers))

    @cache
    def best(place: int, left: Split) -> tuple[float, tuple[Split, ...]]:
        if place == len(names):
            return 0.0, ()
        found: tuple[float, tuple[Split, ...]] | None = None
        for split in _splits(axes[names[place]].degree, left):
            rest_s, rest = best(place + 1, tuple(have // here for have, here in zip(left, split, strict=True)))
            total = cost(names[place], split) + rest_s
            if found is None or total < found[0]:
                found = (total, (split, *rest))
        return found or (math.inf, ())

    _, chosen = best(0, tuple(tier.size for tier in tiers))  # equal products have equal primes, so there is one
    inside = dict(zip(names, chosen, strict=True))
    return Layout(inside, {name: cost(name, split) for name, split in inside.items()})


def recipe_layout(axes: Mapping[str, Axis], tiers: Sequence[Tier]) -> Layout:
    """The usual recipe: tensor parallel innermost, then experts, context, data and stages, each as far inside as it goes.

    Raises
    ------
    InstanceError
        Products that differ.
    """  # noqa: E501
    _check(axes, tiers)
    left = [tier.size for tier in tiers]
    inside: dict[str, Split] = {}
    for name in sorted(axes, key=lambda one: RECIPE.index(one) if one in RECIPE else len(RECIPE)):
        degree, split = axes[name].degree, []
        for place, room in enumerate(left):
            here = math.gcd(degree, room)
            split.append(here)
            degree //= here
            left[place] = room // here
        inside[name] = tuple(split)
    ordered = {name: inside[name] for name in axes}
    return Layout(ordered, {name: axis_s(axes[name], split, tiers) for name, split in ordered.items()})


def _splits(degree: int, left: Split) -> Iterator[Split]:
    """Ways to cut a degree over what is left of the tiers, most inside first."""
    if not left:
        if degree == 1:
            yield ()
        return
    most = math.gcd(degree, left[0])
    for here in range(most, 0, -1):
        if most % here == 0:
            for rest in _splits(degree // here, left[1:]):
                yield (here, *rest)


def _check(axes: Mapping[str, Axis], tiers: Sequence[Tier]) -> None:
    check = Violations()
    positive(check, axes=len(axes))
    ours, theirs = math.prod(axis.degree for axis in axes.values()), math.prod(tier.size for tier in tiers)
    if ours != theirs:
        named = " x ".join(f"{name} {axis.degree}" for name, axis in axes.items())
        rule = f"multiply to {ours} GPUs, the tiers to {theirs}"
        check.add("axes", named, rule=rule, fix="Degrees must fill the GPUs")
    check.raise_if_any()
