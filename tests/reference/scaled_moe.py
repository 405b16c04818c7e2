"""Scaled-MoE, the largest LLM of MegaScale-Infer, which no catalogue has."""

from moeopt.llm import Attention, LlmFacts

SCALED_MOE = LlmFacts(
    "scaled-moe",
    "mixtral",
    48,
    (),
    tuple(range(48)),
    32,
    4,
    hidden=8192,
    dispatch_width=8192,
    expert_width=8192,
    vocab=32000,
    attention=Attention("gqa", heads=64, kv_heads=8, head_dim=128),
    published_total_b=317,
    source="MegaScale-Infer (arXiv 2504.02263), table 4; heads and vocabulary are assumed: they make up the 317 B",
)
