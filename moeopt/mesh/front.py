"""The front of speed for one user against throughput of a GPU."""

from __future__ import annotations

from typing import Any

from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import configs_of, refusals
from moeopt.mesh.verify import Evaluation

MOST_POINTS = 200
"""Points of a demand that are listed at most."""


def pareto(instance: MeshInstance, judged: Evaluation) -> list[dict[str, Any]]:
    """Configurations that decode, none of which another one beats in both: tokens a second of a user and of a GPU.

    Those that break a service level are among them and say so; what does not fit is not.
    """
    found = []
    bought = {pool.config.key for pool in judged.pools}
    for demand in range(len(instance.demands)):
        points = []
        for place, config in enumerate(configs_of(instance)):
            if config.demand != demand or not config.tpot_s or config.decode_per_s <= 0:
                continue
            if config.reasons:
                continue
            against = refusals(instance, place)
            tokens = config.decode_per_s * instance.demands[demand].workload.output_tokens
            points.append((1 / config.tpot_s, tokens / config.total_gpus, place, not against))
        points.sort(key=lambda point: (-point[0], -point[1], point[2]))
        best = 0.0
        for user, gpu, place, within in points:
            if gpu <= best:
                continue
            best = gpu
            config = configs_of(instance)[place]
            found.append(
                {
                    "demand": demand,
                    "config": place,
                    "label": config.label,
                    "user_tokens_per_s": user,
                    "gpu_tokens_per_s": gpu,
                    "gpus": config.total_gpus,
                    "within_slo": within,
                    "bought": config.key in bought,
                }
            )
    return found[:MOST_POINTS]
