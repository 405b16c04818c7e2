"""The plan: which configurations, and how many replicas of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

from moeopt.errors import InstanceError, PlanError, shortened
from moeopt.kinds import is_whole
from moeopt.mesh.config import Config
from moeopt.mesh.config_document import config_faults
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import configs_of

MOST_REPLICAS = 10**18


@dataclass(frozen=True)
class Pool:
    """Replicas of one configuration.

    Raises
    ------
    PlanError
        It is none, or the replicas are no whole number.
    """

    config: Config
    replicas: int

    def __post_init__(self) -> None:
        if not isinstance(self.config, Config):
            raise PlanError([f"{shortened(repr(self.config))} is no configuration: Config(...) makes one"])
        if wrong := config_faults(self.config):
            raise PlanError(map(str, wrong))
        if not is_whole(self.replicas):
            raise PlanError([f"{shortened(repr(self.replicas))} replicas, must be a whole number"])
        if abs(self.replicas) > MOST_REPLICAS:
            raise PlanError([f"{shortened(repr(self.replicas))} replicas, must be at most {MOST_REPLICAS:,}"])
        object.__setattr__(self, "replicas", int(self.replicas))


@dataclass(frozen=True)
class MeshPlan:
    """What is bought.

    Raises
    ------
    PlanError
        `pools` is no tuple of `Pool`.
    """

    pools: tuple[Pool, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.pools, tuple) or not all(isinstance(pool, Pool) for pool in self.pools):
            raise PlanError(["pools are no tuple of Pool"])


def plan_of(instance: MeshInstance, counts: Mapping[int, int]) -> MeshPlan:
    """Replicas by place in the list of configurations."""
    configs = configs_of(instance)
    return MeshPlan(tuple(Pool(configs[place], count) for place, count in sorted(counts.items()) if count))


def as_plan(instance: MeshInstance, raw: Any) -> MeshPlan:
    """Take a plan in any form a policy returns.

    A `MeshPlan`; ``{place: replicas}`` or ``[(place, replicas), ...]`` by place in the list of configurations, or by
    label; or the ``solution`` of a result.
    """
    if isinstance(raw, MeshPlan):
        return raw
    if isinstance(raw, Mapping) and "pools" in raw:
        if not isinstance(raw["pools"], list | tuple):
            raise PlanError([f"pools are a list, not {shortened(repr(raw['pools']))}"])
        return MeshPlan(tuple(_pool(row) for row in raw["pools"]))
    pairs = raw.items() if isinstance(raw, Mapping) else raw
    configs = configs_of(instance)
    labels: dict[str, list[int]] = {}
    for place, config in enumerate(configs):
        labels.setdefault(config.label, []).append(place)
    faults: list[str] = []
    counts: dict[int, int] = {}
    try:
        listed = [(name, count) for name, count in pairs]
    except (TypeError, ValueError):
        raise PlanError([f"a plan is pairs of configuration and replicas, not {type(raw).__name__}"]) from None
    for name, count in listed:
        if not is_whole(count):
            faults.append(f"{name}: {count!r} replicas, must be a whole number")
            continue
        if isinstance(name, str):
            places = labels.get(name, [])
            if len(places) != 1:
                faults.append(f"{name}: {'no' if not places else len(places)} configurations have this label")
                continue
            name = places[0]
        if not isinstance(name, Integral) or not 0 <= int(name) < len(configs):
            faults.append(f"configuration {name!r} is not one of the {len(configs)} there are")
            continue
        counts[int(name)] = counts.get(int(name), 0) + int(count)
    if faults:
        raise PlanError(faults)
    return MeshPlan(tuple(Pool(configs[place], count) for place, count in sorted(counts.items())))


def _pool(row: Any) -> Pool:
    from moeopt.mesh.config_document import read_config

    if not isinstance(row, Mapping) or not isinstance(row.get("config"), Mapping):
        raise PlanError(["a pool is a mapping with config and replicas"])
    try:
        return Pool(read_config(row["config"]), cast(int, row.get("replicas")))
    except InstanceError as error:
        raise PlanError([str(fault) for fault in error.violations]) from error


def merged(pools: Sequence[Pool]) -> dict[tuple[Any, ...], int]:
    """Replicas by what is chosen."""
    found: dict[tuple[Any, ...], int] = {}
    for pool in pools:
        found[pool.config.key] = found.get(pool.config.key, 0) + pool.replicas
    return found
