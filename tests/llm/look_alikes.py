"""Configurations made again from the published sizes: only the keys that say something about architecture."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]
FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
BF16 = {"torch_dtype": "bfloat16"}


def common(layers: int, hidden: int, heads: int, vocab: int, **more: Any) -> Config:
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "vocab_size": vocab}
    return {**sizes, "tie_word_embeddings": False, **more}


def mixtral(layers: int, hidden: int, heads: int, width: int) -> Config:
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": width, "sliding_window": None}
    return common(layers, hidden, heads, 32000, num_key_value_heads=8, model_type="mixtral", **experts, **BF16)


def deepseek(kind: str = "deepseek_v3", **changes: Any) -> Config:
    sizes = {
        "model_type": kind,
        "first_k_dense_replace": 3,
        "moe_layer_freq": 1,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "n_group": 8,
        "topk_group": 4,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "num_nextn_predict_layers": 1,
    }
    return common(61, 7168, 128, 129280, **BF16, **FP8) | sizes | changes


def deepseek_v4(layers: int, hidden: int, heads: int, experts: int, width: int, rank: int, ratios: list[int]) -> Config:
    made = deepseek("deepseek_v4", num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads)
    for key in ("kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "first_k_dense_replace", "moe_layer_freq"):
        del made[key]
    sizes = {
        "n_routed_experts": experts,
        "moe_intermediate_size": width,
        "num_experts_per_tok": 6,
        "q_lora_rank": rank,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "sliding_window": 128,
        "compress_ratios": ratios,
        "num_hash_layers": 3,
        "expert_dtype": "fp4",
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 1024 if layers == 61 else 512,
        "o_groups": 16 if layers == 61 else 8,
        "o_lora_rank": 1024,
        "n_group": None,
        "topk_group": None,
    }
    return made | sizes


def glm4(layers: int, hidden: int, dense: int, dense_width: int, experts: int, width: int) -> Config:
    sizes = {"first_k_dense_replace": dense, "n_routed_experts": experts, "n_shared_experts": 1, "head_dim": 128}
    widths = {"intermediate_size": dense_width, "moe_intermediate_size": width, "num_nextn_predict_layers": 1}
    sizes |= {"n_group": 1, "topk_group": 1}
    return common(
        layers, hidden, 96, 151552, model_type="glm4_moe", num_key_value_heads=8, num_experts_per_tok=8,
        **sizes, **widths, **BF16,
    )  # fmt: skip


def gpt_oss(layers: int, experts: int) -> Config:
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    sizes = {"num_local_experts": experts, "num_experts_per_tok": 4, "experts_per_token": 4, "intermediate_size": 2880}
    aside = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    weights = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": aside}}
    cache = {"head_dim": 64, "num_key_value_heads": 8, "layer_types": kinds, "sliding_window": 128}
    return common(layers, 2880, 64, 201088, model_type="gpt_oss", **sizes, **cache, **weights)


def llama4(step: int, experts: int) -> Config:
    sizes = {
        "model_type": "llama4_text",
        "num_local_experts": experts,
        "num_experts_per_tok": 1,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "interleave_moe_layer_step": step,
        "attention_chunk_size": 8192,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    text = common(48, 5120, 40, 202048) | sizes | BF16
    del text["tie_word_embeddings"]
    return {"model_type": "llama4", "text_config": text, "vision_config": {"hidden_size": 1408}}


def qwen3(layers: int, hidden: int, heads: int, width: int, dense_width: int) -> Config:
    sizes = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": width, "head_dim": 128}
    layout = {"decoder_sparse_step": 1, "mlp_only_layers": [], "intermediate_size": dense_width}
    more = {"num_key_value_heads": 4, "use_sliding_window": False, "max_window_layers": layers, "sliding_window": None}
    return common(layers, hidden, heads, 151936, model_type="qwen3_moe", **sizes, **layout, **more, **BF16)


def qwen35() -> Config:
    sizes = {
        "model_type": "qwen3_5_moe_text",
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 1024,
        "shared_expert_intermediate_size": 1024,
        "full_attention_interval": 4,
        "head_dim": 256,
        "num_key_value_heads": 2,
        "attn_output_gate": True,
        "linear_num_value_heads": 64,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "mtp_num_hidden_layers": 1,
        "dtype": "bfloat16",
    }
    text = common(60, 4096, 32, 248320) | sizes
    return {"model_type": "qwen3_5_moe", "text_config": text}


def kimi_k3() -> Config:
    full = [*range(4, 93, 4), 93]
    sizes = {
        "model_type": "kimi_linear",
        "num_experts": 896,
        "num_experts_per_token": 16,
        "moe_intermediate_size": 3072,
        "routed_expert_hidden_size": 3584,
        "num_shared_experts": 2,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "intermediate_size": 33792,
        "num_expert_group": 1,
        "topk_group": 1,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "linear_attn_config": {
            "full_attn_layers": full,
            "kda_layers": [layer for layer in range(1, 94) if layer not in full],
            "head_dim": 128,
            "num_heads": 96,
            "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
        },
        "mla_use_output_gate": True,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "mxfp4-pack-quantized",
            "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*lm_head.*"],
        },
    }
    return {"model_type": "kimi_k3", "text_config": common(93, 7168, 96, 163840) | sizes, "dtype": "bfloat16"}


def minimax(kind: str, layers: int, hidden: int, heads: int, width: int, experts: int, top_k: int) -> Config:
    sizes = {"num_local_experts": experts, "num_experts_per_tok": top_k, "intermediate_size": width, "head_dim": 128}
    return common(
        layers, hidden, heads, 200064, model_type=kind, num_key_value_heads=8, shared_intermediate_size=0, **sizes
    )


def minimax_m3() -> Config:
    listed = [0, 0, 0, *[1] * 57]
    sizes = {
        "num_key_value_heads": 4,
        "dense_intermediate_size": 12288,
        "shared_intermediate_size": 3072,
        "moe_layer_freq": listed,
        "sparse_attention_config": {
            "sparse_num_index_heads": 4,
            "sparse_index_dim": 128,
            "sparse_attention_freq": listed,
        },
    }
    text = minimax("minimax_m3", 60, 6144, 64, 3072, 128, 4) | sizes | BF16
    return {"model_type": "minimax_m3_vl", "text_config": text}


def hunyuan() -> Config:
    sizes = {"num_experts": 16, "moe_topk": [1] * 64, "num_shared_expert": [1] * 64, "intermediate_size": 18304}
    shared = {"use_cla": True, "cla_share_factor": 2, "use_mixed_mlp_moe": True, "num_key_value_heads": 8}
    return common(64, 6400, 80, 128512, **sizes, **shared, **BF16) | {
        "model_type": "hunyuan",
        "tie_word_embeddings": True,
    }


def arctic() -> Config:
    sizes = {"num_local_experts": 128, "num_experts_per_tok": 2, "intermediate_size": 4864, "moe_layer_frequency": 1}
    more = {"num_key_value_heads": 8, "parallel_attn_mlp_res": True, "use_residual": True}
    return common(35, 7168, 56, 32000, model_type="arctic", **sizes, **more, **BF16)


def llama(layers: int, hidden: int, heads: int, width: int) -> Config:
    return common(
        layers, hidden, heads, 128256, model_type="llama", num_key_value_heads=8, intermediate_size=width, **BF16
    )


DBRX: Config = {
    "model_type": "dbrx",
    "d_model": 6144,
    "n_layers": 40,
    "n_heads": 48,
    "vocab_size": 100352,
    "max_seq_len": 32768,
    "attn_config": {"kv_n_heads": 8},
    "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752},
    "tie_word_embeddings": False,
    **BF16,
}

DEEPSEEK_OWN: Config = {
    "vocab_size": 102400,
    "dim": 5120,
    "inter_dim": 12288,
    "moe_inter_dim": 1536,
    "n_layers": 60,
    "n_dense_layers": 1,
    "n_heads": 128,
    "n_routed_experts": 160,
    "n_shared_experts": 2,
    "n_activated_experts": 6,
    "n_expert_groups": 8,
    "n_limited_groups": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}

FLASH = [0, 0, 4, *[128, 4] * 20, 0]
PRO = [128, 128, 4, *[128, 4] * 29, 0]

CONFIGS: dict[str, Config] = {
    "mixtral-8x7b": mixtral(32, 4096, 32, 14336),
    "mixtral-8x22b": mixtral(56, 6144, 48, 16384),
    "dbrx": DBRX,
    "deepseek-v2": DEEPSEEK_OWN,
    "deepseek-v3": deepseek(),
    "deepseek-v3.2": deepseek("deepseek_v32", index_head_dim=128, index_n_heads=64, index_topk=2048),
    "kimi-k2": deepseek(
        "kimi_k2", num_attention_heads=64, n_routed_experts=384, first_k_dense_replace=1, vocab_size=163840,
        n_group=1, topk_group=1, num_nextn_predict_layers=0,
    ),
    "glm-5": deepseek(
        "glm_moe_dsa", num_hidden_layers=78, hidden_size=6144, num_attention_heads=64, intermediate_size=12288,
        q_lora_rank=2048, qk_nope_head_dim=192, v_head_dim=256, vocab_size=154880, n_group=1, topk_group=1,
        index_head_dim=128, index_n_heads=32, index_topk=2048, head_dim=64, quantization_config=None,
    ),
    "deepseek-v4-pro": deepseek_v4(61, 7168, 128, 384, 3072, 1536, PRO),
    "deepseek-v4-flash": deepseek_v4(43, 4096, 64, 256, 2048, 1024, FLASH),
    "qwen3-30b-a3b": qwen3(48, 2048, 32, 768, 6144),
    "qwen3-235b-a22b": qwen3(94, 4096, 64, 1536, 12288),
    "qwen3.5-397b-a17b": qwen35(),
    "glm-4.5": glm4(92, 5120, 3, 12288, 160, 1536),
    "glm-4.5-air": glm4(46, 4096, 1, 10944, 128, 1408),
    "gpt-oss-20b": gpt_oss(24, 32),
    "gpt-oss-120b": gpt_oss(36, 128),
    "llama-4-maverick": llama4(2, 128),
    "llama-4-scout": llama4(1, 16),
    "minimax-m2": minimax("minimax_m2", 62, 3072, 48, 1536, 256, 8)
    | {"use_mtp": True, "num_mtp_modules": 3, "mtp_transformer_layers": 1}
    | FP8,
    "minimax-m1": minimax("minimax_m1", 80, 6144, 64, 9216, 32, 2)
    | {"attn_type_list": [int((layer + 1) % 8 == 0) for layer in range(80)]}
    | BF16,
    "minimax-m3": minimax_m3(),
    "hunyuan-large": hunyuan(),
    "snowflake-arctic": arctic(),
    "kimi-k3": kimi_k3(),
    "llama-3-70b": llama(80, 8192, 64, 28672),
    "llama-3.1-405b": llama(126, 16384, 128, 53248),
}  # fmt: skip
"""By the names of the catalogue, where it has them."""

COUNTS: dict[str, tuple[float, float]] = {
    "mixtral-8x7b": (46.70, 12.75),
    "mixtral-8x22b": (140.62, 38.95),
    "dbrx": (131.6, 35.85),
    "deepseek-v2": (235.74, 20.85),
    "deepseek-v3": (671.03, 36.62),
    "deepseek-v3.2": (671.03, 36.62),
    "kimi-k2": (1026.41, 31.69),
    "qwen3-30b-a3b": (30.53, 3.04),
    "qwen3-235b-a22b": (235.09, 21.57),
    "glm-4.5": (352.8, 32.85),
    "glm-4.5-air": (106.85, 12.8),
    "gpt-oss-20b": (20.91, 3.61),
    "gpt-oss-120b": (116.79, 5.13),
    "llama-3-70b": (70.55, 69.5),
    "llama-3.1-405b": (405.85, 403.75),
    "llama-4-maverick": (400.71, 16.15),
    "llama-4-scout": (107.77, 16.14),
    "hunyuan-large": (388.96, 51.58),
    "snowflake-arctic": (473.19, 11.69),
    "minimax-m2": (228.69, 10.42),
}
"""Total and active parameters in 1e9, counted by others from the published files."""

ROUTED: dict[str, float] = {"kimi-k3": 2722.7, "deepseek-v4-pro": 1547.4, "deepseek-v4-flash": 277.0}
"""Routed parameters in 1e9."""
