"""Parameters of an LLM, counted from its sizes: the check that a configuration was understood."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.errors import Violations
from moeopt.llm.facts import GROWING, LlmFacts


@dataclass(frozen=True)
class Parts:
    """Parameters by part; `index`, the attention that selects tokens, is beside the total, as in published counts."""

    embedding: int
    head: int
    attention: int
    router: int
    routed: int
    shared: int
    dense: int
    index: int

    @property
    def total(self) -> int:
        """All that the count has, without `index`."""
        return sum((self.embedding, self.head, self.attention, self.router, self.routed, self.shared, self.dense))


def parameters(facts: LlmFacts) -> tuple[int, int]:
    """All parameters, and those that one token uses.

    Counted are both embeddings (once where tied, and once for a token), attention, routers, routed and shared experts
    (three matrices each), and dense MLPs; not norms, biases, index attention, MTP layers, or a dense MLP beside the
    experts whose width no key gives. Layers that share a cache are counted as if each had its own keys and values.

    Raises
    ------
    InstanceError
        A size is not known, or the attention has weights that no published formula counts (Kimi K3, DeepSeek-V4):
        `routed_parameters` works for those.

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
    attention = _attention(facts, hidden)
    moe = len(facts.moe_layers)
    routed = routed_parameters(facts)
    shared = 0
    if moe and facts.shared_experts:
        facts.need("shared_width", why="to count parameters")
        shared = moe * facts.shared_experts * 3 * hidden * int(facts.shared_width or 0)
    return Parts(
        embedding=vocab * hidden,
        head=0 if facts.tie_embeddings else vocab * hidden,
        attention=attention,
        router=moe * int(facts.experts or 0) * hidden,
        routed=routed,
        shared=shared,
        dense=len(facts.dense_layers) * 3 * hidden * int(facts.dense_width or 0),
        index=_index(facts, hidden),
    )


def _attention(facts: LlmFacts, hidden: int) -> int:
    at = facts.attention
    if at.linear_kind == "kda" or at.kind not in ("mla", *GROWING):
        check = Violations(facts.name)
        rule = f"has attention ({at.linear_kind or at.kind}) whose weights no confirmed source counts"
        check.add("family", facts.family, rule=rule, fix="routed_parameters counts the experts")
        check.raise_if_any()
    full = facts.layers - len(at.linear)
    if at.kind == "mla":
        why = "to count parameters"
        facts.need("attention.heads", "attention.kv_rank", "attention.nope_dim", "attention.v_dim", why=why)
        heads, rank, v_dim = int(at.heads or 0), int(at.kv_rank or 0), int(at.v_dim or 0)
        nope, rope = int(at.nope_dim or 0), int(at.rope_dim or 0)
        query = heads * (nope + rope)
        queries = hidden * at.q_rank + at.q_rank * query if at.q_rank else hidden * query
        one = queries + hidden * (rank + rope) + rank * heads * (nope + v_dim) + heads * v_dim * hidden
        return full * one
    facts.need("attention.heads", "attention.kv_heads", "attention.head_dim", why="to count parameters")
    heads, kv_heads, dim = int(at.heads or 0), int(at.kv_heads or 0), int(at.head_dim or 0)
    one = hidden * dim * (heads * (3 if at.gated else 2) + 2 * kv_heads)
    return full * one + len(at.linear) * _linear(facts, hidden)


def _linear(facts: LlmFacts, hidden: int) -> int:
    """One linear layer.

    ``lightning``: queries, keys, values, a gate and the output, all heads wide (MiniMax-01 report, figure 3 and code).
    ``gated_delta``: queries and keys of the key heads, values and a gate of the value heads, two numbers a value head,
    a short convolution, and the output (transformers, Qwen3-Next).
    """
    at = facts.attention
    if not at.linear:
        return 0
    names = ("linear_heads", "linear_key_heads", "linear_key_dim", "linear_value_dim")
    facts.need(*(f"attention.{name}" for name in names), why="to count parameters")
    values = int(at.linear_heads or 0) * int(at.linear_value_dim or 0)
    keys = int(at.linear_key_heads or 0) * int(at.linear_key_dim or 0)
    if at.linear_kind == "lightning":
        return 5 * hidden * values
    both = 2 * keys + values
    return hidden * (both + values + 2 * int(at.linear_heads or 0)) + both * (at.linear_conv or 0) + values * hidden


def _index(facts: LlmFacts, hidden: int) -> int:
    """Index attention: queries of its heads (from the query latent where there is one), one key, and head weights."""
    at = facts.attention
    if not at.index_layers or at.index_heads is None or at.index_dim is None:
        return 0
    source = at.q_rank if at.kind == "mla" and at.q_rank else hidden
    weights = hidden * at.index_heads if at.kind == "mla" else 0
    return len(at.index_layers) * (source * at.index_heads * at.index_dim + hidden * at.index_dim + weights)
