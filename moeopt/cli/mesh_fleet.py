"""The GPUs that ``moeopt mesh`` may use: by name with stock and price, or of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moeopt.cli import units
from moeopt.cli.mesh_options import Fleet
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.mesh import GpuType


def gpus_of(fleet: Fleet, notes: list[str]) -> list[GpuType]:
    """Types of GPU; every violation at once."""
    from moeopt.cost.constants import Efficiency
    from moeopt.mesh import GpuType

    check = Violations()
    prices = _prices(fleet, check)
    efficiency = None
    if fleet.usable is not None:
        with check.within():
            efficiency = Efficiency(usable_memory=fleet.usable)
    if fleet.cluster is not None:
        made = None
        with check.within():
            made = _of_cluster(fleet, prices, efficiency, notes)
        check.raise_if_any()
        assert made is not None
        return [made]
    if not fleet.gpu:
        check.add(
            "--gpu", "missing", rule="there must be a type of GPU", fix="Give --gpu h800 --gpus 320, or --cluster"
        )
    found: list[GpuType] = []
    for text in fleet.gpu or ():
        name, *rest = text.split(":")
        stock, price = None, prices.get(name.lower(), prices.get(""))
        if len(rest) > 2:
            check.add("--gpu", text, rule="must be NAME, NAME:COUNT or NAME:COUNT:PRICE", fix="Write h20:64:1.85")
            continue
        if rest and rest[0]:
            if rest[0].isdecimal() and int(rest[0]):
                stock = int(rest[0])
            else:
                rule = f"must have a whole count >= 1, not {rest[0]}"
                check.add("--gpu", text, rule=rule, fix=f"Write {name}:64, or {name} for any number")
        if len(rest) == 2 and rest[1]:
            listed = units.numbers("--gpu", rest[1], check)
            if price is not None:
                check.add("--price", price, rule=f"{name} has one with --gpu", fix="Give it once")
            price = listed[0]
        if fleet.gpus is not None and len(fleet.gpu or ()) == 1:
            if stock is not None:
                check.add("--gpus", fleet.gpus, rule="says the same as --gpu", fix="Give it once")
            stock = fleet.gpus if fleet.gpus > 0 else None  # said below
        with check.within():
            found.append(GpuType.of(name, stock=stock, price=price, efficiency=efficiency, node_gpus=fleet.node_gpus))
    if fleet.gpus is not None and len(fleet.gpu or ()) > 1:
        check.add("--gpus", fleet.gpus, rule="is for one type of GPU", fix="Write --gpu h20:64 --gpu l40s:64")
    if fleet.gpus is not None and fleet.gpus < 1:
        check.add("--gpus", fleet.gpus, rule="must be a whole number >= 1", fix="Leave it out for any number")
    for name in prices:
        if name and name not in {gpu.split(":")[0].lower() for gpu in fleet.gpu or ()}:
            check.add("--price", name, rule="is no type of GPU given with --gpu", fix="Give --gpu too")
    check.raise_if_any()
    return found


def _prices(fleet: Fleet, check: Violations) -> dict[str, float]:
    """Price by name in small letters; the empty name is that of every type."""
    found: dict[str, float] = {}
    for part in (fleet.price or "").split(",") if fleet.price else ():
        name, equals, value = part.rpartition("=")
        number = units.numbers("--price", value, check)[0]
        if not number >= 0:
            check.add("--price", part, rule="must be a number >= 0", fix="Write h20=1.85")
        found[name.strip().lower() if equals else ""] = number
    return found


def _of_cluster(fleet: Fleet, prices: dict[str, float], efficiency: Any, notes: list[str]) -> GpuType:
    """One type of GPU with the links of a cluster: bandwidths of its tiers times the network efficiency."""
    from collections import Counter

    from moeopt.cli.collocate_options import find_cluster
    from moeopt.cost.constants import Efficiency
    from moeopt.cost.links import Link
    from moeopt.mesh import GpuType

    assert fleet.cluster is not None
    check, kind, cluster = Violations(), "", None
    for option, value in (("--gpus", fleet.gpus), ("--node-gpus", fleet.node_gpus)):
        if value is not None:
            check.add(option, value, rule="is said by --cluster", fix="Leave it out")
    with check.within():
        cluster = find_cluster([part for part in fleet.cluster.split(",") if part])
        kind = _kind(fleet)
    strange = [name for name in prices if name and kind and name != kind.lower()]
    for name in strange:
        check.add("--price", name, rule=f"is not the GPU of {fleet.cluster}, {kind}", fix=f"Write {kind.lower()}=2.5")
    check.raise_if_any()
    assert cluster is not None
    base = GpuType.of(kind, price=prices.get(kind.lower(), prices.get("")), efficiency=efficiency)
    part = (efficiency or Efficiency()).network
    inside = Counter(Counter(cluster.domain_of.tolist()).values()).most_common(1)[0][0]
    node = Counter(Counter(cluster.node_of.tolist()).values()).most_common(1)[0][0]
    tiers = cluster.tiers()
    within = next((tier for tier in tiers if max(tier.sizes) <= inside), None)
    beyond = next((tier for tier in tiers if max(tier.sizes) > inside), None)
    notes.append(f"{cluster.num_gpus} {kind} of {cluster.name}, links of its tiers times {part:g}")
    return replace(
        base,
        node_gpus=node,
        domain_gpus=inside,
        scale_up=Link(within.alpha_s, within.bytes_per_s * part) if within is not None else None,
        network=Link(beyond.alpha_s, beyond.bytes_per_s * part) if beyond is not None else None,
        stock=cluster.num_gpus,
    )


def _kind(fleet: Fleet) -> str:
    """Which GPUs a cluster has: a reference cluster says it, beside topology files ``--gpu`` does."""
    from pathlib import Path

    from moeopt.cluster.catalogue import find_machine

    assert fleet.cluster is not None
    if all(Path(part).exists() for part in fleet.cluster.split(",") if part):
        if len(fleet.gpu or ()) != 1:
            rule = "is a topology, which does not say which GPUs these are"
            raise InstanceError([Violation("--cluster", "", fleet.cluster, rule, "Give --gpu h100 too")])
        name, colon, _ = (fleet.gpu or [""])[0].partition(":")
        if colon:
            rule = "says how many, and --cluster does too"
            raise InstanceError([Violation("--gpu", "", (fleet.gpu or [""])[0], rule, f"Write --gpu {name}")])
        return name
    if fleet.gpu:
        rule = "has its GPUs, and --gpu names some too"
        raise InstanceError([Violation("--cluster", "", fleet.cluster, rule, "Give one of them")])
    count, dash, machine = fleet.cluster.partition("-")
    return str(find_machine(machine if dash and "x" in count else fleet.cluster).gpu)


def sides_of(text: str, check: Violations) -> dict[str, str]:
    """``attention=h20,experts=l40s`` with the names that GPUs have here."""
    from moeopt.llm.gpus import find_gpu

    found: dict[str, str] = {}
    for part in text.split(","):
        side, equals, name = (word.strip() for word in part.partition("="))
        if not equals:
            check.add("--roles", part, rule="must be PART=GPU", fix="Write attention=h20,experts=l40s")
            continue
        if side.lower() in found:
            check.add("--roles", part, rule=f"{side} has a role already", fix="Give one type of GPU to each part")
        with check.within():
            found[side.lower()] = find_gpu(name, "--roles").name
    return found
