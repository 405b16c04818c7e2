"""The front of speed for one user against throughput of a GPU, over shapes and batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from moeopt.mesh.clock import look
from moeopt.mesh.config import Config
from moeopt.mesh.families.speeds import speeds
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import above, configs_of, is_partial, market_of, phases_of, refusals
from moeopt.mesh.shape import Shape
from moeopt.mesh.verify import Evaluation

MOST_POINTS = 200
"""Points of a front that are listed at most."""
STEPS = 4
"""Batches to each power of two of shapes on the front."""
LOOKS = (1, 8, 64)
"""Batches at which all shapes are looked at first, beside their own."""
NEAR = 0.8
"""Shapes that come as close to the first front at one of these are walked from batch to batch."""
Point = tuple[float, float, int, int, bool]
"""Tokens a second of a user and of a GPU, place, batch, within service levels."""


def pareto(instance: MeshInstance, judged: Evaluation) -> list[dict[str, Any]]:
    """Configurations that decode, none of which another one beats in both: tokens a second of a user and of a GPU.

    Replicas that serve whole requests have a front of their own, for their GPUs prefill besides. So that both can be
    compared, ``whole_tokens_per_s`` counts the GPUs that prefill for a replica, with the shape that needs fewest of
    them; ``joint`` marks points that no other one of either front beats so. Batches are walked
    from 1 up to the largest within service levels and memory, which is the configuration's own; chunk, draft and
    overlap stay as they are. Shapes that are far from the front at the batches in `LOOKS` and at their own are left
    out, and of those that differ in redundant experts or dense layers alone all but the best. Those that break a
    service level are among them and say so; what does not fit is not.
    """
    configs, found = configs_of(instance), []
    pools = {id(pool.config) for pool in judged.pools}
    bought = {place for place, one in enumerate(configs) if id(one) in pools}
    for demand in range(len(instance.demands)):
        look()
        every, beside = _own(instance, demand), prefill_gpu_s(instance, demand)
        listed: list[dict[str, Any]] = []
        for whole in (False, True):
            own = [point for point in every if (configs[point[2]].family == "colocated") is whole]
            for user, gpu, place, batch, within in _front(_walked(instance, own))[:MOST_POINTS]:
                alone = 0.0 if whole else beside
                listed.append(
                    {
                        "demand": demand,
                        "config": place,
                        "family": configs[place].family,
                        "label": configs[place].label,
                        "batch": batch,
                        "user_tokens_per_s": user,
                        "gpu_tokens_per_s": gpu,
                        "whole_tokens_per_s": None if alone is None else gpu / (1 + gpu * alone),
                        "gpus": configs[place].total_gpus,
                        "within_slo": within,
                        "bought": place in bought and batch == configs[place].batch,
                    }
                )
        found += _joint(listed)
    return found


def prefill_gpu_s(instance: MeshInstance, demand: int) -> float | None:
    """Seconds of GPUs that prefill for one output token, with the shape that needs fewest; ``None``: nothing prefills.

    0 where no family prefills: then it is not bought here.
    """
    if 0 not in phases_of(instance):
        return 0.0
    market, configs = market_of(instance), configs_of(instance)
    mine = [configs[offer.place] for offer in market.offers if offer.demand == demand and market.fits(offer)]
    each = [one.total_gpus / one.prefill_per_s for one in mine if one.prefill_per_s > 0 and not one.decode_per_s]
    return min(each) / instance.demands[demand].workload.output_tokens if each else None


def _joint(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Points with a mark on those that none beats in whole requests."""
    best = 0.0
    joint: set[int] = set()
    for point in sorted(listed, key=lambda one: (-one["user_tokens_per_s"], -(one["whole_tokens_per_s"] or 0.0))):
        if (point["whole_tokens_per_s"] or 0.0) > best:
            best = point["whole_tokens_per_s"]
            joint.add(id(point))
    return [{**point, "joint": id(point) in joint} for point in listed]


def _walked(instance: MeshInstance, own: list[Point]) -> list[Point]:
    """Points at other batches too: few of all shapes, powers of two of those near the front, more of those on it."""
    if instance.configs is not None or is_partial(instance):
        return own
    kept: dict[tuple[Any, ...], Point] = {}
    for point in own:
        kind = _kind(configs_of(instance)[point[2]])
        if kind not in kept or point[1] > kept[kind][1]:
            kept[kind] = point
    most = {point[2]: point[3] for point in kept.values()}
    found = own + _at(instance, [(place, batch) for place in most for batch in LOOKS if batch < most[place]])
    near = sorted(_near(found) & set(most))
    found += _at(instance, [(place, batch) for place in near for batch in ladder(most[place], 1) if batch not in LOOKS])
    on = sorted({point[2] for point in _front(found)} & set(most))
    return found + _at(instance, [(place, batch) for place in on for batch in ladder(most[place], STEPS)])


def _kind(config: Config) -> tuple[Any, ...]:
    """What is told apart besides redundant experts and dense layers."""
    one, gpus = config.shape, tuple(config.gpus.items())
    if isinstance(one, Shape):
        return (config.family, gpus, config.kv, one.pp, one.tp, one.dp, one.kvp, one.ep, one.ffn_gpus)
    return (config.family, gpus, config.kv, one)


def _own(instance: MeshInstance, demand: int) -> list[Point]:
    """Every configuration at its own batch."""
    found = []
    for place, config in enumerate(configs_of(instance)):
        if config.demand != demand or not config.tpot_s or config.decode_per_s <= 0 or config.reasons:
            continue
        tokens = config.decode_per_s * instance.demands[demand].workload.output_tokens
        within = not refusals(instance, place)
        found.append((1 / config.tpot_s, tokens / config.total_gpus, place, config.batch, within))
    return found


def _at(instance: MeshInstance, places: list[tuple[int, int]]) -> list[Point]:
    """Places at batches below their own."""
    look()
    if not places:
        return []
    configs = [configs_of(instance)[place] for place, _ in places]
    batches = np.array([batch for _, batch in places], dtype=np.int64)
    slo = instance.demands[configs[0].demand].slo
    found = []
    for (place, batch), config, (tpot, ttft, tokens) in zip(
        places, configs, speeds(instance, configs, batches).T.tolist(), strict=True
    ):
        late = slo.tpot_s is not None and above(tpot, slo.tpot_s)
        late |= slo.ttft_s is not None and above(ttft, slo.ttft_s)
        found.append((1 / tpot, tokens / config.total_gpus, place, batch, not late))
    return found


def ladder(most: int, steps: int) -> list[int]:
    """Batches below the largest, so many to each power of two.

    >>> ladder(9, 1), ladder(9, 2), ladder(1, 4)
    ([1, 2, 4, 8], [1, 2, 3, 4, 6, 8], [])
    """
    found = (round(2 ** (power / steps)) for power in range(steps * most.bit_length()))
    return list(dict.fromkeys(batch for batch in found if batch < most))


def _front(points: list[Point]) -> list[Point]:
    """Those that no other beats, fastest first."""
    found, best = [], 0.0
    for point in sorted(points, key=lambda one: (-one[0], -one[1], one[2])):
        if point[1] > best:
            best = point[1]
            found.append(point)
    return found


def _near(points: list[Point]) -> set[int]:
    """Places with a point whose throughput is near that of the front at its speed, or faster than all."""
    found, best = set(), 0.0
    for point in sorted(points, key=lambda one: (-one[0], -one[1], one[2])):
        if point[1] >= NEAR * best:
            found.add(point[2])
        best = max(best, point[1])
    return found
