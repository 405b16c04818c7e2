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
    marked = any(PUBLISHED in note for config in configs for note in config.notes)
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


def not_apart(instance: MeshInstance) -> str | None:
    """Why it says nothing about an instance."""
    if not any(isinstance(config.shape, ApartShape) for config in configs_of(instance)):
        return "no configuration has attention and experts on GPUs of their own; add apart to families"
    return None
