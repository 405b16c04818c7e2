"""What configuration keys mean, family by family: one row a family, data only.

A row names the keys of a family where they differ from `COMMON`; a dotted name lies in a nested mapping, and of several
names the first that is there counts. `dense` names the rule that tells dense layers (`moeopt.llm.layouts`), `attention`
the reading of its attention (`moeopt.llm.attention`), `fixed` what the family's code does without a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Keys = Mapping[str, tuple[str, ...]]

COMMON: Keys = {
    "layers": ("num_hidden_layers",),
    "hidden": ("hidden_size",),
    "vocab": ("vocab_size",),
    "context": ("max_position_embeddings",),
    "tie": ("tie_word_embeddings",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "window": ("sliding_window",),
    "top_k": ("num_experts_per_tok",),
    "dense_width": ("intermediate_size",),
    "groups": ("n_group",),
    "top_groups": ("topk_group",),
    "q_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "nope_dim": ("qk_nope_head_dim",),
    "rope_dim": ("qk_rope_head_dim",),
    "v_dim": ("v_head_dim",),
    "index_heads": ("index_n_heads",),
    "index_dim": ("index_head_dim",),
    "index_top_k": ("index_topk",),
    "out_groups": ("o_groups",),
    "out_rank": ("o_lora_rank",),
}
"""Facts and the keys they have in most families."""

SYNONYMS = ("top_k", "experts", "layers")
"""Facts whose keys must agree where several of them are there."""


@dataclass(frozen=True)
class Family:
    """One row: names are the values of ``model_type`` that mean it, the first is shown."""

    names: tuple[str, ...]
    keys: Keys = field(default_factory=dict)
    dense: str = "none"
    attention: str = "standard"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    moe: bool = True
    note: str = ""

    def keys_of(self, fact: str) -> tuple[str, ...]:
        """The names a fact may have; none where the family has no such thing."""
        return self.keys.get(fact, COMMON.get(fact, ()))


_LOCAL: Keys = {"experts": ("num_local_experts",), "expert_width": ("intermediate_size",), "dense_width": ()}
_DEEPSEEK: Keys = {
    "experts": ("n_routed_experts",),
    "expert_width": ("moe_intermediate_size",),
    "shared_experts": ("n_shared_experts",),
    "mtp": ("num_nextn_predict_layers",),
    "first_dense": ("first_k_dense_replace",),
    "frequency": ("moe_layer_freq",),
}
_QWEN: Keys = {
    "experts": ("num_experts",),
    "expert_width": ("moe_intermediate_size",),
    "shared_total": ("shared_expert_intermediate_size",),
    "frequency": ("decoder_sparse_step",),
    "dense_ids": ("mlp_only_layers",),
    "mtp": ("mtp_num_hidden_layers", "num_nextn_predict_layers"),
    "window_from": ("max_window_layers",),
    "window_on": ("use_sliding_window",),
}
_KIMI_LINEAR: Keys = {
    **_DEEPSEEK,
    "experts": ("num_experts",),
    "top_k": ("num_experts_per_token", "num_experts_per_tok"),
    "shared_experts": ("num_shared_experts",),
    "expert_hidden": ("routed_expert_hidden_size",),
    "groups": ("num_expert_group",),
}
_HUNYUAN: Keys = {
    "experts": ("num_experts",),
    "top_k": ("moe_topk", "num_experts_per_tok"),
    "expert_width": ("moe_intermediate_size", "intermediate_size"),
    "dense_width": (),
    "shared_experts": ("num_shared_expert",),
    "shared_on": ("use_mixed_mlp_moe",),
    "head_dim": ("head_dim", "attention_head_dim"),
    "share": ("cla_share_factor",),
}

FAMILIES: tuple[Family, ...] = (
    Family(("mixtral",), _LOCAL),
    Family(
        ("dbrx",),
        {
            "layers": ("n_layers",),
            "hidden": ("d_model",),
            "heads": ("n_heads",),
            "kv_heads": ("attn_config.kv_n_heads",),
            "context": ("max_seq_len",),
            "experts": ("ffn_config.moe_num_experts",),
            "top_k": ("ffn_config.moe_top_k",),
            "expert_width": ("ffn_config.ffn_hidden_size",),
            "dense_width": (),
        },
    ),
    Family(("deepseek_v3", "deepseek_v2", "kimi_k2", "kimi_k25"), _DEEPSEEK, "first", "latent"),
    Family(("deepseek_v32", "glm_moe_dsa"), _DEEPSEEK, "first", "latent"),
    Family(
        ("deepseek_v4",),
        {**_DEEPSEEK, "dense_width": (), "first_dense": (), "frequency": (), "hashed": ("num_hash_layers",)},
        "none",
        "compressed",
    ),
    Family(
        ("deepseek_inference",),  # the short format beside DeepSeek's own inference code; it has no model_type
        {
            "layers": ("n_layers",),
            "hidden": ("dim",),
            "heads": ("n_heads",),
            "kv_heads": (),
            "context": ("max_seq_len",),
            "dense_width": ("inter_dim",),
            "experts": ("n_routed_experts",),
            "top_k": ("n_activated_experts",),
            "expert_width": ("moe_inter_dim",),
            "shared_experts": ("n_shared_experts",),
            "first_dense": ("n_dense_layers",),
            "groups": ("n_expert_groups",),
            "top_groups": ("n_limited_groups",),
        },
        "first",
        "latent",
        {"tie": False},
        note="DeepSeek's own short format: it says nothing of MTP layers, and its vocabulary is padded",
    ),
    Family(("qwen3_moe", "qwen2_moe"), _QWEN, "step"),
    Family(("qwen3_5_moe", "qwen3_next"), _QWEN, "step", "hybrid"),
    Family(
        ("gpt_oss",),
        {**_LOCAL, "top_k": ("num_experts_per_tok", "experts_per_token")},
        fixed={"expert_bias": True, "alternating": True},
    ),
    Family(
        ("llama4", "llama4_text"),
        {
            "experts": ("num_local_experts",),
            "expert_width": ("intermediate_size",),
            "dense_width": ("intermediate_size_mlp",),
            "frequency": ("interleave_moe_layer_step",),
            "moe_ids": ("moe_layers",),
            "window": ("attention_chunk_size",),
            "no_rope": ("no_rope_layers",),
        },
        "interleaved",
        "chunked",
        {"shared_experts": 1, "tie": False},
    ),
    Family(("glm4_moe",), _DEEPSEEK, "first"),
    Family(
        ("minimax_m2",),
        {
            **_LOCAL,
            "shared_total": ("shared_intermediate_size",),
            "mtp": ("num_mtp_modules",),
            "linear_list": ("attn_type_list",),
        },
        attention="listed",
    ),
    Family(
        ("minimax_m1", "MiniMaxM1", "minimax_text_01", "MiniMaxText01"),
        {**_LOCAL, "shared_total": ("shared_intermediate_size",), "linear_list": ("attn_type_list",)},
        attention="listed",
    ),
    Family(
        ("minimax_m3", "minimax_m3_vl"),
        {
            "experts": ("num_local_experts",),
            "expert_width": ("intermediate_size",),
            "dense_width": ("dense_intermediate_size",),
            "shared_total": ("shared_intermediate_size",),
            "frequency": ("moe_layer_freq",),
            "mtp": ("num_mtp_modules",),
            "index_heads": ("sparse_attention_config.sparse_num_index_heads",),
            "index_dim": ("sparse_attention_config.sparse_index_dim",),
            "index_list": ("sparse_attention_config.sparse_attention_freq",),
        },
        "first",
        "listed",
    ),
    Family(("hunyuan", "hunyuan_v1_moe"), _HUNYUAN),
    Family(
        ("arctic",),
        {**_LOCAL, "frequency": ("moe_layer_frequency",), "parallel_dense": ("use_residual",)},
        "step",
        fixed={"parallel_dense": True},
        note="published revisions differ in num_key_value_heads (56 and 8)",
    ),
    Family(("kimi_k3", "kimi_linear"), _KIMI_LINEAR, "first", "kda"),
    Family(("olmoe",), {"experts": ("num_experts",), "expert_width": ("intermediate_size",), "dense_width": ()}),
    Family(("llama", "mistral", "qwen2", "qwen3"), {"window_on": ("use_sliding_window",)}, "all", moe=False),
)

BY_NAME: dict[str, Family] = {name: family for family in FAMILIES for name in family.names}
"""Families by every value of ``model_type`` that means them."""
