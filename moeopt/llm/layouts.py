"""Which layers are dense: the rules that families have."""

from __future__ import annotations

from collections.abc import Callable

from moeopt.llm.reading import MISSING, Reader


def first(reader: Reader) -> list[int]:
    """The first so many, then all but every ``frequency``-th; or a list with 1 for a layer with experts."""
    dense = reader.whole("first_dense", 0, least=0) or 0
    frequency = reader.raw("frequency")[1]
    if isinstance(frequency, list):
        listed = reader.items("frequency") or [1] * reader.layers
        return [layer for layer, sparse in enumerate(listed) if not sparse or layer < dense]
    every = reader.whole("frequency", 1) or 1
    return [layer for layer in range(reader.layers) if layer < dense or layer % every]


def step(reader: Reader) -> list[int]:
    """Experts in every ``frequency``-th layer, counted from 1, but not in those that are named."""
    every = reader.whole("frequency", 1) or 1
    named = set(reader.ids("dense_ids") or [])
    return [layer for layer in range(reader.layers) if layer in named or (layer + 1) % every]


def interleaved(reader: Reader) -> list[int]:
    """Experts in the layers that are named, else in every ``frequency``-th."""
    named = reader.ids("moe_ids")
    if named is not None:
        return [layer for layer in range(reader.layers) if layer not in set(named)]
    if reader.raw("frequency")[1] is MISSING:
        reader.sure("frequency")
    return step(reader)


RULES: dict[str, Callable[[Reader], list[int]]] = {
    "none": lambda reader: [],
    "all": lambda reader: list(range(reader.layers)),
    "first": first,
    "step": step,
    "interleaved": interleaved,
}
"""Rules by the name that the table of families uses; each gives the ids of dense layers."""
