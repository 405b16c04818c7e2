"""Drop-in policies: what engines call to balance experts, in their own signatures.

============  ============================================  ==================================
engine        drop-in                                       what it stands in for
============  ============================================  ==================================
EPLB          `moeopt.engines.eplb.rebalance_experts`       ``eplb.rebalance_experts``
SGLang        `moeopt.engines.policies.sglang`              ``srt.eplb.eplb_algorithms``
vLLM          `moeopt.engines.policies.vllm`                ``distributed.eplb.policy``
vLLM-Ascend   `moeopt.engines.policies.ascend`              ``eplb.core.policy``
============  ============================================  ==================================

Each module's own text says how to plug it in. All of them plan by `planning`, behind `guard`, which lets no exception
into the engine.
"""

from moeopt.engines.policies.options import Options
from moeopt.engines.policies.ready import warm_up

__all__ = ["Options", "warm_up"]
