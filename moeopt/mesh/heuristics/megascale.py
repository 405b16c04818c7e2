"""Attention and experts apart as MegaScale-Infer enumerates it; prefill by what is best per price."""

from __future__ import annotations

from moeopt.mesh.config import Config
from moeopt.mesh.heuristics.per_price import Counts, per_price
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import configs_of, market_of
from moeopt.mesh.shape import ApartShape

MOST_M = 4
"""Micro-batches that the published enumeration tries at most."""
PUBLISHED = "algorithm 1"
"""What notes of a configuration say where the published enumeration has it too."""


def megascale(instance: MeshInstance) -> Counts | None:
    """Replicas by place; ``None`` where it cannot serve what is asked."""
    market, configs = market_of(instance), configs_of(instance)
    marked = _marked(instance)
    kept = [
        offer
        for offer in market.offers
        if configs[offer.place].family == "prefill" or published(instance, configs[offer.place], marked)
    ]
    return per_price(market.among(kept), enough=instance.objective != "goodput")


def published(instance: MeshInstance, config: Config, marked: bool) -> bool:
    """Whether the enumeration of the paper has it: an expert a node, at most four micro-batches, balanced sides."""
    shape = config.shape
    if not isinstance(shape, ApartShape) or shape.m > MOST_M:
        return False
    if marked:
        return any(PUBLISHED in note for note in config.notes)
    return shape.n_e == instance.demands[config.demand].llm.experts


def _marked(instance: MeshInstance) -> bool:
    return any(PUBLISHED in note for config in configs_of(instance) for note in config.notes)


def not_apart(instance: MeshInstance) -> str | None:
    """Why it says nothing about an instance."""
    if not any(isinstance(config.shape, ApartShape) for config in configs_of(instance)):
        return "no configuration has attention and experts on GPUs of their own; add apart to families"
    return None


def unpublished(instance: MeshInstance) -> str | None:
    """Why it has no plan whatever the stock: its enumeration has nothing that can be used for a demand."""
    marked = _marked(instance)
    kept = [config for config in configs_of(instance) if published(instance, config, marked)]
    for place, demand in enumerate(instance.demands):
        mine = [config for config in kept if config.demand == place]
        if not any(config.usable for config in mine):
            what = "is usable" if mine else "is among the configurations"
            whose = f" for {demand.llm.name}" if len(instance.demands) > 1 else ""
            return f"nothing of its enumeration {what}{whose}: an expert a node, at most {MOST_M} micro-batches"
    return None
