"""What is known of an LLM: sizes, which layers hold experts, how attention keeps its cache; ``None`` is "not known"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from moeopt.errors import InstanceError, Violations

GROWING = ("mha", "gqa", "mqa")
"""Kinds of attention that keep a key and a value for every KV head."""


@dataclass(frozen=True)
class Attention:
    """Attention of all layers; layers named in `windowed` and `linear` differ from `kind`.

    Parameters
    ----------
    kind
        ``mha``, ``gqa``, ``mqa`` (by the number of KV heads), ``mla`` (one latent a token), ``compressed`` (one vector
        for several tokens), or ``unknown``.
    heads, kv_heads, head_dim, v_dim
        Heads, heads that are cached, elements of a key and of a value. ``kv_heads`` means nothing for ``mla``.
    q_rank, kv_rank, nope_dim, rope_dim
        Widths of the latents of queries and of keys and values, and the two parts of a key, for ``mla``.
    index_heads, index_dim, index_layers, index_top_k
        A second, small attention that selects so many entries for each query; its keys are cached too, in these layers.
    window, windowed
        Layers that keep only this many tokens.
    linear, linear_kind, linear_heads, linear_key_heads, linear_key_dim, linear_value_dim, linear_conv
        Layers that keep one state a sequence, however long: ``gated_delta``, ``kda`` or ``lightning``.
    linear_gate_rank
        Width of the latent that the output gate of ``kda`` passes through; ``None``: none, its matrix is whole.
    share
        So many layers in a row use the cache of the first of them.
    ratios
        For ``compressed``, tokens per cached entry of every layer; 0 keeps only the window.
    out_groups, out_rank
        For ``compressed``, groups of heads whose outputs are projected apart, and the width they are projected to.
    gated
        Outputs are multiplied by a gate of their own width.
    """

    kind: str
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    v_dim: int | None = None
    q_rank: int | None = None
    kv_rank: int | None = None
    nope_dim: int | None = None
    rope_dim: int | None = None
    index_heads: int | None = None
    index_dim: int | None = None
    index_layers: tuple[int, ...] = ()
    index_top_k: int | None = None
    window: int | None = None
    windowed: tuple[int, ...] = ()
    linear: tuple[int, ...] = ()
    linear_kind: str | None = None
    linear_heads: int | None = None
    linear_key_heads: int | None = None
    linear_key_dim: int | None = None
    linear_value_dim: int | None = None
    linear_conv: int | None = None
    linear_gate_rank: int | None = None
    share: int = 1
    ratios: tuple[int, ...] = ()
    out_groups: int | None = None
    out_rank: int | None = None
    gated: bool = False

    def __str__(self) -> str:
        """A few words for a table.

        >>> str(Attention("gqa", 64, 8, 64, window=128, windowed=(0, 2)))
        'gqa 64/8, 2 layers keep 128 tokens'
        """
        words = [self.kind]
        if self.kind in GROWING and self.heads is not None:
            words[0] += f" {self.heads}/{self.kv_heads}"
        elif self.kind == "mla" and self.kv_rank is not None:
            words[0] += f" {self.kv_rank}+{self.rope_dim}"
        if self.ratios:
            words[0] += f" by {', '.join(map(str, sorted(set(self.ratios))))}"
        if self.linear:
            words.append(f"{len(self.linear)} layers linear")
        if self.windowed:
            words.append(f"{len(self.windowed)} layers keep {self.window} tokens")
        if self.index_layers:
            words.append("index cache" if self.index_top_k is None else f"an index selects {self.index_top_k:,}")
        if self.share > 1:
            words.append(f"{self.share} layers share a cache")
        return ", ".join(words)


@dataclass(frozen=True)
class LlmFacts:
    """Facts of one LLM, from its configuration or the catalogue.

    Parameters
    ----------
    name, family
        Its name, and the family (``model_type``) that says what its configuration keys mean.
    layers, dense_layers, moe_layers
        Number of layers, and the ids of those without and with experts; layers of `mtp_layers` are not among them.
    experts, top_k, shared_experts
        Routed experts of a layer, how many a token selects, and experts that every token passes. 0 where all is dense.
    hidden, dispatch_width, expert_width, shared_width, dense_width, vocab, context
        Sizes in elements (``context`` in tokens): of a token, of what is sent to a routed expert (differs from `hidden`
        where experts live in a latent space), inside a routed expert, one shared expert, a dense layer's MLP.
    mtp_layers
        Layers of multi-token prediction that the checkpoint has beyond `layers`.
    weight_format, expert_format
        Formats of weights outside and inside routed experts, names of `moeopt.llm.precision.FORMATS`.
    groups, top_groups
        Expert groups of the router, and how many of them a token may use.
    expert_bias
        Experts have bias vectors.
    parallel_dense
        A dense MLP of unknown width runs beside the experts of every layer.
    attention
        See `Attention`.
    published_total_b, published_active_b
        Parameters in 1e9 as its makers tell them, to stand beside the computed ones.
    hf_id, source, notes
        Where it is published, where these figures come from, and what to know about them.
    extra
        Keys of the configuration that this version gives no meaning to.

    >>> facts = LlmFacts("tiny", "mixtral", 2, (), (0, 1), 8, 2)
    >>> facts.brief()
    {'name': 'tiny', 'layers': 2, 'dense_layers': [], 'experts': 8, 'top_k': 2, 'mtp_layers': 0}
    """

    name: str
    family: str
    layers: int
    dense_layers: tuple[int, ...]
    moe_layers: tuple[int, ...]
    experts: int | None
    top_k: int | None
    shared_experts: int | None = 0
    hidden: int | None = None
    dispatch_width: int | None = None
    expert_width: int | None = None
    shared_width: int | None = None
    dense_width: int | None = None
    vocab: int | None = None
    context: int | None = None
    tie_embeddings: bool | None = None
    mtp_layers: int = 0
    weight_format: str | None = None
    expert_format: str | None = None
    groups: int | None = None
    top_groups: int | None = None
    expert_bias: bool = False
    parallel_dense: bool = False
    attention: Attention = Attention("unknown")
    published_total_b: float | None = None
    published_active_b: float | None = None
    hf_id: str | None = None
    source: str = ""
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dense(self) -> bool:
        """Whether it has no experts at all."""
        return not self.moe_layers

    def brief(self) -> dict[str, Any]:
        """What instances and plans carry of an LLM: name, layers, dense ids, experts, top-k, MTP layers; JSON ready."""
        return {
            "name": self.name,
            "layers": self.layers,
            "dense_layers": list(self.dense_layers),
            "experts": self.experts,
            "top_k": self.top_k,
            "mtp_layers": self.mtp_layers,
        }

    def need(self, *names: str, why: str) -> None:
        """Refuse where a figure is not known; names may be ``attention.heads``.

        Raises
        ------
        InstanceError
            One violation for every figure that is ``None``.

        >>> LlmFacts("tiny", "x", 1, (), (0,), None, None).need("experts", why="to place experts")
        Traceback (most recent call last):
        ...
        moeopt.errors.InstanceError: tiny: experts = not known: is needed to place experts, and no source confirms it. Give the model's own config.json (--hf-config).
        """  # noqa: E501
        check = Violations(self.name)
        for name in names:
            value: Any = self
            for part in name.split("."):
                value = getattr(value, part)
            if value is None:
                rule = f"is needed {why}, and no source confirms it"
                check.add(name, "not known", rule=rule, fix="Give the model's own config.json (--hf-config)")
        check.raise_if_any()

    def need_experts(self, why: str) -> None:
        """Refuse an LLM without experts."""
        if self.dense:
            check = Violations(self.name)
            check.add("experts", 0, rule=f"{why}: this LLM is dense, it has no experts", fix="Give an MoE model")
            check.raise_if_any()

    def to_dict(self) -> dict[str, Any]:
        """Everything but `extra`, strict-JSON ready; `from_dict` reads it back."""
        found = asdict(self)
        del found["extra"]
        found["attention"] = {
            item.name: getattr(self.attention, item.name)
            for item in fields(Attention)
            if item.name == "kind" or getattr(self.attention, item.name) != item.default
        }
        return found

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> LlmFacts:
        """Facts of a row that `to_dict` made, lists for tuples; unknown names are refused.

        >>> facts = LlmFacts("tiny", "mixtral", 2, (), (0, 1), 8, 2, attention=Attention("gqa", 4, 2))
        >>> LlmFacts.from_dict(facts.to_dict()) == facts
        True
        """
        row = dict(row)
        attention = _tuples(row.pop("attention", {"kind": "unknown"}))
        wrong = {*row} - {item.name for item in fields(cls)} | {*attention} - {item.name for item in fields(Attention)}
        if wrong:
            check = Violations(str(row.get("name", "")))
            for name in sorted(wrong):
                check.add(name, "...", rule="is no fact of an LLM", fix="Leave it out")
            raise InstanceError(check.found, check.source)
        return cls(**_tuples(row), attention=Attention(**attention))


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
