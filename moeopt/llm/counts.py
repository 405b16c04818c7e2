"""Parameters of an LLM, counted from its sizes: the check that a configuration was understood."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from moeopt.llm.attention_counts import counted, index_parameters, latent_parameters
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import layer_kinds


@dataclass(frozen=True)
class Parts:
    """Parameters by part; `index`, the attention that selects tokens, is beside the total, as in published counts.

    ``latent`` are projections into the space that routed experts live in, and back.
    """

    embedding: int
    head: int
    attention: int
    router: int
    routed: int
    shared: int
    dense: int
    index: int
    latent: int = 0

    @property
    def total(self) -> int:
        """All that the count has, without `index`."""
        ffn = self.router + self.latent + self.routed + self.shared + self.dense
        return self.embedding + self.head + self.attention + ffn


def parameters(facts: LlmFacts) -> tuple[int, int]:
    """All parameters, and those that one token uses.

    Counted are both embeddings (once where tied, and once for a token), attention (`moeopt.llm.attention_counts`),
    routers, routed and shared experts (three matrices each), and dense MLPs; not norms, biases, index attention, MTP
    layers, what mixes several residual streams (DeepSeek-V4, Kimi-K3), or a dense MLP beside the experts whose width
    no key gives. Layers that share a cache are counted as if each had its own keys and values.

    Raises
    ------
    InstanceError
        A size is not known: `routed_parameters` may still work.

    Examples
    --------
    >>> from moeopt.llm import find
    >>> total, active = parameters(find("deepseek-v3"))
    >>> f"{total / 1e9:.2f} {active / 1e9:.2f}"
    '671.03 36.62'
    """
    parts = parts_of(facts)
    routed = 0 if facts.dense else parts.routed // int(facts.experts or 1) * int(facts.top_k or 0)
    return parts.total, parts.total - parts.routed + routed - (0 if facts.tie_embeddings else parts.embedding)


def routed_parameters(facts: LlmFacts) -> int:
    """Parameters of all routed experts: layers x experts x 3 x width of what is dispatched x inner width.

    >>> from moeopt.llm import find
    >>> round(routed_parameters(find("kimi-k3")) / 1e9, 1)
    2722.7
    """
    if facts.dense:
        return 0
    facts.need("experts", "dispatch_width", "expert_width", why="to count routed parameters")
    return len(facts.moe_layers) * int(facts.experts or 0) * expert_parameters(facts)


def expert_parameters(facts: LlmFacts) -> int:
    """Parameters of one routed expert of one layer, its three matrices.

    >>> from moeopt.llm import find
    >>> expert_parameters(find("deepseek-v3")) == 3 * 7168 * 2048
    True
    """
    facts.need_experts("parameters of an expert")
    facts.need("dispatch_width", "expert_width", why="to count the parameters of an expert")
    return 3 * int(facts.dispatch_width or 0) * int(facts.expert_width or 0)


def parts_of(facts: LlmFacts) -> Parts:
    """Parameters by part; errors as of `parameters`."""
    facts.need("hidden", "vocab", why="to count parameters")
    if facts.dense_layers:
        facts.need("dense_width", why="to count parameters")
    hidden, vocab = int(facts.hidden or 0), int(facts.vocab or 0)
    kinds = Counter(layer_kinds(facts))
    moe = len(facts.moe_layers)
    routed = routed_parameters(facts)
    shared = 0
    if moe and facts.shared_experts:
        facts.need("shared_width", why="to count parameters")
        shared = moe * facts.shared_experts * 3 * hidden * int(facts.shared_width or 0)
    return Parts(
        embedding=vocab * hidden,
        head=0 if facts.tie_embeddings else vocab * hidden,
        attention=sum(layers * counted(facts, kind).total for kind, layers in kinds.items()),
        router=moe * int(facts.experts or 0) * hidden,
        routed=routed,
        shared=shared,
        dense=len(facts.dense_layers) * 3 * hidden * int(facts.dense_width or 0),
        index=len(facts.attention.index_layers) * index_parameters(facts),
        latent=moe * latent_parameters(facts),
    )
