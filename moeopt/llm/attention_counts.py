"""Parameters of the attention of one layer by its kind: what heads split over GPUs, and what every GPU has whole."""

from __future__ import annotations

from typing import NamedTuple

from moeopt.errors import Violations
from moeopt.llm.facts import GROWING, LlmFacts
from moeopt.llm.layer_kinds import LayerKind

WHY = "to count parameters of attention"


class Counted(NamedTuple):
    """Parameters that heads split, the output projection among them, and those that are whole on every GPU."""

    split: int
    out: int
    copied: int = 0

    @property
    def total(self) -> int:
        """All of them, once."""
        return self.split + self.copied


def counted(facts: LlmFacts, kind: LayerKind) -> Counted:
    """Parameters of a layer's attention without its index; norms, biases and per-head numbers are left out.

    ``hidden`` is h, ``heads`` n, key width k, value width v, P = n v:

    ============ =====================================================================================================
    full         GQA ``h dim (2 n + 2 kv_heads)``; MLA ``h q + q n (nope + rope) + h (kv + rope) + kv n (nope + v) +
                 n v h`` (DeepSeek-V2 report, 2.1), without a latent of queries ``h n (nope + rope)``; a gate of
                 outputs adds ``h n dim``, or ``h n v`` (transformers, Qwen3-Next; vLLM, Kimi-K3)
    lightning    ``5 h P``: queries, keys, values, gate, output (MiniMax-01 report, figure 3 and code)
    gated_delta  ``h (2 n_k k + 2 P + 2 n) + (2 n_k k + P) conv + P h``: queries and keys of n_k key heads, values and
                 gate, two numbers a head, a short convolution, output (transformers, Qwen3-Next)
    kda          ``4 h P + 3 P conv + h k + k P + h n``: queries, keys, values and output, convolutions, decay through
                 a latent of one head's width, one number a head; and a gate, ``h P`` or ``h r + r P`` (Kimi Linear,
                 arXiv 2510.26692, and its code; vLLM, Kimi-K3). Both first halves of latents are on every GPU
    compressed   ``h q + q n dim + h dim + n dim r + g r h``: one entry is key and value at once, outputs of g groups of
                 heads go through r each; entries of several tokens add ``2 h dim``, twice that where they overlap
                 (DeepSeek-V4, arXiv 2606.19348, 2.3, and transformers)
    ============ =====================================================================================================

    Raises
    ------
    InstanceError
        A size that is not known, attention of an unknown kind.
    """
    if kind.linear:
        return _linear(facts)
    if kind.ratio is not None:
        return _compressed(facts, kind)
    return _full(facts)


def index_parameters(facts: LlmFacts) -> int:
    """Parameters of the index of one layer, whole on every GPU that shares its attention.

    Queries of its heads, from the latent of queries where there is one, one key, and a weight a head (DeepSeek-V3.2,
    inference code); where entries are compressed, a compression of its own instead of the key (DeepSeek-V4).
    """
    at = facts.attention
    if at.index_heads is None or at.index_dim is None:
        return 0
    facts.need("hidden", why=WHY)
    hidden, latent = int(facts.hidden or 0), at.kind in ("mla", "compressed")
    queries = (at.q_rank if latent and at.q_rank else hidden) * at.index_heads * at.index_dim
    keys = hidden * at.index_dim * (4 if at.kind == "compressed" else 1)
    return queries + keys + (hidden * at.index_heads if latent else 0)


def latent_parameters(facts: LlmFacts) -> int:
    """Projections of a layer into the space that its routed experts live in, and back; 0 where that is the token's."""
    if facts.dense or facts.dispatch_width in (None, facts.hidden):
        return 0
    facts.need("hidden", why="to count parameters")
    return 2 * int(facts.hidden or 0) * int(facts.dispatch_width or 0)


def _full(facts: LlmFacts) -> Counted:
    at = facts.attention
    if at.kind not in ("mla", *GROWING):
        check = Violations(facts.name)
        rule = "is not known, so neither are its weights"
        check.add("attention", at.kind, rule=rule, fix="Give the model's own config.json (--hf-config)")
        check.raise_if_any()
    facts.need("hidden", why=WHY)
    hidden = int(facts.hidden or 0)
    if at.kind == "mla":
        names = ("heads", "kv_rank", "nope_dim", "rope_dim", "v_dim")
        facts.need(*(f"attention.{name}" for name in names), why=WHY)
        heads, rank, nope, rope, v_dim = (int(getattr(at, name) or 0) for name in names)
        query, out = heads * (nope + rope), heads * v_dim * hidden
        queries = at.q_rank * query if at.q_rank else hidden * query
        split = queries + rank * heads * (nope + v_dim) + out * (2 if at.gated else 1)
        return Counted(split, out, hidden * (rank + rope) + (hidden * at.q_rank if at.q_rank else 0))
    facts.need("attention.heads", "attention.kv_heads", "attention.head_dim", why=WHY)
    heads, kv_heads, dim = int(at.heads or 0), int(at.kv_heads or 0), int(at.head_dim or 0)
    return Counted(hidden * dim * (heads * (3 if at.gated else 2) + 2 * kv_heads), heads * dim * hidden)


def _linear(facts: LlmFacts) -> Counted:
    at = facts.attention
    names = ("linear_heads", "linear_key_heads", "linear_key_dim", "linear_value_dim")
    facts.need("hidden", *(f"attention.{name}" for name in names), why=WHY)
    hidden, conv = int(facts.hidden or 0), at.linear_conv or 0
    heads, key_heads, key_dim, value_dim = (int(getattr(at, name) or 0) for name in names)
    values, keys = heads * value_dim, key_heads * key_dim
    out, both = values * hidden, 2 * keys + values
    if at.linear_kind == "lightning":
        return Counted(5 * out, out)
    if at.linear_kind == "gated_delta":
        return Counted(hidden * (both + values + 2 * heads) + both * conv + out, out)
    if at.linear_kind == "kda":
        rank = at.linear_gate_rank
        gate = hidden * values if rank is None else rank * values
        split = hidden * (both + heads) + both * conv + key_dim * keys + gate + out
        return Counted(split, out, hidden * (key_dim + (rank or 0)))
    check = Violations(facts.name)
    known = "gated_delta, kda and lightning are"
    check.add("attention.linear_kind", at.linear_kind, rule=f"is not known, {known}", fix="Use another LLM")
    check.raise_if_any()
    raise AssertionError


def _compressed(facts: LlmFacts, kind: LayerKind) -> Counted:
    at = facts.attention
    names = ("heads", "head_dim", "q_rank", "out_groups", "out_rank")
    facts.need("hidden", *(f"attention.{name}" for name in names), why=WHY)
    hidden = int(facts.hidden or 0)
    heads, dim, q_rank, groups, rank = (int(getattr(at, name) or 0) for name in names)
    out = heads * dim * rank + groups * rank * hidden
    entries = 2 * hidden * dim * kind.overlap if kind.ratio else 0
    return Counted(q_rank * heads * dim + out, out, hidden * (q_rank + dim) + entries)
