"""Configurations that come with figures of their own: what they may say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.cost.checks import is_number, whole
from moeopt.errors import Violations
from moeopt.mesh.config import Config, Family
from moeopt.mesh.rules import product
from moeopt.mesh.shape import Shape

if TYPE_CHECKING:
    from moeopt.mesh.instance import MeshInstance

SERVES: dict[Family, tuple[bool, bool]] = {
    "colocated": (True, True),
    "prefill": (True, False),
    "decode": (False, True),
    "apart": (False, True),
    "long": (False, True),
}
"""Whether a family prefills and whether it decodes."""


def check_configs(check: Violations, instance: MeshInstance) -> None:
    """Note everything that is wrong with the configurations of an instance."""
    seen: dict[object, int] = {}
    for place, config in enumerate(instance.configs or ()):
        where = f"{place}: {config.label}"
        if not isinstance(config.demand, int) or not 0 <= config.demand < len(instance.demands):
            rule = f"is not one of the {len(instance.demands)} demands"
            check.add("configs.demand", config.demand, rule=rule, fix="Count from 0", where=where)
        if config.family not in instance.families and not (instance.sides and config.family in SERVES):
            rule = f"is not among the families = {', '.join(instance.families)}"
            check.add("configs.family", config.family, rule=rule, fix="Add it to families", where=where)
        if config.key in seen:
            rule = f"is the same as configuration {seen[config.key]}"
            check.add("configs", place, rule=rule, fix="Keep one, or give them names", where=where)
        seen[config.key] = place
        _gpus(check, instance, config, where)
        _figures(check, config, where)
        _degrees(check, instance, config, where)


def _degrees(check: Violations, instance: MeshInstance, config: Config, where: str) -> None:
    """Where a shape is told, its degrees make up the GPUs of the replica."""
    shape = config.shape
    told = isinstance(shape, Shape) and {shape.gpu: shape.gpus} == dict(config.gpus)
    if not told or config.demand not in range(len(instance.demands)):
        return
    assert isinstance(shape, Shape)
    spread, held = shape.ffn_gpus or shape.stage_gpus, shape.ep * shape.moe_tp
    if held not in (1, spread):
        product(check, shape.ep, shape.moe_tp, spread, instance.demands[config.demand].llm, where)


def _gpus(check: Violations, instance: MeshInstance, config: Config, where: str) -> None:
    known = [gpu.name for gpu in instance.gpus]
    if not config.gpus:
        check.add("configs.gpus", "none", rule="a replica needs GPUs", fix="Say how many of which type", where=where)
    for name, count in config.gpus.items():
        if name not in known:
            rule = f"is no type of GPU here: {', '.join(known)}"
            check.add("configs.gpus", name, rule=rule, fix="Add it to gpus", where=where)
        whole(check, **{f"configs[{where}].gpus[{name}]": count})
    if config.batch is not None:
        whole(check, **{f"configs[{where}].batch": config.batch})


def _figures(check: Violations, config: Config, where: str) -> None:
    for name in ("prefill_per_s", "decode_per_s", "tokens_per_s", "ttft_s", "tpot_s"):
        value = getattr(config, name)
        if value is not None and (not is_number(value) or value < 0):
            rule = "must be a finite number >= 0"
            check.refuse(f"configs.{name}", value, rule=rule, fix="Give what one replica does", where=where)
            return
    prefills, decodes = SERVES.get(config.family, (True, True))
    for name, may in (("prefill_per_s", prefills), ("decode_per_s", decodes)):
        if not may and getattr(config, name) > 0:
            rule = f"must be 0: {config.family} does not serve that phase"
            check.add(f"configs.{name}", getattr(config, name), rule=rule, fix="Use 0, or colocated", where=where)
    if prefills and decodes and config.prefill_per_s != config.decode_per_s:
        rule = f"must be prefill_per_s = {config.prefill_per_s!r}, a replica that serves whole requests has one rate"
        low = min(config.prefill_per_s, config.decode_per_s)
        check.add("configs.decode_per_s", config.decode_per_s, rule=rule, fix=f"Use {low!r} for both", where=where)
