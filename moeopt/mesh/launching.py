"""Which engines start the replicas of a pool, and how."""

from __future__ import annotations

from typing import Any

from moeopt.mesh.config import Config
from moeopt.mesh.cut import cut_of
from moeopt.mesh.flags import Sizes, launch
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.legal import Use, verdicts
from moeopt.mesh.shape import Shape


def use_of(instance: MeshInstance, config: Config) -> Use:
    """What an engine has to offer besides the degrees."""
    return Use(instance.transport, config.kv, config.draft, config.overlap)


def engines(instance: MeshInstance, config: Config) -> dict[str, Any]:
    """``legal_in``: engines that launch it; ``flags``: their commands; ``why_not``: what keeps each other one.

    A configuration that was given has the engines that it says.
    """
    shape, llm = config.shape, instance.demands[config.demand].llm
    if instance.configs is not None:
        return {"legal_in": list(config.legal_in), "flags": {}, "why_not": {}}
    gpu, use = instance.gpu(shape.gpu), use_of(instance, config)
    found: dict[str, Any] = {"legal_in": [], "flags": {}, "why_not": {}}
    cut = cut_of(instance, config)
    for verdict in verdicts(shape, llm, gpu, use):
        if not verdict.ok or not isinstance(shape, Shape):
            found["why_not"][verdict.engine] = "; ".join(verdict.faults)
            continue
        workload = instance.demands[config.demand].workload
        sizes = Sizes(config.batch or None, config.chunk, workload.kept_tokens, cut.layers if cut else None)
        found["legal_in"].append(verdict.engine)
        found["flags"][verdict.engine] = launch(verdict.engine, shape, llm, gpu, use=use, sizes=sizes).line
    return found
