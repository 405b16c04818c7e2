"""Commands that launch the pools of a mesh plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance


def commands(instance: MeshInstance, solution: Mapping[str, Any], *, every: bool) -> list[tuple[str, str, str]]:
    """(pool, engine, command) for the first engine that launches a pool, or for each; paper only says so."""
    from moeopt.mesh.config_document import read_config
    from moeopt.mesh.flags import Sizes, launch
    from moeopt.mesh.legal import Use
    from moeopt.mesh.shape import Shape

    found = []
    for pool in solution["pools"]:
        config = read_config(pool["config"])
        demand = instance.demands[config.demand]
        if not config.legal_in or not isinstance(config.shape, Shape):
            found.append((pool["label"], "", "paper only, no engine that is known launches it"))
            continue
        gpu = instance.gpu(config.shape.gpu)
        use = Use(instance.transport, config.kv, config.draft, config.overlap)
        sizes = Sizes(config.batch, config.chunk, demand.workload.kept_tokens)
        for engine in config.legal_in if every else config.legal_in[:1]:
            made = launch(engine, config.shape, demand.llm, gpu, use=use, sizes=sizes)
            where = f"on each of {made.nodes} nodes: " if made.nodes > 1 else ""
            found.append((pool["label"], engine, where + made.line))
    return found
