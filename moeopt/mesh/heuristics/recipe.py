"""The usual recipe: tensor parallel within the node, then data parallel and stages across nodes."""

from __future__ import annotations

from moeopt.mesh.heuristics.per_price import Counts, per_price
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Offer, configs_of, market_of
from moeopt.mesh.shape import Shape

WAYS = (("colocated",), ("prefill", "decode"), ("prefill",), ("decode",), ("long",))
"""Families of which one shape each is taken, the first way that serves what is asked for."""


def recipe(instance: MeshInstance) -> Counts | None:
    """Replicas by place; ``None`` where the recipe's shapes cannot serve what is asked."""
    market = market_of(instance)
    for way in WAYS:
        offers = [one for demand in range(len(instance.demands)) for one in _picked(instance, demand, way)]
        counts = per_price(market.among(offers), enough=instance.objective != "goodput")
        if counts is not None:
            return counts
    return None


def no_shapes(instance: MeshInstance) -> str | None:
    """Why the recipe says nothing about an instance."""
    if not any(isinstance(config.shape, Shape) for config in configs_of(instance)):
        return "no configuration has attention and experts on the same GPUs"
    return None


def _picked(instance: MeshInstance, demand: int, way: tuple[str, ...]) -> list[Offer]:
    """The most tensor parallel one within a node of each family, with the fewest GPUs beside it."""
    configs, found = configs_of(instance), []
    order = [gpu.name for gpu in instance.gpus]
    for family in way:
        listed = []
        for offer in market_of(instance).offers:
            config = configs[offer.place]
            shape = config.shape
            if config.family != family or offer.demand != demand or not isinstance(shape, Shape):
                continue
            if shape.gpu in order and shape.tp <= instance.gpu(shape.gpu).node_gpus:
                key = (order.index(shape.gpu), -shape.tp, shape.dp * shape.cp * shape.kvp, shape.pp, shape.ep)
                listed.append(((*key, -max(offer.shares), offer.place), offer))
        if listed:
            found.append(min(listed)[1])
    return found
