"""Weights, cached elements and operations a pair of one attention layer, on one of the GPUs that share it."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import divides, whole
from moeopt.errors import Violations
from moeopt.llm.facts import GROWING, LlmFacts


@dataclass(frozen=True)
class AttentionSizes:
    """One layer on one GPU.

    Parameters
    ----------
    weights, out_weights
        Parameters of all projections, and of the output projection among them.
    kv_elements
        Elements cached for one token.
    decode_flops_a_pair, prefill_flops_a_pair
        Operations for one query and one key, scores and values together; MLA decodes on latents.
    expand_flops
        Operations to expand one cached latent (MLA).
    """

    weights: float
    out_weights: float
    kv_elements: float
    decode_flops_a_pair: float
    prefill_flops_a_pair: float
    expand_flops: float = 0.0


@checked
def kv_copies(facts: LlmFacts, tp: int) -> int:
    """How often the cache of one token is kept when heads are split over `tp` GPUs.

    GQA: ``max(1, tp / kv_heads)``, a GPU needs the whole KV head of its query heads. MLA and compressed entries: `tp`,
    they belong to all heads. Strength: exact. Source: Helix (arXiv 2507.07120), section 1.

    Raises
    ------
    InstanceError
        Attention of an unknown kind, or a `tp` that neither divides the KV heads nor is a multiple of them, or does not
        divide heads, heads of linear layers or groups of outputs.

    >>> from moeopt.llm import find
    >>> kv_copies(find("llama-3.1-405b"), 8), kv_copies(find("llama-3.1-405b"), 64), kv_copies(find("deepseek-v3"), 8)
    (1, 8, 8)
    """
    check = Violations(facts.name)
    at = facts.attention
    if at.kind not in ("mla", "compressed", *GROWING):
        rule = "is not known, so neither are its work and reads"
        check.add("attention", at.kind, rule=rule, fix="Give the model's own config.json (--hf-config)")
        check.raise_if_any()
    whole(check, tp=tp)
    if check.found:
        check.raise_if_any()
    own = ("heads", *(("kv_heads",) if at.kind in GROWING else ()))
    linear = ("linear_heads", "linear_key_heads") if at.linear else ()
    groups = ("out_groups",) if at.kind == "compressed" else ()
    facts.need(*(f"attention.{name}" for name in (*own, *linear, *groups)), why="to split its heads")
    for name in ("heads", *linear, *groups):
        divides(check, "tp", tp, name, int(getattr(at, name) or 0))
    if at.kind not in GROWING:
        check.raise_if_any()
        return tp
    heads, kv_heads = int(at.heads or 0), int(at.kv_heads or 0)
    if not check.found and tp % kv_heads and kv_heads % tp:
        fits = [d for d in range(1, heads + 1) if heads % d == 0 and (d % kv_heads == 0 or kv_heads % d == 0)]
        near = ", ".join(map(str, fits))
        check.add("tp", tp, rule=f"must divide kv_heads = {kv_heads} or be a multiple of it", fix=f"Use {near}")
    check.raise_if_any()
    return max(1, tp // kv_heads)


@checked
def attention_sizes(facts: LlmFacts, *, tp: int = 1, kvp: int = 1, out_tp: int | None = None) -> AttentionSizes:
    """Sizes of one full-attention layer, heads over `tp` GPUs, the output projection over `out_tp` of them.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    MLA copies its two down-projections on every GPU. `kvp` is only checked: it splits tokens, not sizes. Layers of
    other kinds are those of `moeopt.cost.layer_decode`; compressed entries have no full layer.

    >>> from moeopt.llm import find
    >>> attention_sizes(find("deepseek-v3")).kv_elements, attention_sizes(find("llama-3.1-405b"), tp=64).kv_elements
    (576, 256.0)
    """
    check = Violations(facts.name)
    whole(check, kvp=kvp)
    if out_tp is not None:
        whole(check, out_tp=out_tp)
    copies = 1
    with check.within():
        copies = kv_copies(facts, tp)
    check.raise_if_any()
    out = tp if out_tp is None else out_tp
    at = facts.attention
    facts.need("hidden", why="for the roofline of attention")
    hidden, heads = int(facts.hidden or 0), int(at.heads or 0) / tp
    if at.kind == "mla":
        names = ("kv_rank", "nope_dim", "rope_dim", "v_dim")
        facts.need(*(f"attention.{name}" for name in names), why="for the roofline of attention")
        rank, nope, rope, v_dim = (int(getattr(at, name) or 0) for name in names)
        query = heads * (nope + rope)
        queries = hidden * at.q_rank + at.q_rank * query if at.q_rank else hidden * query
        expand = rank * heads * (nope + v_dim)
        projected = int(at.heads or 0) * v_dim * hidden / out
        gate = hidden * heads * v_dim if at.gated else 0
        weights = queries + hidden * (rank + rope) + expand + projected + gate
        scores, expanded = 2 * heads * (2 * rank + rope), 2 * heads * (nope + rope + v_dim)
        return AttentionSizes(weights, projected, rank + rope, scores, expanded, 2 * expand)
    if at.kind == "compressed":
        rule = "has no layer that keeps all tokens"
        check.add("attention", at.kind, rule=rule, fix="Ask for its layers by kind: moeopt.cost.layer_decode")
        check.raise_if_any()
    facts.need("attention.head_dim", why="for the roofline of attention")
    dim = int(at.head_dim or 0)
    kv_heads = int(at.kv_heads or 0) * copies / tp
    projected = int(at.heads or 0) * dim * hidden / out
    weights = hidden * dim * (heads * (2 if at.gated else 1) + 2 * kv_heads) + projected
    pair = 4 * heads * dim
    return AttentionSizes(weights, projected, 2 * kv_heads * dim, pair, pair)
