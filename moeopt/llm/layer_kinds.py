"""What tells the attention of one layer from that of another: a window, a state, an index, compressed entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from moeopt.llm.facts import LlmFacts

OVERLAPPING = 4
"""DeepSeek-V4 makes entries of so many tokens out of twice as many: each window shares half with the next."""


@dataclass(frozen=True)
class LayerKind:
    """Attention of a layer; without anything it reads the keys and values of all tokens.

    Parameters
    ----------
    window
        Tokens it keeps at most; ``None``: all.
    linear
        It keeps a state of fixed size instead of keys and values.
    indexed
        A small attention scores all entries, and `attention.index_top_k` of them are attended to.
    ratio
        Tokens of a compressed entry, beside the window; 0: the window alone. ``None``: entries are single tokens.
    """

    window: int | None = None
    linear: bool = False
    indexed: bool = False
    ratio: int | None = None

    @property
    def overlap(self) -> int:
        """Entries that a token has a part in."""
        return 2 if self.ratio == OVERLAPPING else 1

    @property
    def whole(self) -> bool:
        """Whether it keeps all tokens, each as an entry of its own."""
        return self.window is None and not self.linear and self.ratio is None


@lru_cache(maxsize=256)
def layer_kinds(facts: LlmFacts) -> tuple[LayerKind, ...]:
    """The kind of every layer.

    >>> from moeopt.llm import find
    >>> kinds = layer_kinds(find("qwen3.5-397b-a17b"))
    >>> [kind.linear for kind in kinds[:5]], len(set(kinds)), set(layer_kinds(find("deepseek-v3.2")))
    ([True, True, True, False, True], 2, {LayerKind(window=None, linear=False, indexed=True, ratio=None)})
    """
    at = facts.attention
    windowed, linear, indexed = set(at.windowed), set(at.linear), set(at.index_layers)
    return tuple(
        LayerKind(linear=True)
        if layer in linear
        else LayerKind(
            at.window if layer in windowed else None,
            indexed=layer in indexed,
            ratio=at.ratios[layer] if at.kind == "compressed" else None,
        )
        for layer in range(facts.layers)
    )


def draft_kind(facts: LlmFacts) -> LayerKind:
    """The kind of a layer of multi-token prediction: compressed LLMs keep the window alone, others have no state there.

    DeepSeek-V4 gives it the ratio 0, Qwen3-Next full attention; elsewhere the last layer stands for it.
    """
    kinds = layer_kinds(facts)
    if facts.attention.kind == "compressed":
        return replace(kinds[-1], indexed=False, ratio=0)
    return next((kind for kind in reversed(kinds) if not kind.linear), kinds[-1])
