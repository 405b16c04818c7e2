"""Facts of LLMs and GPUs: configurations read, a catalogue, parameters counted, memory of experts and of caches."""

from moeopt.llm.agree import agreement
from moeopt.llm.catalogue import catalogue, find
from moeopt.llm.config import facts_of, read_config
from moeopt.llm.counts import expert_parameters, parameters, routed_parameters
from moeopt.llm.facts import Attention, LlmFacts
from moeopt.llm.gpus import GPUS, find_gpu, gpus
from moeopt.llm.memory import expert_bytes, kv_bytes, kv_bytes_per_token, slot_bytes
from moeopt.llm.precision import FORMATS

__all__ = [
    "FORMATS",
    "GPUS",
    "Attention",
    "LlmFacts",
    "agreement",
    "catalogue",
    "expert_bytes",
    "expert_parameters",
    "facts_of",
    "find",
    "find_gpu",
    "gpus",
    "kv_bytes",
    "kv_bytes_per_token",
    "parameters",
    "read_config",
    "routed_parameters",
    "slot_bytes",
]
